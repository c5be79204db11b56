"""A pod mounts device nodes, or the sockets that hand devices out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.reach import is_device_path
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "gpu-device-hostpath",
    Severity.HIGH,
    title="hostPath to GPU devices",
    flags="hostPath to GPU device nodes of any vendor, /dev/char, /dev/vfio, /run/nvidia*, CDI specs, the"
    " container toolkit's configuration, kubelet plugin sockets, container runtime sockets or MPS pipes, or to"
    " a folder that holds them: /, /dev, /etc, /run, /var, /var/lib, /var/lib/kubelet",
    why="Device nodes from the host are used without an allocation; CDI specs and the kubelet's plugin"
    " sockets decide which GPUs other pods get; a container runtime's socket is the node itself; an MPS"
    " pipe joins other clients.",
    remediation="Remove the volume and request the GPU as a resource.",
    references=("https://kubernetes.io/docs/concepts/storage/volumes/#hostpath",),
    of=("hostPath",),
    covered_by=("gpu-volume-bypass",),
    expected=True,
)
def gpu_device_hostpath(pod: PodSubject) -> Iterator[Hit]:
    """A volume that nobody mounts does no harm yet."""
    for index, volume in enumerate(pod.spec.volumes):
        if volume.host_path and is_device_path(volume.host_path.path):
            path = pod.path(f"volumes[{index}].hostPath")
            severity = None if any(pod.mounts(volume.name)) else Severity.LOW
            yield Hit(path, pod.host_path_detail(volume), severity=severity)
