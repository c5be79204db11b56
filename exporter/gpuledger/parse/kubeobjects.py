"""Pods as the Kubernetes API sends them, reduced to what attribution, accounts and metrics need."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from gpuledger.core.accounting import container_requests, effective_requests
from gpuledger.core.model import NOTHING, ContainerId, Pod, PodContainer, PodUid, Termination
from gpuledger.parse.kubelist import ObjectList, ObjectParser, WatchEvent
from gpuledger.parse.objectmeta import ObjectMeta, unix_seconds
from gpuledger.parse.quantity import parse_quantity
from gpuledger.parse.workload import workload_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal

    from gpuledger.core.accounting import ContainerKind, Quantities
    from gpuledger.core.model import Workload

PodList = ObjectList[Pod]
PodEvent = WatchEvent[Pod]


def parse_pod(body: bytes | msgspec.Raw) -> Pod:
    """One pod; raises ValueError where the JSON is not that of a pod."""
    return _PODS.parse_object(body)


def parse_pod_list(body: bytes) -> PodList:
    """One page of pods; raises ValueError where it is no list. A malformed pod costs only itself."""
    return _PODS.parse_list(body)


def parse_watch_event(line: bytes) -> PodEvent:
    """One event of a watch on pods; raises ValueError where the line is no event."""
    return _PODS.parse_event(line)


def parse_job(body: bytes) -> tuple[str, Workload]:
    """A Job's uid and the workload it belongs to, which may be itself; raises ValueError."""
    return _JOBS.parse_object(body)


# The JSON's shape, in the API's names (k8s.io/api/core/v1); what an object may lack has a default.


class _Resources(msgspec.Struct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct, rename="camel"):
    name: str
    image: str | None = None
    restart_policy: str | None = None
    resources: _Resources | None = None


class _Terminated(msgspec.Struct, gc=False, rename="camel"):
    exit_code: int = 0
    reason: str = ""
    finished_at: datetime | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class _State(msgspec.Struct):
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str
    container_id: str = msgspec.field(default="", name="containerID")
    ready: bool = False
    restart_count: int = 0
    state: _State | None = None
    last_state: _State | None = None


class _Condition(msgspec.Struct, gc=False):
    type: str
    status: str


class _Claim(msgspec.Struct, gc=False):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None
    overhead: dict[str, str | int | float] | None = None
    resource_claims: list[_Claim] | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    qos_class: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    ephemeral_container_statuses: list[_ContainerStatus] | None = None
    extended_resource_claim_status: _Claim | None = None


class _PodDocument(msgspec.Struct):
    metadata: ObjectMeta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


def _pod(document: _PodDocument) -> Pod:
    meta, spec, status = document.metadata, document.spec, document.status
    asked = [(kind, container, _asks_for(container)) for kind, container in _containers(spec)]
    requests = effective_requests(
        [(kind, quantities) for kind, _, quantities in asked if quantities],
        overhead=_extended(spec.overhead),
    )
    statuses = _statuses(status)
    conditions = _conditions(status)
    return Pod(
        uid=PodUid(meta.uid),
        namespace=meta.namespace,
        name=meta.name,
        node=spec.node_name or "",
        phase=status.phase,
        qos=status.qos_class,
        ready=conditions.get("Ready"),
        conditions=conditions,
        created_at=unix_seconds(meta.creation_timestamp),
        deleted_at=unix_seconds(meta.deletion_timestamp),
        config_hash=_config_hash(meta),
        controller=meta.controller,
        workload=workload_of(meta),
        containers=tuple(
            _container(container, kind, statuses.get(container.name), _numbers(quantities))
            for kind, container, quantities in asked
        ),
        requests=_numbers(requests),
        asks_otherwise=_asks_otherwise(document),
        gpu_fraction=_gpu_fraction(meta),
    )


_PODS = ObjectParser(_PodDocument, _pod)


class _JobDocument(msgspec.Struct):
    metadata: ObjectMeta


_JOBS = ObjectParser(_JobDocument, lambda job: (job.metadata.uid, workload_of(job.metadata, kind="Job")))

