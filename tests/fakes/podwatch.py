"""Pods for the fake API server, and a PodSource that follows them while a test looks on."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from gpuledger.sources.kubeapi import PodSource
from gpuledger.sources.listwatch import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuledger.sources.kubehttp import Connection

T = TypeVar("T")

NODE = "node1"
BRISK = Pace(watch=60, margin=1.0, answer=5.0, backoff=0.02, backoff_max=0.1)


def pod(name: str, node: str = NODE, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    """A pod as a client would write it, but bound and with a phase."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {"phase": phase},
    }


def gpu_pod(name: str, job: dict[str, Any]) -> dict[str, Any]:
    """A pod of `job` that requests a GPU."""
    meta = job["metadata"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    made = pod(name, ownerReferences=[owner])
    made["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "1"}}
    return made


@contextmanager
def following(connection: Connection, pace: Pace = BRISK, **options: Any) -> Iterator[PodSource]:
    """A PodSource that runs meanwhile, and must end promptly."""
    source, stop = PodSource(connection, NODE, pace=pace, **options), threading.Event()
    thread = threading.Thread(target=source.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield source
    finally:
        stop.set()
        thread.join(3.0)
        assert not thread.is_alive()


def names(source: PodSource) -> set[str]:
    return {known.name for known in source.pods().values()}


def eventually(expected: T, actual: Callable[[], T], seconds: float = 20.0) -> None:
    """Assert that `actual` becomes `expected` before long."""
    ends_at = time.monotonic() + seconds
    while (last := actual()) != expected and time.monotonic() < ends_at:
        time.sleep(0.005)
    assert expected == last


def synced(source: PodSource) -> None:
    """Wait until the source is well."""
    eventually((True, ""), lambda: (source.health().up, source.health().error))
