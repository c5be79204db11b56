"""The server is bounded: what one client does costs no other client anything, and the loop even less."""

from __future__ import annotations

import gzip
import socket
import subprocess
import time
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tools.fetch import binary
from tools.honesty import SLOWEST_ANSWER_S
from tools.prometheus import VERSIONS

if TYPE_CHECKING:
    from e2e.rig import Rig

pytestmark = pytest.mark.e2e


def connect(rig: Rig) -> socket.socket:
    host, port = rig.node.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def ask(rig: Rig, request: bytes) -> bytes:
    """The first line of the answer to these bytes."""
    with connect(rig) as client:
        client.sendall(request)
        return client.makefile("rb").readline().rstrip()


@pytest.mark.parametrize("version", VERSIONS)
def test_promtool_finds_nothing_to_improve(rig: Rig, version: str) -> None:
    done = subprocess.run(
        [binary(version, "promtool"), "check", "metrics"],
        input=rig.node.get("/metrics").body,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405, id="POST"),
        pytest.param(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404, id="unknown path"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000, 431, id="endless header"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, id="TLS to a plain port"),
        pytest.param(b"GET /metrics?name[]=up HTTP/1.1\r\nHost: x\r\n\r\n", 200, id="query"),
        pytest.param(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200, id="HEAD"),
    ],
)
def test_answers_a_request_by_its_merits(rig: Rig, request_: bytes, status: int) -> None:
    assert ask(rig, request_).startswith(b"HTTP/1.1 %d" % status)


def test_compresses_for_those_who_ask(rig: Rig) -> None:
    request = urllib.request.Request(f"{rig.node.url}/metrics", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=5) as reply:
        assert reply.headers["Content-Encoding"] == "gzip"
        assert b"gpuledger_gpu_up" in gzip.decompress(reply.read())


def test_sleepers_lock_nobody_out(rig: Rig) -> None:
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connect(rig)).sendall(b"GET /metrics HTTP/1.1\r\n")
        for _ in range(5):
            reply = rig.node.get("/metrics")
            assert reply.status == 200
            assert reply.seconds < SLOWEST_ANSWER_S


def test_a_reader_that_does_not_read_delays_neither_others_nor_the_loop(rig: Rig) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(connect(rig))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        began = time.monotonic()
        first = rig.node.scrape().value("last_cycle_timestamp_seconds")
        time.sleep(1)
        last = rig.node.scrape().value("last_cycle_timestamp_seconds")
        assert first is not None
        assert last is not None
        assert last - first == pytest.approx(time.monotonic() - began, abs=0.5)
        assert rig.node.get("/metrics").seconds < SLOWEST_ANSWER_S
