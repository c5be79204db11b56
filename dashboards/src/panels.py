"""The kinds of panels that dashboards are made of; what is absent shows as "n/a", never as 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as viz
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from links import Link
from palette import PLAIN, State, Steps
from promql import expand

DATASOURCE = viz.DataSourceRef(type_val="prometheus", uid="${datasource}")
ABSENT = "n/a"
FINEST_STEP = "1m"
"""Of what is drawn over time: finer steps cost more than they show."""

DASHED = {
    "custom.lineStyle": {"fill": "dash", "dash": [6, 6]},
    "custom.fillOpacity": 0,
    "custom.stacking": {"mode": "none"},
}

Panel = stat.Panel | timeseries.Panel | table.Panel | statetimeline.Panel | bargauge.Panel
AnyPanel = TypeVar("AnyPanel", stat.Panel, timeseries.Panel, table.Panel, statetimeline.Panel, bargauge.Panel)


@dataclass(frozen=True, slots=True)
class Line:
    """A query drawn over time; `legend` names its series. A limit is drawn dashed and never stacked."""

    query: str
    legend: str
    limit: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A query whose values fill a column of a table; without a heading only its labels are shown."""

    heading: str
    query: str
    unit: str = "short"
    steps: Steps = ()
    states: Mapping[str, State] = field(default_factory=dict)
    bar: bool = False
    """Drawn as a bar, from 0 to 1."""


