"""GPM, NVML's performance monitoring (Hopper and newer): what SMs, tensor cores, memory and PCIe really did."""

from __future__ import annotations

import pynvml

from gpuledger.sources.nvml.driver import Calls, attempt
from gpuledger.sources.nvml.plausible import Values

RATIOS = {
    "graphics_active_ratio": pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    "sm_active_ratio": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy_ratio": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "tensor_active_ratio": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram_active_ratio": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}
"""In percent of what is possible."""

TOTALS = {
    "pcie_transmitted_bytes_total": pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    "pcie_received_bytes_total": pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
}
"""In MiB/s, for a whole GPU; they are added up here, since the driver's own counters (NVML_FI_DEV_PCIE_COUNT_*)
have 32 bits: a PCIe 5 link fills those in a tenth of a second (open-gpu-kernel-modules, ctrl2080bus.h)."""

_BYTES_PER_SECOND = (0.0, 1e12)
_MIB = 1 << 20

_MIN_PERIOD_SECONDS = 0.1
"""nvml.h: the counters are refreshed no faster."""


def has_gpm(calls: Calls) -> bool:
    """Whether this GPU has GPM at all."""
    support = calls.ask("GPM", pynvml.nvmlGpmQueryDeviceSupport, calls.handle)
    if support is not None and not support.isSupportedDevice:
        calls.refused.add("GPM")
    return support is not None and bool(support.isSupportedDevice)


class GpmMeter:
    """What a GPU, or one GPU instance of it, did between two samples, by metric."""

    def __init__(self, calls: Calls, values: Values, gpu_instance: int | None = None) -> None:
        self._calls = calls
        self._values = values
        self._gpu_instance = gpu_instance
        self._samples = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        self._sampled_at: float | None = None
        self._measured: dict[str, float] = {}
        self._totals = dict.fromkeys(TOTALS, 0.0)
        self._names = [*RATIOS, *TOTALS] if gpu_instance is None else [*RATIOS]
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(self._names)
        for index, name in enumerate(self._names):
            self._request.metrics[index].metricId = (RATIOS | TOTALS)[name]

    def read(self, uptime: float) -> dict[str, float]:
        """What was measured between the last two looks; empty at the first, and when there is no answer."""
        before = self._sampled_at
        if before is not None and uptime - before < _MIN_PERIOD_SECONDS:
            return self._measured
        self._samples.reverse()
        taken = self._calls.ask(self, self._sample) is not None
        self._sampled_at = uptime if taken else None
        self._measured = self._compute(uptime - before) if taken and before is not None else {}
        return self._measured

    def close(self) -> None:
        """Give the samples back to NVML."""
        for sample in self._samples:
            attempt(pynvml.nvmlGpmSampleFree, sample)

    def _sample(self) -> object:
        if self._gpu_instance is None:
            return pynvml.nvmlGpmSampleGet(self._calls.handle, self._samples[1])
        return pynvml.nvmlGpmMigSampleGet(self._calls.handle, self._gpu_instance, self._samples[1])

    def _compute(self, seconds: float) -> dict[str, float]:
        self._request.sample1, self._request.sample2 = self._samples
        if self._calls.ask("GPM metrics", pynvml.nvmlGpmMetricsGet, self._request) is None:
            return {}
        measured: dict[str, float] = {}
        for name, metric in zip(self._names, self._request.metrics, strict=False):
            if metric.nvmlReturn != pynvml.NVML_SUCCESS:
                self._calls.judge(name, metric.nvmlReturn)
            elif name in RATIOS:
                measured[name] = metric.value / 100
            elif self._values.is_plausible(f"gpu_{name}", metric.value * _MIB, _BYTES_PER_SECOND):
                self._totals[name] += metric.value * _MIB * seconds
                measured[name] = self._totals[name]
        return measured
