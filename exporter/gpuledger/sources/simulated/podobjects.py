"""A simulated pod as the API's JSON, with what belongs to it: its Job and the warnings about it."""

from __future__ import annotations

from collections.abc import Iterator
from time import gmtime, strftime
from typing import Any

from gpuledger.sources.simulated.identity import Identities
from gpuledger.sources.simulated.population import Life, Run

Object = dict[str, Any]

_API_VERSIONS = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "RayCluster": "ray.io/v1",
}
_HARDENED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CRASH_EXIT_CODE = 139
_BACK_OFF_SECONDS = 5.0
"""How often the kubelet warns that it waits before it starts a container again."""


def timestamp(time: float) -> str:
    """A Unix time as the API writes it."""
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(time))


def pod_object(life: Life, identities: Identities) -> Object:
    """A pod."""
    tenant = life.tenant
    labels = {"app.kubernetes.io/name": tenant.name}
    if life.controller[0] == "ReplicaSet":
        labels["pod-template-hash"] = life.controller[1].rpartition("-")[2]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": life.name,
            "namespace": tenant.namespace,
            "uid": life.uid,
            "creationTimestamp": timestamp(life.born),
            "labels": labels,
            "ownerReferences": _owners(life, identities),
        },
        "spec": _spec(life, identities),
        "status": _status(life),
    }


def job_object(life: Life, identities: Identities) -> Object:
    """The Job that created a pod."""
    tenant, (_, name) = life.tenant, life.controller
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "name": tenant.name, "controller": True}
    owners = [{**cron, "uid": identities.uuid("CronJob", tenant.namespace, tenant.name)}]
    uid = identities.uuid("Job", tenant.namespace, name)
    meta: Object = {"name": name, "namespace": tenant.namespace, "uid": uid}
    if tenant.kind == "CronJob":
        meta["ownerReferences"] = owners
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}


def warnings_about(life: Life, identities: Identities, now: float) -> Iterator[Object]:
    """The warnings that the API still has of a pod, at a Unix time."""
    if life.restarts:
        times = life.restarts + int((now - life.born) // _BACK_OFF_SECONDS)
        yield _warning(life, identities, "BackOff", times, now - now % _BACK_OFF_SECONDS)
    elif life.tenant.waits:
        yield _warning(life, identities, "FailedScheduling", 1 + int((now - life.born) // 60), now - now % 60)


def _warning(life: Life, identities: Identities, reason: str, count: int, last: float) -> Object:
    about = {"kind": "Pod", "namespace": life.tenant.namespace, "name": life.name, "uid": life.uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{life.name}.{reason.lower()}",
            "namespace": life.tenant.namespace,
            "uid": identities.uuid("event", life.uid, reason),
            "creationTimestamp": timestamp(life.born),
        },
        "type": "Warning",
        "reason": reason,
        "count": count,
        "lastTimestamp": timestamp(last),
        "involvedObject": about,
    }


def _owners(life: Life, identities: Identities) -> list[Object]:
    kind, name = life.controller
    if not kind:
        return []
    uid = identities.uuid(kind, life.tenant.namespace, name)
    return [{"apiVersion": _API_VERSIONS[kind], "kind": kind, "name": name, "uid": uid, "controller": True}]


def _spec(life: Life, identities: Identities) -> Object:
    tenant = life.tenant
    name = tenant.image or f"registry.example.com/{tenant.namespace}/{tenant.name}:1.4.2"
    digest = identities.container_id("image", name)
    limits: Object = {"cpu": "8", "memory": "32Gi", **{name: str(count) for name, count in tenant.asks.items()}}
    container: Object = {
        "name": tenant.container,
        "image": name if tenant.container_spec else f"{name}@sha256:{digest}",
        "resources": {"limits": limits, "requests": {"cpu": "2", "memory": "16Gi"}},
        "securityContext": _HARDENED,
        **tenant.container_spec,
    }
    spec: Object = {"containers": [container], **tenant.pod_spec}
    if tenant.node:
        spec["nodeName"] = tenant.node
    if tenant.claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": tenant.claim}]
        container["resources"]["claims"] = [{"name": "gpu"}]
    return spec


def _status(life: Life) -> Object:
    ready = life.run is not None
    conditions = [{"type": "PodScheduled", "status": "True"}]
    if not life.tenant.node:
        if not life.tenant.waits:  # gated: nobody has looked at it yet
            return {"phase": "Pending", "qosClass": "Burstable"}
        unschedulable = {"reason": "Unschedulable", "message": life.tenant.waits}
        conditions = [{"type": "PodScheduled", "status": "False", **unschedulable}]
        return {"phase": "Pending", "qosClass": "Burstable", "conditions": conditions}
    for name in ("Initialized", "ContainersReady", "Ready"):
        conditions.append({"type": name, "status": str(ready or name == "Initialized")})
    return {
        "phase": "Succeeded" if life.over else "Running",
        "qosClass": "Burstable",
        "conditions": conditions,
        "containerStatuses": [_container_status(life)],
    }


def _container_status(life: Life) -> Object:
    *before, newest = life.runs
    status: Object = {
        "name": life.tenant.container,
        "containerID": f"containerd://{newest.container_id}",
        "ready": newest.ended is None,
        "restartCount": life.restarts,
    }
    ended = before[-1] if before else None
    if newest.ended is None:
        status["state"] = {"running": {"startedAt": timestamp(newest.began)}}
    elif life.over:
        status["state"] = {"terminated": _terminated(newest, "Completed", 0)}
    else:
        status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
        ended = newest
    if ended is not None:
        status["lastState"] = {"terminated": _terminated(ended, "Error", _CRASH_EXIT_CODE)}
    return status


def _terminated(run: Run, reason: str, exit_code: int) -> Object:
    return {
        "reason": reason,
        "exitCode": exit_code,
        "startedAt": timestamp(run.began),
        "finishedAt": timestamp(run.ended or run.began),
        "containerID": f"containerd://{run.container_id}",
    }
