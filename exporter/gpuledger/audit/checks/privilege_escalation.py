"""A program of a container may gain rights that the container was not started with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import RESTRICTED
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "privilege-escalation",
    Severity.LOW,
    title="privilege escalation allowed",
    flags="securityContext.allowPrivilegeEscalation other than false",
    why="Set-user-ID programs in the image turn any user into root. Pod Security Standards, restricted:"
    " Privilege Escalation.",
    remediation="Set allowPrivilegeEscalation: false.",
    references=(RESTRICTED,),
)
def privilege_escalation(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container."""
    for container in pod.containers:
        if pod.linux and container.spec.security_context.allow_privilege_escalation is not False:
            path = f"{container.path}.securityContext.allowPrivilegeEscalation"
            yield Hit(path, "", container.name)
