"""Whether a cluster lets pods reach GPUs past the device plugin, read off the pods that configure it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from gpuledger.parse.podspec import Container, PodSpec

Verdict = Literal["open", "closed", "unknown"]

_TOOLKIT = "container-toolkit"
_YES = ("true", "1", "t", "yes")
_NO = ("false", "0", "f", "no", "")


@dataclass(frozen=True, slots=True)
class Posture:
    """A verdict for each way to a GPU that needs no request, and the settings that it was read off.

    `environment`: unprivileged pods may name devices in NVIDIA_VISIBLE_DEVICES; `volume_mount`: they may mount
    /dev/null for a device; `annotation`: the NRI plugin injects what an annotation names. A toolkit that is
    installed on the host itself has no pod: unknown.
    """

    environment: Verdict = "unknown"
    volume_mount: Verdict = "unknown"
    annotation: Verdict = "unknown"
    management_namespaces: frozenset[str] = frozenset()
    evidence: tuple[str, ...] = ()


@dataclass(slots=True)
class PostureEvidence:
    """Collects what the container toolkit's pods of a cluster are told, node by node."""

    _settings: dict[str, set[str | None]] = field(default_factory=dict)
    _namespaces: set[str] = field(default_factory=set)

    def observe(self, namespace: str, spec: PodSpec) -> None:
        """Take note of a pod, if it is one of the toolkit's."""
        for container in spec.containers:
            if _TOOLKIT in container.image:
                self._namespaces.add(namespace)
                for name, default in _DEFAULTS.items():
                    self._settings.setdefault(name, set()).add(_setting(container, name, default))
                self._namespaces.update(filter(None, (_setting(container, _NAMESPACES, "") or "").split(",")))

    def posture(self) -> Posture:
        """The verdicts: open where one toolkit is open, closed where all that were seen are closed."""
        return Posture(
            environment=self._verdict(_ENVVAR),
            volume_mount=self._verdict(_MOUNTS),
            annotation=self._verdict(_NRI),
            management_namespaces=frozenset(self._namespaces),
            evidence=tuple(self._evidence()),
        )

    def _verdict(self, name: str) -> Verdict:
        values = self._settings.get(name, set())
        if any(value is not None and value.lower() in _YES for value in values):
            return "open"
        if values and all(value is not None and value.lower() in _NO for value in values):
            return "closed"
        return "unknown"

    def _evidence(self) -> Iterator[str]:
        for name, values in sorted(self._settings.items()):
            for value in sorted("?" if value is None else value for value in values):
                yield f"{name}={value}"


_ENVVAR = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
_MOUNTS = "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS"
_NRI = "ENABLE_NRI_PLUGIN"
_NAMESPACES = "NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES"

# Defaults of nvidia-ctk-installer.
_DEFAULTS = {_ENVVAR: "true", _MOUNTS: "false", _NRI: "false"}


def _setting(container: Container, name: str, default: str) -> str | None:
    """A setting of the toolkit by flag or environment; None where a manifest does not show it."""
    flag = "--" + name.lower().replace("_", "-")
    for argument in (*container.args, *container.command):
        key, equals, value = argument.partition("=")
        if key == flag:
            return value if equals else "true"
    for variable in container.env:
        if variable.name == name:
            return None if variable.value_from else variable.value
    return None if container.env_from else default
