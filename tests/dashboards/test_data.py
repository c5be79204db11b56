"""Every query of every panel, and every variable, finds data in a real Prometheus that scrapes exporters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from dashboards.reading import QUERIES, VARIABLES, Query, fill

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.rig import Rig
    from tools.prometheus import Prometheus

pytestmark = pytest.mark.e2e

PATIENCE_S = 3

OR_ZERO = re.compile(r" or 0 \* count\(\w+(\{[^}]*\})?\)")
"""The 0 of a query that found nothing, which is no data."""


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.place)
def test_a_query_finds_data(rig: Rig, query: Query) -> None:
    expr = fill(query.expr)
    rig.prometheus.wait_for(OR_ZERO.sub("", expr), timeout=PATIENCE_S)
    rig.prometheus.query(expr)


@pytest.mark.parametrize("variable", VARIABLES.values(), ids=VARIABLES.keys())
def test_a_variable_has_values(rig: Rig, variable: Mapping[str, Any]) -> None:
    assert values_of(rig.prometheus, variable)


def values_of(prometheus: Prometheus, variable: Mapping[str, Any]) -> list[str]:
    """What Grafana would offer."""
    query = fill(variable["query"])
    if found := re.fullmatch(r"label_values\((?:(.*), )?(\w+)\)", query):
        return prometheus.label_values(found[2], found[1])
    found = re.fullmatch(r"query_result\((.*)\)", query)
    assert found, query
    pattern = re.compile(variable["regex"].strip("/").replace("(?<", "(?P<"))
    texts = [
        "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items())) + "} 1 0"
        for sample in prometheus.query(found[1])
    ]
    return [match["value"] for text in texts if (match := pattern.search(text))]
