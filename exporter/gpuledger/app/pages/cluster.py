"""The cluster's page: what is free, who waits, what is left of quotas, and who breaks which rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
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

_JUDGED_BY = ("pods", "nodes", "namespaces", "deviceclasses", "resourceclaims", "resourceslices", "policy")
"""The sources on which findings rest."""

_NOT_DEVICES = ("cpu", "memory", "pods")


def render_cluster_page(overview: Overview | None, sources: Iterable[SourceHealth], now: float) -> Html:
    """The page; without an overview it shows how the sources are doing, and why."""
    sources = tuple(sources)
    sections = [sources_section(sources)]

    def doubt(names: Container[str]) -> str:
        return _doubt([each for each in sources if each.name in names and not each.up], now)

    if overview is not None:
        sections = [
            _nodes(overview.stocks, doubt(("pods", "nodes"))),
            _pools(overview.pools, doubt(("resourceslices", "resourceclaims"))),
            _queued(overview.queued, now, doubt(("pods",))),
            _quotas(overview.quotas, doubt(("resourcequotas", "deviceclasses"))),
            _findings(overview.affected, doubt(_JUDGED_BY)),
            *sections,
        ]
    note = "what the API tells" if overview is not None else "not all pods and nodes are known yet"
    return document("cluster", "GPUs of the cluster", note, sections, ("metrics", "healthz", "readyz"))


def _doubt(down: Sequence[SourceHealth], now: float) -> str:
    """Of when figures are that rest on sources that are down; empty where none is."""
    names = ", ".join(each.name for each in down)
    answered = [each.last_success for each in down if each.last_success is not None]
    if len(answered) < len(down):
        return f"not complete: {names} down"
    return f"as of {age(now - min(answered))} ago: {names} down" if down else ""


def _nodes(stocks: Iterable[tuple[Node, NodeStock]], doubt: str) -> Html:
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
    return _bounded("Nodes", head, rows, "No node offers GPUs.", doubt)


def _pools(pools: Iterable[PoolStock], doubt: str) -> Html:
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
    return _bounded("Devices by claim", head, rows, "No driver offers devices by claim.", doubt)


def _queued(queued: Iterable[Queued], now: float, doubt: str) -> Html:
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
    head = ("Namespace", "Pod", "Reason", "#Since")
    return _bounded("Waiting for GPUs", head, rows, "No pod waits for a GPU.", doubt)


def _quotas(quotas: Iterable[QuotaInventory], doubt: str) -> Html:
    rows = [
        Row([each.namespace, each.quota, each.resource, _share(each.used, each.hard), _amount(each.hard)])
        for each in quotas
    ]
    head = ("Namespace", "~Quota", "Resource", "#Used", "#Hard")
    return _bounded("Quotas", head, rows, "There is no quota on GPUs.", doubt)


def _findings(affected: Mapping[Key, int], doubt: str) -> Html:
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
    return _bounded("Broken rules", head, rows, "No rule is broken.", doubt, totals)


def _rank(severity: str) -> int:
    return Severity[severity.upper()]


def _bounded(
    title: str, head: Sequence[str], rows: Sequence[Row], empty: str, doubt: str, note: str = ""
) -> Html:
    """A section of not too many rows; in `doubt`, having none means nothing."""
    cut = f"the first {ROWS_SHOWN} of {len(rows):,}" if len(rows) > ROWS_SHOWN else ""
    return section(
        title,
        head,
        rows[:ROWS_SHOWN],
        "None is known." if doubt else empty,
        "; ".join(filter(None, (doubt, note, cut))),
    )


def _amount(amount: Decimal | None) -> Cell:
    return number(None if amount is None else float(amount), count(amount))


def _share(part: Decimal | None, whole: Decimal | None) -> Cell:
    if part is None or not whole:
        return _amount(part)
    return bar(float(part / whole), count(part))
