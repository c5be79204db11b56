"""The Kubernetes API is down, refuses, or is slow: names come from elsewhere, and what is known stays known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.apiserver import Fault
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from fakes.world import World
    from tools.exposition import Exposition

pytestmark = pytest.mark.e2e

ALWAYS = 1_000_000


def test_an_api_that_is_down_at_the_start_is_found_later(world: World) -> None:
    api, flags = world.serve_api()
    api.refuse()
    with Node(world, *flags) as node:
        node.wait_for("the owner by the kubelet's logs", _owner_is_known)
        scrape = node.wait_for(
            "the failure", lambda s: (s.value("source_failures_total", source="kube") or 0) > 0
        )
        assert scrape.value("source_up", source="kube") == 0
        assert not scrape.series("pod_info")
        assert_honest(node, world)

        api.accept()
        node.wait_for("the workload", _workload_is_known, timeout=20)
        assert_honest(node, world)


def test_what_the_api_told_outlives_it(world: World) -> None:
    api, flags = world.serve_api()
    with Node(world, *flags) as node:
        node.wait_for("the workload", _workload_is_known)
        node.wait_for("the allocation", lambda s: s.value("container_allocated") == 1)
        api.refuse()
        node.wait_for("the failure", lambda s: s.value("source_up", source="kube") == 0, timeout=30)
        scrape = assert_honest(node, world)
        assert _workload_is_known(scrape)
        assert scrape.value("container_allocated", workload="train") == 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(times=ALWAYS, status=403), id="forbidden"),
        pytest.param(Fault(times=ALWAYS, status=500), id="failing"),
        pytest.param(Fault(times=ALWAYS, delay=60), id="slow"),
        pytest.param(Fault(times=ALWAYS, after=20, then="silence"), id="silent in the middle"),
        pytest.param(Fault(times=ALWAYS, after=20, then="cut"), id="cut in the middle"),
        pytest.param(Fault(times=ALWAYS, body=b'{"kind":"Table"}'), id="no list"),
    ],
)
def test_an_api_that_gives_no_list_costs_only_what_it_would_tell(world: World, fault: Fault) -> None:
    api, flags = world.serve_api()
    api.faults.append(fault)
    with Node(world, *flags) as node:
        node.wait_for("the owner by the kubelet's logs", _owner_is_known)
        node.wait_for("the question", lambda _: bool(api.requests))
        node.settled()
        scrape = assert_honest(node, world)
        assert scrape.value("source_up", source="kube") == 0
        assert not scrape.series("pod_info")
        assert node.get("/healthz").status == 200


def test_a_refusal_says_what_to_do(world: World) -> None:
    api, flags = world.serve_api()
    api.faults.append(Fault(times=ALWAYS, status=403))
    with Node(world, *flags) as node:
        node.wait_for("the failure", lambda s: (s.value("source_failures_total", source="kube") or 0) > 1)
        lines = [line for line in node.log().splitlines() if "kube" in line]
        assert len(lines) == 1
        assert "403" in lines[0]
        assert "role" in lines[0]


def _owner_is_known(scrape: Exposition) -> bool:
    return bool(scrape.series("container_memory_used_bytes", pod="train-0"))


def _workload_is_known(scrape: Exposition) -> bool:
    labels = {"pod": "train-0", "workload_kind": "StatefulSet", "workload": "train"}
    return bool(scrape.series("container_memory_used_bytes", **labels))
