"""A container without a CPU limit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.places import unlimited_containers
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "cpu-limit",
    Severity.INFO,
    title="no CPU limit",
    flags="resources.limits.cpu missing or 0 in containers and sidecars (info in init containers)"
    " where spec.resources sets none either",
    why="A container without a CPU limit may take all spare CPU. Whether that is bad is disputed: limits"
    " throttle even on idle nodes, and requests already protect the others.",
    remediation="Set a CPU request; set a limit where nodes are shared with others who need steady latency.",
    references=("https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",),
)
def cpu_limit(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container."""
    return unlimited_containers(pod, "cpu")
