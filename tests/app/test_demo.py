"""The demo as it is run: every role of a cluster behind one port, and a clean end whoever is connected."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psutil
import pytest

from tools.daemon import Daemon, until
from tools.fetch import binary

ROOT = Path(__file__).parents[2]

NODES = ("gpu-h100-1", "gpu-a100-1", "gpu-l4-1", "gpu-dra-1", "gpu-t4-1")


def demo(port: int) -> list[str]:
    return [sys.executable, "-m", "gpuledger", "demo", "--no-browser", f"--port={port}"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        free: int = listening.getsockname()[1]
        return free


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Daemon]:
    with Daemon(demo(port), tmp_path_factory.mktemp("demo") / "log") as running:
        assert f"127.0.0.1:{port}" == running.address()
        until(lambda: get(port, "/readyz") == (200, "ready\n"), 20, running.log)
        yield running


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("node", NODES)
def test_every_node_is_served_as_the_node_role_serves_it(port: int, node: str) -> None:
    def both() -> tuple[Any, Any]:
        return get(port, f"/node/{node}/"), get(port, f"/node/{node}")

    assert (200, "ok\n") == get(port, f"/node/{node}/healthz")
    assert f'gpuledger_build_info{{node="{node}"' in get(port, f"/node/{node}/metrics")[1]
    assert node in get(port, f"/node/{node}/")[1]
    until(lambda: len(set(both())) == 1, 10, lambda: str(both()))  # unless a cycle ends in between


def test_the_cluster_role_sees_the_pods_that_the_nodes_see(running: Daemon, port: int) -> None:
    def notebooks(path: str) -> set[str]:
        page = get(port, path)[1]
        return set(re.findall(r'^gpuledger_pod_info\{.*pod="notebook-(\w+)-0"', page, re.MULTILINE))

    def on_nodes() -> set[str]:
        return set().union(*(notebooks(f"/node/{node}/metrics") for node in NODES))

    everybody = {"alice", "bob", "carol", "dave", "erin"}
    until(lambda: on_nodes() == everybody, 10, running.log)
    assert everybody | {"frank"} == notebooks("/cluster/metrics")


@pytest.mark.usefixtures("running")
def test_findings_are_of_every_severity(port: int) -> None:
    page = get(port, "/cluster/metrics")[1]

    assert {"info", "low", "medium", "high", "critical"} == set(
        re.findall(r'^gpuledger_audit_finding\{.*severity="(\w+)"', page, re.MULTILINE)
    )


@pytest.mark.usefixtures("running")
def test_prometheus_is_told_every_exporter_by_a_name_of_its_own(port: int) -> None:
    targets = json.loads(get(port, "/targets")[1])

    assert {f"127.0.0.1:{port}"} == {address for group in targets for address in group["targets"]}
    labels = {(group["labels"]["instance"], group["labels"]["__metrics_path__"]) for group in targets}
    assert {
        ("cluster", "/cluster/metrics"),
        *((node, f"/node/{node}/metrics") for node in NODES),
    } == labels


def test_the_way_to_everything_is_shown(running: Daemon, port: int) -> None:
    overview = get(port, "/")[1]
    for path in ("/cluster/", *(f"/node/{node}/" for node in NODES)):
        assert f'href="{path}"' in overview
    assert f"http://127.0.0.1:{port}/ " in running.log()
    assert (404, "not found; there is /, /targets, /readyz, ") == (
        get(port, "/metrics")[0],
        get(port, "/metrics")[1][:42],
    )


def test_an_address_that_is_taken_is_one_line(running: Daemon, tmp_path: Path, port: int) -> None:
    with Daemon(demo(port), tmp_path / "second.log") as second:
        assert second.process.wait(10) == 1
        line = second.log().splitlines()[-1]
    assert line.endswith(f"cannot listen on 127.0.0.1:{port}: address already in use; set --port")
    assert "Traceback" not in second.log()
    assert running.process.poll() is None


def test_it_ends_at_once_and_in_silence_with_clients_connected(tmp_path: Path) -> None:
    port = free_port()
    with Daemon(demo(port), tmp_path / "demo.log") as running:
        running.address()
        with (
            socket.create_connection(("127.0.0.1", port)) as silent,
            socket.create_connection(silent.getpeername()) as slow,
        ):
            slow.sendall(b"GET / HT")
            get(port, "/readyz")

            assert running.stop(timeout=4) == 0
        assert "stopping" in running.log().splitlines()[-1]
        assert "Traceback" not in running.log()


def started(port: int, tmp_path: Path, *flags: str, **options: Any) -> subprocess.Popen[bytes]:
    """The demo in a folder for temporary files of its own."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch), **options.pop("env", {})}
    with (tmp_path / "log").open("wb") as log:
        return subprocess.Popen([*demo(port), *flags], stderr=log, env=env, **options)


@pytest.mark.e2e
def test_a_prometheus_that_is_installed_scrapes_all_of_it_and_is_gone_with_it(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    path = f"{binary('prometheus-3', 'prometheus').parent}:{os.environ['PATH']}"
    process = started(port, tmp_path, "--prometheus", env={"PATH": path}, cwd=ROOT)
    try:
        until(lambda: re.search(r"(http://127\.0\.0\.1:\d+)/query", log.read_text()), 15, log.read_text)
        (prometheus,) = re.findall(r"(http://127\.0\.0\.1:\d+)/query", log.read_text())
        at = int(prometheus.rpartition(":")[2])
        up = "/api/v1/query?query=count(up%7Bcluster=%22demo%22%7D==1)"
        until(lambda: '"6"]' in _maybe(at, up), 30, log.read_text)
        assert "GpuXidCritical" in get(at, "/api/v1/rules")[1]
        (child,) = psutil.Process(process.pid).children()
    finally:
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(10)
    assert not child.is_running()
    assert [] == list((tmp_path / "scratch").iterdir())


def _maybe(port: int, path: str) -> str:
    """An answer, or nothing while there is none."""
    try:
        return get(port, path)[1]
    except OSError:
        return ""


def test_without_a_prometheus_it_says_how_to_get_one_and_goes_on(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    process = started(port, tmp_path, "--prometheus", env={"PATH": ""}, cwd=tmp_path)
    try:
        until(lambda: "serving on" in log.read_text(), 15, log.read_text)
        assert "apt-get install prometheus" in log.read_text()
    finally:
        process.terminate()
        assert 0 == process.wait(10)
