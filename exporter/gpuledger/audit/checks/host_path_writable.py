"""A pod may write to a folder of its node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.reach import normal_path
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "host-path-writable",
    Severity.HIGH,
    title="writable hostPath volume",
    flags="spec.volumes[].hostPath that a container mounts without readOnly: true",
    why="What a container writes to its node, others read or run: a way onto the host, and a way for one"
    " tenant to change another's models.",
    remediation="Mount it with readOnly: true, or use a PersistentVolumeClaim.",
    references=("https://kubernetes.io/docs/concepts/storage/volumes/#hostpath",),
    of=("hostPath",),
    covered_by=("gpu-device-hostpath", "gpu-volume-bypass"),
    expected=True,
)
def host_path_writable(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each volume; a container that mounts /dev/null writes nothing."""
    for index, volume in enumerate(pod.spec.volumes):
        if volume.host_path is None or normal_path(volume.host_path.path) == "/dev/null":
            continue
        if any(not mount.read_only for _, mount in pod.mounts(volume.name)):
            yield Hit(pod.path(f"volumes[{index}].hostPath"), pod.host_path_detail(volume))
