"""What the API tells of nodes, pods, quotas and claims, as rows of the catalogue's metrics; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from gpuledger.core.accounting import Quantities
from gpuledger.core.inventory import NodeStock, Pool, PoolSlice
from gpuledger.core.model import Pod, Workload
from gpuledger.core.spec import MetricSpec
from gpuledger.metrics import catalog
from gpuledger.metrics.catalog.inventory import NODE_STOCK
from gpuledger.metrics.catalog.pods import POD_FACTS
from gpuledger.metrics.exposition import Row, render_series
from gpuledger.metrics.objectcache import Column
from gpuledger.metrics.render import Rows, add, add_pod_facts

NODE_SPECS = NODE_STOCK
POD_SPECS = (
    *POD_FACTS,
    catalog.BY_NAME["pod_requested"],
    catalog.BY_NAME["pod_pending_since_timestamp_seconds"],
)
QUOTA_SPECS = tuple(catalog.BY_NAME[name] for name in ("quota_hard", "quota_used"))
POOL_SPECS = tuple(catalog.BY_NAME[name] for name in ("dra_pool_devices", "dra_pool_allocated"))
CLAIM_SPECS = tuple(catalog.BY_NAME[name] for name in ("claim_devices", "claim_unresolved"))
WARNING_SPECS = tuple(
    catalog.BY_NAME[name] for name in ("pod_warning_events", "pod_warning_last_timestamp_seconds")
)

CARDS_LABEL = "nvidia.com/gpu.count"
"""A label by GPU feature discovery, as those of the next lines are; without it they are empty."""
PRODUCT_LABEL = "nvidia.com/gpu.product"
_SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"
_MIG_LABEL = "nvidia.com/mig.strategy"


def node_rows(
    node: str, labels: Mapping[str, str], stock: NodeStock, *, ready: bool, schedulable: bool
) -> Rows:
    """A node with GPUs: what it is, what it offers, and what is left."""
    rows: Rows = {}
    product, cards = labels.get(PRODUCT_LABEL, ""), labels.get(CARDS_LABEL, "")
    sharing, mig = labels.get(_SHARING_LABEL, ""), labels.get(_MIG_LABEL, "")
    state = (str(ready).lower(), str(schedulable).lower())
    add(rows, "node_info", (node, product, sharing, mig, cards, *state), 1)
    add(rows, "node_cards", (node, product), int(cards) if cards.isdecimal() else None)
    for resource in stock.resources():
        series = (node, resource.resource)
        add(rows, "node_resource_capacity", series, resource.capacity)
        add(rows, "node_resource_allocatable", series, resource.allocatable)
        add(rows, "node_resource_requested", series, resource.requested)
        add(rows, "node_resource_free", series, resource.free)
        add(rows, "node_resource_placeable", series, stock.placeable(resource))
    return rows


def pod_rows(pod: Pod, requests: Quantities, waiting: str | None) -> Rows:
    """A pod that asks for a GPU: its facts, what it asks for, and why it waits where it does."""
    rows: Rows = {}
    add_pod_facts(rows, pod.node, pod)
    for resource, quantity in requests.items():
        if resource != "pods" and not pod.terminal:
            add(rows, "pod_requested", (pod.node, pod.namespace, pod.name, resource), quantity)
    if waiting is not None:
        workload = (pod.workload.kind, pod.workload.name)
        labels = (pod.namespace, pod.name, *workload, waiting)
        add(rows, "pod_pending_since_timestamp_seconds", labels, pod.created_at)
    return rows


def pool_rows(pool: Pool, parts: Iterable[PoolSlice], allocated: int) -> Rows:
    """A pool of devices: how many there are on each node, and how many are held."""
    devices: dict[str, set[str]] = {}
    for part in parts:
        devices.setdefault(part.node, set()).update(part.devices)
    offered: list[Row] = [((node, *pool), float(len(names))) for node, names in devices.items()]
    return {"dra_pool_devices": offered, "dra_pool_allocated": [(pool, float(allocated))]}


def claim_rows(namespace: str, claim: str, gpus: Mapping[str, int], state: str, *, unresolved: bool) -> Rows:
    """The GPUs of a claim by device class; `state` is `allocated` or `waiting`."""
    rows: Rows = {}
    for name, count in gpus.items():
        add(rows, "claim_devices", (namespace, claim, name, state), count)
    add(rows, "claim_unresolved", (namespace, claim), 1 if unresolved else None)
    return rows


def quota_rows(amounts: Iterable[tuple[str, str, str, Decimal, Decimal | None]]) -> Rows:
    """Quotas on GPUs: namespace, quota, resource, hard and used, which is None where nobody has counted yet."""
    rows: Rows = {}
    for namespace, quota, resource, hard, used in amounts:
        add(rows, "quota_hard", (namespace, quota, resource), hard)
        add(rows, "quota_used", (namespace, quota, resource), used)
    return rows


def warning_rows(namespace: str, pod: str, warnings: Iterable[tuple[str, int, float]]) -> Rows:
    """Warnings about a pod: reason, how often, and when last."""
    rows: Rows = {}
    for reason, count, last in warnings:
        add(rows, "pod_warning_events", (namespace, pod, reason), count)
        add(rows, "pod_warning_last_timestamp_seconds", (namespace, pod, reason), last or None)
    return rows


def finding_row(namespace: str, pod: str, workload: Workload, container: str, check: str, severity: str) -> Row:
    """A finding."""
    return ((namespace, pod, container, workload.kind, workload.name, check, severity), 1.0)


def render_column(spec: MetricSpec, rows: Iterable[Row]) -> Column:
    """A family that is written anew at each scrape."""
    return spec, [render_series(spec, rows).encode()]
