"""dcgm-exporter's own dashboard works on our exporter as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dashboards.reading import Query, fill, parse_dashboard
from dashboards.test_data import values_of

if TYPE_CHECKING:
    from dashboards.rig import Rig

pytestmark = pytest.mark.e2e

FIXTURE = Path(__file__).parents[1] / "fixtures" / "dcgm" / "dcgm-exporter-dashboard.json"
DASHBOARD = parse_dashboard(FIXTURE.read_text())
QUERIES = [query for panel in DASHBOARD.panels for query in panel.queries]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.place)
def test_a_query_finds_data_for_each_choice_of_its_variables(rig: Rig, query: Query) -> None:
    gpus = values_of(rig.prometheus, DASHBOARD.variables["gpu"])
    instances = values_of(rig.prometheus, DASHBOARD.variables["instance"])

    assert rig.prometheus.query(fill(query.expr))
    assert gpus
    assert instances
    for gpu in {"0", "1"} & set(gpus):
        for instance in instances:
            assert rig.prometheus.query(fill(query.expr, {"gpu": gpu, "instance": instance}))
