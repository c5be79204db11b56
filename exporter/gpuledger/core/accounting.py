"""The scheduler's arithmetic: what a pod asks for, per resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Literal

from gpuledger.core.model import NOTHING

ContainerKind = Literal["regular", "init", "sidecar", "ephemeral"]
Quantities = Mapping[str, Decimal]


def container_requests(requests: Quantities, limits: Quantities) -> dict[str, Decimal]:
    """What a container asks for: its requests, and where it names none its limits, as the API defaults them."""
    return {**limits, **requests}


def requests_during_resize(wanted: Quantities, granted: Iterable[Quantities], *, feasible: bool) -> Quantities:
    """What a container asks for while what it was granted is not yet, or no longer, what it wants (KEP-1287).

    `granted` is what the kubelet allows and what the container has. Per resource the largest counts; what is
    wanted does not where its node can never give it.
    """
    largest = dict(wanted) if feasible else {}
    for each in granted:
        for name, quantity in each.items():
            largest[name] = max(largest.get(name, quantity), quantity)
    return {**wanted, **largest}


def effective_requests(
    containers: Iterable[tuple[ContainerKind, Quantities]],
    *,
    overhead: Quantities = NOTHING,
    pod_level: Quantities = NOTHING,
) -> dict[str, Decimal]:
    """The pod's request per resource, as the scheduler counts it (component-helpers' `PodRequests`).

    `containers` stand in the order of the spec, init containers before regular ones: an init container runs
    beside the sidecars before it (KEP-753). `pod_level` replaces the sum for CPU, memory and huge pages alone
    (KEP-2837); `overhead` comes on top. Ephemeral containers ask for nothing.
    """
    running: dict[str, Decimal] = {}
    starting: dict[str, Decimal] = {}
    for kind, wanted in containers:
        if kind == "init":
            for name, quantity in wanted.items():
                starting[name] = max(starting.get(name, _ZERO), running.get(name, _ZERO) + quantity)
        elif kind != "ephemeral":
            for name, quantity in wanted.items():
                running[name] = running.get(name, _ZERO) + quantity
    total = {name: max(running.get(name, _ZERO), starting.get(name, _ZERO)) for name in running | starting}
    total |= {name: quantity for name, quantity in pod_level.items() if is_pod_level_resource(name)}
    for name, quantity in overhead.items():
        total[name] = total.get(name, _ZERO) + quantity
    return total


def is_pod_level_resource(name: str) -> bool:
    """Whether `spec.resources` of a pod may set the resource: never a GPU (KEP-2837)."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


_ZERO = Decimal(0)
