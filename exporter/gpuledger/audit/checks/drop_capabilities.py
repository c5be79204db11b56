"""A container keeps capabilities that it does not need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import RESTRICTED
from gpuledger.audit.reach import capability
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "drop-capabilities",
    Severity.LOW,
    title="capabilities not dropped",
    flags="securityContext.capabilities.drop without ALL, or add beyond NET_BIND_SERVICE",
    why="The default capabilities still allow to forge packets and to change file owners. Pod Security"
    " Standards, restricted: Capabilities.",
    remediation="Set capabilities.drop: [ALL].",
    references=(RESTRICTED,),
    covered_by=("gpu-sys-admin", "added-capabilities"),
)
def drop_capabilities(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container, for what it keeps and what it adds."""
    if not pod.linux:
        return
    for container in pod.containers:
        capabilities = container.spec.security_context.capabilities
        path = f"{container.path}.securityContext.capabilities"
        added = [name for name in capabilities.add if capability(name) != "NET_BIND_SERVICE"]
        if added:
            yield Hit(f"{path}.add", f"adds {', '.join(added)}", container.name)
        if "ALL" not in map(capability, capabilities.drop):
            yield Hit(f"{path}.drop", "does not drop ALL", container.name)
