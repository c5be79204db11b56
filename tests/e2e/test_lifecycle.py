"""The exporter ends when told to, and comes back without confusing anybody."""

from __future__ import annotations

import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

from fakes.nvml import presets
from fakes.nvml.scenario import Fault
from fakes.tenants import bare
from fakes.world import MIB, World
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

SLOWEST_END_S = 5.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path, presets.node(1)) as world:
        [gpu] = world.scenario.gpus
        world.run(world.admit(bare("job"), gpu.uuid), gpu, memory=1_000 * MIB, sm=50)
        world.publish()
        yield world


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_cleanly_while_scrapers_hang_on(world: World, number: signal.Signals) -> None:
    with Node(world) as node:
        node.wait_for("the GPU", lambda s: bool(s.series("gpu_up")))
        host, port = node.url.removeprefix("http://").split(":")
        with (
            socket.create_connection((host, int(port))) as idle,
            socket.create_connection((host, int(port))) as half,
        ):
            idle.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            half.sendall(b"GET /metrics HT")
            began = time.monotonic()
            node.process.send_signal(number)
            assert node.process.wait(SLOWEST_END_S) == 0
            assert time.monotonic() - began < SLOWEST_END_S
        assert "Traceback" not in node.log()


def test_ends_cleanly_while_the_driver_does_not_answer(world: World) -> None:
    with Node(world) as node:
        node.wait_for("the GPU", lambda s: bool(s.series("gpu_up")))
        world.scenario.faults = [Fault(call="nvmlDeviceGetUtilizationRates", kind="hang")]
        world.publish()
        time.sleep(0.5)
        assert node.stop(SLOWEST_END_S) == 0
        assert "Traceback" not in node.log()


def test_counters_start_anew_after_a_kill_but_the_drivers_go_on(world: World) -> None:
    names = ("container_sm_busy_seconds_total", "container_allocated_seconds_total", "gpu_busy_seconds_total")
    with Node(world) as node:
        before = node.wait_for("a second's work", lambda s: (s.value(names[0]) or 0) > 1)
        node.process.kill()
        node.process.wait()
    with Node(world) as node:
        node.wait_for("all counters", lambda s: None not in [s.value(name) for name in names])
        after = assert_honest(node, world)
        for name in names:
            old, new = before.value(name), after.value(name)
            assert old is not None
            assert new is not None
            assert 0 <= new < old, name
        joules = [scrape.value("gpu_energy_joules_total") or 0 for scrape in (before, after)]
        assert joules[0] < joules[1]
        grown = node.wait_for("growth", lambda s: (s.value(names[0]) or 0) > 0.2)
        assert (grown.value(names[1]) or 0) > 0


def test_an_address_in_use_is_said_in_one_line(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = Node(world, f"--web.listen-address=127.0.0.1:{port}")
        assert node.process.wait(10) == 1
    [line] = [line for line in node.log().splitlines() if "error" in line]
    assert f"127.0.0.1:{port}" in line
    assert "--web.listen-address" in line
    assert "Traceback" not in node.log()
