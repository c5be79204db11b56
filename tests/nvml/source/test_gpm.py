"""What the SMs did between two slow rounds, on GPUs that measure it."""

from __future__ import annotations

import pynvml

from fakes.nvml.gpu_node import GpuNode
from fakes.nvml.presets import MIB, h100, l4
from fakes.nvml.scenario import Fault
from gpuledger.core.model import GpuReading

SLOW = 10.0
"""Seconds from one slow round to the next."""

NAMES = ("gpu_sm_active_ratio", "gpu_sm_occupancy_ratio", "gpu_tensor_active_ratio", "gpu_dram_active_ratio")


def ratios(reading: GpuReading) -> dict[str, float]:
    return {name: reading.values[name][()] for name in NAMES if name in reading.values}


def test_ratios_need_two_slow_rounds(node: GpuNode) -> None:
    node.has(h100())

    assert {} == ratios(node.read_gpu())
    assert {} == ratios(node.read_gpu(after=1))
    assert dict(zip(NAMES, (0.715, 0.3825, 0.44, 0.355), strict=True)) == ratios(node.read_gpu(after=SLOW))


def test_ratios_stand_until_the_next_slow_round(node: GpuNode) -> None:
    gpu = h100()
    node.has(gpu)
    node.read()
    measured = ratios(node.read_gpu(after=SLOW))
    gpu.gpm = {pynvml.NVML_GPM_METRIC_SM_UTIL: 1.0}
    node.change()

    assert measured == ratios(node.read_gpu(after=1))
    assert {"gpu_sm_active_ratio": 0.01} == ratios(node.read_gpu(after=SLOW))


def test_a_slow_round_too_soon_after_the_last_measures_nothing(node: GpuNode) -> None:
    node.has(h100())
    node.skip(SLOW - 0.05)
    node.read()

    assert {} == ratios(node.read_gpu(after=0.05))
    assert 4 == len(ratios(node.read_gpu(after=SLOW)))


def test_a_metric_that_the_gpu_lacks_is_named(node: GpuNode) -> None:
    gpu = h100()
    gpu.gpm = {pynvml.NVML_GPM_METRIC_SM_UTIL: 50.0}
    node.has(gpu)
    node.read()
    reading = node.read_gpu(after=SLOW)

    assert {"gpu_sm_active_ratio": 0.5} == ratios(reading)
    assert set(NAMES) - {"gpu_sm_active_ratio"} <= reading.unsupported


def test_pcie_rates_are_added_up(node: GpuNode) -> None:
    gpu = h100()
    gpu.gpm = {pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 3.0, pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: 0.5}
    node.has(gpu)
    node.read()
    transmitted, received = "gpu_pcie_transmitted_bytes_total", "gpu_pcie_received_bytes_total"
    readings = [node.read_gpu(after).values for after in (SLOW, 2 * SLOW)]

    assert [30 * MIB, 90 * MIB] == [values[transmitted][()] for values in readings]
    assert [5 * MIB, 15 * MIB] == [values[received][()] for values in readings]


def test_an_impossible_pcie_rate_does_not_spoil_the_total(node: GpuNode) -> None:
    gpu = h100()
    name = "gpu_pcie_transmitted_bytes_total"
    gpu.gpm = {pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 1.0}
    node.has(gpu)
    node.read()
    node.read(after=SLOW)
    gpu.gpm = {pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 1e12}
    node.change()
    dropped = node.read(after=SLOW)
    gpu.gpm = {pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 1.0}
    node.change()

    assert name not in dropped.gpus[0].values
    assert {name: 1} == dropped.dropped
    assert {(): 2 * SLOW * MIB} == node.read_gpu(after=SLOW).values[name]


def test_older_gpus_have_none(node: GpuNode) -> None:
    node.has(l4())
    node.read()
    reading = node.read_gpu(after=SLOW)

    assert {} == ratios(reading)
    assert set(NAMES) <= reading.unsupported


def test_a_gpu_that_cannot_be_sampled_has_none(node: GpuNode) -> None:
    node.scenario.faults = [
        Fault(call="nvmlGpmSampleGet", kind="error", number=pynvml.NVML_ERROR_NOT_SUPPORTED)
    ]
    node.has(h100())
    node.read()

    assert set(NAMES) <= node.read_gpu(after=SLOW).unsupported


def test_a_sample_that_fails_leaves_a_gap(node: GpuNode) -> None:
    node.has(h100())
    node.read()
    node.read(after=SLOW)
    node.scenario.faults = [Fault(call="nvmlGpmSampleGet", kind="error", number=pynvml.NVML_ERROR_UNKNOWN)]
    node.change()
    failed = ratios(node.read_gpu(after=SLOW))
    node.scenario.faults = []
    node.change()

    assert {} == failed
    assert [0, 4] == [len(ratios(node.read_gpu(after=SLOW))) for _ in range(2)]


def test_an_impossible_ratio_is_dropped(node: GpuNode) -> None:
    gpu = h100()
    gpu.gpm = {pynvml.NVML_GPM_METRIC_SM_UTIL: 150.0}
    node.has(gpu)
    node.read()
    reading = node.read(after=SLOW)

    assert {} == ratios(reading.gpus[0])
    assert {"gpu_sm_active_ratio": 1} == reading.dropped
