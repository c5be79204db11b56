"""A container asks for a monitoring resource, which is every GPU of the node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "gpu-monitoring",
    Severity.MEDIUM,
    title="monitoring access to every GPU",
    flags="a gpu.intel.com/*_monitoring resource",
    why="Intel's monitoring resource hands a container all GPU devices of the node, with which it can also"
    " compute.",
    remediation="Keep the resource for monitoring agents, by a quota of 0 in tenants' namespaces.",
    references=("https://github.com/intel/intel-device-plugins-for-kubernetes",),
    of=("GPU request",),
    expected=True,
)
def gpu_monitoring(pod: PodSubject) -> Iterator[Hit]:
    """It counts no device, yet gives all."""
    for container in pod.containers:
        for name in container.gpus:
            if name.startswith("gpu.intel.com/") and name.endswith("_monitoring"):
                yield Hit(f"{container.path}.resources.limits[{name}]", name, container.name)
