"""At 2,000 GPUs each panel still shows what fits on a screen, and asks Prometheus for no more than it may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dashboards.fleet import multiply, serving
from dashboards.linter import selected
from dashboards.reading import PANELS, Panel, fill
from dashboards.rig import read_rules
from tools.prometheus import Prometheus
from tools.rulefiles import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboards.rig import Rig

pytestmark = pytest.mark.e2e

NODES, GPUS_OF_NODE = 334, 6

MOST_ROWS = {"stat": 10, "bargauge": 15, "timeseries": 40, "state-timeline": 40, "table": 400}
"""Series that a query may give, by the kind of panel; a table has a row for each node at most."""

MOST_SAMPLES = 40_000
"""That a query may read for one point in time: some tens of readings of each GPU."""

CHOSEN = {
    "gpuledger-gpu": {"node": "gpu-node-1-7"},
    "gpuledger-pod": {"namespace": "research-7", "pod": "train-0-7"},
}
"""What the dashboards of one node and of one pod are opened for; others show everything."""


@pytest.fixture(scope="module")
def fleet(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus with the fleet, and the recording rules over it."""
    queries = [query.expr for panel in PANELS for query in panel.queries] + [rule.expr for rule in RECORDINGS]
    metrics = {found.metric for query in queries for found in selected(query)}
    shown = {"node": rig.node.get("/metrics").body, "cluster": rig.cluster_page()}
    own = {"cluster": {"gpuledger_build_info"}}
    copies = [multiply(role, text, NODES, metrics - own.get(role, set())) for role, text in shown.items()]
    page = "".join(f"{line}\n" for lines in copies for line in lines).encode()
    rules = read_rules(tmp_path_factory.mktemp("rules"), "recording")
    folder = tmp_path_factory.mktemp("fleet")
    with (
        serving(page) as address,
        Prometheus(folder, {"fleet": address}, interval="5s", rules=rules) as prometheus,
    ):
        recorded = "namespace_workload:gpuledger_energy_kilowatt_hours:increase1h"
        prometheus.wait_for(f"count({recorded}) > 0", timeout=60)
        yield prometheus


def test_the_fleet_is_as_large_as_it_should_be(fleet: Prometheus) -> None:
    assert NODES * GPUS_OF_NODE == fleet.query_value("count(gpuledger_gpu_up)")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: f"{panel.board}-{panel.title}")
def test_a_panel_stays_within_bounds(fleet: Prometheus, panel: Panel) -> None:
    for query in panel.queries:
        expr = fill(query.expr, CHOSEN.get(panel.board))
        assert len(fleet.query(expr)) <= MOST_ROWS[panel.kind], expr
        assert fleet.samples_read(expr) <= MOST_SAMPLES, expr
