"""The demo as it is run: it serves all that the node role serves, and ends cleanly whoever is connected."""

from __future__ import annotations

import socket
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tools.daemon import Daemon, until


def demo(port: int) -> list[str]:
    return [sys.executable, "-m", "gpuledger", "demo", f"--port={port}"]


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        free: int = listening.getsockname()[1]
        return free


@pytest.fixture
def running(tmp_path: Path, port: int) -> Iterator[Daemon]:
    with Daemon(demo(port), tmp_path / "demo.log") as running:
        assert f"127.0.0.1:{port}" == running.address()
        yield running


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_serves_what_the_node_role_serves(running: Daemon, port: int) -> None:
    until(lambda: get(port, "/readyz") == (200, "ready\n"), 10, running.log)

    assert (200, "ok\n") == get(port, "/healthz")
    assert 'pod="notebook-0"' in get(port, "/metrics")[1]
    assert "notebook-0" in get(port, "/")[1]
    assert (404, "not found; there is /metrics, /, /healthz, /readyz\n") == get(port, "/metric")
    assert f"http://127.0.0.1:{port}/ " in running.log()


def test_it_ends_at_once_and_in_silence_with_clients_connected(running: Daemon, port: int) -> None:
    with (
        socket.create_connection(("127.0.0.1", port)) as silent,
        socket.create_connection(silent.getpeername()) as slow,
    ):
        slow.sendall(b"GET / HT")
        get(port, "/healthz")

        assert running.stop(timeout=3) == 0
    assert "stopping" in running.log().splitlines()[-1]
    assert "Traceback" not in running.log()


def test_an_address_that_is_taken_is_one_line(running: Daemon, tmp_path: Path, port: int) -> None:
    with Daemon(demo(port), tmp_path / "second.log") as second:
        assert second.process.wait(10) == 1
        line = second.log().splitlines()[-1]
    assert line.endswith(f"cannot listen on 127.0.0.1:{port}: address already in use; set --port")
    assert "Traceback" not in second.log()
    assert running.process.poll() is None
