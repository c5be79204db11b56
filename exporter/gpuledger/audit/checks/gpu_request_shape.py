"""A GPU request that the API would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.quantity import readable_amount


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
        resources, path = container.spec.resources, f"{container.path}.resources"
        for name in container.gpus:
            request = readable_amount(resources.requests.get(name))
            limit = readable_amount(resources.limits.get(name))
            if request is not None and request != limit:
                shown = "none" if limit is None else limit
                yield Hit(path, f"{name}: request {request}, limit {shown}", container.name)
            elif limit is not None and limit % 1:
                yield Hit(path, f"{name}: {limit} is not whole", container.name)
    pod_level = pod.spec.resources
    for name in dict.fromkeys((*pod_level.requests, *pod_level.limits)):
        if gpu_resource_kind(name, pod.context.also):
            yield Hit(pod.path("resources"), f"{name} on the pod instead of a container")
