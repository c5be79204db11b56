"""What a pod asks for, from its spec and status."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache

from gpuledger.core.accounting import (
    ContainerKind,
    Quantities,
    container_requests,
    effective_requests,
    requests_during_resize,
)
from gpuledger.core.model import NOTHING
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.podspec import Container, ContainerStatus, Number, PodSpec, PodStatus, Resources
from gpuledger.parse.quantity import parse_readable

_ZERO, _ONE = Decimal(0), Decimal(1)


def requests_of(spec: PodSpec, status: PodStatus, also: re.Pattern[str] | None = None) -> Quantities:
    """The pod's effective request of CPU, memory and GPU resources, and of the one place for a pod it takes.

    A resize on its way counts as in `PodRequests` with `UseStatusResources` since Kubernetes 1.33. What a claim
    stands in for (KEP-5004) is the claim's; what can't be read does not count.
    """
    by_claim = _by_claim(status)
    overhead = parse_readable(spec.overhead)
    requests = effective_requests(
        _containers(spec, status), overhead=overhead, pod_level=_pod_level(spec, status, overhead)
    )
    return _shared(
        tuple(
            (name, quantity)
            for name, quantity in sorted(requests.items())
            if name not in by_claim and is_counted(name, also)
        )
    )


def gpu_requests_of(spec: PodSpec, status: PodStatus, also: re.Pattern[str] | None = None) -> Quantities:
    """As `requests_of`, of GPU resources alone: no resize and no `spec.resources` of the pod touches them."""

    def asked(amounts: Mapping[str, Number]) -> Quantities:
        return parse_readable({name: amounts[name] for name in amounts if gpu_resource_kind(name, also)})

    requests = effective_requests(
        (
            (kind, container_requests(asked(container.resources.requests), asked(container.resources.limits)))
            for kind, container in _by_kind(spec)
        ),
        overhead=asked(spec.overhead) if spec.overhead else NOTHING,
    )
    for name in _by_claim(status):
        requests.pop(name, None)
    return requests


def is_counted(resource: str, also: re.Pattern[str] | None = None) -> bool:
    """Whether a resource belongs in an inventory of GPUs: itself one, or what a pod needs beside them."""
    return resource in ("cpu", "memory", "pods") or gpu_resource_kind(resource, also) is not None


def _containers(spec: PodSpec, status: PodStatus) -> Iterator[tuple[ContainerKind, Quantities]]:
    statuses = {each.name: each for each in (*status.container_statuses, *status.init_container_statuses)}
    for kind, container in _by_kind(spec):
        yield kind, _asked_now(container.resources, statuses.get(container.name), status)


def _asked_now(resources: Resources, known: ContainerStatus | None, status: PodStatus) -> Quantities:
    """What a container asks for while it may be resized; for nearly every one, that is what it wants."""
    settled: tuple[Mapping[str, Number], ...] = ({}, resources.requests)
    if known is None or (known.allocated_resources in settled and known.resources.requests in settled):
        return _asked(resources)
    granted = map(parse_readable, (known.allocated_resources, known.resources.requests))
    return requests_during_resize(_asked(resources), granted, feasible=_can_resize(status))


def _by_kind(spec: PodSpec) -> Iterator[tuple[ContainerKind, Container]]:
    for container in spec.init_containers:
        yield "sidecar" if container.restart_policy == "Always" else "init", container
    for container in spec.containers:
        yield "regular", container


def _by_claim(status: PodStatus) -> Collection[str]:
    bridge = status.extended_resource_claim_status
    return {mapping.resource_name for mapping in bridge.request_mappings} if bridge else ()


def _pod_level(spec: PodSpec, status: PodStatus, overhead: Quantities) -> Quantities:
    """What the pod asks for as a whole; its status counts overhead in, which comes on top later (KEP-5419)."""
    wanted = _asked(spec.resources)
    if not wanted:
        return NOTHING
    granted = [
        {name: max(_ZERO, quantity - overhead.get(name, _ZERO)) for name, quantity in each.items()}
        for each in map(parse_readable, (status.allocated_resources, status.resources.requests))
    ]
    return requests_during_resize(wanted, granted, feasible=_can_resize(status))


def _can_resize(status: PodStatus) -> bool:
    """Whether the node could ever give the pod what it wants, as far as the kubelet says."""
    return not any(
        each.type == "PodResizePending" and each.reason == "Infeasible" for each in status.conditions
    )


def _asked(resources: Resources) -> Quantities:
    return container_requests(parse_readable(resources.requests), parse_readable(resources.limits))


@lru_cache(maxsize=4096)
def _shared(requests: tuple[tuple[str, Decimal], ...]) -> Quantities:
    """One mapping for all pods that ask for the same: the replicas of a workload."""
    return {**dict(requests), "pods": _ONE}
