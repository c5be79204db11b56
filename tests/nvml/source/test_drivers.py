"""Drivers that lack what newer ones have, no driver at all, and what a cycle asks of one.

Each in a process of its own, which loads another library.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fakes.nvml.build import build_library
from fakes.nvml.environment import environment, read_calls
from fakes.nvml.presets import MIB, a100_mig, h100
from fakes.nvml.presets import node as h100_node
from fakes.nvml.scenario import Process, Scenario

READ = """
import json, sys
from gpuledger.sources.nvml import NvmlSource

uptime = 0.0
source = NvmlSource(uptime=lambda: uptime)
for _ in range(int(sys.argv[1])):
    uptime += 1
    gpu = source.read().gpus[0]
print(json.dumps({
    "up": gpu.up,
    "memory": gpu.memory and [gpu.memory.used, gpu.memory.reserved],
    "values": [*gpu.values],
    "processes": gpu.processes and [[use.pid, use.memory_used] for use in gpu.processes],
    "samples": [gpu.busy_samples is not None, gpu.process_samples is not None],
    "unsupported": [*gpu.unsupported],
}))
"""
"""Reads some cycles, a second apart by the source's clock, and tells what the first GPU said in the last."""

NEWER = (
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetCurrentClocksEventReasons",
)
"""Functions of which there is an older version to fall back on."""

NEW = (
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleGet",
    "nvmlGpmMetricsGet",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetTotalEnergyConsumption",
)
"""Functions without which something cannot be told."""

OLDER = (
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetProcessUtilization",
)


def read(library: Path, scenario: Scenario, folder: Path, cycles: int = 2) -> Any:
    scenario.write(folder / "scenario")
    surroundings = environment(library, folder / "scenario", folder / f"calls-{cycles}")
    command = [sys.executable, "-c", READ, str(cycles)]
    return json.loads(subprocess.run(command, env=surroundings, check=True, capture_output=True).stdout)


@pytest.fixture
def busy_h100() -> Scenario:
    gpu = h100()
    gpu.processes = [Process(pid=7, memory=100)]
    return Scenario(gpus=[gpu])


def test_older_versions_do_where_newer_are_missing(busy_h100: Scenario, tmp_path: Path) -> None:
    told = read(build_library(omit=NEWER), busy_h100, tmp_path)

    assert [(50_000 + 551) * MIB, None] == told["memory"]
    assert [[7, 100]] == told["processes"]
    assert {"gpu_temperature_celsius", "gpu_throttled"} <= set(told["values"])
    assert "gpu_memory_reserved_bytes" in told["unsupported"]


def test_what_an_old_driver_lacks_is_missing_alone(busy_h100: Scenario, tmp_path: Path) -> None:
    told = read(build_library(omit=(*NEWER, *NEW, *OLDER)), busy_h100, tmp_path)

    assert told["up"]
    assert (None, None, [False, False]) == (told["memory"], told["processes"], told["samples"])
    assert {"gpu_power_watts", "gpu_clock_hertz", "gpu_ecc_errors_total"} <= set(told["values"])
    assert {
        "gpu_energy_joules_total",
        "gpu_memory_used_bytes",
        "gpu_mig_enabled",
        "gpu_nvlink_errors_total",
        "gpu_processes",
        "gpu_recovery_action",
        "gpu_sm_active_ratio",
        "process_sm_utilization_ratio",
    } <= set(told["unsupported"])


def test_a_library_that_is_installed_later_is_found(busy_h100: Scenario, tmp_path: Path) -> None:
    library = build_library()
    busy_h100.write(tmp_path / "scenario")
    empty = tmp_path / "lib"
    empty.mkdir()
    code = """
import os, sys
from gpuledger.core.errors import SourceError
from gpuledger.sources.nvml import NvmlSource

source = NvmlSource()
try:
    source.read()
except SourceError as error:
    print(error, error.restart)
os.symlink(sys.argv[1], sys.argv[2])
print(source.read().gpus[0].up)
"""
    command = [sys.executable, "-c", code, str(library), str(empty / library.name)]
    surroundings = environment(empty / library.name, tmp_path / "scenario")
    lines = subprocess.run(
        command, env=surroundings, check=True, capture_output=True, text=True
    ).stdout.splitlines()

    assert "libnvidia-ml.so.1 is not there" in lines[0]
    assert lines[0].endswith("False")
    assert "True" == lines[1]


def test_what_is_refused_or_static_is_asked_once(library: Path, busy_h100: Scenario, tmp_path: Path) -> None:
    calls = {}
    for cycles in (1, 40):
        read(library, busy_h100, tmp_path, cycles)
        calls[cycles] = read_calls(tmp_path / f"calls-{cycles}")

    for refused in ("nvmlDeviceGetFanSpeed_v2",):
        assert calls[1][refused] == calls[40][refused]
    for static in ("nvmlDeviceGetName", "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetTemperatureThreshold"):
        assert calls[1][static] == calls[40][static]
    for slow in ("nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetFieldValues"):
        assert 5 * calls[1][slow] == calls[40][slow]
    for fast in ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo_v2"):
        assert 40 * calls[1][fast] == calls[40][fast]


def test_an_instance_that_is_no_device_is_looked_for_once(library: Path, tmp_path: Path) -> None:
    gpu = a100_mig()
    looks = {}
    for process in (None, Process(pid=7, memory=1, gpu_instance=99, compute_instance=0)):
        gpu.processes = [process] if process else []
        read(library, Scenario(gpus=[gpu]), tmp_path, cycles := 5 + len(gpu.processes))
        looks[process is not None] = read_calls(tmp_path / f"calls-{cycles}")["nvmlDeviceGetMaxMigDeviceCount"]

    assert looks[False] + 1 == looks[True]


EVERY_CYCLE = {
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetProcessUtilization",
}
"""What changes from second to second, or must not be missed: each GPU is asked once a cycle."""


def test_a_cycle_makes_few_calls(library: Path, tmp_path: Path) -> None:
    scenario = h100_node(8)
    for gpu in scenario.gpus:
        gpu.processes = [Process(pid=1000 + number, memory=1 << 30, sm=10) for number in range(8)]
    counts = []
    for cycles in (10, 30):
        read(library, scenario, tmp_path, cycles)
        counts.append(read_calls(tmp_path / f"calls-{cycles}"))
    fewer, more = counts
    per_gpu = {name: (more[name] - fewer.get(name, 0)) / 20 / 8 for name in more}

    assert EVERY_CYCLE == {name for name, calls in per_gpu.items() if calls == 1.0}
    assert sum(per_gpu.values()) < 13.5  # with what is read every ten seconds, and every minute
