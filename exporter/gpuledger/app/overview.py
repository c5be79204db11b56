"""The page at `/` of the cluster role: what is free, who waits, and who breaks which rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from gpuledger.app.auditbook import Key
from gpuledger.app.clusterbooks import Overview
from gpuledger.app.page import UNKNOWN, Cell, render_document, render_sources_table, render_table
from gpuledger.app.podintake import Queued
from gpuledger.audit.check import Severity
from gpuledger.core.inventory import NodeStock
from gpuledger.core.model import NOTHING
from gpuledger.core.snapshot import SourceHealth
from gpuledger.metrics.render_cluster import PRODUCT_LABEL
from gpuledger.parse.manifests import Node

ROWS_SHOWN = 200
"""Of each table; the rest is for Prometheus."""

_NOT_DEVICES = ("cpu", "memory", "pods")


def render_overview(overview: Overview | None, sources: Iterable[SourceHealth], now: float) -> str:
    """The page; without an overview it shows how the sources are doing, and why."""
    sections = [render_sources_table(sources)]
    if overview is not None:
        sections = [
            _nodes(overview.stocks),
            _queued(overview.queued, now),
            _findings(overview.affected),
            *sections,
        ]
    note = "what the API tells" if overview is not None else "not all pods and nodes are known yet"
    return render_document("cluster", "GPUs of the cluster", note, sections)


def _nodes(stocks: Iterable[tuple[Node, NodeStock]]) -> str:
    rows: list[list[Cell]] = [
        [
            node.metadata.name,
            (node.metadata.labels or NOTHING).get(PRODUCT_LABEL, UNKNOWN),
            "open" if stock.open else ("closed", "bad"),
            resource.resource,
            (_number(resource.free), "n bad" if resource.free is not None and resource.free < 0 else "n"),
            (_number(resource.allocatable), "n"),
            (_number(resource.capacity), "n"),
        ]
        for node, stock in sorted(stocks, key=lambda each: each[0].metadata.name)
        for resource in stock.resources()
        if resource.resource not in _NOT_DEVICES
    ]
    head = ("Node", "Model", "Pods may come", "Resource", "#Free", "#Allocatable", "#Capacity")
    return render_table(_title("Nodes", rows), head, rows[:ROWS_SHOWN], "No node offers GPUs.")


def _queued(queued: Iterable[Queued], now: float) -> str:
    rows: list[list[Cell]] = [
        [
            pod.namespace,
            pod.pod,
            pod.reason,
            (UNKNOWN if pod.since is None else f"{(now - pod.since) / 60:,.0f} min", "n"),
        ]
        for pod in sorted(queued, key=lambda pod: pod.since or now)
    ]
    head = ("Namespace", "Pod", "Reason", "#Since")
    return render_table(_title("Waiting for GPUs", rows), head, rows[:ROWS_SHOWN], "No pod waits for a GPU.")


def _findings(affected: Mapping[Key, int]) -> str:
    worst_first = sorted(affected.items(), key=lambda each: (-Severity[each[0][-1].upper()], -each[1], each[0]))
    rows: list[list[Cell]] = [
        [severity, check, namespace, f"{kind}/{workload}", (str(count), "n")]
        for (namespace, kind, workload, check, severity), count in worst_first
    ]
    head = ("Severity", "Rule", "Namespace", "Workload", "#Pods")
    return render_table(_title("Broken rules", rows), head, rows[:ROWS_SHOWN], "No rule is broken.")


def _title(text: str, rows: list[list[Cell]]) -> str:
    return text if len(rows) <= ROWS_SHOWN else f"{text}: {ROWS_SHOWN} of {len(rows):,}"


def _number(amount: Decimal | None) -> str:
    return UNKNOWN if amount is None else f"{amount.normalize():f}"
