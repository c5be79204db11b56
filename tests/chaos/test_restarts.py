"""The exporter is killed again and again while a real Prometheus scrapes it: its counters stay counters."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

from chaos.stage import everybody_is_there
from tools.honesty import assert_honest
from tools.node import Node
from tools.prometheus import Prometheus

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.stage import Record
    from fakes.world import World

pytestmark = pytest.mark.chaos

KILLS = 3
UP_S = 8.0
COUNTERS = {
    "gpuledger_gpu_busy_seconds_total": 1.0,
    "gpuledger_container_allocated_seconds_total": 1.0,
    "gpuledger_container_sm_busy_seconds_total": 1.0,
    "gpuledger_unattributed_sm_busy_seconds_total": 1.0,
    "gpuledger_gpu_energy_joules_total": 1_000.0,
}
"""Each with the most that it may grow in a second."""
EXTRAPOLATED = 1.25
"""rate() takes the ends of its window to be like what lies between: so much too high it may be."""


def test_a_killed_exporter_confuses_no_rate(world: World, tmp_path: Path, record: Record) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    began, gaps = time.monotonic(), []
    with Prometheus(tmp_path, {"node": address}, interval="500ms") as prometheus:
        for _ in range(KILLS):
            killed_at = time.monotonic()
            with Node(world, f"--web.listen-address={address}") as node:
                node.wait_for("everybody", everybody_is_there)
                gaps.append(time.monotonic() - killed_at)
                time.sleep(UP_S)
                assert_honest(node, world)
                node.process.kill()
                node.process.wait()
        seconds = int(time.monotonic() - began)
        for counter, most in COUNTERS.items():
            rates = f"rate({counter}[5s])[{seconds}s:500ms]"
            assert prometheus.query(counter) or prometheus.query(f"last_over_time({counter}[1m])")
            assert not prometheus.query(f"min_over_time({rates}) < 0")
            assert [] == prometheus.query(f"max_over_time({rates}) > {most * EXTRAPOLATED}")
        held = "max(increase(gpuledger_container_allocated_seconds_total[{}s]))"
        counted = prometheus.query_value(held.format(seconds))
        assert not prometheus.complaints()
    assert counted is not None
    lost = seconds - counted
    assert 0 <= lost < KILLS * (max(gaps) + 3)
    record(
        f"kill -9, {KILLS} times in {seconds} s",
        f"{lost / KILLS:.1f} s of the counters a time; no rate was negative or above what is possible",
        f"{max(gaps):.1f} s after the start",
    )
