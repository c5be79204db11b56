"""Processes, NVML's sample buffers and GPM: who uses a GPU, and how much."""

from __future__ import annotations

import time
from collections.abc import Callable
from ctypes import byref, c_uint
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fakes.nvml.presets import a100_mig, h100
from fakes.nvml.scenario import Gpu, MigDevice, Process, ProcessSample, Scenario

Play = Callable[[Scenario], None]

PERIOD = 0.17
"""A little more than the sixth of a second between two live samples."""


def now() -> int:
    return time.time_ns() // 1000


def first_gpu() -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def shown(processes: list[Any]) -> list[tuple[int, int | None, int, int]]:
    return [(one.pid, one.usedGpuMemory, one.gpuInstanceId, one.computeInstanceId) for one in processes]


def used(gpu: Any, after: int) -> list[tuple[int, int, int]]:
    return [(one.timeStamp, one.pid, one.smUtil) for one in pynvml.nvmlDeviceGetProcessUtilization(gpu, after)]


def busy(gpu: Any, after: int) -> list[tuple[int, int]]:
    _, samples = pynvml.nvmlDeviceGetSamples(gpu, pynvml.NVML_GPU_UTILIZATION_SAMPLES, after)
    return [(one.timeStamp, one.sampleValue.uiVal) for one in samples]


# ---- process lists ----


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        (
            "compute",
            (
                pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
                pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
            ),
        ),
        (
            "graphics",
            (
                pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
                pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2,
            ),
        ),
        (
            "mps",
            (
                pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
                pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2,
            ),
        ),
    ],
    ids=["compute", "graphics", "mps"],
)
def test_each_list_has_its_processes(play: Play, kind: Any, reads: tuple[Callable[[Any], Any], ...]) -> None:
    others = [Process(pid=1, list=other) for other in ("compute", "graphics", "mps") if other != kind]
    wanted = [Process(pid=7, list=kind, memory=4 << 30), Process(pid=8, list=kind)]
    play(Scenario(gpus=[Gpu(uuid="GPU-1", processes=[*others, *wanted])]))
    expected = [(7, 4 << 30, 0xFFFFFFFF, 0xFFFFFFFF), (8, None, 0xFFFFFFFF, 0xFFFFFFFF)]
    assert [expected, expected] == [shown(read(first_gpu())) for read in reads]


def test_mig_device_has_the_processes_of_its_instance(play: Play) -> None:
    gpu = a100_mig(0, ["3g.20gb", "1g.5gb"])
    gpu.processes = [
        Process(pid=30, gpu_instance=1, compute_instance=0),
        Process(pid=10, gpu_instance=7, compute_instance=0),
    ]
    play(Scenario(gpus=[gpu]))
    migs = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(first_gpu(), index) for index in range(2)]
    told = [shown(pynvml.nvmlDeviceGetComputeRunningProcesses(device)) for device in (first_gpu(), *migs)]
    assert told == [[(30, None, 1, 0), (10, None, 7, 0)], [(30, None, 1, 0)], [(10, None, 7, 0)]]


@pytest.mark.parametrize(
    ("room", "result", "count"),
    [
        (0, pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 3),
        (2, pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 3),
        (3, pynvml.NVML_SUCCESS, 3),
        (9, pynvml.NVML_SUCCESS, 3),
    ],
    ids=["asks for the size", "too small", "fits", "larger"],
)
def test_process_list_needs_room(play: Play, room: int, result: int, count: int) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1", processes=[Process(pid=pid) for pid in (1, 2, 3)])]))
    given = c_uint(room)
    buffer = (pynvml.c_nvmlProcessInfo_v3_t * (room + 1))() if room else None
    call = pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses_v3
    assert (result, count) == (call(first_gpu(), byref(given), buffer), given.value)


def test_process_list_may_be_long(play: Play) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1", processes=[Process(pid=pid) for pid in range(1, 4001)])]))
    told = pynvml.nvmlDeviceGetComputeRunningProcesses(first_gpu())
    assert [process.pid for process in told] == list(range(1, 4001))


# ---- use of a GPU by each process ----


def test_process_samples_are_those_newer_than_seen(play: Play) -> None:
    samples = [
        ProcessSample(pid=pid, time=at, sm=sm) for at, pid, sm in ((100, 7, 10), (200, 7, 20), (200, 8, 999))
    ]
    play(Scenario(gpus=[Gpu(uuid="GPU-1", process_samples=samples)]))
    told = [used(first_gpu(), after) for after in (0, 100)]
    assert told == [[(100, 7, 10), (200, 7, 20), (200, 8, 999)], [(200, 7, 20), (200, 8, 999)]]


def test_no_newer_process_sample_is_not_found(play: Play) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1", process_samples=[ProcessSample(pid=7, time=100, sm=10)])]))
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetProcessUtilization(first_gpu(), 100)


def test_live_process_has_one_sample_for_what_is_newer(play: Play) -> None:
    started = now()
    play(Scenario(gpus=[Gpu(uuid="GPU-live", processes=[Process(pid=7, sm=40), Process(pid=8)])]))
    time.sleep(3 * PERIOD)
    asked = now()
    ((stamp, pid, sm),) = used(first_gpu(), started)
    assert (pid, sm, asked - stamp < 166_667) == (7, 40, True)


def test_live_process_that_changes_has_the_average(play: Play) -> None:
    process = Process(pid=7, sm=100)
    scenario = Scenario(gpus=[Gpu(uuid="GPU-average", processes=[process])])
    play(scenario)
    started = now()
    time.sleep(3 * PERIOD)
    process.sm = 0
    play(scenario)
    time.sleep(3 * PERIOD)
    ((_, _, sm),) = used(first_gpu(), started)
    assert 20 <= sm <= 80


