"""A container is given GPUs by its environment, past the device plugin."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.reach import VISIBLE_DEVICES, is_privileged, visible_devices
from gpuledger.audit.subject import PodSubject


def _judge(facts: ClusterFacts, pod: AuditedPod, finding: Finding) -> Severity | None:
    """A claim for one of NVIDIA's GPUs entitles; whether the way is open matters to the unprivileged alone."""
    if finding.claims and facts.claims.may_be_nvidia(pod.namespace, finding.claims):
        return None
    if finding.severity is not Severity.HIGH:
        return finding.severity
    return {"open": Severity.CRITICAL, "closed": Severity.LOW}.get(facts.posture.environment, Severity.HIGH)


@partial(
    Check,
    "gpu-env-bypass",
    Severity.HIGH,
    title="GPU access by environment without a request",
    flags="env NVIDIA_VISIBLE_DEVICES other than empty, void or none in a container that asks for none of"
    " NVIDIA's GPUs (critical where the container is privileged or has SYS_ADMIN, info where the value comes"
    " from elsewhere)",
    why="The container toolkit honours NVIDIA_VISIBLE_DEVICES of any pod by default: the container uses GPUs"
    " that the scheduler gave to others, and no quota or request shows it. Values from a ConfigMap or"
    " Secret, and those baked into images, can't be seen in a manifest.",
    remediation="Remove the variable and request the GPU as a resource. Close the way for everybody by"
    " ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED=false on the container toolkit.",
    references=(
        "https://github.com/NVIDIA/k8s-device-plugin/issues/61",
        "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/security.html",
    ),
    of=("environment",),
    judge=_judge,
    expected=True,
)
def gpu_env_bypass(pod: PodSubject) -> Iterator[Hit]:
    """Literal devices are a bypass; devices from elsewhere may be one."""
    for container in pod.containers:
        by_environment = container.spec.env or container.spec.env_from
        if not by_environment or container.is_entitled(pod.context.also):
            continue
        claims = container.claims
        if devices := visible_devices(container.spec):
            index = container.env_index(VISIBLE_DEVICES)
            detail = f"{VISIBLE_DEVICES}={devices}"
            severity = Severity.CRITICAL if is_privileged(container.spec) else None
            yield Hit(f"{container.path}.env[{index}]", detail, container.name, severity, claims)
        elif any(variable.name == VISIBLE_DEVICES and variable.value_from for variable in container.spec.env):
            detail = f"{VISIBLE_DEVICES} is set from elsewhere: unknown"
            yield Hit(f"{container.path}.env", detail, container.name, Severity.INFO, claims)
        elif container.spec.env_from:
            detail = f"envFrom may set {VISIBLE_DEVICES}: unknown"
            yield Hit(f"{container.path}.envFrom", detail, container.name, Severity.INFO, claims)
