"""GPUs that come, go and fall off the bus, and a driver that is missing, lost or replaced."""

from __future__ import annotations

import pynvml
import pytest

from fakes.nvml.gpu_node import GpuNode
from fakes.nvml.presets import h100
from fakes.nvml.scenario import Fault, Gpu
from gpuledger.core.errors import SourceError
from gpuledger.core.model import NvmlReading

SLOW = 10.0
"""Seconds in which a source looks for GPUs again."""


def ups(reading: NvmlReading) -> dict[str, bool]:
    return {gpu.gpu.uuid: gpu.up for gpu in reading.gpus}


def fails(code: int, gpu: Gpu | None = None, call: str = "*") -> Fault:
    return Fault(call=call, kind="error", number=code, gpu="*" if gpu is None else gpu.uuid)


def test_a_lost_gpu_stops_no_other_and_keeps_its_identity(node: GpuNode) -> None:
    well, ill = h100(0), h100(1)
    node.has(well, ill)
    node.read()
    before = node.read(after=1)
    ill.lost = True
    node.change()
    after = node.read(after=1)

    assert {well.uuid: True, ill.uuid: False} == ups(after)
    assert before.gpus[0].values.keys() == after.gpus[0].values.keys()
    assert (before.gpus[1].gpu, before.gpus[1].info) == (after.gpus[1].gpu, after.gpus[1].info)
    assert ({}, None, None) == (dict(after.gpus[1].values), after.gpus[1].memory, after.gpus[1].processes)


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_GPU_NOT_FOUND]
)
def test_a_gpu_is_lost_by_what_any_call_says(node: GpuNode, code: int) -> None:
    node.has(h100(0), h100(1))
    node.read()
    node.scenario.faults = [fails(code, node.scenario.gpus[1], "nvmlDeviceGetPowerUsage")]
    node.change()

    assert [True, False] == list(ups(node.read(after=1)).values())


def test_a_lost_gpu_is_asked_again_but_rarely(node: GpuNode) -> None:
    gpu = h100()
    node.has(gpu)
    node.read()
    gpu.lost = True
    node.change()
    node.read(after=1)
    gpu.lost = False
    node.change()

    assert [False, True] == [node.read_gpu(after).up for after in (1, SLOW)]


def test_what_a_gpu_refused_is_asked_again_of_a_new_handle(node: GpuNode) -> None:
    gpu = Gpu(uuid="GPU-1", utilization_gpu=1, utilization_memory=1)
    node.has(gpu)
    node.read()
    gpu.lost, gpu.power = True, 1000
    node.change()
    node.read(after=1)
    gpu.lost = False
    node.change()

    assert {(): 1.0} == node.read_gpu(after=SLOW).values["gpu_power_watts"]


def test_a_gpu_that_is_back_is_told_of_in_full(node: GpuNode) -> None:
    other, gpu = h100(0), h100(1)
    node.has(other, gpu)
    node.read()
    before = node.read(after=6)
    gpu.lost = True
    node.change()
    node.read(after=1)
    gpu.lost = False
    node.change()
    node.read(after=3)

    assert before.gpus[1].values.keys() == node.read(after=5).gpus[1].values.keys()  # GPM needs two slow rounds


def test_a_gpu_whose_name_is_no_text_has_none(node: GpuNode) -> None:
    node.has(h100(0), h100(1))
    garbled = node.scenario_file.read_bytes().replace(b"NVIDIA H100", b"\xff\xfe", 1)
    node.scenario_file.write_bytes(garbled)
    first, second = node.read().gpus

    assert first.up
    assert ("model" in first.info, "model" in second.info) == (False, True)


def test_a_gpu_taken_out_stays_listed_as_down(node: GpuNode) -> None:
    kept, removed = h100(0), h100(1)
    node.has(kept, removed)
    node.read()
    node.has(kept)

    assert {kept.uuid: True, removed.uuid: False} == ups(node.read(after=1))
    assert {kept.uuid: True, removed.uuid: False} == ups(node.read(after=SLOW))


def test_a_gpu_put_in_is_found(node: GpuNode) -> None:
    first, second = h100(0), h100(1)
    node.has(first)
    node.read()
    node.has(first, second)

    assert {first.uuid: True, second.uuid: True} == ups(node.read(after=SLOW))


def test_a_gpu_whose_index_changed_is_the_same(node: GpuNode) -> None:
    removed, kept = h100(0), h100(1)
    node.has(removed, kept)
    node.read()
    node.has(kept)
    reading = node.read(after=SLOW)

    assert {(kept.uuid, 0, True), (removed.uuid, 0, False)} == {
        (gpu.gpu.uuid, gpu.gpu.index, gpu.up) for gpu in reading.gpus
    }


