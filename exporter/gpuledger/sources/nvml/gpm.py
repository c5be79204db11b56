"""GPM, NVML's performance monitoring (Hopper and newer): what SMs, tensor cores and memory really did."""

from __future__ import annotations

import pynvml

from gpuledger.sources.nvml.library import Calls, attempt

METRICS = {
    "sm_active_ratio": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy_ratio": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "tensor_active_ratio": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram_active_ratio": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}

_MIN_PERIOD_SECONDS = 0.1
"""nvml.h: the counters are refreshed no faster."""


def has_gpm(calls: Calls) -> bool:
    """Whether this GPU has GPM at all."""
    support = calls.ask("GPM", pynvml.nvmlGpmQueryDeviceSupport, calls.handle)
    if support is not None and not support.isSupportedDevice:
        calls.refused.add("GPM")
    return support is not None and bool(support.isSupportedDevice)


class GpmMeter:
    """What a GPU, or one GPU instance of it, did between two samples: ratios by the names in `METRICS`."""

    def __init__(self, calls: Calls, gpu_instance: int | None = None) -> None:
        self._calls = calls
        self._gpu_instance = gpu_instance
        self._samples = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        self._sampled_at: float | None = None
        self._ratios: dict[str, float] = {}
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(METRICS)
        for index, metric_id in enumerate(METRICS.values()):
            self._request.metrics[index].metricId = metric_id

    def read(self, uptime: float) -> dict[str, float]:
        """What was measured between the last two looks; empty at the first, and when there is no answer."""
        before = self._sampled_at
        if before is not None and uptime - before < _MIN_PERIOD_SECONDS:
            return self._ratios
        self._samples.reverse()
        taken = self._calls.ask(self, self._sample) is not None
        self._sampled_at = uptime if taken else None
        self._ratios = self._compute() if taken and before is not None else {}
        return self._ratios

    def close(self) -> None:
        """Give the samples back to NVML."""
        for sample in self._samples:
            attempt(pynvml.nvmlGpmSampleFree, sample)

    def _sample(self) -> object:
        if self._gpu_instance is None:
            return pynvml.nvmlGpmSampleGet(self._calls.handle, self._samples[1])
        return pynvml.nvmlGpmMigSampleGet(self._calls.handle, self._gpu_instance, self._samples[1])

    def _compute(self) -> dict[str, float]:
        self._request.sample1, self._request.sample2 = self._samples
        if self._calls.ask("GPM metrics", pynvml.nvmlGpmMetricsGet, self._request) is None:
            return {}
        ratios = {}
        for name, metric in zip(METRICS, self._request.metrics, strict=False):
            if metric.nvmlReturn == pynvml.NVML_SUCCESS:
                ratios[name] = metric.value / 100
            else:
                self._calls.judge(name, metric.nvmlReturn)
        return ratios
