"""A container without the boundary that makes it one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.places import privileged_containers
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "privileged",
    Severity.HIGH,
    title="privileged container",
    flags="securityContext.privileged: true",
    why="A privileged container is root on its node. This is the Pod Security Standards' control Privileged"
    " Containers.",
    remediation="Remove privileged; add the single capabilities or devices that are needed.",
    references=("https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline",),
    of=("security context",),
    covered_by=("gpu-privileged",),
    expected=True,
)
def privileged(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container."""
    return privileged_containers(pod)
