"""Memory of a GPU or a MIG device."""

from __future__ import annotations

import pynvml

from gpuledger.core.model import Memory
from gpuledger.sources.nvml.driver import Calls, Handle
from gpuledger.sources.nvml.plausible import Values


def memory_v2(handle: Handle) -> Memory:
    """Version 2 (R510) tells what the driver keeps for itself apart from what is used."""
    info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    return Memory(info.total, info.used, info.free, info.reserved)


def memory_v1(handle: Handle) -> Memory:
    """Version 1 counts as used what the driver keeps for itself."""
    info = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return Memory(info.total, info.used, info.free)


def read_memory(calls: Calls, values: Values, metric: str) -> Memory | None:
    """Memory in bytes, or None: no answer, or a device without any of its own (GB10: refused, or a total of 0).

    What is implausible counts as dropped from `metric`.
    """
    memory = calls.ask_newest("memory", (memory_v2, memory_v1), calls.handle)
    if memory is None or memory.total == 0:
        return None
    if memory.used > memory.total or memory.free > memory.total:
        values.dropped[metric] += 1
        return None
    return memory
