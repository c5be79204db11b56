"""A GPU cut into MIG devices."""

from __future__ import annotations

import pynvml

from fakes.nvml.gpu_node import GpuNode
from fakes.nvml.presets import MIB, a100_mig, h100
from fakes.nvml.scenario import Fault, Gpu, MigDevice, Process
from gpuledger.core.model import Memory, MigUuid, ProcessUse
from gpuledger.core.model import MigDevice as Device

SLOW = 10.0


def h100_mig(*instances: tuple[int, int]) -> Gpu:
    """An H100 with a MIG device for each pair of GPU instance and compute instance."""
    gpu = h100()
    gpu.mig_mode_current = 1
    gpu.migs = [
        MigDevice(
            uuid=f"MIG-{gpu_instance}-{compute_instance}",
            name=f"{gpu.name} MIG 1g.10gb",
            gpu_instance=gpu_instance,
            compute_instance=compute_instance,
            memory_total=100,
            memory_used=10,
            memory_free=90,
            memory_reserved=0,
            metrics={pynvml.NVML_GPM_METRIC_SM_UTIL: 50.0, pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 25.0},
        )
        for gpu_instance, compute_instance in instances
    ]
    return gpu


def uuids(devices: tuple[Device, ...]) -> list[str]:
    return [device.uuid for device in devices]


def test_devices_are_named_and_measured(node: GpuNode) -> None:
    gpu = a100_mig(profiles=("3g.20gb", "1g.5gb"))
    node.has(gpu)
    reading = node.read_gpu()

    assert {(): 1.0} == reading.values["gpu_mig_enabled"]
    assert [
        (gpu.migs[0].uuid, "3g.20gb", 1, 0),
        (gpu.migs[1].uuid, "1g.5gb", 7, 0),
    ] == [(mig.uuid, mig.profile, mig.gpu_instance, mig.compute_instance) for mig in reading.mig_devices]
    assert Memory(19968 * MIB, 1024 * MIB, 18944 * MIB, 0) == reading.mig_devices[0].memory


def test_memory_is_as_of_this_cycle(node: GpuNode) -> None:
    gpu = a100_mig(profiles=("7g.40gb",))
    node.has(gpu)
    node.read()
    gpu.migs[0].memory_used = 5
    node.change()
    (mig,) = node.read_gpu(after=1).mig_devices

    assert mig.memory is not None
    assert 5 == mig.memory.used


def test_a_whole_gpu_has_no_devices(node: GpuNode) -> None:
    node.has(h100())

    assert () == node.read_gpu().mig_devices


def test_processes_are_on_their_device(node: GpuNode) -> None:
    gpu = h100_mig((1, 0), (2, 0))
    gpu.processes = [
        Process(pid=7, memory=1, gpu_instance=1, compute_instance=0),
        Process(pid=8, memory=2, gpu_instance=2, compute_instance=0),
        Process(pid=8, memory=2, gpu_instance=2, compute_instance=0, list="mps"),
        Process(pid=8, memory=3, gpu_instance=1, compute_instance=0),
    ]
    node.has(gpu)

    assert {
        ProcessUse(7, 1, MigUuid("MIG-1-0")),
        ProcessUse(8, 2, MigUuid("MIG-2-0")),
        ProcessUse(8, 3, MigUuid("MIG-1-0")),
    } == set(node.read_gpu().processes or ())


def test_a_process_on_an_unknown_device_has_it_looked_for(node: GpuNode) -> None:
    gpu = h100_mig((1, 0))
    node.has(gpu)
    node.read()
    gpu.migs = h100_mig((1, 0), (2, 0)).migs
    gpu.processes = [Process(pid=7, memory=1, gpu_instance=2, compute_instance=0)]
    node.change()
    reading = node.read_gpu(after=1)

    assert (ProcessUse(7, 1, MigUuid("MIG-2-0")),) == reading.processes
    assert ["MIG-1-0", "MIG-2-0"] == uuids(reading.mig_devices)


