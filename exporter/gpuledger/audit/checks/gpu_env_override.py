"""A container that asks for GPUs also names devices in its environment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.reach import VISIBLE_DEVICES, visible_devices
from gpuledger.audit.subject import PodSubject


def _judge(facts: ClusterFacts, pod: AuditedPod, finding: Finding) -> Severity | None:
    """A claim for another device is no request for a GPU: gpu-env-bypass has it then."""
    if finding.claims and not facts.claims.may_be_nvidia(pod.namespace, finding.claims):
        return None
    closed = facts.posture.environment == "closed"
    return Severity.LOW if closed else finding.severity


@partial(
    Check,
    "gpu-env-override",
    Severity.MEDIUM,
    title="NVIDIA_VISIBLE_DEVICES beside a GPU request",
    flags="env NVIDIA_VISIBLE_DEVICES other than empty, void or none in a container that asks for one of"
    " NVIDIA's GPUs",
    why="The device plugin sets the same variable to the device that was allocated. Which of the two wins"
    " depends on the versions of kubelet and runtime: the container may see other GPUs than its own.",
    remediation="Remove the variable: the device plugin sets it.",
    references=(
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/27",
        "https://github.com/NVIDIA/k8s-device-plugin/issues/87",
    ),
    of=("environment",),
    judge=_judge,
)
def gpu_env_override(pod: PodSubject) -> Iterator[Hit]:
    """Only literal values: what comes from elsewhere may well be void."""
    for container in pod.containers:
        devices = visible_devices(container.spec)
        if not devices:
            continue
        entitled = container.is_entitled(pod.context.also)
        if entitled or container.claims:
            index = container.env_index(VISIBLE_DEVICES)
            claims = () if entitled else container.claims
            detail = f"{VISIBLE_DEVICES}={devices}"
            yield Hit(f"{container.path}.env[{index}]", detail, container.name, None, claims)
