"""The workload that a pod belongs to: what somebody deployed, not the ReplicaSet or Job in between."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuledger.core.model import Workload

if TYPE_CHECKING:
    from gpuledger.core.model import Controller
    from gpuledger.parse.objectmeta import ObjectMeta


@dataclass(frozen=True, slots=True)
class _Hop:
    """From an object of `kind` to the one above it, which a label that pods inherit gives away.

    The label's value is the upper name, with which the lower begins; with `suffix` it is what the lower adds to
    the upper. A label that does not fit the name is not believed. `above` is the upper kind, or a label of it.
    """

    kind: str
    label: str
    above: str
    suffix: bool = False

    def climb(self, lower: Workload, labels: dict[str, str]) -> Workload:
        """The workload above, or `lower` itself where this hop does not apply."""
        value = labels.get(self.label)
        if not value or lower.kind != self.kind:
            return lower
        if self.suffix:
            name, fits = lower.name.removesuffix(f"-{value}"), lower.name.endswith(f"-{value}")
        else:
            name, fits = value, f"{lower.name}-".startswith(f"{value}-")
        kind = labels.get(self.above, "") if "/" in self.above else self.above
        return Workload(kind, name) if fits and kind else lower


# In the order in which a pod climbs. Where each label is documented: docs/workloads.md.
_HOPS = (
    _Hop("ReplicaSet", "pod-template-hash", "Deployment", suffix=True),
    _Hop("ReplicaSet", "rollouts-pod-template-hash", "Rollout", suffix=True),
    _Hop("ReplicationController", "deploymentconfig", "DeploymentConfig"),
    _Hop("Deployment", "serving.kserve.io/inferenceservice", "InferenceService"),
    _Hop("Deployment", "serving.knative.dev/service", "KnativeService"),
    _Hop("Job", "jobset.sigs.k8s.io/jobset-name", "JobSet"),
    _Hop("Job", "training.kubeflow.org/job-name", "MPIJob"),
    _Hop("Job", "ray.io/originated-from-cr-name", "ray.io/originated-from-crd"),
    _Hop("RayCluster", "ray.io/originated-from-cr-name", "ray.io/originated-from-crd"),
    _Hop("StatefulSet", "leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    _Hop("StatefulSet", "notebook-name", "Notebook"),
    _Hop("Pod", "sparkoperator.k8s.io/app-name", "SparkApplication"),
)

# apimachinery's rand.SafeEncodeString writes a template's hash, a decimal uint32, in these ten letters;
# rand.String draws a generated name's five from all 27. Names are cut to 63, and then nothing can be told.
_SUFFIX = "-[bcdfghjklmnpqrstvwxz2456789]{5}"
_POD_OF_DEPLOYMENT = re.compile(r"(?P<name>.+)-[4-9bcdf]{8,10}" + _SUFFIX)
_MAX_WHOLE_NAME = 62

# A CronJob's Job is named after its time, in minutes since 1970 or (before Kubernetes 1.21) seconds. Days and
# hours that people name Jobs after (20261130, 2026113017) are outside these ranges, which begin with 2020.
_JOB_OF_CRONJOB = re.compile(r"(?P<name>.+)-(?P<time>[0-9]{8}|[0-9]{10})")
_POD_OF_CRONJOB = re.compile(_JOB_OF_CRONJOB.pattern + _SUFFIX)
_TIMES = {8: range(26_297_280, 100_000_000), 10: range(1_577_836_800, 2_000_000_000)}


def workload_of(meta: ObjectMeta, kind: str = "Pod") -> Workload:
    """The workload of a pod (or of another object of `kind`), from its controller, labels and name alone.

    An object without a controller is its own workload. A CronJob is read from a Job's name and marked inferred:
    only the Job itself knows.
    """
    controller = meta.controller
    if controller is None:
        return Workload(kind, meta.name)
    labels = meta.labels or {}
    workload = _first_hop(meta.name, controller)
    for hop in _HOPS:
        if hop.label in labels:
            workload = hop.climb(workload, labels)
    if workload.kind == "Job":
        return _cronjob(_JOB_OF_CRONJOB.fullmatch(workload.name)) or workload
    return workload


def infer_workload(pod_name: str) -> Workload | None:
    """A guess from the name alone, marked inferred: a Deployment, a CronJob, or None."""
    if len(pod_name) > _MAX_WHOLE_NAME:
        return None
    deployment = _POD_OF_DEPLOYMENT.fullmatch(pod_name)
    if deployment is not None:
        return Workload("Deployment", deployment["name"], inferred=True)
    return _cronjob(_POD_OF_CRONJOB.fullmatch(pod_name))


def _first_hop(pod_name: str, controller: Controller) -> Workload:
    workload = Workload(controller.kind, controller.name)
    if controller.kind == "Node" and not controller.group:
        return Workload("StaticPod", pod_name.removesuffix(f"-{controller.name}"))
    if controller.kind == "Job" and controller.group == "batch.volcano.sh":
        return replace(workload, kind="VolcanoJob")
    return workload


def _cronjob(match: re.Match[str] | None) -> Workload | None:
    """The CronJob that named a Job after the time that it was scheduled for."""
    if match is None or int(match["time"]) not in _TIMES[len(match["time"])]:
        return None
    return Workload("CronJob", match["name"], inferred=True)
