"""An annotation has CDI devices injected, past the device plugin."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.reach import CDI_ANNOTATION
from gpuledger.audit.subject import PodSubject

_MANAGEMENT = "management.nvidia.com/gpu"


def _judge(facts: ClusterFacts, pod: AuditedPod, finding: Finding) -> Severity:
    posture = facts.posture
    refused = finding.severity is Severity.CRITICAL and pod.namespace not in posture.management_namespaces
    if posture.annotation == "closed" or (posture.annotation == "open" and refused):
        return Severity.LOW
    return finding.severity


@partial(
    Check,
    "gpu-cdi-annotation",
    Severity.CRITICAL,
    title="GPU access by annotation",
    flags="annotation nvidia.cdi.k8s.io/* that names a management device (critical) or another device (high)",
    why="NVIDIA's NRI plugin injects the CDI devices that this annotation names. A management device is"
    " every GPU of the node; the others are honoured from any namespace, whatever the scheduler"
    " allocated.",
    remediation="Remove the annotation and request the GPU as a resource; keep the list of namespaces that"
    " may have management devices (NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES) short.",
    references=("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/cdi.html",),
    of=("annotations",),
    judge=_judge,
    expected=True,
)
def gpu_cdi_annotation(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each annotation."""
    for name, devices in pod.manifest.annotations.items():
        if name.startswith(CDI_ANNOTATION):
            severity = Severity.CRITICAL if _MANAGEMENT in devices else Severity.HIGH
            _, dot, container = name.removeprefix(CDI_ANNOTATION).partition(".")
            path = f"{pod.annotations_path}[{name}]"
            yield Hit(path, devices, container if dot else "", severity)
