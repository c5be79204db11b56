"""What devices a DeviceClass is for: the drivers' own by name, the cluster's own by what they select."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuledger.core.resources import CLASS_PREFIX, ResourceKind, gpu_device_class_kind, gpu_resource_kind
from gpuledger.parse.claimspec import ClassSpec
from gpuledger.parse.devicecel import parse_selected
from gpuledger.parse.manifests import DeviceClass

_NVIDIA = "gpu.nvidia.com"
_NVIDIA_TYPE = f'device.attributes["{_NVIDIA}"].type'
_NVIDIA_CLASSES = {"mig": "mig.nvidia.com", "vfio": "vfio.gpu.nvidia.com"}
"""The classes of NVIDIA's driver, by the type of its devices that they select."""


@dataclass(slots=True)
class DeviceClasses:
    """The DeviceClasses of a cluster.

    One that nobody has shown is taken for a driver's own, which is named after the driver, a domain; a plain
    name tells nothing until a device of it is allocated.
    """

    also: re.Pattern[str] | None = None
    _selected: dict[str, str] = field(default_factory=dict)
    _standing_in: dict[str, str] = field(default_factory=dict)
    """The class for each extended resource that one stands in for, its implicit name among them (KEP-5004)."""

    def add(self, item: DeviceClass) -> None:
        """Take note of what a class selects."""
        name = item.metadata.name
        self._selected[name] = self._devices_of(item.spec)
        self._standing_in[CLASS_PREFIX + name] = name
        if item.spec.extended_resource_name:
            self._standing_in[item.spec.extended_resource_name] = name

    def devices(self, name: str, driver: str = "") -> str | None:
        """The name by which the registry knows devices of a class, or their driver; None where nothing tells.

        `driver` is that of a device that was allocated.
        """
        selected = self._selected.get(name, name if "." in name else "")
        for each in (name, selected, driver):
            if each and gpu_device_class_kind(each, self.also):
                return each
        return driver or selected or None

    def is_gpu(self, name: str, driver: str = "") -> bool | None:
        """Whether devices of a class are GPUs; None where nothing tells. `driver` is as in `devices`."""
        devices = self.devices(name, driver)
        return None if devices is None else gpu_device_class_kind(devices, self.also) is not None

    def resource_kind(self, resource: str) -> ResourceKind | None:
        """What a unit of an extended resource is, by its name or the class that stands in for it."""
        kind = gpu_resource_kind(resource, self.also)
        if kind is None and resource in self._standing_in:
            devices = self.devices(self._standing_in[resource])
            kind = gpu_device_class_kind(devices, self.also) if devices else None
        return kind

    def gpu_resources(self) -> re.Pattern[str] | None:
        """`also`, with the extended resources that classes of GPUs stand in for."""
        names = [name.removeprefix(CLASS_PREFIX) for name in self._standing_in if self.resource_kind(name)]
        patterns = [self.also.pattern] if self.also else []
        patterns += map(re.escape, names)
        return re.compile("|".join(f"(?:{each})" for each in patterns)) if patterns else None

    def _devices_of(self, spec: ClassSpec) -> str:
        """Empty where the class does not say; what is given for an extended resource is one (KEP-5004)."""
        driver = _only(spec, "device.driver")
        if driver == _NVIDIA:
            return _NVIDIA_CLASSES.get(_only(spec, _NVIDIA_TYPE), driver)
        resource = spec.extended_resource_name
        return driver or (resource if gpu_resource_kind(resource, self.also) else "")


def _only(spec: ClassSpec, subject: str) -> str:
    """The one value that all selectors together leave `subject`; empty where there are others."""
    expressions = (selector.cel.expression for selector in spec.selectors if selector.cel)
    told = [values for each in expressions if (values := parse_selected(each, subject)) is not None]
    left = frozenset.intersection(*told) if told else frozenset[str]()
    return next(iter(left)) if len(left) == 1 else ""
