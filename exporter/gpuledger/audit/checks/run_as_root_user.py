"""A container runs as root."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import RESTRICTED
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "run-as-root-user",
    Severity.LOW,
    title="runs as user 0",
    flags="runAsUser: 0 of the pod or a container (waived by hostUsers: false)",
    why="Root in a container is root on the node as soon as anything else fails. Pod Security Standards,"
    " restricted: Running as Non-root user.",
    remediation="Set another user.",
    references=(RESTRICTED,),
    of=("security context",),
)
def run_as_root_user(pod: PodSubject) -> Iterator[Hit]:
    """The pod's setting is flagged once, for all who inherit it."""
    if not pod.spec.host_users:
        return
    if pod.spec.security_context.run_as_user == 0:
        yield Hit(pod.path("securityContext.runAsUser"))
    for container in pod.containers:
        if container.spec.security_context.run_as_user == 0:
            yield Hit(f"{container.path}.securityContext.runAsUser", "", container.name)
