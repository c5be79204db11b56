"""A container is not kept from running as root."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import RESTRICTED
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "run-as-non-root",
    Severity.LOW,
    title="may run as root",
    flags="runAsNonRoot other than true, of the container or else the pod (waived by hostUsers: false)",
    why="Root in a container is root on the node as soon as anything else fails. Pod Security Standards,"
    " restricted: Running as Non-root.",
    remediation="Set runAsNonRoot: true, and a user in the image or by runAsUser.",
    references=(RESTRICTED,),
)
def run_as_non_root(pod: PodSubject) -> Iterator[Hit]:
    """The container's own setting wins over the pod's."""
    if not pod.spec.host_users:
        return
    for container in pod.containers:
        own = container.spec.security_context.run_as_non_root
        if (pod.spec.security_context.run_as_non_root if own is None else own) is not True:
            yield Hit(f"{container.path}.securityContext.runAsNonRoot", "", container.name)
