"""The kubelet's PodResources replies: which container was allocated which devices.

The field numbers are those of k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from gpuledger.core.model import Allocation
from gpuledger.core.resources import gpu_device_class_kind, gpu_resource_kind
from gpuledger.parse.deviceid import parse_device_id
from gpuledger.parse.protobuf import parse_fields

Fields = Mapping[int, list[bytes]]

_REPLY_PODS = 1
_POD_NAME, _POD_NAMESPACE, _POD_CONTAINERS = 1, 2, 3
_CONTAINER_NAME, _CONTAINER_DEVICES, _CONTAINER_CLAIMS = 1, 2, 5
_REPLY_DEVICES = 1
_DEVICES_RESOURCE, _DEVICES_IDS = 1, 2
_CLAIM_RESOURCES = 4
_CLAIMED_CDI_DEVICES, _CLAIMED_DRIVER, _CLAIMED_DEVICE = 1, 2, 4
_CDI_NAME = 1

# NVIDIA's DRA driver names its CDI devices after the device, or after the claim's UID and the device.
_CDI_DEVICE = re.compile(
    r"k8s\.(?P<driver>[^/]+)/(?:device=|claim=[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}-)(?P<device>.+)"
)


def parse_list(reply: bytes) -> tuple[Allocation, ...]:
    """The GPUs in a ListPodResourcesResponse, one allocation for each device of each container.

    Devices of a DRA claim stand under their driver's name, once for every container that holds the claim.
    Raises ValueError where the bytes are no such reply.
    """
    pods = _messages(parse_fields(reply), _REPLY_PODS)
    return tuple(allocation for pod in pods for allocation in _pod_allocations(pod))


def parse_allocatable(reply: bytes) -> Mapping[str, int]:
    """GPUs (slices, shares) that may be allocated, in an AllocatableResourcesResponse; raises ValueError.

    The kubelet repeats a device for each NUMA node that it is near to; it counts once.
    """
    return Counter(resource for resource, _ in set(_plugin_devices(parse_fields(reply), _REPLY_DEVICES)))


def _pod_allocations(pod: Fields) -> Iterator[Allocation]:
    namespace, name = _text(pod, _POD_NAMESPACE), _text(pod, _POD_NAME)
    for container in _messages(pod, _POD_CONTAINERS):
        container_name = _text(container, _CONTAINER_NAME)
        plugin_devices = _plugin_devices(container, _CONTAINER_DEVICES)
        for resource, device_id in chain(plugin_devices, _claimed_devices(container)):
            ref = parse_device_id(resource, device_id)
            yield Allocation(namespace, name, container_name, resource, device_id, ref.gpu_uuid, ref.mig_uuid)


def _plugin_devices(message: Fields, number: int) -> Iterator[tuple[str, str]]:
    for devices in _messages(message, number):
        resource = _text(devices, _DEVICES_RESOURCE)
        if gpu_resource_kind(resource) not in (None, "attribute"):
            for device_id in devices[_DEVICES_IDS]:
                yield resource, device_id.decode()


def _claimed_devices(container: Fields) -> Iterator[tuple[str, str]]:
    for claim in _messages(container, _CONTAINER_CLAIMS):
        for claimed in _messages(claim, _CLAIM_RESOURCES):
            for driver, device in _claimed_names(claimed):
                if gpu_device_class_kind(driver):
                    yield driver, device


def _claimed_names(claimed: Fields) -> Iterator[tuple[str, str]]:
    """Driver and device of a ClaimResource; older kubelets tell only CDI names, several for a device."""
    if device := _text(claimed, _CLAIMED_DEVICE):
        yield _text(claimed, _CLAIMED_DRIVER), device
        return
    names = (_text(cdi, _CDI_NAME) for cdi in _messages(claimed, _CLAIMED_CDI_DEVICES))
    matches = (_CDI_DEVICE.fullmatch(name) for name in names)
    yield from dict.fromkeys((match["driver"], match["device"]) for match in matches if match)


def _messages(message: Fields, number: int) -> Iterator[Fields]:
    return map(parse_fields, message[number])


def _text(message: Fields, number: int) -> str:
    """A singular string: the last one counts, and none is the empty string."""
    return message[number][-1].decode() if message[number] else ""