def test_process_that_ended_leaves_its_samples(play: Play) -> None:
    started = now()
    play(Scenario(gpus=[Gpu(uuid="GPU-ended", processes=[Process(pid=7, sm=40)])]))
    time.sleep(2 * PERIOD)
    play(Scenario(gpus=[Gpu(uuid="GPU-ended")]))
    ended = now()
    time.sleep(2 * PERIOD)
    ((stamp, pid, sm),) = used(first_gpu(), started)
    assert (pid, sm, stamp <= ended) == (7, 40, True)


def test_mig_tells_no_use_by_process(play: Play) -> None:
    gpu = a100_mig()
    gpu.processes = [Process(pid=7, sm=40, gpu_instance=1, compute_instance=0)]
    play(Scenario(gpus=[gpu]))
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(first_gpu(), 0)
    for device in (first_gpu(), mig):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetProcessUtilization(device, 0)


# ---- use of a GPU as a whole ----


def test_samples_are_those_newer_than_seen(play: Play) -> None:
    samples = {pynvml.NVML_GPU_UTILIZATION_SAMPLES: [(100, 10), (200, 20), (300, 30)]}
    play(Scenario(gpus=[Gpu(uuid="GPU-1", samples=samples)]))
    assert [busy(first_gpu(), after) for after in (0, 100)] == [
        [(100, 10), (200, 20), (300, 30)],
        [(200, 20), (300, 30)],
    ]
    with pytest.raises(pynvml.NVMLError_NotFound):
        busy(first_gpu(), 300)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetSamples(first_gpu(), pynvml.NVML_ENC_UTILIZATION_SAMPLES, 0)


def test_live_samples_come_six_a_second_and_keep_the_value_of_their_time(
    play: Play, scenario_file: Path
) -> None:
    gpu = Gpu(uuid="GPU-busy", utilization_gpu=90, live=True)
    play(Scenario(gpus=[gpu]))
    started = now()
    time.sleep(3 * PERIOD)
    gpu.utilization_gpu = 10
    play(Scenario(gpus=[gpu]))
    changed = scenario_file.stat().st_mtime_ns // 1000
    time.sleep(3 * PERIOD)
    asked = now()
    told = busy(first_gpu(), started)
    stamps = [stamp for stamp, _ in told]
    assert {later - earlier for earlier, later in pairwise(stamps)} == {166_667}
    assert (stamps[0] - started <= 166_667, asked - stamps[-1] < 166_667) == (True, True)
    assert [value for _, value in told] == [90 if stamp <= changed else 10 for stamp in stamps]


# ---- GPM ----


def gpm(
    get: Callable[[Any], object], *metrics: int, version: int = pynvml.NVML_GPM_METRICS_GET_VERSION
) -> list[Any]:
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = version, len(metrics)
    request.sample1, request.sample2 = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    for index, metric in enumerate(metrics):
        request.metrics[index].metricId = metric
    try:
        get(request.sample1)
        get(request.sample2)
        pynvml.nvmlGpmMetricsGet(request)
    finally:
        pynvml.nvmlGpmSampleFree(request.sample1)
        pynvml.nvmlGpmSampleFree(request.sample2)
    return [(metric.nvmlReturn, metric.value) for metric in request.metrics[: len(metrics)]]


def test_gpm_tells_the_metrics_of_a_gpu(play: Play) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1", gpm={pynvml.NVML_GPM_METRIC_SM_UTIL: 71.5})]))
    told = gpm(
        partial(pynvml.nvmlGpmSampleGet, first_gpu()),
        pynvml.NVML_GPM_METRIC_SM_UTIL,
        pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    )
    assert told == [(pynvml.NVML_SUCCESS, 71.5), (pynvml.NVML_ERROR_NOT_SUPPORTED, 0.0)]


def test_gpm_tells_the_metrics_of_a_gpu_instance_apart(play: Play) -> None:
    mig = MigDevice(
        uuid="MIG-1", gpu_instance=3, compute_instance=0, metrics={pynvml.NVML_GPM_METRIC_SM_UTIL: 12}
    )
    play(Scenario(gpus=[Gpu(uuid="GPU-1", gpm={pynvml.NVML_GPM_METRIC_SM_UTIL: 50}, migs=[mig])]))
    takes = (pynvml.nvmlGpmSampleGet, lambda gpu, sample: pynvml.nvmlGpmMigSampleGet(gpu, 3, sample))
    told = [gpm(partial(take, first_gpu()), pynvml.NVML_GPM_METRIC_SM_UTIL) for take in takes]
    assert told == [[(pynvml.NVML_SUCCESS, 50.0)], [(pynvml.NVML_SUCCESS, 12.0)]]


@pytest.mark.parametrize(("gpu", "supported"), [(h100(), 1), (Gpu(uuid="GPU-1"), 0)], ids=["h100", "without"])
def test_gpm_support_is_told(play: Play, gpu: Gpu, supported: int) -> None:
    play(Scenario(gpus=[gpu]))
    assert supported == pynvml.nvmlGpmQueryDeviceSupport(first_gpu()).isSupportedDevice


def test_gpm_of_a_gpu_without_it_is_not_supported(play: Play) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1")]))
    with pytest.raises(pynvml.NVMLError_NotSupported):
        gpm(partial(pynvml.nvmlGpmSampleGet, first_gpu()))


def test_gpm_of_another_version_is_a_mismatch(play: Play) -> None:
    play(Scenario(gpus=[h100()]))
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        gpm(partial(pynvml.nvmlGpmSampleGet, first_gpu()), version=2)
