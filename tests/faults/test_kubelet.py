"""The kubelet's PodResources socket is missing, dead, slow, failing or talkative: only allocations suffer."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import grpc
import pytest

from fakes import kubelet
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.world import World
    from tools.exposition import Exposition

pytestmark = pytest.mark.e2e


def _missing(path: Path) -> None:
    assert not path.exists()


def _dead(path: Path) -> None:
    """A socket that a killed kubelet left behind: nobody listens."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


def _deaf(path: Path) -> None:
    """A file that is no socket."""
    path.write_text("")


@pytest.mark.parametrize("spoil", [_missing, _dead, _deaf])
def test_no_kubelet_costs_only_the_allocations(world: World, tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "other.sock"
    assert callable(spoil)
    spoil(path)
    with Node(world, f"--path.podresources={path}") as node:
        node.wait_for(
            "the failure", lambda s: (s.value("source_failures_total", source="podresources") or 0) > 0
        )
        node.wait_for("the owner", _owner_is_known)
        scrape = assert_honest(node, world)
        assert scrape.value("source_up", source="podresources") == 0
        assert not scrape.series("container_allocated")


def test_a_kubelet_that_comes_later_is_found(world: World, tmp_path: Path) -> None:
    path = tmp_path / "later.sock"
    with Node(world, f"--path.podresources={path}") as node:
        node.wait_for("the failure", lambda s: s.value("source_up", source="podresources") == 0)
        with kubelet.FakeKubelet(path, world.kubelet.pods):
            node.wait_for("the allocation", lambda s: s.value("container_allocated") == 1, timeout=20)
            assert_honest(node, world)


def test_a_kubelet_that_does_not_answer_holds_up_nobody(world: World) -> None:
    world.kubelet.delay = 60
    with Node(world) as node:
        node.wait_for("the owner", _owner_is_known)
        node.wait_for("the failure", lambda s: s.value("source_up", source="podresources") == 0)
        scrape = assert_honest(node, world)
        assert not scrape.series("container_allocated")


def test_a_kubelet_that_fails_later_leaves_the_last_allocations(world: World) -> None:
    with Node(world) as node:
        node.wait_for("the allocation", lambda s: s.value("container_allocated") == 1)
        world.kubelet.error = grpc.StatusCode.UNAVAILABLE
        node.wait_for("the failure", lambda s: s.value("source_up", source="podresources") == 0)
        scrape = assert_honest(node, world)
        assert scrape.value("container_allocated") == 1


def test_a_reply_of_10_mib_is_read(world: World) -> None:
    filler = kubelet.pod(
        "team-z", "collector", kubelet.container("main", *(_many_devices(i) for i in range(1000)))
    )
    world.kubelet.pods += kubelet.pod_list(filler)  # protobuf's repeated fields append
    assert len(world.kubelet.pods) > 10 << 20
    with Node(world) as node:
        scrape = node.wait_for("the allocation", lambda s: s.value("container_allocated") == 1)
        assert scrape.value("source_up", source="podresources") == 1
        assert_honest(node, world)


def _many_devices(number: int) -> object:
    return kubelet.devices("example.com/port", *(f"port-{number:032}-{i:064}" for i in range(110)))


def _owner_is_known(scrape: Exposition) -> bool:
    return bool(scrape.series("container_memory_used_bytes", pod="train-0"))
