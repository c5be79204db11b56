"""A container holds the capability that the container toolkit takes for privilege."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.reach import has_sys_admin
from gpuledger.audit.subject import PodSubject


def _judge(facts: ClusterFacts, pod: AuditedPod, finding: Finding) -> Severity | None:
    """Nothing of a pod that has to do with GPUs by this capability alone, on a node without any."""
    return None if pod.tentative and facts.inventory.has_no_gpu(pod.node) else finding.severity


@partial(
    Check,
    "gpu-sys-admin",
    Severity.HIGH,
    title="SYS_ADMIN opens every GPU",
    flags="securityContext.capabilities.add with SYS_ADMIN or ALL (in a pod that has nothing else to do"
    " with GPUs: unless its node is known to have none)",
    why="The container toolkit takes a container with CAP_SYS_ADMIN for a privileged one: it may then name"
    " any GPU in its environment, even where unprivileged containers may not. The capability also all but"
    " removes the boundary between container and host.",
    remediation="Drop the capability. Profilers that need performance counters work without it once"
    " NVreg_RestrictProfilingToAdminUsers=0 is set for the driver.",
    references=(
        "https://github.com/NVIDIA/nvidia-container-toolkit",
        "https://kubernetes.io/docs/concepts/security/pod-security-standards/",
    ),
    of=("security context",),
    covered_by=("gpu-privileged",),
    judge=_judge,
    expected=True,
)
def gpu_sys_admin(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container."""
    for container in pod.containers:
        added = container.spec.security_context.capabilities.add
        if has_sys_admin(container.spec):
            path = f"{container.path}.securityContext.capabilities.add"
            yield Hit(path, f"adds {', '.join(added)}", container.name)
