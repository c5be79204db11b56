"""Pods that hold or use GPUs, each of one container, as the Kubernetes API tells them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuledger.core.model import Owner, PodUid, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fakes.apistore import Object

NODE = "gpu-node-1"


@dataclass(frozen=True, slots=True)
class Controlled:
    """How a pod shows its workload: its own name, labels and controller."""

    workload: Workload
    pod: str
    labels: Mapping[str, str] = field(default_factory=dict)
    controller: tuple[str, str, str] | None = None
    """API version, kind and name."""


def deployment(name: str) -> Controlled:
    """A pod of a Deployment, through its ReplicaSet."""
    labels = {"app": name, "pod-template-hash": "6d4cf56db6"}
    replica_set = f"{name}-6d4cf56db6"
    return Controlled(
        Workload("Deployment", name), f"{replica_set}-x7k2p", labels, ("apps/v1", "ReplicaSet", replica_set)
    )


def cron_job(name: str) -> Controlled:
    """A pod of a CronJob, through the Job of 2026-01-01 00:00."""
    job = f"{name}-29453760"
    labels = {"batch.kubernetes.io/job-name": job}
    return Controlled(Workload("CronJob", name), f"{job}-q9zlm", labels, ("batch/v1", "Job", job))


def stateful_set(name: str) -> Controlled:
    """The first pod of a StatefulSet."""
    return Controlled(
        Workload("StatefulSet", name), f"{name}-0", {"app": name}, ("apps/v1", "StatefulSet", name)
    )


def daemon_set(name: str) -> Controlled:
    """A pod of a DaemonSet."""
    return Controlled(
        Workload("DaemonSet", name), f"{name}-w4jbr", {"app": name}, ("apps/v1", "DaemonSet", name)
    )


def bare(name: str) -> Controlled:
    """A pod without a controller, which is its own workload."""
    return Controlled(Workload("Pod", name), name)


@dataclass(eq=False, kw_only=True)
class Tenant:
    """A pod of one container; `devices` are the ids that the kubelet allocated of `resource`."""

    namespace: str
    controlled: Controlled
    container: str
    uid: str
    container_id: str
    cgroup: str
    resource: str
    devices: tuple[str, ...]

    @property
    def owner(self) -> Owner:
        """Who the exporter shall say this is."""
        return Owner(
            self.namespace, self.controlled.pod, self.container, self.controlled.workload, PodUid(self.uid)
        )

    @property
    def log_link(self) -> str:
        """The kubelet's name for its log in /var/log/containers."""
        return f"{self.controlled.pod}_{self.namespace}_{self.container}-{self.container_id}.log"


def api_objects(tenant: Tenant) -> Iterator[Object]:
    """The pod, after the Job between it and its CronJob."""
    pod = _api_pod(tenant)
    workload = tenant.controlled.workload
    if workload.kind == "CronJob":
        [job] = pod["metadata"]["ownerReferences"]
        reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": workload.name, "controller": True}
        metadata = {
            "name": job["name"],
            "namespace": tenant.namespace,
            "uid": job["uid"],
            "ownerReferences": [{**reference, "uid": f"{workload.name}-uid"}],
        }
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    yield pod


def _api_pod(tenant: Tenant) -> Object:
    controlled = tenant.controlled
    resources = {"limits": {tenant.resource: str(len(tenant.devices))}} if tenant.devices else {}
    metadata: dict[str, Any] = {
        "name": controlled.pod,
        "namespace": tenant.namespace,
        "uid": tenant.uid,
        "labels": dict(controlled.labels),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if controlled.controller is not None:
        version, kind, name = controlled.controller
        reference = {
            "apiVersion": version,
            "kind": kind,
            "name": name,
            "uid": f"{name}-uid",
            "controller": True,
        }
        metadata["ownerReferences"] = [reference]
    status = {
        "name": tenant.container,
        "containerID": f"containerd://{tenant.container_id}",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": NODE, "containers": [{"name": tenant.container, "resources": resources}]},
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [status],
        },
    }
