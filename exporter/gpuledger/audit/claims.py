"""What device claims stand for: devices per class, counted over claims, which pods share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpuledger.audit.deviceclasses import DeviceClasses
from gpuledger.core.resources import gpu_device_class_kind
from gpuledger.parse.claimspec import Allocation, ClaimSpec
from gpuledger.parse.manifests import PodManifest, ResourceClaim, ResourceClaimTemplate

Devices = Mapping[str, int]
"""Devices per class or driver, by the names that the registry of GPUs knows."""

Held = dict[tuple[str, str], int | None]
"""Devices per DeviceClass and, once allocated, driver; None where only the allocation can count them."""

TEMPLATE = "template/"
"""Before the name of a template, of which a pod's own claim is not known yet."""


@dataclass(slots=True)
class ClaimBook:
    """The claims and claim templates of a cluster, by namespace and name."""

    classes: DeviceClasses = field(default_factory=DeviceClasses)
    _held: dict[tuple[str, str], Held] = field(default_factory=dict)
    _watched: dict[tuple[str, str], Held] = field(default_factory=dict)
    """What claims only look at, by admin access."""

    def add(self, claim: ResourceClaim | ResourceClaimTemplate) -> None:
        """Take note of what a claim, or a claim from a template, stands for."""
        namespace, name = claim.metadata.namespace or "default", claim.metadata.name
        if isinstance(claim, ResourceClaimTemplate):
            self._held[namespace, TEMPLATE + name] = _requested(claim.spec.spec)
            self._watched[namespace, TEMPLATE + name] = _requested(claim.spec.spec, admin=True)
        else:
            self._held[namespace, name] = devices_of(claim)
            self._watched[namespace, name] = devices_of(claim, admin=True)

    def devices(self, namespace: str, claim: str) -> Devices | None:
        """The GPUs that a claim holds or, before it is allocated, asks for; None where nothing tells."""
        held = self._held.get((namespace, claim))
        if held is None:
            return None
        found: dict[str, int] = {}
        for (name, driver), count in held.items():
            devices = self.classes.devices(name, driver)
            if devices is None:
                return None
            if gpu_device_class_kind(devices, self.classes.also) is None:
                continue
            if count is None:
                return None
            found[devices] = found.get(devices, 0) + count
        return found

    def may_watch_gpu(self, namespace: str, claims: Iterable[str]) -> bool:
        """Whether any of these claims gives admin access to GPUs, which other pods hold, as far as is known."""
        watched = [name for claim in claims for name in self._watched.get((namespace, claim), ())]
        return any(self.classes.is_gpu(*name) is not False for name in watched)

    def may_be(self, namespace: str, claims: Iterable[str], kind: Callable[[str], bool]) -> bool:
        """Whether any of these claims is for a GPU of that kind, as far as is known."""
        held = [self.devices(namespace, claim) for claim in claims]
        return any(devices is None or any(map(kind, devices)) for devices in held)

    def may_be_gpu(self, namespace: str, claims: Iterable[str]) -> bool:
        """Whether any of these claims is for a GPU, as far as is known."""
        return self.may_be(namespace, claims, lambda _: True)

    def may_be_nvidia(self, namespace: str, claims: Iterable[str]) -> bool:
        """Whether any of these claims is for a GPU of NVIDIA's, as far as is known."""
        return self.may_be(namespace, claims, lambda name: _OTHER_VENDORS.fullmatch(name) is None)


_OTHER_VENDORS = re.compile(r"gpu\.(?:amd|intel)\.com|(?!nvidia\.com/)[^/]+/.+")
"""Classes and extended resources whose GPUs are not NVIDIA's."""


def claim_names(manifest: PodManifest) -> dict[str, str]:
    """The name of the claim for each of a pod's claim entries; of one yet to be made, its template's."""
    made = {claim.name: claim.resource_claim_name for claim in manifest.status.resource_claim_statuses}
    return {
        claim.name: claim.resource_claim_name
        or made.get(claim.name)
        or TEMPLATE + claim.resource_claim_template_name
        for claim in manifest.spec.resource_claims
    }


def has_claims(manifest: PodManifest) -> bool:
    """Whether a pod uses claims, or one stands in for its extended resources (KEP-5004)."""
    return bool(manifest.spec.resource_claims) or manifest.status.extended_resource_claim_status is not None


def claims_of(manifest: PodManifest) -> tuple[str, ...]:
    """The names of a pod's claims, with the one that stands in for its extended resources (KEP-5004)."""
    if not has_claims(manifest):
        return ()
    bridge = manifest.status.extended_resource_claim_status
    return (*claim_names(manifest).values(), *((bridge.resource_claim_name,) if bridge else ()))


def devices_of(claim: ResourceClaim, *, admin: bool = False) -> Held:
    """What a claim holds or, before it is allocated, asks for; with `admin` what it merely looks at."""
    held = claim.status.allocation
    return _requested(claim.spec, admin=admin) if held is None else _allocated(claim.spec, held, admin=admin)


def _allocated(spec: ClaimSpec, allocation: Allocation, *, admin: bool) -> Held:
    """Distinct devices of the allocation, by admin access or without it."""
    classes: dict[str, str] = {}
    for request in spec.devices.requests:
        classes[request.name] = request.alternatives[0].device_class_name
        for alternative in request.first_available:
            classes[f"{request.name}/{alternative.name}"] = alternative.device_class_name
    unique = {
        (device.driver, device.pool, device.device, device.share_id): classes.get(device.request, "")
        for device in allocation.devices.results
        if device.admin_access == admin
    }
    return dict(Counter((name, driver) for (driver, *_), name in unique.items()))


def _requested(spec: ClaimSpec, *, admin: bool = False) -> Held:
    """Devices asked for; a request may want all that there are."""
    held: Held = {}
    for request in spec.devices.requests:
        best = request.alternatives[0]
        if best.admin_access != admin:
            continue
        key = best.device_class_name, ""
        before = held.get(key, 0)
        held[key] = None if before is None or best.allocation_mode == "All" else before + best.count
    return held
