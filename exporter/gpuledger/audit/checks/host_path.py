"""A pod mounts a folder of its node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "host-path",
    Severity.MEDIUM,
    title="hostPath volume",
    flags="spec.volumes[].hostPath (low where no container mounts it)",
    why="Data on a node outlives the pod, is not the tenant's alone, and is no longer where it is looked for"
    " once the pod runs elsewhere. hostPath behind a PersistentVolume can't be seen in a pod. This is the"
    " Pod Security Standards' control HostPath Volumes.",
    remediation="Use a PersistentVolumeClaim, an emptyDir or an image volume.",
    references=("https://kubernetes.io/docs/concepts/storage/volumes/#hostpath",),
    of=("hostPath",),
    covered_by=("host-path-writable", "gpu-device-hostpath", "gpu-volume-bypass"),
    expected=True,
)
def host_path(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each volume, with who mounts it."""
    for index, volume in enumerate(pod.spec.volumes):
        if volume.host_path:
            severity = None if any(pod.mounts(volume.name)) else Severity.LOW
            yield Hit(pod.path(f"volumes[{index}].hostPath"), pod.host_path_detail(volume), severity=severity)
