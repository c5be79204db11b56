"""What a pod asks for, from its spec and status."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from gpuledger.core.accounting import ContainerKind, Quantities, container_requests, effective_requests
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.podspec import PodSpec, PodStatus, Resources
from gpuledger.parse.quantity import parse_readable

_ONE = Decimal(1)


def requests_of(spec: PodSpec, status: PodStatus, also: re.Pattern[str] | None = None) -> Quantities:
    """The pod's effective request of CPU, memory and GPU resources, and of the one place for a pod it takes.

    What a claim stands in for (KEP-5004) is the claim's; what can't be read does not count.
    """
    bridge = status.extended_resource_claim_status
    by_claim = {mapping.resource_name for mapping in bridge.request_mappings} if bridge else ()
    requests = effective_requests(
        ((kind, _asked(resources)) for kind, resources in _containers(spec)),
        overhead=parse_readable(spec.overhead),
        pod_level=_asked(spec.resources),
    )
    return _shared(
        tuple(
            (name, quantity)
            for name, quantity in sorted(requests.items())
            if name not in by_claim and is_counted(name, also)
        )
    )


def is_counted(resource: str, also: re.Pattern[str] | None = None) -> bool:
    """Whether a resource belongs in an inventory of GPUs: itself one, or what a pod needs beside them."""
    return resource in ("cpu", "memory", "pods") or gpu_resource_kind(resource, also) is not None


def _containers(spec: PodSpec) -> Iterator[tuple[ContainerKind, Resources]]:
    for container in spec.init_containers:
        yield "sidecar" if container.restart_policy == "Always" else "init", container.resources
    for container in spec.containers:
        yield "regular", container.resources


def _asked(resources: Resources) -> Quantities:
    return container_requests(parse_readable(resources.requests), parse_readable(resources.limits))


@lru_cache(maxsize=4096)
def _shared(requests: tuple[tuple[str, Decimal], ...]) -> Quantities:
    """One mapping for all pods that ask for the same: the replicas of a workload."""
    return {**dict(requests), "pods": _ONE}
