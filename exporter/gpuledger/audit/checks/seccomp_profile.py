"""A container has no seccomp profile."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import RESTRICTED, seccomp_of
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "seccomp-profile",
    Severity.LOW,
    title="no seccomp profile",
    flags="seccompProfile.type other than RuntimeDefault and Localhost, of the container or else the pod",
    why="Without a profile most clusters filter no system calls at all. Pod Security Standards,"
    " restricted: Seccomp.",
    remediation="Set seccompProfile.type: RuntimeDefault on the pod.",
    references=(RESTRICTED,),
    covered_by=("seccomp-unconfined",),
)
def seccomp_profile(pod: PodSubject) -> Iterator[Hit]:
    """The container's own profile wins over the pod's."""
    for container in pod.containers:
        profile = seccomp_of(pod, container)
        if pod.linux and profile not in ("RuntimeDefault", "Localhost"):
            yield Hit(f"{container.path}.securityContext.seccompProfile", profile, container.name)
