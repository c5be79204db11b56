"""A device claim looks at devices that others hold."""

from __future__ import annotations

from collections.abc import Iterator

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.parse.manifests import ResourceClaim, ResourceClaimTemplate


def _judge(facts: ClusterFacts, pod: AuditedPod, finding: Finding) -> Severity:
    return Severity.INFO if pod.namespace in facts.admin_namespaces else finding.severity


def _flag(claim: ResourceClaim | ResourceClaimTemplate) -> Iterator[Hit]:
    """Requests of the claim, and devices that it holds without a request that says so."""
    template = isinstance(claim, ResourceClaimTemplate)
    path = "spec.spec.devices" if template else "spec.devices"
    requests = (
        claim.spec.spec.devices.requests
        if isinstance(claim, ResourceClaimTemplate)
        else claim.spec.devices.requests
    )
    told = set()
    for index, request in enumerate(requests):
        if any(alternative.admin_access for alternative in request.alternatives):
            yield Hit(f"{path}.requests[{index}].adminAccess", request.name)
            told.add(request.name)
    if isinstance(claim, ResourceClaimTemplate) or not claim.status.allocation:
        return
    for index, device in enumerate(claim.status.allocation.devices.results):
        if device.admin_access and device.request.partition("/")[0] not in told:
            yield Hit(f"status.allocation.devices.results[{index}].adminAccess", device.request)


gpu_dra_admin = Check(
    "gpu-dra-admin",
    Severity.HIGH,
    title="admin access to devices by claim",
    flags="adminAccess: true in a ResourceClaim or ResourceClaimTemplate outside a namespace that is"
    " labelled for it",
    why="Admin access ignores allocation: the pod gets devices that other pods hold. It is meant for"
    " monitoring, in namespaces with the label resource.kubernetes.io/admin-access.",
    remediation="Remove adminAccess; label the namespace if it is a monitoring agent's.",
    references=(
        "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#admin-access",
    ),
    claim_rule=_flag,
    judge=_judge,
)