def test_a_gpu_that_was_lost_before_the_start_is_down_by_its_index(node: GpuNode) -> None:
    well, ill = h100(0), h100(1)
    ill.lost = True
    node.has(well, ill)
    first = node.read()
    ill.lost = False
    node.change()

    assert {well.uuid: True, "": False} == ups(first)
    assert [0, 1] == [gpu.gpu.index for gpu in first.gpus]
    assert {well.uuid: True, ill.uuid: True} == ups(node.read(after=SLOW))


def test_a_lost_gpu_is_listed_once(node: GpuNode) -> None:
    well, ill = h100(0), h100(1)
    node.has(well, ill)
    node.read()
    ill.lost = True
    node.change()

    assert {well.uuid: True, ill.uuid: False} == ups(node.read(after=SLOW))
    assert 2 == len(node.read(after=SLOW).gpus)


def test_a_node_without_gpus(node: GpuNode) -> None:
    node.has()

    assert () == node.read().gpus


@pytest.mark.parametrize("worked_before", [True, False])
def test_unknown_error_on_every_call_needs_a_restart(node: GpuNode, *, worked_before: bool) -> None:
    node.has(h100(0), h100(1))
    if worked_before:
        node.read()
    node.scenario.faults = [fails(pynvml.NVML_ERROR_UNKNOWN)]
    node.change()
    with pytest.raises(SourceError, match="daemon-reload") as raised:
        node.read(after=1)

    assert raised.value.restart


def test_unknown_error_instead_of_every_handle_needs_a_restart(node: GpuNode) -> None:
    node.scenario.faults = [fails(pynvml.NVML_ERROR_UNKNOWN, call="nvmlDeviceGetHandleByIndex")]
    node.has(h100(0), h100(1))
    with pytest.raises(SourceError, match="restart") as raised:
        node.read()

    assert raised.value.restart


def test_unknown_error_of_the_gpus_alone_needs_a_restart(node: GpuNode) -> None:
    node.has(h100(0), h100(1))
    node.read()
    node.scenario.faults = [fails(pynvml.NVML_ERROR_UNKNOWN, gpu) for gpu in node.scenario.gpus]
    node.change()
    with pytest.raises(SourceError, match="restart") as raised:
        node.read(after=1)

    assert raised.value.restart


def test_unknown_error_of_one_gpu_is_its_own(node: GpuNode) -> None:
    node.has(h100(0), h100(1))
    node.read()
    node.scenario.faults = [fails(pynvml.NVML_ERROR_UNKNOWN, node.scenario.gpus[1])]
    node.change()

    assert [True, False] == list(ups(node.read(after=1)).values())


def test_the_gpus_are_back_when_the_error_is_gone(node: GpuNode) -> None:
    node.has(h100())
    node.read()
    node.scenario.faults = [fails(pynvml.NVML_ERROR_UNKNOWN)]
    node.change()
    with pytest.raises(SourceError):
        node.read(after=1)
    node.scenario.faults = []
    node.change()

    assert node.read_gpu(after=1).up


def test_a_driver_that_is_loaded_later_is_found(node: GpuNode) -> None:
    with pytest.raises(SourceError, match="kernel driver is not loaded") as raised:
        node.read()
    node.has(h100())

    assert not raised.value.restart
    assert node.read_gpu(after=1).up


def test_a_driver_that_is_unloaded_and_loaded_again(node: GpuNode) -> None:
    node.has(h100())
    node.read()
    node.scenario_file.unlink()
    with pytest.raises(SourceError, match="kernel driver is not loaded"):
        node.read(after=SLOW)
    node.change()

    assert node.read_gpu(after=1).up


def test_a_replaced_driver_needs_a_restart(node: GpuNode) -> None:
    node.has(h100())
    node.scenario.faults = [fails(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, call="nvmlInitWithFlags")]
    node.change()
    with pytest.raises(SourceError, match="replaced") as raised:
        node.read()

    assert raised.value.restart


def test_a_closed_source_gives_nvml_back_and_can_be_read_again(node: GpuNode) -> None:
    node.has(h100())
    node.read()
    node.source.close()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()

    assert node.read_gpu(after=1).up


def test_a_link_that_goes_down_is_seen_within_a_minute(node: GpuNode) -> None:
    gpu = h100()
    node.has(gpu)
    ups_at_first = dict(node.read_gpu().values["gpu_nvlink_up"])
    gpu.nvlink_active[0] = 0
    node.change()
    readings = [node.read_gpu(after=SLOW).values["gpu_nvlink_up"] for _ in range(6)]

    assert ups_at_first == readings[0]
    assert ups_at_first | {("0",): 0.0} == readings[-1]
