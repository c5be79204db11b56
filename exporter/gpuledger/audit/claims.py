"""What device claims stand for: devices per class, counted over claims, which pods share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.parse.claimspec import Allocation, ClaimSpec
from gpuledger.parse.manifests import PodManifest, ResourceClaim, ResourceClaimTemplate

Devices = Mapping[str, int]
"""Devices per DeviceClass."""

TEMPLATE = "template/"
"""Before the name of a template, of which a pod's own claim is not known yet."""


@dataclass(slots=True)
class ClaimBook:
    """The claims and claim templates of a cluster, by namespace and name."""

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
        return self._devices.get((namespace, claim))


def claims_of(manifest: PodManifest) -> tuple[str, ...]:
    """The names of a pod's claims, from its spec and status; of one yet to be made, its template's."""
    status = manifest.status
    made = {claim.name: claim.resource_claim_name for claim in status.resource_claim_statuses}
    names = [
        claim.resource_claim_name or made.get(claim.name) or TEMPLATE + claim.resource_claim_template_name
        for claim in manifest.spec.resource_claims
    ]
    if status.extended_resource_claim_status:
        names.append(status.extended_resource_claim_status.resource_claim_name)
    return tuple(names)


def _allocated(spec: ClaimSpec, allocation: Allocation) -> Devices:
    """Distinct devices of the allocation, without those that admin access merely looks at."""
    classes: dict[str, str] = {}
    for request in spec.devices.requests:
        classes[request.name] = request.alternatives[0].device_class_name
        for alternative in request.first_available:
            classes[f"{request.name}/{alternative.name}"] = alternative.device_class_name
    unique = {
        (device.driver, device.pool, device.device, device.share_id): classes.get(device.request, device.driver)
        for device in allocation.devices.results
        if not device.admin_access
    }
    return Counter(unique.values())


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
