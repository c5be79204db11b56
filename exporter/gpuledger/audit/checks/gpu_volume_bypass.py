"""A container is given GPUs by the name of a mounted /dev/null, past the device plugin."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.reach import is_device_mount
from gpuledger.audit.subject import PodSubject


def _judge(facts: ClusterFacts, _: AuditedPod, finding: Finding) -> Severity:
    closed = facts.posture.volume_mount == "closed"
    return Severity.MEDIUM if closed else finding.severity


@partial(
    Check,
    "gpu-volume-bypass",
    Severity.CRITICAL,
    title="GPU access by a /dev/null mount",
    flags="hostPath /dev/null mounted below /var/run/nvidia-container-devices",
    why="Where the container toolkit accepts devices as volume mounts (part of NVIDIA's own hardening recipe),"
    " such a mount names a GPU and the container gets it, whatever the scheduler allocated.",
    remediation="Remove the mount and request the GPU as a resource; forbid hostPath volumes by admission"
    " control.",
    references=("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/security.html",),
    of=("hostPath",),
    judge=_judge,
    expected=True,
)
def gpu_volume_bypass(pod: PodSubject) -> Iterator[Hit]:
    """The volume that is mounted so: other checks of hostPath have nothing to add."""
    for index, volume in enumerate(pod.spec.volumes):
        if volume.host_path:
            for container, mount in pod.mounts(volume.name):
                if is_device_mount(mount, {volume.name: volume.host_path.path}):
                    yield Hit(pod.path(f"volumes[{index}].hostPath"), mount.mount_path, container.name)
