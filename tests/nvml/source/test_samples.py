"""NVML's sample buffers are taken sample by sample, each once."""

from __future__ import annotations

from dataclasses import replace

import pynvml
import pytest

from fakes.nvml.gpu_node import START, GpuNode
from fakes.nvml.presets import a100_mig
from fakes.nvml.scenario import Fault, Gpu, ProcessSample
from gpuledger.core.model import ProcessSample as Sample


def micros(seconds: float) -> int:
    """NVML's stamp of a moment, in seconds from the start of the test."""
    return round((START + seconds) * 1e6)


def sample(at: float, sm: int = 50, pid: int = 7) -> ProcessSample:
    return ProcessSample(pid=pid, time=micros(at), sm=sm)


def taken(at: float, sm: float = 0.5, pid: int = 7) -> Sample:
    return Sample(pid, START + at, sm)


@pytest.fixture
def gpu(node: GpuNode) -> Gpu:
    gpu = Gpu(uuid="GPU-1", power=1)
    node.has(gpu)
    return gpu


def test_the_first_look_leaves_history_alone(node: GpuNode, gpu: Gpu) -> None:
    gpu.process_samples = [sample(-60), sample(-0.5)]
    gpu.samples = {pynvml.NVML_GPU_UTILIZATION_SAMPLES: [(micros(-60), 100), (micros(-0.5), 40)]}
    node.change()
    reading = node.read_gpu()

    assert (taken(-0.5),) == reading.process_samples
    assert ((START - 0.5, 0.4),) == reading.busy_samples


def test_each_sample_is_taken_once_and_in_order(node: GpuNode, gpu: Gpu) -> None:
    gpu.process_samples = [sample(-0.2), sample(-0.4, pid=8)]
    node.change()
    first = node.read_gpu().process_samples
    gpu.process_samples += [sample(0.6), sample(0.3)]
    node.change()

    assert (taken(-0.4, pid=8), taken(-0.2)) == first
    assert (taken(0.3), taken(0.6)) == node.read_gpu(after=1).process_samples
    assert () == node.read_gpu(after=1).process_samples


def test_what_was_missed_in_a_long_cycle_is_made_up_for(node: GpuNode, gpu: Gpu) -> None:
    node.read()
    gpu.process_samples = [sample(at) for at in range(1, 60)]
    node.change()

    assert 59 == len(node.read_gpu(after=60).process_samples or ())


def test_no_new_sample_is_idleness(node: GpuNode, gpu: Gpu) -> None:
    gpu.samples = {pynvml.NVML_GPU_UTILIZATION_SAMPLES: [(micros(-60), 100)]}
    node.change()
    reading = node.read_gpu()

    assert ((), ()) == (reading.process_samples, reading.busy_samples)
    assert "gpu_busy_seconds_total" not in reading.unsupported


def test_under_mig_there_is_no_buffer(node: GpuNode) -> None:
    node.has(a100_mig())
    reading = node.read_gpu()

    assert (None, None) == (reading.process_samples, reading.busy_samples)
    assert {"process_sm_utilization_ratio", "gpu_busy_seconds_total"} <= reading.unsupported


def test_a_buffer_that_fails_is_unknown_and_read_on_later(node: GpuNode, gpu: Gpu) -> None:
    node.read()
    gpu.process_samples = [sample(0.5)]
    node.scenario.faults = [
        Fault(call="nvmlDeviceGetProcessUtilization", kind="error", number=pynvml.NVML_ERROR_UNKNOWN)
    ]
    node.change()
    failed = node.read_gpu(after=1)
    node.scenario.faults = []
    node.change()

    assert failed.process_samples is None
    assert (taken(0.5),) == node.read_gpu(after=1).process_samples


def test_a_clock_set_back_does_not_end_the_samples(node: GpuNode, gpu: Gpu) -> None:
    gpu.process_samples = [sample(0)]
    node.change()
    node.read()
    node.wall -= 3600
    stepped = node.read_gpu(after=1).process_samples
    gpu.process_samples.append(sample(-3598.5))
    node.change()

    assert () == stepped
    assert (taken(-3598.5),) == node.read_gpu(after=1).process_samples
    assert () == node.read_gpu(after=1).process_samples


def test_a_clock_set_forward_loses_and_repeats_nothing(node: GpuNode, gpu: Gpu) -> None:
    gpu.process_samples = [sample(0)]
    node.change()
    node.read()
    node.wall += 3600
    gpu.process_samples.append(sample(3600.5))
    node.change()

    assert (taken(3600.5),) == node.read_gpu(after=1).process_samples


def test_more_than_all_is_dropped_and_counted(node: GpuNode, gpu: Gpu) -> None:
    gpu.process_samples = [sample(-0.5, sm=4_000_000), sample(-0.4, sm=100)]
    gpu.samples = {pynvml.NVML_GPU_UTILIZATION_SAMPLES: [(micros(-0.5), 101)]}
    node.change()
    reading = node.read()

    unknown = replace(taken(-0.5, sm=1.0), sm_ratio=None)
    assert (unknown, taken(-0.4, sm=1.0)) == reading.gpus[0].process_samples
    assert () == reading.gpus[0].busy_samples
    assert {"process_sm_utilization_ratio": 1, "gpu_busy_seconds_total": 1} == reading.dropped


def test_a_sample_of_nobody_is_left_out(node: GpuNode, gpu: Gpu) -> None:
    gpu.process_samples = [sample(-0.5, pid=0)]
    node.change()

    assert () == node.read_gpu().process_samples
