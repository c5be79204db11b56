"""A container holds a device that its plugin calls unhealthy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.core.resources import gpu_resource_kind


@partial(
    Check,
    "gpu-unhealthy-device",
    Severity.HIGH,
    title="unhealthy GPU in use",
    flags="status.*ContainerStatuses[].allocatedResourcesStatus[].resources[].health: Unhealthy",
    why="The device plugin or DRA driver says that a device this container holds has failed: its work is"
    " lost or wrong, and the pod keeps the device from being repaired.",
    remediation="Delete the pod so that it is scheduled elsewhere, drain the node and look for XID errors.",
    references=("https://kubernetes.io/docs/concepts/workloads/pods/#device-health",),
)
def gpu_unhealthy_device(pod: PodSubject) -> Iterator[Hit]:
    """Only GPU resources: a network card's health is somebody else's."""
    status = pod.manifest.status
    for field, containers in (
        ("initContainerStatuses", status.init_container_statuses),
        ("containerStatuses", status.container_statuses),
        ("ephemeralContainerStatuses", status.ephemeral_container_statuses),
    ):
        for index, container in enumerate(containers):
            for resource in container.allocated_resources_status:
                claimed = resource.name.startswith("claim:")
                if not claimed and not gpu_resource_kind(resource.name, pod.context.also):
                    continue
                ill = [device.resource_id for device in resource.resources if device.health == "Unhealthy"]
                if ill:
                    path = f"status.{field}[{index}].allocatedResourcesStatus"
                    yield Hit(path, f"{resource.name}: {', '.join(ill)}", container.name)
