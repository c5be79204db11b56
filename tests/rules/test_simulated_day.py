"""A day of the demo's cluster under the rules: nobody is told of anything, or of what has gone wrong.

Every exporter's page is what its role renders over the simulated sources, minute by minute, and promtool
evaluates the rules over it as Prometheus would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.simulated import Clock, WatchedCluster, WatchedNode
from gpuledger.sources.simulated import SimulatedCluster
from tools.prometheus import VERSIONS
from tools.recording import Recording, failures

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.day, pytest.mark.timeout(900)]

DAY = 24 * 60
"""Minutes, and scrapes."""
TROUBLED = 6 * 60
"""From 8 in the morning until 2 in the afternoon: by then all that goes wrong has gone wrong."""

FIRING = 'ALERTS{alertstate="firing"}'

PLANNED = {
    "GpuAllocatedIdle",  # a notebook that was left behind
    "GpuAuditFindingCritical",  # a privileged pod
    "GpuAuditFindingHigh",
    "GpuDriverUnavailable",  # a node without a driver
    "GpuEccUncorrectable",  # the memory error at 1 in the afternoon, and what the driver makes of it
    "GpuHostProcess",  # ollama
    "GpuPodPending",
    "GpuProcessWithoutAllocation",  # the miner
    "GpuQuotaNearlyExhausted",
    "GpuRecoveryActionNeeded",
    "GpuRowRemapPending",
    "GpuThermalSlowdown",  # the GPU that is too hot at 11
    "GpuXidApplication",  # a job that crashes
    "GpuXidWarning",
}
"""What somebody is told of in the demo's cluster, and why."""


def recorded(minutes: int, *, faults: bool) -> Recording:
    """The cluster from its start on, at the pace of a real day, as Prometheus has scraped it."""
    clock = Clock(0.0)  # when promtool's time begins
    cluster = SimulatedCluster(1, clock, day=DAY * 60.0, faults=faults)
    exporters: dict[str, WatchedNode | WatchedCluster] = {
        node.machine.name: WatchedNode(cluster, node.machine.name, clock) for node in cluster.nodes
    }
    exporters["cluster"] = WatchedCluster(cluster, clock)
    recording = Recording()
    for minute in range(minutes):
        clock.now = minute * 60.0
        recording.scrape({name: exporter.page() for name, exporter in exporters.items()})
    return recording


def test_where_all_is_well_nobody_is_told_of_anything(tmp_path: Path) -> None:
    query = {"expr": f"last_over_time({FIRING}[1d])", "eval_time": f"{DAY - 1}m", "exp_samples": []}

    assert "" == failures(VERSIONS[-1], recorded(DAY, faults=False), tmp_path, query)


def test_what_goes_wrong_in_the_demo_is_told(tmp_path: Path) -> None:
    query = {
        "expr": f"group by (alertname) (last_over_time({FIRING}[1d]))",
        "eval_time": f"{TROUBLED - 1}m",
        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(PLANNED)],
    }

    assert "" == failures(VERSIONS[-1], recorded(TROUBLED, faults=True), tmp_path, query)
