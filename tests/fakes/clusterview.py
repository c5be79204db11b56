"""The cluster role in the test's own process, following the API server stand-in, and objects to put there."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from gpuledger.app.audit.command import read_advisories
from gpuledger.app.cluster.books import ClusterBooks
from gpuledger.app.cluster.command import chosen_checks, feeds
from gpuledger.app.cluster.podintake import PodIntake
from gpuledger.app.settings import ClusterSettings
from gpuledger.audit.check import Severity
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.policy import Policy
from gpuledger.audit.verdict import Judge
from gpuledger.core.sharding import Shard
from gpuledger.metrics.objectcache import join_columns
from gpuledger.sources.listwatch import Pace

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.apistore import Object

NOW = 1_800_000_000.0
"""When all of this happens."""

GPU = "nvidia.com/gpu"


class ClusterView:
    """What one shard of the cluster role makes of the API that `kubeconfig` names; asking it refreshes it."""

    def __init__(self, kubeconfig: Path, shard: Shard, pace: Pace, minimum: Severity = Severity.INFO) -> None:
        settings = ClusterSettings(kubeconfig=str(kubeconfig), shard=shard)
        self.intake = PodIntake(chosen_checks(minimum), read_advisories(), lambda: NOW, shard=shard)
        self.books = ClusterBooks(self.intake, Judge(CHECKS, ClusterFacts(), NOW, minimum))
        self.feeds = feeds(settings, self.books, self.intake, pace)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=feed.run, args=(self._stop,), daemon=True) for feed in self.feeds
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(5.0)  # a stop during a TCP connect waits for that
        assert not any(thread.is_alive() for thread in self._threads)

    def unreadable(self) -> int:
        """Objects of every kind that are left out now, because they are malformed."""
        return sum(health.unreadable or 0 for feed in self.feeds if (health := feed.health()) is not None)

    def series(self, policy: Policy | None = None) -> list[str]:
        """The page's series, sorted, once all is judged by the policy."""
        self.books.refresh(policy or Policy(), NOW)
        pieces, _ = join_columns(self.books.columns(), limit=10**6, openmetrics=False)
        lines = b"".join(pieces).decode().splitlines()
        return sorted(line for line in lines if not line.startswith("#"))


def node(name: str, gpus: int = 8, **more: Any) -> Object:
    """A node with 64 cores; `more` may say what is allocatable, the labels, `ready` and `unschedulable`."""
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": more.get("labels", {})},
        "spec": {"unschedulable": True} if more.get("unschedulable") else {},
        "status": {
            "capacity": capacity,
            "allocatable": {**capacity, **more.get("allocatable", {})},
            "conditions": [{"type": "Ready", "status": str(more.get("ready", True))}],
        },
    }


def pod(name: str, gpus: int = 0, node: str = "", **more: Any) -> Object:
    """A pod of one container; `more`: its namespace, phase, image, fields of container, metadata and spec."""
    container = {
        "name": "main",
        "image": more.get("image", "registry.example/app:1"),
        "resources": {
            "requests": {"cpu": "500m", **({GPU: str(gpus)} if gpus else {})},
            "limits": {"memory": "1Gi", **({GPU: str(gpus)} if gpus else {})},
        },
        **more.get("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": more.get("namespace", "ml"),
            "creationTimestamp": "2026-11-30T00:00:00Z",
            **more.get("metadata", {}),
        },
        "spec": {"containers": [container], **({"nodeName": node} if node else {}), **more.get("spec", {})},
        "status": {"phase": more.get("phase", "Running" if node else "Pending"), **more.get("status", {})},
    }


def quota(name: str, hard: int, used: int, namespace: str = "ml") -> Object:
    """A quota on GPUs."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": {f"requests.{GPU}": str(hard)}},
        "status": {"hard": {f"requests.{GPU}": str(hard)}, "used": {f"requests.{GPU}": str(used)}},
    }


def toolkit(name: str, node: str, *, unprivileged: bool) -> Object:
    """A pod of NVIDIA's container toolkit, which says whether pods may name devices in their environment."""
    value = str(unprivileged).lower()
    env = [{"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": value}]
    image = "nvcr.io/nvidia/k8s/container-toolkit:v1.19.0"
    owner = {"kind": "DaemonSet", "name": "toolkit", "controller": True, "apiVersion": "apps/v1"}
    return pod(
        name,
        node=node,
        namespace="gpu-operator",
        image=image,
        container={"env": env},
        metadata={"uid": f"uid-{name}", "ownerReferences": [owner]},
    )


NVIDIAS = "device.driver == 'gpu.nvidia.com'"


def device_class(name: str, expression: str = NVIDIAS, version: str = "v1") -> Object:
    """A DeviceClass of what the expression selects."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def claim(
    name: str, *devices: str, pool: str = "node1", version: str = "v1", of: str = "gpu.nvidia.com", **asked: Any
) -> Object:
    """A claim on GPUs of a pool and a class: allocated where it names devices, else waiting for one."""
    results = [
        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": pool, "device": device} for device in devices
    ]
    exactly = {"deviceClassName": of, "count": len(devices) or 1, **asked}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {"allocation": {"devices": {"results": results}}} if devices else {},
    }


def resource_slice(pool: str, generation: int, *devices: str, version: str = "v1") -> Object:
    """A slice of a pool, which is named after its node."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{pool}-{generation}"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": pool,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": device} for device in devices],
        },
    }


def warning(about: Object, reason: str, count: int) -> Object:
    """A warning about a pod, given so many times."""
    meta = about["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{reason}", "namespace": meta["namespace"]},
        "type": "Warning",
        "reason": reason,
        "count": count,
        "lastTimestamp": "2026-11-30T10:00:00Z",
        "involvedObject": {"kind": "Pod", **{name: meta[name] for name in ("namespace", "name", "uid")}},
    }
