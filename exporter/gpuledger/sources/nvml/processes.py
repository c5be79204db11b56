"""Who is on a GPU: NVML's process lists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from gpuledger.sources.nvml.driver import Calls
from gpuledger.sources.nvml.records import RecordBuffer

Instance: TypeAlias = tuple[int, int]
"""GPU instance and compute instance; on a GPU that is whole, both are 2**32 - 1."""

LISTS = {
    "compute processes": "nvmlDeviceGetComputeRunningProcesses",
    "graphics processes": "nvmlDeviceGetGraphicsRunningProcesses",
    "MPS processes": "nvmlDeviceGetMPSComputeRunningProcesses",
}
"""The function that gives each, without its version."""

_VERSIONS = ("_v3", "_v2")
"""Those that tell the instances, newest first; their record is the same."""

_PROCESS = "I4xQII"
"""nvmlProcessInfo_v2_t: PID, used memory, GPU instance, compute instance."""

_NOT_TOLD = 2**64 - 1
"""NVML_VALUE_NOT_AVAILABLE as used memory."""


class ProcessLists:
    """The lists of one GPU."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._buffer = RecordBuffer(_PROCESS)
        self._lists: dict[str, tuple[Callable[[Any], list[tuple[Any, ...]]], ...]] = {
            key: tuple(partial(self._read, name + version) for version in _VERSIONS)
            for key, name in LISTS.items()
        }

    def read(self) -> dict[tuple[int, Instance], int | None] | None:
        """Memory in bytes (None where the driver does not tell) by PID and instance, over all lists.

        A process may stand in several lists with the same memory, which is counted once. None when there is no
        list, or when one that this GPU has gave no answer: nobody has left just because of that.
        """
        merged: dict[tuple[int, Instance], int | None] = {}
        for key, versions in self._lists.items():
            rows = self._calls.ask_newest(key, versions, self._calls.handle)
            if rows is None and key not in self._calls.refused:
                return None
            for pid, told, gpu_instance, compute_instance in rows or ():
                process = (pid, (gpu_instance, compute_instance))
                used, before = None if told == _NOT_TOLD else told, merged.get(process)
                merged[process] = used if before is None else max(before, used or 0)
        return None if LISTS.keys() <= self._calls.refused else merged

    def _read(self, function: str, handle: Any) -> list[tuple[Any, ...]]:
        return self._buffer.read(function, lambda call, rows, count: call(handle, count, rows))
