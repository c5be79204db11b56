"""NVML, the NVIDIA Management Library: the only code that imports pynvml."""

from gpuledger.sources.nvml.source import NvmlSource
from gpuledger.sources.nvml.xids import XidWatcher

__all__ = ["NvmlSource", "XidWatcher"]
