"""The driver is missing, old, stuck or broken; a GPU falls off the bus."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pynvml
import pytest

from fakes.nvml.build import LIBRARY, build_library
from fakes.nvml.scenario import Fault
from fakes.world import MIB
from tools.daemon import until
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.world import World

pytestmark = pytest.mark.e2e

LATER_THAN_470 = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetSupportedClocksEventReasons",
    "nvmlDeviceGetTemperatureV",
    "nvmlGpmSampleGet",
    "nvmlGpmMetricsGet",
    "nvmlGpmQueryDeviceSupport",
)
"""Calls that came after R470, the last driver for Kepler."""

LATER_THAN_418 = (
    *LATER_THAN_470,
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMigDeviceHandleByIndex",
)
"""Calls that came after R418, before MIG."""


def test_a_driver_that_comes_later_is_found_without_a_restart(world: World) -> None:
    world.scenario_file.unlink()
    with Node(world) as node:
        scrape = node.wait_for("a failure", lambda s: s.value("source_up", source="nvml") == 0)
        assert not [name for name in scrape.names if name.startswith(("gpu_", "container_", "unattributed_"))]
        assert node.get("/healthz").status == 200  # a restart cures nothing
        assert_honest(node, world)

        world.publish()
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        assert_honest(node, world)


def test_a_library_that_is_installed_later_is_found_without_a_restart(world: World, tmp_path: Path) -> None:
    library = tmp_path / "driver" / LIBRARY
    library.parent.mkdir()
    with Node(world, library=library) as node:
        node.wait_for("a failure", lambda s: s.value("source_up", source="nvml") == 0)
        assert_honest(node, world)

        shutil.copy(build_library(), library)
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        assert_honest(node, world)


def test_a_lost_gpu_stays_in_sight_and_the_others_go_on(world: World) -> None:
    lost, other = world.scenario.gpus
    with Node(world) as node:
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        lost.lost = True
        world.publish()

        node.wait_for("the loss", lambda s: s.value("gpu_up", gpu_uuid=lost.uuid) == 0)
        node.settled()
        scrape = assert_honest(node, world)
        assert scrape.value("gpu_up", gpu_uuid=lost.uuid) == 0
        assert scrape.value("gpu_up", gpu_uuid=other.uuid) == 1
        assert other.memory_used == scrape.value("gpu_memory_used_bytes", gpu_uuid=other.uuid)
        assert not scrape.series("container_memory_used_bytes", gpu_uuid=lost.uuid)
        assert scrape.value("source_up", source="nvml") == 1
        assert node.get("/healthz").status == 200

        lost.lost = False
        world.publish()
        node.wait_for("its return", lambda s: s.value("gpu_up", gpu_uuid=lost.uuid) == 1)
        assert_honest(node, world)


def test_a_call_that_never_returns_delays_no_scrape_and_fails_healthz_in_time(world: World) -> None:
    stall_timeout = 2.0
    with Node(world, f"--stall-timeout={stall_timeout:.0f}s") as node:
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        world.scenario.faults = [Fault(call="nvmlDeviceGetUtilizationRates", kind="hang")]
        began = time.time()
        world.publish()

        while node.get("/healthz").status == 200:
            assert_honest(node, world)
            assert time.time() - began < stall_timeout + 2
            time.sleep(0.1)
        assert time.time() - began > stall_timeout - 0.5
        until(lambda: "nvml: a call has been without" in node.get("/healthz").body, 2, node.log)
        last_success = node.scrape().value("source_last_success_timestamp_seconds", source="nvml")
        assert last_success is not None
        assert last_success < began + 0.5

        scrape = node.wait_for("old series' end", lambda s: not s.series("gpu_utilization_ratio"))
        assert scrape.value("source_up", source="nvml") == 0
        assert last_success == scrape.value("source_last_success_timestamp_seconds", source="nvml")
        assert_honest(node, world)

        world.scenario.faults = []
        world.publish()
        node.wait_for("its return", lambda s: s.value("source_up", source="nvml") == 1)
        assert node.get("/healthz").status == 200
        assert_honest(node, world)


def test_memory_that_the_driver_does_not_tell_is_absent(world: World) -> None:
    gpu = world.scenario.gpus[0]
    world.run(world.tenants[0], gpu, memory=None)
    world.publish()
    with Node(world) as node:
        node.wait_for("the process", lambda s: s.value("container_processes") == 2)
        scrape = assert_honest(node, world)
        assert not scrape.series("container_memory_used_bytes")
        unmeasured = {"gpu_uuid": gpu.uuid, "reason": "unmeasured"}
        assert gpu.memory_used == scrape.value("unattributed_memory_used_bytes", **unmeasured)


@pytest.mark.parametrize(
    ("missing", "memory"),
    [
        pytest.param(LATER_THAN_470, 4_000 * MIB, id="R470"),
        pytest.param(LATER_THAN_418, None, id="R418"),
    ],
)
def test_an_old_driver_tells_what_it_can(world: World, missing: tuple[str, ...], memory: int | None) -> None:
    with Node(world, library=build_library(omit=missing)) as node:
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        node.settled()
        scrape = assert_honest(node, world)

        assert scrape.value("source_up", source="nvml") == 1
        assert len(scrape.series("gpu_memory_used_bytes")) == 2
        assert len(scrape.series("gpu_utilization_ratio")) == 2
        assert len(scrape.series("gpu_temperature_celsius", sensor="gpu")) == 2
        assert not scrape.series("gpu_sm_active_ratio")
        assert len(scrape.series("gpu_unsupported", reading="gpu_sm_active_ratio")) == 2
        assert memory == scrape.value("container_memory_used_bytes")
        unmeasured = scrape.series("unattributed_memory_used_bytes", reason="unmeasured")
        assert len(unmeasured) == (0 if memory else 2)


def test_unknown_error_on_every_call_asks_for_a_restart(world: World) -> None:
    with Node(world) as node:
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        world.scenario.faults = [Fault(call="*", kind="error", number=pynvml.NVML_ERROR_UNKNOWN)]
        world.publish()

        node.wait_for("the failure", lambda s: s.value("source_up", source="nvml") == 0)
        scrape = assert_honest(node, world)
        assert not scrape.series("gpu_utilization_ratio")
        reply = node.get("/healthz")
        assert reply.status == 503
        assert "nvml" in reply.body


def test_one_call_that_fails_costs_only_its_own_reading(world: World) -> None:
    world.scenario.faults = [
        Fault(call="nvmlDeviceGetPcieReplayCounter", kind="error", number=pynvml.NVML_ERROR_UNKNOWN)
    ]
    world.publish()
    with Node(world) as node:
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        scrape = assert_honest(node, world)
        assert not scrape.series("gpu_pcie_replays_total")
        assert len(scrape.series("gpu_pcie_link_width")) == 2
        assert node.get("/healthz").status == 200
