"""A container holds more than the default capabilities."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.reach import capability
from gpuledger.audit.subject import PodSubject

_ALLOWED = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)


@partial(
    Check,
    "added-capabilities",
    Severity.HIGH,
    title="added capabilities",
    flags="securityContext.capabilities.add beyond the runtime defaults",
    why="Each added capability is a part of root on the node. Pod Security Standards, baseline: Capabilities.",
    remediation="Remove the capabilities, or find the single one that is needed and have it granted by policy.",
    references=(BASELINE,),
    of=("security context",),
    covered_by=("gpu-sys-admin",),
    expected=True,
)
def added_capabilities(pod: PodSubject) -> Iterator[Hit]:
    """SYS_ADMIN and ALL are another check's, which says what they mean for GPUs."""
    if not pod.linux:
        return
    for container in pod.containers:
        added = [
            name
            for name in container.spec.security_context.capabilities.add
            if capability(name) not in _ALLOWED
        ]
        if added:
            path = f"{container.path}.securityContext.capabilities.add"
            yield Hit(path, f"adds {', '.join(added)}", container.name)
