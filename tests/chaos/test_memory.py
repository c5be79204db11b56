"""The memory that the chart gives each role is enough for what it is sized for, whoever scrapes meanwhile."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from chaos.crowd import scraping
from chaos.stage import address, everybody_is_there
from fakes import kubelet
from tools.daemon import Daemon, until
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.stage import Record
    from fakes.world import World

pytestmark = pytest.mark.chaos

ROOT = Path(__file__).parents[2]
VALUES = ROOT / "deploy/helm/gpuledger/values.yaml"
UNITS = {"Mi": 2**20, "Gi": 2**30}
PODS, EVENTS_A_SECOND = 20_000, 300
SCRAPES = 60


def test_the_charts_memory_is_enough_for_the_worst_that_it_is_sized_for(world: World, record: Record) -> None:
    limit = memory_limit("node")
    with memory_cgroup(limit) as folder:
        world.kubelet.pods += kubelet.pod_list(_filler())
        with Node(world, prefix=inside(folder)) as node:
            node.wait_for("everybody", everybody_is_there)
            with scraping(address(node), 100) as crowd:
                until(lambda: len(crowd.answered) > 3_000, 240, node.log)
            assert_honest(node, world)
            peak = read_peak(folder)
    assert peak < limit
    record(
        f"the chart's limit of {limit >> 20} MiB; 100 scrapers without a pause, replies of 10 MiB",
        f"nothing; at most {peak >> 20} MiB were in use",
        "no pause",
    )


def _filler() -> object:
    """A pod of 110,000 devices that are no GPUs."""
    names = [[f"port-{number:032}-{i:064}" for i in range(110)] for number in range(1_000)]
    return kubelet.pod(
        "team-z",
        "collector",
        kubelet.container("main", *(kubelet.devices("example.com/port", *each) for each in names)),
    )


def test_the_charts_memory_is_enough_for_twenty_thousand_pods_that_change(
    tmp_path: Path, record: Record
) -> None:
    limit = memory_limit("cluster")
    with pods_api() as url, memory_cgroup(limit) as folder:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config_for(url)))
        command = [
            *inside(folder),
            *(sys.executable, "-m", "gpuledger", "cluster", "--web.listen-address=127.0.0.1:0"),
            f"--kubeconfig={kubeconfig}",
        ]
        with Daemon(command, tmp_path / "log") as role:
            listening = role.address()
            until(lambda: status(f"http://{listening}/readyz") == 200, 120, role.log)
            assert status(f"{url}/start") == 200
            with scraping(listening, 20) as crowd:
                until(lambda: len(crowd.answered) > SCRAPES, 240, role.log)
            assert "Traceback" not in role.log()
            peak = read_peak(folder)
    assert peak < limit
    record(
        f"the chart's limit of {limit >> 20} MiB; {PODS:,} pods, 20 scrapers without a pause",
        f"nothing; at most {peak >> 20} MiB were in use",
        "no pause",
    )


@contextmanager
def pods_api() -> Iterator[str]:
    """An API that makes up as many pods as one likes."""
    command = [sys.executable, str(ROOT / "benchmarks/pods_api.py"), str(PODS), str(EVENTS_A_SECOND)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.terminate()


def config_for(url: str) -> dict[str, object]:
    """A kubeconfig."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": url}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }


def status(url: str) -> int:
    """What is answered there; 0 for nothing."""
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return int(reply.status)
    except OSError:
        return 0


def inside(folder: Path) -> tuple[str, ...]:
    """What puts a program into the cgroup and becomes it."""
    return ("sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh")


def memory_limit(role: str) -> int:
    """What the chart gives a role, in bytes."""
    text = yaml.safe_load(VALUES.read_text())[role]["resources"]["limits"]["memory"]
    return int(text[:-2]) * UNITS[text[-2:]]


@contextmanager
def memory_cgroup(limit: int) -> Iterator[Path]:
    """A cgroup of its own whose processes get no more memory, without swap."""
    v1 = Path("/sys/fs/cgroup/memory")
    folder = (v1 if v1.is_dir() else Path("/sys/fs/cgroup")) / "gpuledger-chaos"
    folder.mkdir()
    try:
        (folder / ("memory.limit_in_bytes" if v1.is_dir() else "memory.max")).write_text(str(limit))
        yield folder
    finally:
        until(lambda: not (folder / "cgroup.procs").read_text(), 10, lambda: f"{folder} is in use")
        folder.rmdir()


def read_peak(folder: Path) -> int:
    """The most memory that was in use, in bytes."""
    v1 = folder / "memory.max_usage_in_bytes"
    return int((v1 if v1.exists() else folder / "memory.peak").read_text())
