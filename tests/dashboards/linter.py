"""What grafana/dashboard-linter 0.1.0 checks, said again: the program itself is in no package registry.

Each rule has the linter's name, and yields where a dashboard breaks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser as promql

from dashboards.reading import INTERVALS, Dashboard, Panel, Query, fill

WITH_DATA = {"stat", "graph", "table", "timeseries", "gauge", "bargauge", "state-timeline"}
"""Kinds of panels that must have data, a title and a description; the linter leaves out the last two."""

UNITS = {
    "short", "percentunit", "bytes", "watt", "celsius", "s", "kwatth", "hertz", "Bps", "cpm", "dateTimeFromNow",
}  # fmt: skip
"""Grafana's names of units, as far as they are used here."""

RATE_INTERVAL_S = promql.parse_duration(INTERVALS["$__rate_interval"]).total_seconds()
RATES = {"rate", "irate"}
OF_COUNTERS = {*RATES, "increase"}


@dataclass(frozen=True, slots=True)
class Complaint:
    """Where a rule is broken."""

    rule: str
    dashboard: str
    panel: str = ""
    ref: str = ""


def template_datasource(dashboard: Dashboard) -> bool:
    source = dashboard.variables.get("datasource", {})
    wanted = {"type": "datasource", "query": "prometheus", "label": "Data source"}
    return bool(wanted.items() <= source.items())


def _template(name: str) -> Callable[[Dashboard], bool]:
    def holds(dashboard: Dashboard) -> bool:
        variable = dashboard.variables.get(name, {})
        wanted = {"label": name.title(), "multi": True, "allValue": ".+"}
        return bool(wanted.items() <= variable.items())

    return holds


def template_label_promql(dashboard: Dashboard) -> bool:
    return all(_parses(inner(variable["query"])) for variable in _queried(dashboard))


def template_on_time_change_reload(dashboard: Dashboard) -> bool:
    return all(variable["refresh"] == 2 for variable in _queried(dashboard))


def uneditable_dashboard(dashboard: Dashboard) -> bool:
    return dashboard.json["editable"] is False


def panel_datasource(panel: Panel) -> bool:
    sources = [panel.json["datasource"], *(t.get("datasource") for t in panel.json["targets"])]
    return all(source is None or source["uid"] == "${datasource}" for source in sources)


def panel_title_description(panel: Panel) -> bool:
    return bool(panel.title and panel.json.get("description"))


def panel_units(panel: Panel) -> bool:
    mapped = any(panel.properties("mappings"))
    units = list(panel.properties("unit"))
    return mapped or (bool(units) and set(units) <= UNITS)


def panel_no_targets(panel: Panel) -> bool:
    return bool(panel.queries)


def target_promql(query: Query) -> bool:
    return _parses(query.expr)


def target_rate_interval(query: Query) -> bool:
    rates = (found.range for found in selected(query.expr) if found.called in RATES)
    return all(length == RATE_INTERVAL_S for length in rates)


def target_counter_agg(query: Query) -> bool:
    return all(s.called in OF_COUNTERS for s in selected(query.expr) if s.metric.endswith("_total"))


def _target_selects(label: str) -> Callable[[Query], bool]:
    return lambda query: f'{label}=~"${label}"' in query.expr


def _is_no_logql(query: Query) -> bool:
    return not re.search(r"\|[=~]|\| json", query.expr)


OF_DASHBOARD: dict[str, Callable[[Dashboard], bool]] = {
    "template-datasource-rule": template_datasource,
    "template-job-rule": _template("job"),
    "template-instance-rule": _template("instance"),
    "template-label-promql-rule": template_label_promql,
    "template-on-time-change-reload-rule": template_on_time_change_reload,
    "uneditable-dashboard-rule": uneditable_dashboard,
}
OF_PANEL: dict[str, Callable[[Panel], bool]] = {
    "panel-datasource-rule": panel_datasource,
    "panel-title-description-rule": panel_title_description,
    "panel-units-rule": panel_units,
    "panel-no-targets-rule": panel_no_targets,
}
OF_TARGET: dict[str, Callable[[Query], bool]] = {
    "target-promql-rule": target_promql,
    "target-logql-rule": _is_no_logql,
    "target-logql-auto-rule": _is_no_logql,
    "target-rate-interval-rule": target_rate_interval,
    "target-counter-agg-rule": target_counter_agg,
    "target-job-rule": _target_selects("job"),
    "target-instance-rule": _target_selects("instance"),
}


def lint(dashboard: Dashboard) -> Iterator[Complaint]:
    """Everything that the linter would say of a dashboard."""
    title = dashboard.json["title"]
    yield from (Complaint(rule, title) for rule, holds in OF_DASHBOARD.items() if not holds(dashboard))
    for panel in dashboard.panels:
        if panel.kind in WITH_DATA:
            broken = (rule for rule, holds in OF_PANEL.items() if not holds(panel))
            yield from (Complaint(rule, title, panel.title) for rule in broken)
        for query in panel.queries:
            broken = (rule for rule, holds in OF_TARGET.items() if not holds(query))
            yield from (Complaint(rule, title, panel.title, query.ref) for rule in broken)


def inner(query: str) -> str:
    """The PromQL in a variable's query."""
    found = re.fullmatch(r"label_values\((?:(.*), )?\w+\)|query_result\((.*)\)", query)
    assert found, query
    return found[1] or found[2]


def _queried(dashboard: Dashboard) -> Iterator[Any]:
    return (variable for variable in dashboard.variables.values() if variable["type"] == "query")


def _parses(text: str) -> bool:
    try:
        promql.parse(fill(text))
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Selected:
    """A selector in a query: its metric, the function called on it, and how far it looks back, in seconds."""

    metric: str
    called: str
    range: float | None = None


def selected(text: str) -> Iterator[Selected]:
    """Every selector of a query; none of one that does not parse."""
    if _parses(text):
        yield from _selected(promql.parse(fill(text)), "")


def _selected(node: Any, called: str) -> Iterator[Selected]:
    if isinstance(node, promql.VectorSelector):
        yield Selected(node.name or "", called)
    elif isinstance(node, promql.MatrixSelector):
        yield Selected(node.vector_selector.name or "", called, node.range.total_seconds())
    elif isinstance(node, promql.Call):
        for argument in node.args:
            yield from _selected(argument, node.func.name)
    elif isinstance(node, promql.BinaryExpr):
        yield from _selected(node.lhs, "")
        yield from _selected(node.rhs, "")
    elif not isinstance(node, promql.NumberLiteral | promql.StringLiteral):
        yield from _selected(node.expr, called if isinstance(node, promql.SubqueryExpr) else "")
