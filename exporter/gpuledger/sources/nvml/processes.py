"""Who is on a GPU: NVML's process lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pynvml

from gpuledger.sources.nvml.driver import Calls

Instance: TypeAlias = tuple[int, int]
"""GPU instance and compute instance; on a GPU that is whole, both are 2**32 - 1."""

LISTS: dict[str, tuple[Callable[..., list[Any]], ...]] = {
    "compute processes": (
        pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
        pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
    ),
    "graphics processes": (
        pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
        pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2,
    ),
    "MPS processes": (
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2,
    ),
}


def read_processes(calls: Calls) -> dict[tuple[int, Instance], int | None] | None:
    """Memory in bytes (None where the driver does not tell) by PID and instance, over all lists.

    A process may stand in several lists with the same memory, which is counted once. None when there is no
    list, or when one that this GPU has gave no answer: nobody has left just because of that.
    """
    merged: dict[tuple[int, Instance], int | None] = {}
    for key, versions in LISTS.items():
        rows = calls.ask_newest(key, versions, calls.handle)
        if rows is None and key not in calls.refused:
            return None
        for row in rows or ():
            process = (row.pid, (row.gpuInstanceId, row.computeInstanceId))
            known = [used for used in (merged.get(process), row.usedGpuMemory) if used is not None]
            merged[process] = max(known, default=None)
    return None if LISTS.keys() <= calls.refused else merged
