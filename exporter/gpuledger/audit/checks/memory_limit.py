"""A container without a memory limit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.places import unlimited_containers
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "memory-limit",
    Severity.MEDIUM,
    title="no memory limit",
    flags="resources.limits.memory missing or 0 in containers and sidecars (info in init containers)"
    " where spec.resources sets none either",
    why="A container without a memory limit can take all memory of a node that others share: the kernel then"
    " kills whom it likes, the GPU job next door as well as this one.",
    remediation="Set a memory limit that the workload was measured to need, on the container or on the pod.",
    references=("https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",),
)
def memory_limit(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container."""
    return unlimited_containers(pod, "memory")
