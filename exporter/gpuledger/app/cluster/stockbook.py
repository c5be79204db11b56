"""Nodes with GPUs, and what pods have booked of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuledger.core.inventory import Booking, Bookings, NodeStock
from gpuledger.core.model import NOTHING
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.core.sharding import Shard
from gpuledger.metrics.objectcache import Column, ObjectCache
from gpuledger.metrics.render import Rows
from gpuledger.metrics.render_cluster import CARDS_LABEL, NODE_SPECS, node_rows
from gpuledger.parse.manifests import Node
from gpuledger.parse.quantity import parse_readable


class StockBook:
    """Every node's stock. The shard that owns a node shows it, and sums the pods of all shards for it."""

    def __init__(self, shard: Shard, also: re.Pattern[str] | None) -> None:
        self.nodes: dict[str, Node] = {}
        """By name."""
        self._shard = shard
        self._also = also
        self._bookings = Bookings()
        self._stale: set[str] = set()
        self._series = ObjectCache(NODE_SPECS)

    def book(self, pod: str, booking: Booking | None) -> None:
        """What a pod, by its UID, now holds."""
        self._stale |= self._bookings.book(pod, booking)

    def change(self, _uid: str, old: Node | None, new: Node | None) -> None:
        """A node that was and one that is."""
        if old is not None:
            self._stale.add(old.metadata.name)
            self.nodes.pop(old.metadata.name, None)
        if new is not None:
            self._stale.add(new.metadata.name)
            self.nodes[new.metadata.name] = new

    def settle(self) -> None:
        """Write the series of nodes that have changed."""
        for name in self._stale:
            node = self.nodes.get(name)
            if node is not None and self._has_gpus(node) and self._shard.owns(node.metadata.uid):
                self._series.put(name, self._rows(node))
            else:
                self._series.remove(name)
        self._stale.clear()

    def stocks(self) -> Iterator[tuple[Node, NodeStock]]:
        """The nodes with GPUs that are this shard's, and what they have."""
        for node in self.nodes.values():
            if self._has_gpus(node) and self._shard.owns(node.metadata.uid):
                yield node, self._stock(node)

    def columns(self) -> list[Column]:
        """The families of nodes."""
        return self._series.columns()

    def _has_gpus(self, node: Node) -> bool:
        offers = {*node.status.capacity, *node.status.allocatable}
        return CARDS_LABEL in (node.metadata.labels or NOTHING) or any(
            gpu_resource_kind(resource, self._also) for resource in offers
        )

    def _rows(self, node: Node) -> Rows:
        labels = node.metadata.labels or NOTHING
        state = {"ready": _is_ready(node), "schedulable": not node.spec.unschedulable}
        return node_rows(node.metadata.name, labels, self._stock(node), **state)

    def _stock(self, node: Node) -> NodeStock:
        return NodeStock(
            capacity=parse_readable(node.status.capacity),
            allocatable=parse_readable(node.status.allocatable),
            requested=self._bookings.requested(node.metadata.name),
            open=_is_ready(node) and not node.spec.unschedulable,
        )


def _is_ready(node: Node) -> bool:
    return any(condition.status == "True" for condition in node.status.conditions)
