"""Who is on a GPU: the lists merged, and their memory counted once."""

from __future__ import annotations

import pynvml
import pytest

from fakes.nvml.gpu_node import GpuNode
from fakes.nvml.presets import h100
from fakes.nvml.scenario import Fault, Gpu, Process
from gpuledger.core.model import ProcessUse

LISTS = [
    pytest.param([], (), id="nobody"),
    pytest.param([Process(pid=7, memory=100)], (ProcessUse(7, 100),), id="one"),
    pytest.param([Process(pid=7)], (ProcessUse(7, None),), id="memory not told"),
    pytest.param(
        [Process(pid=7, memory=100, list=name) for name in ("compute", "graphics", "mps")],
        (ProcessUse(7, 100),),
        id="in every list, counted once",
    ),
    pytest.param(
        [Process(pid=7, list="compute"), Process(pid=7, memory=90, list="graphics")],
        (ProcessUse(7, 90),),
        id="told by one list",
    ),
    pytest.param(
        [Process(pid=7, memory=100, list="compute"), Process(pid=7, memory=90, list="graphics")],
        (ProcessUse(7, 100),),
        id="the lists differ",
    ),
    pytest.param(
        [
            Process(pid=7, memory=1),
            Process(pid=8, memory=2, list="graphics"),
            Process(pid=9, memory=3, list="mps"),
        ],
        (ProcessUse(7, 1), ProcessUse(8, 2), ProcessUse(9, 3)),
        id="one in each list",
    ),
]


@pytest.mark.parametrize(("processes", "expected"), LISTS)
def test_lists_are_merged(node: GpuNode, processes: list[Process], expected: tuple[ProcessUse, ...]) -> None:
    node.has(Gpu(uuid="GPU-1", processes=processes))

    assert expected == node.read_gpu().processes


def test_more_processes_than_before_are_all_listed(node: GpuNode) -> None:
    gpu = Gpu(uuid="GPU-1")
    node.has(gpu)
    listed = []
    for count in (1, 64, 1000, 2):
        gpu.processes = [Process(pid=pid, memory=pid) for pid in range(1, count + 1)]
        node.change()
        listed.append(node.read_gpu(after=1).processes)

    assert [tuple(ProcessUse(p, p) for p in range(1, count + 1)) for count in (1, 64, 1000, 2)] == listed


def test_a_process_may_be_on_several_gpus(node: GpuNode) -> None:
    gpus = h100(0), h100(1)
    for gpu, memory in zip(gpus, (100, 200), strict=True):
        gpu.processes = [Process(pid=7, memory=memory)]
    node.has(*gpus)

    assert [(ProcessUse(7, 100),), (ProcessUse(7, 200),)] == [gpu.processes for gpu in node.read().gpus]


def test_a_process_is_gone_in_the_cycle_after_its_end(node: GpuNode) -> None:
    gpu = h100()
    gpu.processes = [Process(pid=7, memory=100), Process(pid=8, memory=200)]
    node.has(gpu)
    node.read()
    gpu.processes.pop()
    node.change()

    assert (ProcessUse(7, 100),) == node.read_gpu(after=1).processes


def refuses(*calls: str, code: int = pynvml.NVML_ERROR_NOT_SUPPORTED) -> list[Fault]:
    return [Fault(call=call, kind="error", number=code) for call in calls]


def test_a_list_that_the_gpu_lacks_is_not_missed(node: GpuNode) -> None:
    node.scenario.faults = refuses("nvmlDeviceGetMPSComputeRunningProcesses")
    node.has(Gpu(uuid="GPU-1", processes=[Process(pid=7, memory=100)]))

    assert (ProcessUse(7, 100),) == node.read_gpu().processes


def test_without_any_list_nothing_is_known(node: GpuNode) -> None:
    node.scenario.faults = refuses(
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
        "nvmlDeviceGetMPSComputeRunningProcesses",
    )
    node.has(h100())
    reading = node.read_gpu()

    assert reading.processes is None
    assert "gpu_processes" in reading.unsupported


def test_a_list_that_fails_empties_nothing(node: GpuNode) -> None:
    node.has(Gpu(uuid="GPU-1", processes=[Process(pid=7, memory=100)]))
    node.read()
    node.scenario.faults = refuses("nvmlDeviceGetComputeRunningProcesses", code=pynvml.NVML_ERROR_UNKNOWN)
    node.change()
    failed = node.read_gpu(after=1)
    node.scenario.faults = []
    node.change()

    assert failed.processes is None
    assert "gpu_processes" not in failed.unsupported
    assert (ProcessUse(7, 100),) == node.read_gpu(after=1).processes


def test_lists_are_dated_by_the_clock_of_process_starts(node: GpuNode) -> None:
    node.has(h100())

    assert node.uptime == node.read_gpu().listed_at
