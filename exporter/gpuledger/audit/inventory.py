"""The GPU inventory of a dump: what nodes offer and what is asked of them, and what quotas leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from gpuledger.audit.deviceclasses import DeviceClasses
from gpuledger.core.inventory import NodeResource
from gpuledger.core.resources import gpu_device_class_kind, gpu_resource_kind
from gpuledger.parse.manifests import Node, ResourceQuota, ResourceSlice
from gpuledger.parse.quantity import parse_readable

_CLASS_QUOTA = ".deviceclass.resource.k8s.io/devices"
_ANY_NODE = ""
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """The GPUs of a node. `product`, `cards`, `sharing`, `mig`: GPU feature discovery's, empty without it."""

    node: str
    resources: tuple[NodeResource, ...]
    ready: bool
    schedulable: bool
    product: str
    cards: str
    sharing: str
    mig: str


@dataclass(frozen=True, slots=True)
class QuotaInventory:
    """A GPU quota of a namespace; the one with least `left` decides."""

    namespace: str
    quota: str
    resource: str
    hard: Decimal
    used: Decimal | None

    @property
    def left(self) -> Decimal | None:
        """What the namespace may still ask for; None where the cluster has not counted yet."""
        return None if self.used is None else self.hard - self.used


@dataclass(slots=True)
class InventoryBook:
    """Adds up nodes, quotas and requests as they pass by, in any order."""

    classes: DeviceClasses = field(default_factory=DeviceClasses)
    _nodes: dict[str, Node] = field(default_factory=dict)
    _sliced: set[str] = field(default_factory=set)
    _quotas: list[ResourceQuota] = field(default_factory=list)
    _requested: dict[str, dict[str, Decimal]] = field(default_factory=dict)

    def add_node(self, node: Node) -> None:
        """Take note of a node."""
        self._nodes[node.metadata.name] = node

    def add_slice(self, part: ResourceSlice) -> None:
        """Take note of devices for claims."""
        self.add_driver(part.spec.driver, part.spec.node_name)

    def add_driver(self, driver: str, node: str) -> None:
        """Take note of a DRA driver that offers devices on a node."""
        if gpu_device_class_kind(driver, self.classes.also):
            self._sliced.add(node)

    def add_quota(self, quota: ResourceQuota) -> None:
        """Take note of a quota."""
        self._quotas.append(quota)

    def add_requests(self, node: str, gpus: Mapping[str, Decimal]) -> None:
        """Count what a pod that is bound to `node` asks for."""
        requested = self._requested.setdefault(node, {})
        for resource, amount in gpus.items():
            requested[resource] = requested.get(resource, _ZERO) + amount

    def has_no_gpu(self, node: str) -> bool:
        """Whether a node is known, and known to offer no GPU, neither by resource nor by claim."""
        return (
            node in self._nodes
            and not self._offers(self._nodes[node])
            and self._label(node, "nvidia.com/gpu.present") != "true"
            and self._sliced.isdisjoint((node, _ANY_NODE))
        )

    def sharing(self, node: str) -> str:
        """How a node's GPUs are shared (`time-slicing`, `mps`), empty where they are not or nothing tells."""
        strategy = self._label(node, "nvidia.com/gpu.sharing-strategy")
        return "" if strategy == "none" else strategy

    def nodes(self) -> Iterator[NodeInventory]:
        """The nodes that offer GPUs, by name."""
        for name, node in sorted(self._nodes.items()):
            offers = self._offers(node)
            if not offers:
                continue
            conditions = {condition.type: condition.status for condition in node.status.conditions}
            yield NodeInventory(
                name,
                tuple(self._resource(node, resource) for resource in offers),
                conditions.get("Ready") == "True",
                not node.spec.unschedulable,
                self._label(name, "nvidia.com/gpu.product"),
                self._label(name, "nvidia.com/gpu.count"),
                self.sharing(name),
                self._label(name, "nvidia.com/mig.strategy"),
            )

    def quotas(self) -> Iterator[QuotaInventory]:
        """The quotas on GPUs, by namespace."""
        for quota in sorted(self._quotas, key=lambda quota: (quota.metadata.namespace, quota.metadata.name)):
            used = parse_readable(quota.status.used)
            for resource, hard in sorted(parse_readable(quota.status.hard or quota.spec.hard).items()):
                if self._is_gpu_quota(resource):
                    namespace = quota.metadata.namespace or "default"
                    yield QuotaInventory(namespace, quota.metadata.name, resource, hard, used.get(resource))

    def _offers(self, node: Node) -> list[str]:
        names = {*node.status.capacity, *node.status.allocatable}
        return sorted(name for name in names if gpu_resource_kind(name, self.classes.also))

    def _resource(self, node: Node, resource: str) -> NodeResource:
        return NodeResource(
            resource,
            parse_readable(node.status.capacity).get(resource),
            parse_readable(node.status.allocatable).get(resource),
            self._requested.get(node.metadata.name, {}).get(resource, _ZERO),
        )

    def _label(self, node: str, label: str) -> str:
        return (self._nodes[node].metadata.labels or {}).get(label, "") if node in self._nodes else ""

    def _is_gpu_quota(self, resource: str) -> bool:
        if resource.endswith(_CLASS_QUOTA):
            return bool(self.classes.is_gpu(resource.removesuffix(_CLASS_QUOTA)))
        prefix, _, name = resource.partition(".")
        return prefix == "requests" and gpu_resource_kind(name, self.classes.also) is not None
