"""A container sees all of /proc."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "proc-mount",
    Severity.HIGH,
    title="unmasked /proc",
    flags="securityContext.procMount other than Default (allowed with hostUsers: false)",
    why="The mask over /proc hides what can change or crash the kernel. Pod Security Standards, baseline:"
    " /proc Mount Type.",
    remediation="Remove procMount, or run the pod in a user namespace with hostUsers: false.",
    references=(BASELINE,),
    of=("security context",),
    expected=True,
)
def proc_mount(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container; in a user namespace it does no harm."""
    if not pod.linux or not pod.spec.host_users:
        return
    for container in pod.containers:
        mount = container.spec.security_context.proc_mount
        if mount not in ("", "Default"):
            yield Hit(f"{container.path}.securityContext.procMount", mount, container.name)
