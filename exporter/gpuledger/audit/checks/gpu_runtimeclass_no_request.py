"""A pod runs under the NVIDIA runtime without asking for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.claims import claim_names
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.subject import PodSubject, fractions_of


def _judge(facts: ClusterFacts, pod: AuditedPod, finding: Finding) -> Severity | None:
    entitled = finding.claims and facts.claims.may_be_nvidia(pod.namespace, finding.claims)
    return None if entitled else finding.severity


@partial(
    Check,
    "gpu-runtimeclass-no-request",
    Severity.MEDIUM,
    title="NVIDIA runtime class without a request",
    flags="spec.runtimeClassName nvidia* in a pod that asks for none of NVIDIA's GPUs",
    why="Where the NVIDIA runtime is not the default, this class is what makes NVIDIA_VISIBLE_DEVICES work,"
    " also when the image sets it, which a manifest does not show.",
    remediation="Request a GPU, or leave the class out.",
    references=("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/cdi.html",),
    judge=_judge,
    expected=True,
)
def gpu_runtimeclass_no_request(pod: PodSubject) -> Iterator[Hit]:
    """A pod of which any container asks is entitled to the class."""
    name = pod.spec.runtime_class_name
    if not name.startswith("nvidia"):
        return
    entitled = any(container.is_entitled(pod.context.also) for container in pod.containers)
    if not entitled and not fractions_of(pod.manifest):
        yield Hit(pod.path("runtimeClassName"), name, claims=tuple(claim_names(pod.manifest).values()))
