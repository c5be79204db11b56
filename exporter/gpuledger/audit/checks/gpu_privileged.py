"""A privileged container sees every GPU of its node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.places import privileged_containers
from gpuledger.audit.subject import PodSubject


def _judge(facts: ClusterFacts, pod: AuditedPod, finding: Finding) -> Severity:
    return Severity.HIGH if facts.inventory.has_no_gpu(pod.node) else finding.severity


@partial(
    Check,
    "gpu-privileged",
    Severity.CRITICAL,
    title="privileged container sees every GPU",
    flags="securityContext.privileged: true",
    why="A privileged container has all device nodes: it can use every GPU of its node, whatever it asked"
    " for, read what other pods left in their memory, and take over the host.",
    remediation="Remove privileged: a GPU that is requested as a resource needs none. Add single"
    " capabilities or device plugins for what else is needed.",
    references=(
        "https://github.com/NVIDIA/k8s-device-plugin/issues/336",
        "https://kubernetes.io/docs/concepts/security/pod-security-standards/",
    ),
    of=("security context",),
    judge=_judge,
    expected=True,
)
def gpu_privileged(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container; on a node that is known to have no GPU it is as bad as any other."""
    return privileged_containers(pod)
