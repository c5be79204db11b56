"""A GPU request that the API would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.quantity import parse_readable


@partial(
    Check,
    "gpu-request-shape",
    Severity.MEDIUM,
    title="GPU request that Kubernetes refuses",
    flags="a GPU resource without an equal limit, of a fraction, or in the pod-level spec.resources",
    why="Extended resources are whole numbers, can't be overcommitted and belong to containers. The API server"
    " refuses anything else: the rollout fails, or a scheduler extension reads it in its own way.",
    remediation="Write the same whole number under the container's requests and limits, or under limits alone.",
    references=("https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",),
)
def gpu_request_shape(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each resource; quantities that can't be read are another check's."""
    for container in pod.containers:
        if not container.gpus:
            continue
        requests = parse_readable(container.spec.resources.requests)
        limits = parse_readable(container.spec.resources.limits)
        for name in container.gpus:
            path = f"{container.path}.resources"
            if name in requests and requests[name] != limits.get(name):
                limit = limits.get(name, "none")
                yield Hit(path, f"{name}: request {requests[name]}, limit {limit}", container.name)
            elif name in limits and limits[name] != limits[name].to_integral_value():
                yield Hit(path, f"{name}: {limits[name]} is not whole", container.name)
    pod_level = pod.spec.resources
    for name in dict.fromkeys((*pod_level.requests, *pod_level.limits)):
        if gpu_resource_kind(name, pod.context.also):
            yield Hit(pod.path("resources"), f"{name} on the pod instead of a container")
