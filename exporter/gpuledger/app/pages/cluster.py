"""The cluster's page: what is free, who waits, what is left of quotas, and who breaks which rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from gpuledger.app.cluster.auditbook import Key
from gpuledger.app.cluster.books import Overview
from gpuledger.app.cluster.devicebook import PoolStock
from gpuledger.app.cluster.podintake import Queued
from gpuledger.app.pages.amounts import UNKNOWN, age, count
from gpuledger.app.pages.markup import (
    Cell,
    Html,
    Row,
    badge,
    bar,
    document,
    number,
    section,
    sources_section,
    text,
)
from gpuledger.audit.check import Severity
from gpuledger.audit.inventory import QuotaInventory
from gpuledger.core.inventory import NodeStock
from gpuledger.core.model import NOTHING
from gpuledger.core.snapshot import SourceHealth
from gpuledger.metrics.render_cluster import PRODUCT_LABEL
from gpuledger.parse.manifests import Node

ROWS_SHOWN = 200
"""Of each table; the rest is for Prometheus."""

_NOT_DEVICES = ("cpu", "memory", "pods")


def render_cluster_page(overview: Overview | None, sources: Iterable[SourceHealth], now: float) -> Html:
    """The page; without an overview it shows how the sources are doing, and why."""
    sections = [sources_section(sources)]
    if overview is not None:
        sections = [
            _nodes(overview.stocks),
            _pools(overview.pools),
            _queued(overview.queued, now),
            _quotas(overview.quotas),
            _findings(overview.affected),
            *sections,
        ]
    note = "what the API tells" if overview is not None else "not all pods and nodes are known yet"
    return document("cluster", "GPUs of the cluster", note, sections, ("metrics", "healthz", "readyz"))


def _nodes(stocks: Iterable[tuple[Node, NodeStock]]) -> Html:
    rows = [
        Row(
            [
                node.metadata.name,
                (node.metadata.labels or NOTHING).get(PRODUCT_LABEL, UNKNOWN),
                "open" if stock.open else text("closed", "bad"),
                resource.resource,
                _share(resource.requested, resource.allocatable),
                number(
                    None if resource.free is None else float(resource.free),
                    count(resource.free),
                    "bad" if resource.free is not None and resource.free < 0 else "",
                ),
                _amount(resource.allocatable),
                _amount(resource.capacity),
            ]
        )
        for node, stock in sorted(stocks, key=lambda each: each[0].metadata.name)
        for resource in stock.resources()
        if resource.resource not in _NOT_DEVICES
    ]
    head = (
        "Node",
        "~Model",
        "~Pods may come",
        "Resource",
        "#Requested",
        "#Free",
        "#~Allocatable",
        "#~Capacity",
    )
    return _bounded("Nodes", head, rows, "No node offers GPUs.")


def _pools(pools: Iterable[PoolStock]) -> Html:
    rows = [
        Row(
            [
                ", ".join(each.nodes) or UNKNOWN,
                each.driver,
                each.pool,
                _share(Decimal(each.allocated), Decimal(each.devices)),
                number(each.devices - each.allocated, count(each.devices - each.allocated)),
                number(each.devices, count(each.devices)),
            ]
        )
        for each in pools
    ]
    head = ("Node", "Driver", "~Pool", "#Claimed", "#Free", "#~Devices")
    return _bounded("Devices by claim", head, rows, "No driver offers devices by claim.")


def _queued(queued: Iterable[Queued], now: float) -> Html:
    rows = [
        Row(
            [
                pod.namespace,
                pod.pod,
                pod.reason,
                number(
                    None if pod.since is None else now - pod.since,
                    age(None if pod.since is None else now - pod.since),
                ),
            ]
        )
        for pod in sorted(queued, key=lambda pod: pod.since or now)
    ]
    return _bounded(
        "Waiting for GPUs", ("Namespace", "Pod", "Reason", "#Since"), rows, "No pod waits for a GPU."
    )


def _quotas(quotas: Iterable[QuotaInventory]) -> Html:
    rows = [
        Row([each.namespace, each.quota, each.resource, _share(each.used, each.hard), _amount(each.hard)])
        for each in quotas
    ]
    return _bounded(
        "Quotas", ("Namespace", "~Quota", "Resource", "#Used", "#Hard"), rows, "There is no quota on GPUs."
    )


def _findings(affected: Mapping[Key, int]) -> Html:
    worst_first = sorted(affected.items(), key=lambda each: (-_rank(each[0][-1]), -each[1], each[0]))
    rows = [
        Row(
            [
                Cell(badge(severity, severity), float(_rank(severity))),
                check,
                namespace,
                f"{kind}/{workload}",
                number(pods, count(pods)),
            ]
        )
        for (namespace, kind, workload, check, severity), pods in worst_first
    ]
    head = ("Severity", "Rule", "Namespace", "Workload", "#Pods")
    of = Counter(severity for *_, severity in affected)
    totals = ", ".join(f"{of[name]} {name}" for name in map(str, reversed(Severity)) if of[name])
    return _bounded("Broken rules", head, rows, "No rule is broken.", totals)


def _rank(severity: str) -> int:
    return Severity[severity.upper()]


def _bounded(title: str, head: Sequence[str], rows: Sequence[Row], empty: str, note: str = "") -> Html:
    cut = f"the first {ROWS_SHOWN} of {len(rows):,}" if len(rows) > ROWS_SHOWN else ""
    return section(title, head, rows[:ROWS_SHOWN], empty, "; ".join(filter(None, (note, cut))))


def _amount(amount: Decimal | None) -> Cell:
    return number(None if amount is None else float(amount), count(amount))


def _share(part: Decimal | None, whole: Decimal | None) -> Cell:
    if part is None or not whole:
        return _amount(part)
    return bar(float(part / whole), count(part))