def number(  # noqa: PLR0913 - what such a panel has
    title: str,
    text: str,
    query: str,
    unit: str = "short",
    *,
    steps: Steps = PLAIN,
    legend: str = "",
    states: Mapping[str, State] | None = None,
    colors: Mapping[str, str] | None = None,
    width: int = 3,
) -> stat.Panel:
    """One number now, or with a legend one for each series."""
    panel = _panel(stat.Panel(), title, text, width, 4).unit(unit).with_target(_now("A", query, legend))
    if states:
        panel.mappings([_mapping(states)])
    for name, color in (colors or {}).items():
        panel.override_by_name(name, _fixed(color))
    return (
        panel.thresholds(_thresholds(steps))
        .graph_mode(viz.BigValueGraphMode.NONE)
        .color_mode(viz.BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def word(title: str, text: str, query: str, label: str, width: int = 3) -> stat.Panel:
    """What a label says now, where its series is there."""
    panel = number(title, text, query, legend=label, width=width)
    return panel.text_mode(viz.BigValueTextMode.NAME)


def graph(
    title: str,
    text: str,
    *lines: Line,
    unit: str = "short",
    stack: bool = False,
    highest: float | None = None,
    colors: Mapping[str, str] | None = None,
    width: int = 12,
) -> timeseries.Panel:
    """Lines over time; `colors` are those of series that are known by name."""
    panel = _panel(timeseries.Panel(), title, text, width, 8).unit(unit).min(0).interval(FINEST_STEP)
    for ref, line in zip(ascii_uppercase, lines, strict=False):
        query = prometheus.Dataquery().ref_id(ref).expr(expand(line.query)).legend_format(line.legend)
        panel.with_target(query.range())
        if line.limit:
            panel.override_by_query(ref, _properties(DASHED))
    for name, color in (colors or {}).items():
        panel.override_by_name(name, _fixed(color))
    if highest is not None:
        panel.max(highest)
    if stack:
        panel.stacking(common.StackingConfig().mode(viz.StackingMode.NORMAL))
    legend = common.VizLegendOptions().show_legend(show_legend=True).display_mode(viz.LegendDisplayMode.TABLE)
    return (
        panel.fill_opacity(40 if stack else 8)
        .line_width(1)
        .show_points(viz.VisibilityMode.NEVER)
        .legend(legend.placement(viz.LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"]))
        .tooltip(common.VizTooltipOptions().mode(viz.TooltipDisplayMode.MULTI).sort(viz.SortOrder.DESCENDING))
    )


def rows(
    title: str,
    text: str,
    labels: Mapping[str, str],
    *columns: Column,
    links: Mapping[str, Sequence[Link]] | None = None,
    sort: str = "",
    width: int = 24,
) -> table.Panel:
    """A table: `labels` to their headings (those without one are hidden), then the columns.

    `links` are those of a label's cells. Sorted by the column with the heading `sort`, largest first.
    """
    panel = _panel(table.Panel(), title, text, width, 9).unit("short").filterable(filterable=True)
    for ref, column in zip(ascii_uppercase, columns, strict=False):
        panel.with_target(_now(ref, column.query).format(PromQueryFormat.TABLE))
        value = f"Value #{ref}" if len(columns) > 1 else "Value"
        panel.override_by_name(value, _properties(_column(column)))
    for label, heading in labels.items():
        properties: dict[str, Any] = {"displayName": heading} if heading else {"custom.hidden": True}
        if links and label in links:
            properties["links"] = [{"title": link.title, "url": link.url} for link in links[label]]
        panel.override_by_name(label, _properties(properties))
    order = {name: index for index, name in enumerate(labels)}
    if len(columns) > 1:
        panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    organize = {"excludeByName": {"Time": True}, "indexByName": order}
    panel.with_transformation(model.DataTransformerConfig(id_val="organize", options=organize))
    if sort:
        panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(desc=True)])
    return panel.thresholds(_thresholds(PLAIN))


def timeline(
    title: str,
    text: str,
    query: str,
    legend: str,
    states: Mapping[str, State],
    width: int = 24,
) -> statetimeline.Panel:
    """Which state each series was in, over time."""
    panel = _panel(statetimeline.Panel(), title, text, width, 7).interval(FINEST_STEP)
    target = prometheus.Dataquery().ref_id("A").expr(expand(query)).legend_format(legend).range()
    return (
        panel.with_target(target)
        .mappings([_mapping(states)])
        .merge_values(merge_values=True)
        .show_value(viz.VisibilityMode.AUTO)
        .line_width(0)
        .fill_opacity(85)
        .per_page(20)
        .legend(common.VizLegendOptions().show_legend(show_legend=False))
    )


def bars(
    title: str,
    text: str,
    query: str,
    legend: str,
    unit: str = "short",
    *,
    steps: Steps = PLAIN,
    width: int = 12,
) -> bargauge.Panel:
    """Bars side by side, one for each series now; for a query that bounds how many."""
    panel = _panel(bargauge.Panel(), title, text, width, 8).unit(unit).min(0)
    return (
        panel.with_target(_now("A", query, legend))
        .thresholds(_thresholds(steps))
        .orientation(viz.VizOrientation.HORIZONTAL)
        .display_mode(viz.BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def _panel(panel: AnyPanel, title: str, text: str, width: int, height: int) -> AnyPanel:
    panel.title(title).description(text).datasource(DATASOURCE).no_value(ABSENT)
    return panel.span(width).height(height)


def _now(ref: str, query: str, legend: str = "__auto") -> prometheus.Dataquery:
    return prometheus.Dataquery().ref_id(ref).expr(expand(query)).legend_format(legend).instant()


def _column(column: Column) -> dict[str, Any]:
    if not column.heading:
        return {"custom.hidden": True}
    properties: dict[str, Any] = {"displayName": column.heading, "unit": column.unit}
    if column.steps:
        thresholds = [{"value": value, "color": color} for value, color in column.steps]
        properties["thresholds"] = {"mode": "absolute", "steps": thresholds}
        properties["custom.cellOptions"] = {"type": "color-text"}
    if column.states:
        properties["mappings"] = [_mapping(column.states).to_json()]
        properties["custom.cellOptions"] = {"type": "color-text"}
    if column.bar:
        properties |= {"min": 0, "max": 1, "custom.cellOptions": {"type": "gauge", "mode": "basic"}}
    return properties


def _mapping(states: Mapping[str, State]) -> model.ValueMap:
    results = {
        value: model.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(states.items())
    }
    return model.ValueMap(options=results)


def _thresholds(steps: Steps) -> build.ThresholdsConfig:
    found = [model.Threshold(value=value, color=color) for value, color in steps]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(found)


def _fixed(color: str) -> list[model.DynamicConfigValue]:
    return _properties({"color": {"mode": "fixed", "fixedColor": color}})


def _properties(values: Mapping[str, object]) -> list[model.DynamicConfigValue]:
    return [model.DynamicConfigValue(id_val=name, value=value) for name, value in values.items()]
