"""Pods come and go in a cluster by the thousand: the cluster role stays as large as it was."""

from __future__ import annotations

import sys
import urllib.request
from collections import deque
from typing import TYPE_CHECKING

import psutil
import pytest

from fakes.apiserver import ApiServer
from fakes.clusterview import claim, node, pod, quota
from soak.growth import Size, grown, size_of
from tools.daemon import Daemon, until
from tools.exposition import Exposition

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.apistore import Object

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

GENERATIONS = 12_000
ALIVE = 200
NODES = 25
SAMPLED_EVERY = 120
COMPACTED_EVERY = 600
"""As etcd does: now and then a watch comes too late, and all is listed anew."""


def born(generation: int) -> list[Object]:
    """A pod of a workload and with findings of its own, a claim and a warning, as they come to be."""
    name, namespace = f"job-{generation}-x7k2p", f"team-{generation % 30}"
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": f"job-{generation}",
        "uid": f"j-{generation}",
        "controller": True,
    }
    meta = {"uid": f"uid-{generation}", "ownerReferences": [owner]}
    waiting = pod(
        name, gpus=1, namespace=namespace, metadata=meta, container={"securityContext": {"privileged": True}}
    )
    warning = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{name}.1",
            "namespace": namespace,
            "uid": f"e-{generation}",
            "creationTimestamp": "2026-11-30T00:00:00Z",
        },
        "type": "Warning",
        "involvedObject": {"kind": "Pod", "name": name, "namespace": namespace, "uid": meta["uid"]},
        "reason": f"Reason{generation % 20}",
        "count": 1,
    }
    return [waiting, warning, claim(f"claim-{generation}", f"gpu-{generation % 8}")]


def running(waiting: Object, number: int) -> Object:
    return {
        **waiting,
        "spec": {**waiting["spec"], "nodeName": f"node-{number % NODES}"},
        "status": {"phase": "Running"},
    }


def test_ten_thousand_pods_leave_nothing_behind(tmp_path: Path) -> None:
    with ApiServer() as api:
        for number in range(NODES):
            api.add(node(f"node-{number}"))
        api.add(quota("gpus", 100, 10))
        command = [
            sys.executable,
            "-m",
            "gpuledger",
            "cluster",
            "--web.listen-address=127.0.0.1:0",
            f"--kubeconfig={api.kubeconfig(tmp_path / 'kubeconfig')}",
        ]
        with Daemon(command, tmp_path / "log") as role:
            url = f"http://{role.address()}/metrics"
            sizes = list(lives(api, role, url))
            until(lambda: len(Exposition(page(url)).series("pod_info")) == ALIVE, 30, role.log)
            assert {} == grown(sizes)
        assert "Traceback" not in role.log()


def lives(api: ApiServer, role: Daemon, url: str) -> list[Size]:
    """Let pods come and go; what the role is like all the while."""
    alive: deque[list[Object]] = deque()
    sizes = []
    for generation in range(GENERATIONS):
        objects = [api.add(new) for new in born(generation)]
        objects[0] = api.update(running(objects[0], generation))
        alive.append(objects)
        if len(alive) > ALIVE:
            for gone in alive.popleft():
                api.delete(gone)
        if generation % COMPACTED_EVERY == 0:
            api.compact()
            api.requests.clear()
        if generation % SAMPLED_EVERY == 0:
            until(lambda: shows(url, objects[0]), 90, role.log)  # noqa: B023 - called at once
            if len(alive) == ALIVE:
                sizes.append(size_of(psutil.Process(role.process.pid), page(url)))
    return sizes


def shows(url: str, newest: Object) -> bool:
    return f'pod="{newest["metadata"]["name"]}"' in page(url)


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as reply:
        text: str = reply.read().decode()
    return text
