"""The wall clock is set while the exporter runs: counters go on as if nothing had happened."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.fetch import tool
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from chaos.stage import Record
    from fakes.world import World
    from tools.exposition import Exposition

pytestmark = pytest.mark.e2e

COUNTERS = (
    "gpu_busy_seconds_total",
    "gpu_throttled_seconds_total",
    "container_allocated_seconds_total",
    "container_sm_busy_seconds_total",
    "unattributed_sm_busy_seconds_total",
)
"""None of these may grow faster than time passes, or shrink."""
SLACK_S = 2.0


@pytest.mark.parametrize(
    "step", [pytest.param(3600, id="an hour ahead"), pytest.param(-3600, id="an hour back")]
)
def test_a_step_of_the_wall_clock_moves_no_counter(
    world: World, tmp_path: Path, step: int, record: Record
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0")
    with Node(world, env=_faked(clock)) as node:
        node.wait_for("all counters", lambda s: COUNTERS[3] in s.names and len(s.series(COUNTERS[0])) == 8)
        for seconds in (step, 0):
            before, began = node.settled(), time.monotonic()
            clock.write_text(f"{seconds:+}")
            stepped = node.wait_for("the step", partial(_tells, time.time() + seconds))
            took = time.monotonic() - began
            after = node.settled()
            elapsed = time.monotonic() - began
            for scrape in (stepped, after):
                assert {} == _implausible(before, scrape, elapsed)
            assert after.value("source_up", source="nvml") == 1
            assert node.get("/healthz").status == node.get("/readyz").status == 200
        assert_honest(node, world)
    record(f"the clock is set an hour {'ahead' if step > 0 else 'back'}", "no count", f"{took:.1f} s")


def _faked(clock: Path) -> dict[str, str]:
    """What makes a process take its wall clock from the file, and nothing but that."""
    [library] = tool("faketime-0").glob("usr/lib/*/faketime/libfaketimeMT.so.1")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _tells(now: float, scrape: Exposition) -> bool:
    return abs((scrape.value("last_cycle_timestamp_seconds") or 0) - now) < 60


def _implausible(before: Exposition, after: Exposition, elapsed: float) -> dict[str, float]:
    """Counters that shrank, or grew by more than the time that has passed."""
    grown = {
        f"{name}{sorted(sample.labels.items())}": sample.value - old
        for name in COUNTERS
        for sample in after.series(name)
        if (old := before.value(name, **sample.labels)) is not None
    }
    assert grown
    return {series: growth for series, growth in grown.items() if not 0 <= growth <= elapsed + SLACK_S}
