"""What all dashboards have in common: variables, links to each other, rows, and how they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from links import Name, uid
from panels import DATASOURCE, Panel
from promql import SCOPES

TAG = "gpuledger"
WITH_PODS = "gpuledger_(container_processes|pod_info|quota_hard)"
"""Series of every namespace that has to do with GPUs; without the API only the first is there."""


def row(title: str, *panels: Panel, collapsed: bool = False) -> build.Row:
    """Panels under a heading; collapsed ones ask nothing until they are opened."""
    heading = build.Row(title)
    for panel in panels:
        heading.with_panel(panel)
    return heading.collapsed(collapsed)  # last, since adding a panel sets it


def choice(name: str, label: str, query: str, *, several: bool = True, regex: str = "") -> build.QueryVariable:
    """A variable whose values a query gives; one of `several` may be all, also those without the label."""
    variable = (
        build.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .definition(query)
        .regex(regex)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.NATURAL_ASC)
        .multi(several)
        .include_all(several)
    )
    if several:
        everything = model.VariableOption(selected=True, text="All", value="$__all")
        variable.all_value(".*").current(everything)
    return variable


CLUSTER = choice("cluster", "Cluster", "label_values(gpuledger_build_info, cluster)")
_NODE_QUERY = f'label_values(gpuledger_source_up{{{SCOPES["CLUSTER"]}, source="nvml"}}, node)'
NODES = choice("node", "Node", _NODE_QUERY)
NODE = choice("node", "Node", _NODE_QUERY, several=False)
GPUS = choice(
    "gpu",
    "GPU",
    "query_result(label_join(max by (node, gpu, gpu_uuid, model) "
    f'(gpuledger_gpu_info{{{SCOPES["NODE"]}}}), "title", " ", "gpu", "model"))',
    regex='/gpu_uuid="(?<value>[^"]+)".*title="(?<text>[^"]+)"/',
)
_NAMESPACE_QUERY = f'label_values({{__name__=~"{WITH_PODS}", {SCOPES["CLUSTER"]}}}, namespace)'
NAMESPACES = choice("namespace", "Namespace", _NAMESPACE_QUERY)
NAMESPACE = choice("namespace", "Namespace", _NAMESPACE_QUERY, several=False)
WORKLOADS = choice(
    "workload", "Workload", f'label_values({{__name__=~"{WITH_PODS}", {SCOPES["NAMESPACE"]}}}, workload)'
)
POD = choice(
    "pod",
    "Pod",
    f'label_values({{__name__=~"{WITH_PODS}", {SCOPES["WORKLOAD"]}}}, pod)',
    several=False,
)
FOUND_IN = choice(
    "namespace",
    "Namespace",
    f"label_values(gpuledger_audit_workload_pods_affected{{{SCOPES['CLUSTER']}}}, namespace)",
)
SEVERITIES = choice(
    "severity",
    "Severity",
    f"label_values(gpuledger_audit_workload_pods_affected{{{SCOPES['NAMESPACE']}}}, severity)",
)


def board(
    name: Name,
    title: str,
    text: str,
    variables: Sequence[build.QueryVariable],
    rows: Sequence[build.Row],
    since: str = "now-6h",
) -> model.Dashboard:
    """A whole dashboard; `since` is where its time begins."""
    source = build.DatasourceVariable("datasource").label("Data source").type("prometheus")
    others = (
        build.DashboardLink("GPU dashboards")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(as_dropdown=True)
        .include_vars(include_vars=True)
        .keep_time(keep_time=True)
        .placement("")
    )
    builder = build.Dashboard(f"GPU / {title}").uid(uid(name)).description(text).tags([TAG]).link(others)
    builder.time(since, "now").refresh("1m").timezone("browser").readonly()
    builder.tooltip(model.DashboardCursorSync.CROSSHAIR).variables([source, CLUSTER, *variables])
    for heading in rows:
        builder.with_row(heading)
    return _opened(builder.build())


def _opened(dashboard: model.Dashboard) -> model.Dashboard:
    """The dashboard as Grafana stores it: panels of open rows stand beside their row, and all have numbers."""
    numbers = count(1)
    panels: list[model.Panel | model.RowPanel] = []
    for panel in dashboard.panels or []:
        assert isinstance(panel, model.RowPanel)  # noqa: S101 - board() adds nothing else
        panel.id_val = next(numbers)
        for inner in panel.panels:
            inner.id_val = next(numbers)
        panels.append(panel)
        if not panel.collapsed:
            panels += panel.panels
            panel.panels = []
    dashboard.panels = panels
    return dashboard