def test_a_device_that_nobody_uses_is_found_in_a_slow_round(node: GpuNode) -> None:
    node.has(h100_mig((1, 0)))
    node.read()
    node.has(h100_mig((1, 0), (2, 0)))

    assert [["MIG-1-0"], ["MIG-1-0", "MIG-2-0"]] == [
        uuids(node.read_gpu(after).mig_devices) for after in (1, SLOW)
    ]


def test_a_device_that_is_destroyed_takes_nothing_with_it(node: GpuNode) -> None:
    node.has(h100_mig((1, 0), (2, 0)))
    node.read()
    node.has(h100_mig((1, 0)))
    reading = node.read_gpu(after=1)

    assert ["MIG-1-0"] == uuids(reading.mig_devices)
    assert reading.up


def test_a_device_that_is_made_anew_is_found_by_its_process(node: GpuNode) -> None:
    node.has(h100_mig((1, 0)))
    node.read()
    node.has(h100_mig())
    node.read(after=1)
    gpu = h100_mig((1, 0))
    gpu.processes = [Process(pid=7, memory=1, gpu_instance=1, compute_instance=0)]
    node.has(gpu)

    assert (ProcessUse(7, 1, MigUuid("MIG-1-0")),) == node.read_gpu(after=1).processes


def test_a_driver_that_does_not_tell_the_devices_takes_none_away(node: GpuNode) -> None:
    node.has(h100_mig((1, 0)))
    node.read()
    node.scenario.faults = [
        Fault(call="nvmlDeviceGetMaxMigDeviceCount", kind="error", number=pynvml.NVML_ERROR_UNKNOWN)
    ]
    node.change()

    assert ["MIG-1-0"] == uuids(node.read_gpu(after=SLOW).mig_devices)


def test_a_process_on_a_device_that_nothing_names_stays_on_the_gpu(node: GpuNode) -> None:
    gpu = h100_mig((1, 0))
    gpu.processes = [Process(pid=7, memory=1, gpu_instance=9, compute_instance=0)]
    node.has(gpu)

    assert (ProcessUse(7, 1, MigUuid("")),) == node.read_gpu().processes


def test_gpm_is_per_gpu_instance(node: GpuNode) -> None:
    node.has(h100_mig((1, 0), (2, 0)))
    node.read()
    reading = node.read_gpu(after=SLOW)

    assert [{"mig_sm_active_ratio": {(): 0.5}, "mig_dram_active_ratio": {(): 0.25}}] * 2 == [
        dict(mig.values) for mig in reading.mig_devices
    ]


def test_what_two_devices_share_is_not_copied_to_each(node: GpuNode) -> None:
    node.has(h100_mig((1, 0), (1, 1), (2, 0)))
    node.read()
    reading = node.read_gpu(after=SLOW)

    assert {"MIG-1-0": 0, "MIG-1-1": 0, "MIG-2-0": 2} == {
        mig.uuid: len(mig.values) for mig in reading.mig_devices
    }


def test_switching_the_mode_starts_afresh(node: GpuNode) -> None:
    whole, cut = h100(), h100_mig((1, 0))
    cut.utilization_gpu = cut.utilization_memory = None
    node.has(whole)
    as_whole = node.read_gpu()
    node.has(cut)
    as_cut = node.read_gpu(after=SLOW)
    node.has(whole)
    as_whole_again = node.read_gpu(after=SLOW)

    assert [0, 1, 0] == [len(reading.mig_devices) for reading in (as_whole, as_cut, as_whole_again)]
    assert "gpu_utilization_ratio" in as_cut.unsupported
    assert as_whole.values.keys() == as_whole_again.values.keys()
    assert as_whole.unsupported == as_whole_again.unsupported


def test_a_lost_gpu_has_no_devices(node: GpuNode) -> None:
    gpu = h100_mig((1, 0))
    node.has(gpu)
    node.read()
    node.scenario.faults = [
        Fault(call="nvmlDeviceGetPowerUsage", kind="error", number=pynvml.NVML_ERROR_GPU_IS_LOST)
    ]
    node.change()
    reading = node.read_gpu(after=1)

    assert (False, ()) == (reading.up, reading.mig_devices)
