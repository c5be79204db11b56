"""What nodes offer, what pods have booked of it, and what a new pod could still get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from gpuledger.core.accounting import Quantities
from gpuledger.core.model import NOTHING

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class NodeResource:
    """One resource of a node, in its own units; None where the node does not tell."""

    resource: str
    capacity: Decimal | None
    allocatable: Decimal | None
    requested: Decimal

    @property
    def free(self) -> Decimal | None:
        """What the scheduler could still place; negative where devices fell ill under their pods."""
        return None if self.allocatable is None else self.allocatable - self.requested

    @property
    def unhealthy(self) -> Decimal | None:
        """What the device plugin withdrew."""
        if self.capacity is None or self.allocatable is None:
            return None
        return self.capacity - self.allocatable


@dataclass(frozen=True, slots=True)
class NodeStock:
    """What a node offers and what is booked of it; `open` is False where it is cordoned or not ready."""

    capacity: Quantities
    allocatable: Quantities
    requested: Quantities
    open: bool

    def resources(self) -> Iterator[NodeResource]:
        """Every resource that the node has or pods have booked there, by name."""
        for name in sorted({*self.capacity, *self.allocatable, *self.requested}):
            requested = self.requested.get(name, _ZERO)
            yield NodeResource(name, self.capacity.get(name), self.allocatable.get(name), requested)

    def placeable(self, resource: NodeResource) -> Decimal | None:
        """The most that one new pod could get: nothing where the node is closed or has no place for a pod."""
        if resource.free is None:
            return None
        places = self.allocatable.get("pods")
        full = places is not None and self.requested.get("pods", _ZERO) >= places
        return _ZERO if full or not self.open else max(_ZERO, resource.free)


@dataclass(frozen=True, slots=True)
class Booking:
    """What a pod that has not ended holds of the node that it is bound to."""

    node: str
    requests: Quantities


class Bookings:
    """What is booked of each node, kept pod by pod: sums are exact, because they are decimal.

    A pod counts from the moment it is bound until it has ended or is gone, also while it terminates
    (kubernetes/kubernetes#96515). A node on which nobody has booked anything takes no room.
    """

    def __init__(self) -> None:
        self._of_pods: dict[str, Booking] = {}
        self._of_nodes: dict[str, dict[str, Decimal]] = {}

    def book(self, pod: str, booking: Booking | None) -> set[str]:
        """Take what the pod with that UID now holds for what it held; returns the nodes that this changes."""
        old = self._of_pods.get(pod)
        if old == booking:
            return set()
        if booking is None:
            del self._of_pods[pod]
        else:
            self._of_pods[pod] = booking
            self._add(booking, 1)
        if old is not None:
            self._add(old, -1)
        return {each.node for each in (old, booking) if each is not None}

    def requested(self, node: str) -> Quantities:
        """What is booked of a node, by resource."""
        return self._of_nodes.get(node, NOTHING)

    def _add(self, booking: Booking, sign: int) -> None:
        sums = self._of_nodes.setdefault(booking.node, {})
        for name, quantity in booking.requests.items():
            total = sums.get(name, _ZERO) + sign * quantity
            if total:
                sums[name] = total
            else:
                sums.pop(name, None)
        if not sums:
            del self._of_nodes[booking.node]


@dataclass(frozen=True, slots=True)
class PoolSlice:
    """Part of a DRA driver's pool of devices: a ResourceSlice of one generation (resource.k8s.io)."""

    driver: str
    pool: str
    generation: int
    node: str
    devices: tuple[str, ...]


Pool = tuple[str, str]
"""A DRA driver and the name of a pool of its devices."""

Device = tuple[str, str, str, str]
"""A device by DRA driver, pool, name and, where it is shared, the ID of the share."""


def pools_of(slices: Iterable[PoolSlice]) -> Mapping[Pool, tuple[PoolSlice, ...]]:
    """The slices of each pool that count: those of its newest generation."""
    newest: dict[Pool, tuple[PoolSlice, ...]] = {}
    for each in slices:
        known = newest.get((each.driver, each.pool), ())
        if not known or each.generation > known[0].generation:
            newest[each.driver, each.pool] = (each,)
        elif each.generation == known[0].generation:
            newest[each.driver, each.pool] = (*known, each)
    return newest