_FRACTION = "gpu-fraction"
_SHARES = frozenset({_FRACTION, "gpu-memory"})
"""KAI Scheduler's annotations on pods that get a part of a GPU without asking the kubelet for it."""

_MIRROR = "kubernetes.io/config.mirror"


def _config_hash(meta: ObjectMeta) -> PodUid | None:
    """A static pod's configuration hash, which is its UID for the kubelet and in its cgroup.

    `config.mirror` repeats the hash of `config.hash`, and only mirror pods have it: anybody can write
    `config.hash` on a pod to pass for a static one, but the kubelet deletes a mirror pod of no static pod.
    """
    value = (meta.annotations or NOTHING).get(_MIRROR)
    return PodUid(value) if value else None


def _asks_otherwise(pod: _PodDocument) -> bool:
    by_claim = pod.spec.resource_claims or pod.status.extended_resource_claim_status
    return bool(by_claim) or not _SHARES.isdisjoint(pod.metadata.annotations or NOTHING)


def _gpu_fraction(meta: ObjectMeta) -> float | None:
    try:
        fraction = float((meta.annotations or NOTHING).get(_FRACTION, ""))
    except ValueError:
        return None
    return fraction if 0.0 < fraction <= 1.0 else None


def _containers(spec: _Spec) -> Iterator[tuple[ContainerKind, _Container]]:
    """Every container, in the order in which they start; a sidecar is a restartable init (KEP-753)."""
    for container in spec.init_containers or ():
        yield "sidecar" if container.restart_policy == "Always" else "init", container
    for container in spec.containers or ():
        yield "regular", container
    for container in spec.ephemeral_containers or ():
        yield "ephemeral", container


def _asks_for(container: _Container) -> Quantities:
    resources = container.resources
    if resources is None:
        return NOTHING
    return container_requests(_extended(resources.requests), _extended(resources.limits))


def _extended(quantities: dict[str, str | int | float] | None) -> Quantities:
    """Quantities of extended resources, whose names have a domain; zero and what is no number are left out."""
    found: dict[str, Decimal] = {}
    for name, text in (quantities or NOTHING).items():
        if "/" not in name:
            continue
        try:
            quantity = parse_quantity(str(text))
        except ValueError:
            continue
        if quantity:
            found[name] = quantity
    return found


def _numbers(quantities: Quantities) -> Mapping[str, float]:
    return {name: float(quantity) for name, quantity in quantities.items()} if quantities else NOTHING


def _statuses(status: _Status) -> dict[str, _ContainerStatus]:
    """By container name, which is unique in a pod over all kinds of container."""
    lists = status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses
    return {one.name: one for each in lists for one in each or ()}


def _container(
    spec: _Container, kind: ContainerKind, status: _ContainerStatus | None, requests: Mapping[str, float]
) -> PodContainer:
    if status is None:
        return PodContainer(spec.name, kind, image=spec.image or "", requests=requests)
    current = _bare_id(status.container_id)
    ended = [state.terminated for state in (status.state, status.last_state) if state and state.terminated]
    past = dict.fromkeys(_bare_id(end.container_id) for end in ended)
    return PodContainer(
        spec.name,
        kind,
        image=spec.image or "",
        container_id=current,
        past_container_ids=tuple(each for each in past if each is not None and each != current),
        ready=status.ready,
        restarts=status.restart_count,
        last_terminated=_termination(ended[0]) if ended else None,
        requests=requests,
    )


def _bare_id(container_id: str) -> ContainerId | None:
    """`containerd://<id>` without its runtime; None for a container that has not been created yet."""
    bare = container_id.rpartition("://")[2]
    return ContainerId(bare) if bare else None


def _termination(end: _Terminated) -> Termination:
    return Termination(end.reason, end.exit_code, unix_seconds(end.finished_at))


def _conditions(status: _Status) -> dict[str, bool]:
    known = {"True": True, "False": False}
    return {each.type: known[each.status] for each in status.conditions or () if each.status in known}
