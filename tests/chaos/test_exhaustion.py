"""Something runs out: room for logs, descriptors, memory, patience with a crowd."""

from __future__ import annotations

import signal
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from chaos.crowd import scrape_at_once, scraping
from chaos.stage import address, everybody_is_there
from fakes.nvml.scenario import Fault
from tools.daemon import until
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from chaos.stage import Record
    from fakes.world import World
    from tools.exposition import Exposition

pytestmark = pytest.mark.e2e

SLOWEST_END_S = 5.0
DESCRIPTORS = 48


def cycles_within(node: Node, seconds: float) -> bool:
    """Whether the loop has gone on by itself, whatever its scrapers do."""
    before = node.scrape().value("last_cycle_timestamp_seconds") or 0
    time.sleep(seconds)
    after = node.scrape().value("last_cycle_timestamp_seconds") or 0
    return after - before > seconds / 2


def test_ends_in_time_while_everybody_scrapes(world: World, record: Record) -> None:
    with Node(world) as node:
        node.wait_for("everybody", everybody_is_there)
        with scraping(address(node), 50) as crowd:
            until(lambda: len(crowd.answered) > 200, 30, node.log)
            began = time.monotonic()
            node.process.send_signal(signal.SIGTERM)
            assert node.process.wait(SLOWEST_END_S) == 0
            took = time.monotonic() - began
        assert "Traceback" not in node.log()
    record(
        "SIGTERM while 50 scrapers ask without a pause",
        "nothing that had been asked for in time",
        f"ends within {took:.1f} s, exit code 0",
    )


def test_a_full_disk_for_logs_costs_the_log_alone(world: World, record: Record) -> None:
    """/dev/full says that no space is left, whatever is written."""
    full = ("sh", "-c", 'exec "$@" >/dev/full 2>&1', "sh")
    with Node(world, prefix=full) as node:
        node.wait_for("everybody", everybody_is_there)
        for _ in range(5):  # each is a change of state, and so a line
            world.scenario.faults = [Fault(call="*", kind="error", number=999)]
            world.publish()
            node.wait_for("the failure", lambda s: s.value("source_up", source="nvml") == 0)
            world.scenario.faults = []
            world.publish()
            node.wait_for("its end", lambda s: s.value("source_up", source="nvml") == 1, timeout=40)
        assert_honest(node, world)
        assert node.stop() == 0
    record("the disk that takes the logs is full", "log lines", "no pause")


def test_connections_leave_descriptors_to_the_sources(world: World, record: Record) -> None:
    limited = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
    with Node(world, prefix=limited) as node:
        node.wait_for("everybody", everybody_is_there)
        with ExitStack() as stack:
            host, port = address(node).split(":")
            for _ in range(3 * DESCRIPTORS):
                client = stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
                client.sendall(b"GET /metrics HTTP/1.1\r\n")
            until(lambda: is_answered(node), 30, node.log)
            time.sleep(6)  # in which the kubelet is asked too
            assert_honest(node, world)
            assert_all_up(node.scrape())
        assert_all_up(node.wait_for("everybody", everybody_is_there))
        assert_honest(node, world)
    record(
        f"{3 * DESCRIPTORS} idle connections, {DESCRIPTORS} descriptors",
        "nothing: connections leave half of them to the sources",
        "no pause",
    )


def assert_all_up(scrape: Exposition) -> None:
    assert {1.0} == {sample.value for sample in scrape.series("source_up")}


def is_answered(node: Node) -> bool:
    try:
        return node.get("/metrics").status == 200
    except OSError:
        return False


def test_a_thousand_scrapes_at_once_delay_nobody_for_long(world: World, record: Record) -> None:
    with Node(world) as node:
        node.wait_for("everybody", everybody_is_there)
        crowd = scrape_at_once(address(node), 1_000)
        began = time.monotonic()
        assert node.get("/metrics").seconds < 1
        assert cycles_within(node, 1)
        assert_honest(node, world)
        took = time.monotonic() - began
    slowest = max(crowd.answered)
    assert len(crowd.answered) + crowd.failed == 1_000
    assert len(crowd.answered) >= 100
    record(
        "1,000 scrapes at the same moment",
        f"{crowd.failed} of them, cut off for newer ones; the slowest answer took {slowest:.1f} s",
        "at once",
    )
    assert took < 30
