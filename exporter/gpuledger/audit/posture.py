"""Whether a cluster lets pods reach GPUs past the device plugin, read off the pods that configure it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from gpuledger.audit.infrastructure import TOOLKIT, image_role, infrastructure_role
from gpuledger.parse.manifests import PodManifest
from gpuledger.parse.podspec import Container
from gpuledger.parse.workload import workload_of

Verdict = Literal["open", "closed", "unknown"]

_YES = ("true", "1", "t", "yes")
_NO = ("false", "0", "f", "no", "")

_ENVVAR = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
_MOUNTS = "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS"
_NRI = "ENABLE_NRI_PLUGIN"
_NAMESPACES = "NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES"

# What nvidia-ctk-installer does where nothing is set.
_DEFAULTS = {_ENVVAR: "true", _MOUNTS: "false", _NRI: "false"}


@dataclass(slots=True)
class Posture:
    """Collects what the container toolkit's pods are told, and gives a verdict on each way past the plugin.

    A way is open where one toolkit leaves it open, closed where all that were seen close it. A toolkit that is
    installed on the host itself has no pod: unknown.
    """

    management_namespaces: set[str] = field(default_factory=set)
    """Namespaces that may have management CDI devices; the toolkit's own always may."""
    _settings: dict[str, set[str | None]] = field(default_factory=dict)

    def observe(self, manifest: PodManifest) -> None:
        """Take note of a pod, if it is one of the toolkit's: tenants' word does not count."""
        toolkits = [
            each
            for each in manifest.spec.containers
            if "toolkit" in each.image and image_role(each.image) == TOOLKIT
        ]
        if not toolkits or manifest.terminal:
            return
        workload = workload_of(manifest.meta, manifest.kind)
        if infrastructure_role(manifest.namespace, workload, manifest.spec):
            for container in toolkits:
                self.management_namespaces.add(manifest.namespace)
                self.management_namespaces.update((_setting(container, _NAMESPACES, "") or "").split(","))
                for name, default in _DEFAULTS.items():
                    self._settings.setdefault(name, set()).add(_setting(container, name, default))

    def add(self, other: Posture) -> None:
        """Take over what another has noted."""
        self.management_namespaces |= other.management_namespaces
        for name, values in other._settings.items():
            self._settings.setdefault(name, set()).update(values)

    @property
    def environment(self) -> Verdict:
        """Whether unprivileged pods may name devices in NVIDIA_VISIBLE_DEVICES."""
        return self._verdict(_ENVVAR)

    @property
    def volume_mount(self) -> Verdict:
        """Whether pods may mount /dev/null for a device."""
        return self._verdict(_MOUNTS)

    @property
    def annotation(self) -> Verdict:
        """Whether the NRI plugin injects what a pod's annotation names."""
        return self._verdict(_NRI)

    @property
    def evidence(self) -> Iterator[str]:
        """The settings that the verdicts were read off; `?` is one that a manifest does not show."""
        for name, values in sorted(self._settings.items()):
            for value in sorted("?" if value is None else value for value in values):
                yield f"{name}={value}"

    def _verdict(self, name: str) -> Verdict:
        values = self._settings.get(name, set())
        if any(value is not None and value.lower() in _YES for value in values):
            return "open"
        if values and all(value is not None and value.lower() in _NO for value in values):
            return "closed"
        return "unknown"


def _setting(container: Container, name: str, default: str) -> str | None:
    """A setting of the toolkit, by flag or environment; None where a manifest does not show it."""
    flag = "--" + name.lower().replace("_", "-")
    for argument in (*container.args, *container.command):
        key, equals, value = argument.partition("=")
        if key == flag:
            return value if equals else "true"
    for variable in container.env:
        if variable.name == name:
            return None if variable.value_from else variable.value
    return None if container.env_from else default
