"""What device claims stand for: devices per class, counted over claims, which pods share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpuledger.core.resources import gpu_device_class_kind
from gpuledger.parse.claimspec import Allocation, ClaimSpec
from gpuledger.parse.manifests import PodManifest, ResourceClaim, ResourceClaimTemplate

Devices = Mapping[str, int]
"""Devices per DeviceClass."""

TEMPLATE = "template/"
"""Before the name of a template, of which a pod's own claim is not known yet."""


@dataclass(slots=True)
class ClaimBook:
    """The claims and claim templates of a cluster, by namespace and name.

    A DeviceClass is named after its driver, a domain, unless it is the cluster's own: such a class tells
    nothing until a device of it is allocated.
    """

    also: re.Pattern[str] | None = None
    _devices: dict[tuple[str, str], Devices | None] = field(default_factory=dict)

    def add(self, claim: ResourceClaim | ResourceClaimTemplate) -> None:
        """Take note of what a claim, or a claim from a template, stands for."""
        namespace = claim.metadata.namespace or "default"
        if isinstance(claim, ResourceClaimTemplate):
            self._devices[namespace, TEMPLATE + claim.metadata.name] = _requested(claim.spec.spec)
        else:
            held = claim.status.allocation
            self._devices[namespace, claim.metadata.name] = (
                _requested(claim.spec) if held is None else _allocated(claim.spec, held)
            )

    def devices(self, namespace: str, claim: str) -> Devices | None:
        """The devices that a claim holds or, before it is allocated, asks for; None where nothing tells."""
        devices = self._devices.get((namespace, claim))
        return None if devices is None or any(map(self._is_unknown, devices)) else devices

    def may_be(self, namespace: str, claims: Iterable[str], kind: Callable[[str], bool]) -> bool:
        """Whether any of these claims is for a device of a class of that kind, as far as is known."""
        held = [self.devices(namespace, claim) for claim in claims]
        return any(devices is None or any(map(kind, devices)) for devices in held)

    def may_be_gpu(self, namespace: str, claims: Iterable[str]) -> bool:
        """Whether any of these claims is for a GPU, as far as is known."""
        return self.may_be(namespace, claims, lambda name: gpu_device_class_kind(name, self.also) is not None)

    def may_be_nvidia(self, namespace: str, claims: Iterable[str]) -> bool:
        """Whether any of these claims is for a GPU of NVIDIA's, as far as is known."""
        return self.may_be(namespace, claims, lambda name: is_nvidia_class(name, self.also))

    def _is_unknown(self, name: str) -> bool:
        return "." not in name and gpu_device_class_kind(name, self.also) is None


def is_nvidia_class(name: str, also: re.Pattern[str] | None) -> bool:
    """Whether a DeviceClass or driver may be one of NVIDIA's GPUs."""
    return gpu_device_class_kind(name, also) is not None and name not in ("gpu.amd.com", "gpu.intel.com")


def claim_names(manifest: PodManifest) -> dict[str, str]:
    """The name of the claim for each of a pod's claim entries; of one yet to be made, its template's."""
    made = {claim.name: claim.resource_claim_name for claim in manifest.status.resource_claim_statuses}
    return {
        claim.name: claim.resource_claim_name
        or made.get(claim.name)
        or TEMPLATE + claim.resource_claim_template_name
        for claim in manifest.spec.resource_claims
    }


def claims_of(manifest: PodManifest) -> tuple[str, ...]:
    """The names of a pod's claims, with the one that stands in for its extended resources (KEP-5004)."""
    bridge = manifest.status.extended_resource_claim_status
    return (*claim_names(manifest).values(), *((bridge.resource_claim_name,) if bridge else ()))


def _allocated(spec: ClaimSpec, allocation: Allocation) -> Devices:
    """Distinct devices of the allocation, without those that admin access merely looks at.

    The driver says what a device is where its class does not.
    """
    classes: dict[str, str] = {}
    for request in spec.devices.requests:
        classes[request.name] = request.alternatives[0].device_class_name
        for alternative in request.first_available:
            classes[f"{request.name}/{alternative.name}"] = alternative.device_class_name
    unique = {
        (device.driver, device.pool, device.device, device.share_id): _class(
            classes.get(device.request, ""), device.driver
        )
        for device in allocation.devices.results
        if not device.admin_access
    }
    return Counter(unique.values())


def _class(name: str, driver: str) -> str:
    return name if gpu_device_class_kind(name) or not driver else driver


def _requested(spec: ClaimSpec) -> Devices | None:
    """Devices asked for; None where a request wants all there are, which only the allocation can count."""
    devices: Counter[str] = Counter()
    for request in spec.devices.requests:
        best = request.alternatives[0]
        if best.admin_access:
            continue
        if best.allocation_mode == "All":
            return None
        devices[best.device_class_name] += best.count
    return devices
