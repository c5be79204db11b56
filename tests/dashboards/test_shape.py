"""What dashboards promise their readers: stable addresses, links that lead on, honest panels, bounded size."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from dashboards.linter import selected
from dashboards.reading import DASHBOARDS, FOLDER, PANELS, QUERIES, Dashboard, Panel, Query, fill
from gpuledger.metrics import catalog
from rules.test_lint import series
from tools.promql import TARGET, Linter
from tools.rulefiles import ALERTS, RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

UIDS = {f"gpuledger-{name}" for name in ("fleet", "gpu", "workloads", "pod", "audit", "exporter")}

OF_PROMETHEUS = {
    "ALERTS": frozenset({"alertname", "alertstate", "severity"}),
    **dict.fromkeys(
        (
            "scrape_duration_seconds",
            "scrape_samples_scraped",
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_start_time_seconds",
            "process_open_fds",
        ),
        TARGET,
    ),
}
"""What Prometheus itself and every Python exporter have beside the catalogue."""

LEVELS = frozenset({"gpuledger_gpu_ecc_errors_total", "gpuledger_pod_container_restarts_total"})
"""Counters whose level is shown; `dashboards/.lint` says where and why."""

PALETTE = {"#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#707070", "#CC79A7"}

OF_ONE_THING = ("gpuledger-gpu-", "gpuledger-pod-")
"""Dashboards of one node and one pod: there a raw series may be followed over all the time shown."""

MOST_PANELS, MOST_QUERIES = 36, 80
"""That Grafana loads when a dashboard is opened; collapsed rows come beside when they are opened."""

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: f"{panel.board}-{panel.title}")
each_query = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.place)


def test_the_files_are_what_their_source_makes() -> None:
    command = [sys.executable, str(FOLDER / "src" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)


def test_the_addresses_are_those_that_alerts_name() -> None:
    assert UIDS == {dashboard.uid for dashboard in DASHBOARDS}
    assert {f"/d/{uid}" for uid in UIDS} == {alert.annotations["dashboard"] for alert in ALERTS}


@each_dashboard
def test_a_dashboard_has_what_all_have(dashboard: Dashboard) -> None:
    document = dashboard.json
    wanted = {"id": None, "editable": False, "refresh": "1m", "schemaVersion": 42, "tags": ["gpuledger"]}
    assert wanted == {key: document.get(key) for key in wanted}
    assert document["description"]
    assert document["title"].startswith("GPU / ")
    [others] = document["links"]
    carried = {"type": "dashboards", "tags": ["gpuledger"], "includeVars": True, "keepTime": True}
    assert carried.items() <= others.items()
    assert ["datasource", "cluster"] == list(dashboard.variables)[:2]


@each_dashboard
def test_each_panel_has_a_number_and_a_place_of_its_own(dashboard: Dashboard) -> None:
    panels = dashboard.json["panels"]
    numbers = [panel["id"] for panel in panels]
    assert sorted(set(numbers)) == sorted(numbers)
    assert 0 not in numbers
    places = sorted((p["gridPos"]["y"], p["gridPos"]["x"], p["gridPos"]["w"]) for p in panels)
    for (y, x, width), (next_y, next_x, _) in pairwise(places):
        assert next_y > y or next_x >= x + width
    assert all(x + width <= 24 for _, x, width in places)


@each_dashboard
def test_each_panel_has_a_title_of_its_own(dashboard: Dashboard) -> None:
    titles = [panel.title for panel in dashboard.panels]

    assert sorted(set(titles)) == sorted(titles)


@each_dashboard
def test_a_dashboard_stays_small(dashboard: Dashboard) -> None:
    opened = [panel for panel in dashboard.json["panels"] if panel["type"] != "row"]
    assert len(opened) <= MOST_PANELS
    assert sum(len(panel["targets"]) for panel in opened) <= MOST_QUERIES


@each_panel
def test_what_is_absent_is_not_shown_as_zero(panel: Panel) -> None:
    assert "n/a" == panel.defaults["noValue"]


@each_panel
def test_colours_are_of_the_palette_that_everybody_can_tell_apart(panel: Panel) -> None:
    assert set(re.findall(r"#[0-9A-Fa-f]{6}\b", str(panel.json))) <= PALETTE
    named = [step["color"] for steps in panel.properties("thresholds") for step in steps["steps"]]
    assert set(named) <= PALETTE


@each_panel
def test_links_lead_to_dashboards_and_fill_variables_from_columns(panel: Panel) -> None:
    shown = set().union(*(Linter(known()).labels(fill(query.expr)) for query in panel.queries))
    boards = {each.uid: each for each in DASHBOARDS}
    for url in panel.links:
        target = boards[urlsplit(url).path.removeprefix("/d/")]
        assert {"${datasource:queryparam}", "${cluster:queryparam}", "${__url_time_range}"} <= set(
            urlsplit(url).query.split("&")
        )
        for variable, value in parse_qsl(urlsplit(url).query):
            field = value.removeprefix("${__data.fields.").removesuffix("}")
            assert variable.removeprefix("var-") in target.variables
            assert field in shown, (panel.title, field)


@each_panel
def test_a_table_names_the_labels_that_its_queries_have(panel: Panel) -> None:
    if panel.kind == "table":
        labels = set().union(*(Linter(known()).labels(fill(query.expr)) for query in panel.queries))
        overrides = {override["matcher"]["options"] for override in panel.json["fieldConfig"]["overrides"]}
        assert labels - TARGET <= overrides
        assert {name for name in overrides if not name.startswith("Value")} <= labels


@each_query
def test_a_query_uses_series_and_labels_that_exist(query: Query) -> None:
    faults = Linter(known(), LEVELS).faults(fill(query.expr))

    allowed = ("cluster is dropped", "process_cpu_seconds_total is no counter")
    assert [] == [fault for fault in faults if not fault.startswith(allowed)]


@each_query
def test_series_are_joined_within_a_cluster(query: Query) -> None:
    joins = re.findall(r"\bon \(([^)]*)\)", query.expr)
    of_sums = {"namespace", "namespace, workload_kind, workload"}

    assert all("cluster" in on.split(", ") for on in joins if on not in of_sums)


@each_query
def test_a_query_reads_no_more_than_it_must(query: Query) -> None:
    assert not re.search(r"\[\$__range\]", query.expr) or query.place.startswith(OF_ONE_THING)
    for found in selected(query.expr):
        assert found.range is None or found.range <= 3600 or query.instant


def test_every_metric_is_on_some_dashboard() -> None:
    """But for what is the rest of others that are."""
    recorded = {rule.name: rule.expr for rule in RECORDINGS}
    queries = [query.expr for query in QUERIES]
    shown = {found.metric for query in queries for found in selected(query)}
    for name in shown & recorded.keys():
        shown |= {found.metric for found in selected(recorded[name])}
    rest = {
        *("gpuledger_gpu_memory_free_bytes", "gpuledger_mig_memory_free_bytes"),
        "gpuledger_mig_memory_reserved_bytes",
    }

    assert rest == {spec.full_name for spec in catalog.SPECS} - shown


def known() -> Mapping[str, frozenset[str]]:
    """Every series that a query may use."""
    return {**series(), **OF_PROMETHEUS}


def _every_text(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _every_text(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _every_text(inner)
    elif isinstance(value, str):
        yield value


@each_dashboard
def test_every_variable_that_is_used_is_there(dashboard: Dashboard) -> None:
    used = {
        name
        for text in _every_text(dashboard.json)
        for name in re.findall(r"\$\{?(\w+)", text)
        if not name.startswith("__")
    }

    assert used <= set(dashboard.variables)
