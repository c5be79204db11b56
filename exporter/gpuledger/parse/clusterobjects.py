"""Nodes, quotas, claims and more as the API sends them, cut to what the cluster role keeps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

import msgspec

from gpuledger.core.inventory import PoolSlice
from gpuledger.parse.kubelist import ObjectParser
from gpuledger.parse.manifests import DeviceClass, Namespace, Node, NodeStatus, ResourceClaim, ResourceQuota
from gpuledger.parse.objectmeta import ObjectMeta, unix_seconds
from gpuledger.parse.podrequests import is_counted
from gpuledger.parse.podspec import Condition, Number

DRA_GROUPS = tuple(f"/apis/resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1beta1"))
"""Classes, devices and claims look the same in all of them, as far as they are read."""

_GPU_LABELS = "nvidia.com/"


@dataclass(frozen=True, slots=True)
class Slice:
    """A ResourceSlice: its UID, and the part of a pool that it tells of."""

    uid: str
    part: PoolSlice


@dataclass(frozen=True, slots=True)
class PodWarning:
    """A warning about a pod: how often it was given, and when last, in Unix seconds."""

    uid: str
    pod_uid: str
    namespace: str
    pod: str
    reason: str
    count: int
    last: float | None


def node_parser(also: re.Pattern[str] | None = None) -> ObjectParser[Node, Node]:
    """Reads nodes, of whose resources those count that are GPUs, or match `also`, and what pods need beside."""
    return ObjectParser(Node, lambda node: _node(node, also))


def _node(node: Node, also: re.Pattern[str] | None) -> Node:
    """A node without what changes with every heartbeat, and what nobody here asks for."""
    labels = node.metadata.labels or {}
    status = NodeStatus(
        capacity=_counted(node.status.capacity, also),
        allocatable=_counted(node.status.allocatable, also),
        conditions=[
            Condition(type="Ready", status=condition.status)
            for condition in node.status.conditions
            if condition.type == "Ready"
        ],
    )
    kept = {name: value for name, value in labels.items() if name.startswith(_GPU_LABELS)}
    return msgspec.structs.replace(node, metadata=_identity(node.metadata, kept), status=status)


def _counted(quantities: dict[str, Number], also: re.Pattern[str] | None) -> dict[str, Number]:
    return {name: quantity for name, quantity in quantities.items() if is_counted(name, also)}


def _quota(quota: ResourceQuota) -> ResourceQuota:
    return msgspec.structs.replace(quota, metadata=_identity(quota.metadata))


def _namespace(namespace: Namespace) -> Namespace:
    return msgspec.structs.replace(namespace, metadata=_identity(namespace.metadata, namespace.metadata.labels))


def _class(item: DeviceClass) -> DeviceClass:
    return msgspec.structs.replace(item, metadata=_identity(item.metadata))


def _claim(claim: ResourceClaim) -> ResourceClaim:
    """A claim with the kind that items of a list lack, and the owner that the audit names."""
    meta = msgspec.structs.replace(claim.metadata, resource_version="", labels=None, annotations=None)
    return msgspec.structs.replace(claim, kind="ResourceClaim", metadata=meta)


def _identity(meta: ObjectMeta, labels: dict[str, str] | None = None) -> ObjectMeta:
    return ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, labels=labels)


class _SlicePool(msgspec.Struct, gc=False):
    name: str = ""
    generation: int = 0


class _Device(msgspec.Struct, gc=False):
    name: str = ""


class _SliceSpec(msgspec.Struct, rename="camel"):
    driver: str = ""
    pool: _SlicePool = msgspec.field(default_factory=_SlicePool)
    node_name: str | None = None
    devices: list[_Device] | None = None


class _SliceDocument(msgspec.Struct):
    metadata: ObjectMeta
    spec: _SliceSpec


def _slice(document: _SliceDocument) -> Slice:
    spec = document.spec
    devices = tuple(device.name for device in spec.devices or ())
    part = PoolSlice(spec.driver, spec.pool.name, spec.pool.generation, spec.node_name or "", devices)
    return Slice(document.metadata.uid, part)


class _ObjectReference(msgspec.Struct, gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Series(msgspec.Struct, rename="camel"):
    count: int = 0
    last_observed_time: datetime | None = None


class _EventDocument(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta
    involved_object: _ObjectReference
    reason: str = ""
    count: int | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: _Series | None = None


def _warning(event: _EventDocument) -> PodWarning:
    """Old recorders count in `count`, new ones in `series` (events.k8s.io), and some in neither."""
    series, about = event.series, event.involved_object
    last = (series and series.last_observed_time) or event.last_timestamp or event.event_time
    return PodWarning(
        uid=event.metadata.uid,
        pod_uid=about.uid,
        namespace=about.namespace,
        pod=about.name,
        reason=event.reason,
        count=(series and series.count) or event.count or 1,
        last=unix_seconds(last or event.metadata.creation_timestamp),
    )


QUOTAS = ObjectParser(ResourceQuota, _quota)
NAMESPACES = ObjectParser(Namespace, _namespace)
CLASSES = ObjectParser(DeviceClass, _class)
CLAIMS = ObjectParser(ResourceClaim, _claim)
SLICES = ObjectParser(_SliceDocument, _slice)
WARNINGS = ObjectParser(_EventDocument, _warning)
