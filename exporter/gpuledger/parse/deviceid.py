"""What the device ids of device plugins and DRA drivers mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from gpuledger.core.model import Allocation, Gpu, GpuReading, GpuUuid, MigDevice, MigUuid


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """What a device id says by itself: identities, or a place on its node that only NVML can name.

    `index` is NVML's, `minor` the N of /dev/nvidiaN. All None: the id says nothing that we know.
    """

    gpu_uuid: GpuUuid | None = None
    mig_uuid: MigUuid | None = None
    index: int | None = None
    minor: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_REPLICA = r"(?:::\d+)?"

_FORMS = tuple(
    re.compile(form)
    for form in (
        # NVIDIA's device plugin; `::n` is a replica of a shared device.
        rf"(?P<gpu_uuid>GPU-{_UUID}){_REPLICA}",
        rf"(?P<mig_uuid>MIG-{_UUID}){_REPLICA}",
        # MIG before driver 470.
        rf"(?P<mig_uuid>MIG-(?P<gpu_uuid>GPU-{_UUID})/(?P<gpu_instance>\d+)/(?P<compute_instance>\d+)){_REPLICA}",
        # GKE's device plugin: /dev/nvidiaN, a GPU instance of it, a replica.
        r"nvidia(?P<minor>\d+)(?:/gi(?P<gpu_instance>\d+))?(?:/vgpu\d+)?",
        # NVIDIA's DRA driver. Its MIG devices (gpu-0-mig-1g10gb-19-0) are named by placement, which NVML's MIG
        # devices do not tell: those stay unknown, for the whole GPU would be too much.
        r"gpu-(?P<minor>\d+)",
    )
)
_PLACES = ("index", "minor", "gpu_instance", "compute_instance")
_INDEXED_RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu.shared")
_INDEX = re.compile(rf"(?P<index>\d+){_REPLICA}")


@lru_cache(maxsize=4096)  # a node's ids are the same in every cycle
def parse_device_id(resource: str, device_id: str) -> DeviceRef:
    """What `device_id` of `resource` refers to; an unknown form refers to nothing.

    A bare number is an index for NVIDIA's plain GPUs only: elsewhere it is an IOMMU group or another vendor's.
    """
    forms = (*_FORMS, _INDEX) if resource in _INDEXED_RESOURCES else _FORMS
    match = next((match for form in forms if (match := form.fullmatch(device_id))), None)
    said: dict[str, Any] = {} if match is None else match.groupdict()
    places = {name: int(said[name]) for name in _PLACES if said.get(name) is not None}
    return DeviceRef(said.get("gpu_uuid"), said.get("mig_uuid"), **places)


def resolve(allocation: Allocation, gpus: Iterable[GpuReading]) -> Allocation:
    """The allocation with the GPU and MIG device that NVML has at the place that its device id names.

    What NVML does not know, or knows several candidates for, stays as the id alone tells it.
    """
    ref = parse_device_id(allocation.resource, allocation.device_id)
    for gpu in gpus:
        mig_devices = [mig.uuid for mig in gpu.mig_devices if _names_mig(ref, mig)]
        if ref.mig_uuid in mig_devices:
            return replace(allocation, gpu_uuid=gpu.gpu.uuid, mig_uuid=ref.mig_uuid)
        if _names_gpu(ref, gpu.gpu):
            if ref.gpu_instance is None:
                return replace(allocation, gpu_uuid=gpu.gpu.uuid)
            if len(mig_devices) == 1:
                return replace(allocation, gpu_uuid=gpu.gpu.uuid, mig_uuid=mig_devices[0])
    return allocation


def _names_gpu(ref: DeviceRef, gpu: Gpu) -> bool:
    return (
        ref.gpu_uuid == gpu.uuid
        or (ref.index is not None and ref.index == gpu.index)
        or (ref.minor is not None and ref.minor == gpu.minor)
    )


def _names_mig(ref: DeviceRef, mig: MigDevice) -> bool:
    return ref.mig_uuid == mig.uuid or (
        ref.gpu_instance == mig.gpu_instance and ref.compute_instance in (None, mig.compute_instance)
    )
