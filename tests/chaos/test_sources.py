"""A source of evidence stalls, floods or flaps for long: what else is known goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from chaos.stage import everybody_is_there
from fakes import kubelet
from fakes.nvml.scenario import Fault
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from chaos.stage import Record
    from fakes.world import World
    from tools.exposition import Exposition

pytestmark = pytest.mark.chaos

FLAPS = 60
"""An hour of one a minute, at sixty times the speed."""
BACK_S = 75.0
"""The longest back-off is 60 s, and a list is soon had."""
MIB = 2**20


def workloads_are_known(scrape: Exposition) -> bool:
    return len(scrape.series("container_memory_used_bytes", workload_kind="StatefulSet")) == 8


def test_an_api_that_flaps_for_an_hour_takes_no_name_away(world: World, record: Record) -> None:
    api, flags = world.serve_api()
    with Node(world, *flags) as node:
        node.wait_for("workloads", workloads_are_known)
        for _ in range(FLAPS):
            api.refuse()
            time.sleep(0.5)
            api.accept()
            time.sleep(0.5)
            assert workloads_are_known(node.scrape())
        asked = len(api.requests)
        began = time.monotonic()
        node.wait_for("the API", lambda s: s.value("source_up", source="kube") == 1, timeout=BACK_S)
        took = time.monotonic() - began
        assert asked < FLAPS * 4
        assert_honest(node, world, repeats=FLAPS)
    record(
        f"the API goes and comes {FLAPS} times, once a second",
        f"no name; it was asked {asked} times in all",
        f"{took:.1f} s after the last time",
    )


def test_a_device_that_stalls_for_long_costs_its_readings_while_it_does(world: World, record: Record) -> None:
    stuck = world.scenario.gpus[3]
    with Node(world, "--stall-timeout=60s") as node:
        before = node.wait_for("everybody", everybody_is_there)
        world.scenario.faults = [Fault(call="nvmlDeviceGetUtilizationRates", kind="hang", gpu=stuck.uuid)]
        world.publish()
        node.wait_for("the stall", lambda s: s.value("source_up", source="nvml") == 0, timeout=30)
        scrape = node.wait_for("old series' end", lambda s: not s.series("gpu_utilization_ratio"))
        assert_honest(node, world)
        held = "container_allocated_seconds_total"
        assert len(before.series(held)) == len(scrape.series(held)) == 8
        world.scenario.faults = []
        world.publish()
        began = time.monotonic()
        node.wait_for("its return", lambda s: len(s.series("gpu_utilization_ratio")) == 8, timeout=40)
        took = time.monotonic() - began
        assert_honest(node, world)
    record(
        "a driver call for one of 8 GPUs hangs",
        "the readings of all GPUs after 6 s, for as long as it lasts; counters stand",
        f"{took:.1f} s after the call returns",
    )


def test_a_device_that_is_slow_slows_only_the_readings(world: World, record: Record) -> None:
    slow = world.scenario.gpus[3]
    with Node(world) as node:
        node.wait_for("everybody", everybody_is_there)
        world.scenario.faults = [
            Fault(call="nvmlDeviceGetUtilizationRates", kind="latency", number=700_000, gpu=slow.uuid)
        ]
        world.publish()
        node.settled()
        began = time.monotonic()
        scrape = node.settled(3)
        cycle = (time.monotonic() - began) / 4
        assert scrape.value("source_up", source="nvml") == 1
        assert len(scrape.series("gpu_utilization_ratio")) == 8
        assert_honest(node, world)
    record("each call for one GPU takes 0.7 s", f"freshness: a cycle takes {cycle:.1f} s", "at once")


def test_a_kubelet_that_floods_costs_only_the_allocations(world: World, record: Record) -> None:
    """Above 64 MiB a reply is refused; below it is read, whatever it holds."""
    modest = world.kubelet.pods
    with Node(world) as node:
        node.wait_for("everybody", everybody_is_there)
        for size in (60, 70):
            world.kubelet.pods = modest + flood(size * MIB)
            asked = node.scrape().value("source_last_success_timestamp_seconds", source="podresources") or 0
            node.wait_for("an answer", lambda s: _asked_since(s, asked), timeout=40)  # noqa: B023 - called at once
            scrape = assert_honest(node, world)
            assert len(scrape.series("container_allocated")) == 8
        assert scrape.value("source_up", source="podresources") == 0
        world.kubelet.pods = modest
        began = time.monotonic()
        node.wait_for("the kubelet", lambda s: s.value("source_up", source="podresources") == 1, timeout=60)
        took = time.monotonic() - began
        assert_honest(node, world)
    record(
        "the kubelet's reply grows to 60, then 70 MiB",
        "nothing; above 64 MiB no news of allocations",
        f"{took:.1f} s after it is small again",
    )


def _asked_since(scrape: Exposition, then: float) -> bool:
    last = scrape.value("source_last_success_timestamp_seconds", source="podresources") or 0
    return last > then or scrape.value("source_up", source="podresources") == 0


def flood(size: int) -> bytes:
    """About so many bytes of pods without GPUs."""
    ids = [f"port-{number:0100}" for number in range(1_000)]
    one = kubelet.pod_list(
        kubelet.pod("team-z", "p", kubelet.container("c", kubelet.devices("example.com/p", *ids)))
    )
    return one * (size // len(one))
