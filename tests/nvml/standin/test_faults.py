"""What goes wrong with a driver: calls that fail, hang or are slow, GPUs that are lost, no driver at all."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fakes.nvml.environment import environment, read_calls
from fakes.nvml.presets import a100_mig, node
from fakes.nvml.scenario import Fault, Gpu, Scenario

Play = Callable[[Scenario], None]

COUNT_TWICE = """
import pynvml
pynvml.nvmlInit()
for _ in range(2):
    print(pynvml.nvmlDeviceGetCount())
"""


def seconds(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started


# ---- no driver ----


def test_calls_before_init_are_uninitialized(scenario_file: Path) -> None:
    node(1).write(scenario_file)
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    for call in (pynvml.nvmlDeviceGetCount, pynvml.nvmlShutdown):
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            call()


def test_library_is_in_use_until_each_init_is_shut_down(scenario_file: Path) -> None:
    node(1).write(scenario_file)
    pynvml.nvmlInit()
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 1


def test_driver_may_be_loaded_later_and_unloaded(scenario_file: Path) -> None:
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlInit()
    node(2).write(scenario_file)
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 2
    scenario_file.unlink()
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlDeviceGetCount()


# ---- calls ----


@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        (Fault(call="nvmlDeviceGetMemoryInfo_v2", kind="error", number=13), {"memory v2"}),
        (Fault(call="nvmlDeviceGetMemoryInfo", kind="error", number=13), {"memory", "memory v2"}),
        (Fault(call="*", kind="error", number=13), {"memory", "memory v2", "power", "count"}),
        (Fault(call="*", kind="error", number=13, gpu="GPU-2"), set()),
        (Fault(call="*", kind="error", number=13, gpu="GPU-1"), {"memory", "memory v2", "power"}),
    ],
    ids=["a version", "all versions", "every call", "another GPU", "this GPU"],
)
def test_error_is_for_the_calls_that_it_names(play: Play, fault: Fault, failing: set[str]) -> None:
    gpus = [
        Gpu(uuid=uuid, power=1, memory_total=9, memory_used=4, memory_free=5) for uuid in ("GPU-1", "GPU-2")
    ]
    play(Scenario(gpus=gpus))
    gpu = pynvml.nvmlDeviceGetHandleByUUID(b"GPU-1")
    play(Scenario(gpus=gpus, faults=[fault]))
    calls: dict[str, Callable[[], object]] = {
        "memory": lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu),
        "memory v2": lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu, pynvml.nvmlMemory_v2),
        "power": lambda: pynvml.nvmlDeviceGetPowerUsage(gpu),
        "count": pynvml.nvmlDeviceGetCount,
    }
    refused = set()
    for name, call in calls.items():
        try:
            call()
        except pynvml.NVMLError_FunctionNotFound:
            refused.add(name)
    assert failing == refused


def test_unknown_error_of_every_call_spares_init_unless_named(play: Play) -> None:
    unknown = pynvml.NVML_ERROR_UNKNOWN
    scenario = node(1)
    play(scenario)
    scenario.faults = [Fault(call="*", kind="error", number=unknown)]
    play(scenario)
    pynvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetHandleByIndex(0)
    scenario.faults.append(Fault(call="nvmlInitWithFlags", kind="error", number=unknown))
    play(scenario)
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlInit()


def test_hanging_call_returns_when_the_scenario_lets_it(play: Play) -> None:
    scenario = node(2)
    play(scenario)
    first, second = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
    scenario.faults = [Fault(call="nvmlDeviceGetPowerUsage", kind="hang", gpu=scenario.gpus[0].uuid)]
    play(scenario)
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(pynvml.nvmlDeviceGetPowerUsage, first)
        assert pynvml.nvmlDeviceGetPowerUsage(second) == 412_000
        scenario.gpus[0].power = 5
        play(scenario)
        time.sleep(0.1)
        assert not hanging.done()
        scenario.faults = []
        play(scenario)
        assert hanging.result(timeout=5) == 5


def test_latency_comes_before_the_answer(play: Play) -> None:
    scenario = node(1)
    scenario.faults = [Fault(call="nvmlDeviceGetCount", kind="latency", number=100_000)]
    play(scenario)
    assert 0.1 <= seconds(pynvml.nvmlDeviceGetCount) < 1
    assert seconds(pynvml.nvmlSystemGetDriverVersion) < 0.1


def test_delay_comes_after_the_answer(play: Play) -> None:
    scenario = node(1)
    scenario.faults = [Fault(call="nvmlDeviceGetCount", kind="delay", number=300)]
    play(scenario)
    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(pynvml.nvmlDeviceGetCount)
        time.sleep(0.1)
        play(Scenario())
        assert not counting.done()
        assert counting.result(timeout=5) == 1
    assert pynvml.nvmlDeviceGetCount() == 0


def test_lost_gpu_answers_nothing_while_others_do(play: Play) -> None:
    scenario = Scenario(gpus=[*node(1).gpus, a100_mig(1)])
    play(scenario)
    healthy, lost = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(lost, 0)
    scenario.gpus[1].lost = True
    play(scenario)
    calls: list[Callable[[], Any]] = [
        lambda: pynvml.nvmlDeviceGetPowerUsage(lost),
        lambda: pynvml.nvmlDeviceGetUUID(lost),
        lambda: pynvml.nvmlDeviceGetMemoryInfo(mig),
        lambda: pynvml.nvmlDeviceGetHandleByIndex(1),
        lambda: pynvml.nvmlDeviceGetHandleByUUID(scenario.gpus[1].uuid.encode()),
    ]
    for call in calls:
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            call()
    assert (pynvml.nvmlDeviceGetPowerUsage(healthy), pynvml.nvmlDeviceGetCount()) == (412_000, 2)


# ---- what only another process shows ----


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("drive 1\nend\n", ":1: unknown or out of place: 'drive'"),
        ("power 1\nend\n", ":1: unknown or out of place: 'power'"),
        ("cuda many\nend\n", ":1: not an unsigned number: 'many'"),
        ("cuda -1\nend\n", ":1: not an unsigned number: '-1'"),
        ("cuda 1 2\nend\n", ":1: more than the line may say: '2'"),
        ("cuda\nend\n", ":1: a word is missing: 'end of line'"),
        ("gpu GPU-1\nvalue mood 0 1\nend\n", ":2: unknown name: 'mood'"),
        ("gpu GPU-1\nvalue power 0.x 1\nend\n", ":2: not an index: 'x'"),
        ("gpu GPU-1\nfield 82 0 uint warm\nend\n", ":2: not an unsigned number: 'warm'"),
        ("gpu GPU-1\nfield 82 0 int -cold\nend\n", ":2: not an unsigned number: 'cold'"),
        ("gpu GPU-1\nmetric - 2 high\nend\n", ":2: not a decimal number: 'high'"),
        ("gpu GPU-1\ntext name \nend\n", ":2: text is empty or too long: ''"),
        ("gpu GPU-1\n" + "mig MIG-1\n" * 9 + "end\n", ":10: the stand-in has no room for more of: 'gpu->migs'"),
        ("fault nvmlDeviceGetMood * hang 0\nend\n", ":1: NVML has no call: 'nvmlDeviceGetMood'"),
        ("driver 570\n", ":1: the file is cut off: its last line must be 'end', not: 'driver'"),
        ("driver 570\nend", ":2: the line is too long or cut off: 'end'"),
    ],
    ids=lambda value: value if value.startswith(":") else "",
)
def test_malformed_scenario_ends_the_process_with_a_message(
    library: Path, tmp_path: Path, text: str, complaint: str
) -> None:
    scenario = tmp_path / "scenario"
    scenario.write_text(text)
    ended = subprocess.run(
        [sys.executable, "-c", COUNT_TWICE],
        env=environment(library, scenario),
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (-6, f"nvml stand-in: {scenario}{complaint}\n")


def test_calls_are_counted_over_all_processes(library: Path, tmp_path: Path) -> None:
    scenario, calls = tmp_path / "scenario", tmp_path / "calls"
    node(3).write(scenario)
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", COUNT_TWICE], env=environment(library, scenario, calls), check=True
        )
    assert read_calls(calls) == {"nvmlInitWithFlags": 2, "nvmlDeviceGetCount_v2": 4}
