"""A container may make any system call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "seccomp-unconfined",
    Severity.HIGH,
    title="seccomp switched off",
    flags="seccompProfile.type Unconfined of the pod or a container",
    why="Without the filter every system call is open, also those that most kernel exploits need. Pod"
    " Security Standards, baseline: Seccomp.",
    remediation="Remove the profile, or name RuntimeDefault.",
    references=(BASELINE,),
    of=("security context",),
    expected=True,
)
def seccomp_unconfined(pod: PodSubject) -> Iterator[Hit]:
    """The pod's profile is flagged once, for all who inherit it."""
    if not pod.linux:
        return
    if pod.spec.security_context.seccomp_profile.type == "Unconfined":
        yield Hit(pod.path("securityContext.seccompProfile"), "Unconfined")
    for container in pod.containers:
        if container.spec.security_context.seccomp_profile.type == "Unconfined":
            yield Hit(f"{container.path}.securityContext.seccompProfile", "Unconfined", container.name)
