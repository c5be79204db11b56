"""Claims on devices (Dynamic Resource Allocation), and classes: what is asked for, and what was given."""

from __future__ import annotations

import msgspec


class CelSelector(msgspec.Struct, frozen=True, gc=False):
    """A CEL expression that is true of the devices that it selects."""

    expression: str = ""


class DeviceSelector(msgspec.Struct, frozen=True, gc=False):
    """One of the selectors of which a device has to satisfy all."""

    cel: CelSelector | None = None


class ClassSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a DeviceClass selects, and the extended resource that it is given for (KEP-5004)."""

    selectors: list[DeviceSelector] = []
    extended_resource_name: str = ""


class ExactRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Devices of one class; `count` means something in the mode `ExactCount` alone, which is the default."""

    name: str = ""
    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 1
    admin_access: bool = False


class DeviceRequest(ExactRequest, frozen=True, gc=False):
    """A request of a claim: `exactly` or `first_available` since v1beta2, flat fields in v1beta1."""

    exactly: ExactRequest | None = None
    first_available: list[ExactRequest] = []

    @property
    def alternatives(self) -> tuple[ExactRequest, ...]:
        """What may satisfy the request, best first."""
        return (self.exactly,) if self.exactly else tuple(self.first_available) or (self,)


class DeviceRequests(msgspec.Struct, frozen=True, gc=False):
    """`spec.devices` of a claim."""

    requests: list[DeviceRequest] = []


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """What a claim asks for."""

    devices: DeviceRequests = DeviceRequests()


class ClaimTemplateSpec(msgspec.Struct, frozen=True, gc=False):
    """What the claims made from a template ask for."""

    spec: ClaimSpec = ClaimSpec()


class AllocatedDevice(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A device that a claim was given; `request` names its request, and after a slash the alternative."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str = msgspec.field(default="", name="shareID")
    admin_access: bool = False


class AllocatedDevices(msgspec.Struct, frozen=True, gc=False):
    """`status.allocation.devices` of a claim."""

    results: list[AllocatedDevice] = []


class Allocation(msgspec.Struct, frozen=True, gc=False):
    """`status.allocation` of a claim."""

    devices: AllocatedDevices = AllocatedDevices()


class ClaimStatus(msgspec.Struct, frozen=True, gc=False):
    """`status` of a claim; one without an allocation holds nothing yet."""

    allocation: Allocation | None = None
