"""NVML's sample buffers: what the GPU, and each process on it, did since the last look."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import pynvml

from gpuledger.core.model import ProcessSample
from gpuledger.sources.nvml.driver import Calls, Handle
from gpuledger.sources.nvml.plausible import RATIO, Values
from gpuledger.sources.nvml.records import RecordBuffer

Sample: TypeAlias = tuple[int, int, float]
"""The driver's wall clock in microseconds, PID (0 for the GPU as a whole) and ratio."""

Checked: TypeAlias = tuple[int, int, float | None]
"""A sample whose ratio is None where none can be so."""

MICROSECONDS = 1_000_000
"""In a second."""

MARGIN = 1 * MICROSECONDS
"""How far back the first look goes (all the way would be history from before our time), and how far ahead of
our clock a sample may be stamped."""


_SAMPLE = "QI4x"
"""nvmlSample_t, of which utilisation is an unsigned int: time and percent."""

_PROCESS_SAMPLE = "I4xQI12x"
"""nvmlProcessUtilizationSample_t: PID, time, percent of the SMs; memory, encoder and decoder are left out."""


class SampleBuffer:
    """One of the buffers, of which each sample is taken once."""

    def __init__(
        self, calls: Calls, values: Values, name: str, read: Callable[[Handle, int], list[Sample]]
    ) -> None:
        self._calls = calls
        self._values = values
        self._name = name
        self._read = read
        self._last_seen: int | None = None

    def read(self, now: float) -> list[Checked] | None:
        """The samples since the last look, oldest first; None where there is no buffer or no answer."""
        latest = round(now * MICROSECONDS) + MARGIN
        if self._last_seen is None or self._last_seen > latest:  # the first look, or the clock was set back
            self._last_seen = latest - 2 * MARGIN
        since = self._last_seen
        samples = self._calls.ask(self._name, self._read, self._calls.handle, since)
        if samples is None:
            return None
        fresh = sorted(sample for sample in samples if since < sample[0] <= latest)
        if fresh:
            self._last_seen = fresh[-1][0]
        return [
            (stamp, pid, ratio if self._values.is_plausible(self._name, ratio, RATIO) else None)
            for stamp, pid, ratio in fresh
        ]


class UseSamples:
    """The two buffers of a GPU that tell how it is used. MIG has neither."""

    def __init__(self, calls: Calls, values: Values) -> None:
        self._gpu = SampleBuffer(
            calls, values, "gpu_busy_seconds_total", partial(_gpu_samples, RecordBuffer(_SAMPLE))
        )
        self._processes = SampleBuffer(
            calls,
            values,
            "process_sm_utilization_ratio",
            partial(_process_samples, RecordBuffer(_PROCESS_SAMPLE)),
        )

    def of_gpu(self, now: float) -> tuple[tuple[float, float], ...] | None:
        """How busy the GPU was: (Unix time, ratio)."""
        samples = self._gpu.read(now)
        if samples is None:
            return None
        return tuple((stamp / MICROSECONDS, ratio) for stamp, _, ratio in samples if ratio is not None)

    def of_processes(self, now: float) -> tuple[ProcessSample, ...] | None:
        """SM use of those processes that were not idle."""
        samples = self._processes.read(now)
        if samples is None:
            return None
        return tuple(ProcessSample(pid, stamp / MICROSECONDS, ratio) for stamp, pid, ratio in samples if pid)


def _gpu_samples(buffer: RecordBuffer, handle: Handle, since: int) -> list[Sample]:
    kind, after = pynvml.NVML_GPU_UTILIZATION_SAMPLES, ctypes.c_ulonglong(since)
    value_type = ctypes.byref(ctypes.c_uint())
    try:
        rows = buffer.read(
            "nvmlDeviceGetSamples",
            lambda call, rows, count: call(handle, kind, after, value_type, count, rows),
        )
    except pynvml.NVMLError_NotFound:
        return []
    return [(stamp, 0, percent / 100) for stamp, percent in rows]


def _process_samples(buffer: RecordBuffer, handle: Handle, since: int) -> list[Sample]:
    after = ctypes.c_ulonglong(since)
    try:
        rows = buffer.read(
            "nvmlDeviceGetProcessUtilization", lambda call, rows, count: call(handle, rows, count, after)
        )
    except pynvml.NVMLError_NotFound:
        return []
    return [(stamp, pid, sm / 100) for pid, stamp, sm in rows]
