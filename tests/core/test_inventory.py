"""What nodes have left is what the scheduler would say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.core.inventory import Booking, Bookings, NodeStock, PoolSlice, pools_of

GPU = "nvidia.com/gpu"


def gpus(count: int) -> dict[str, Decimal]:
    return {GPU: Decimal(count), "pods": Decimal(1)}


def stock(capacity: int, allocatable: int, requested: int) -> NodeStock:
    return NodeStock(
        capacity={GPU: Decimal(capacity)},
        allocatable={GPU: Decimal(allocatable), "pods": Decimal(110)},
        requested={GPU: Decimal(requested), "pods": Decimal(3)},
        open=True,
    )


@pytest.mark.parametrize(
    ("node", "free", "unhealthy", "placeable"),
    [
        pytest.param(stock(8, 8, 5), 3, 0, 3, id="some are free"),
        pytest.param(stock(8, 6, 7), -1, 2, 0, id="devices fell ill under their pods: the sign stays"),
        pytest.param(replace(stock(8, 8, 5), open=False), 3, 0, 0, id="a cordoned node's are free for nobody"),
        pytest.param(
            replace(stock(8, 8, 5), allocatable={GPU: Decimal(8), "pods": Decimal(3)}),
            3,
            0,
            0,
            id="no place for another pod",
        ),
    ],
)
def test_what_is_left_of_a_node(node: NodeStock, free: int, unhealthy: int, placeable: int) -> None:
    (resource,) = [each for each in node.resources() if each.resource == GPU]
    assert [free, unhealthy, placeable] == [resource.free, resource.unhealthy, node.placeable(resource)]


def test_what_a_node_does_not_offer_is_unknown_and_not_zero() -> None:
    node = NodeStock(capacity={}, allocatable={}, requested={GPU: Decimal(1)}, open=True)
    (resource,) = node.resources()
    assert (None, None, None) == (resource.free, resource.unhealthy, node.placeable(resource))


def test_a_pod_that_moves_is_booked_once() -> None:
    bookings = Bookings()
    assert {"a"} == bookings.book("pod", Booking("a", gpus(2)))
    assert {"a", "b"} == bookings.book("pod", Booking("b", gpus(1)))
    assert ({}, gpus(1)) == (bookings.requested("a"), bookings.requested("b"))


def test_what_changes_nothing_touches_no_node() -> None:
    bookings = Bookings()
    bookings.book("pod", Booking("a", gpus(2)))
    assert set() == bookings.book("pod", Booking("a", gpus(2)))
    assert set() == bookings.book("another", None)


BOOKINGS = st.none() | st.builds(
    Booking,
    st.sampled_from("ab"),
    st.fixed_dictionaries({"cpu": st.decimals("0.001", "64", places=3), GPU: st.integers(0, 8).map(Decimal)}),
)


@given(st.lists(st.tuples(st.sampled_from("xyz"), BOOKINGS), max_size=30))
def test_after_any_changes_the_sums_are_those_of_what_is_left(
    changes: list[tuple[str, Booking | None]],
) -> None:
    bookings = Bookings()
    for pod, booking in changes:
        bookings.book(pod, booking)
    left = [booking for booking in dict(changes).values() if booking is not None]
    for node in "ab":
        sums: dict[str, Decimal] = {}
        for booking in left:
            for name, quantity in booking.requests.items() if booking.node == node else ():
                sums[name] = sums.get(name, Decimal(0)) + quantity
        assert {name: total for name, total in sums.items() if total} == dict(bookings.requested(node))


def test_a_pool_has_the_devices_of_its_newest_generation() -> None:
    def part(pool: str, generation: int, *devices: str) -> PoolSlice:
        return PoolSlice("gpu.nvidia.com", pool, generation, "node1", devices)

    pools: Mapping[tuple[str, str], tuple[PoolSlice, ...]] = pools_of(
        [part("a", 1, "old"), part("a", 2, "gpu-0"), part("b", 1, "gpu-0"), part("a", 2, "gpu-1"), part("a", 1)]
    )
    devices = {
        pool: [device for each in parts for device in each.devices] for (_, pool), parts in pools.items()
    }
    assert {"a": ["gpu-0", "gpu-1"], "b": ["gpu-0"]} == devices
