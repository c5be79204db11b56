"""Where an object of any kind keeps its pods: templates, bare pod specs, or single containers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuledger.core.resources import gpu_resource_kind

_SINGLE = ("container", "script")
"""Where Argo Workflows keep a template's one container."""


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod spec in an object, as plain values: its field path, and the metadata beside it."""

    path: str
    spec: dict[str, Any]
    metadata: object


def pod_places(value: object, path: str = "") -> Iterator[PodPlace]:
    """Every pod spec below `value`, wherever its kind keeps it."""
    if isinstance(value, dict):
        if path and (place := _place(value, path)):
            yield place
            return
        for key, part in value.items():
            yield from pod_places(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from pod_places(part, f"{path}[{index}]")


def limited_gpu(value: object) -> str:
    """The first GPU resource that stands in a `resources.limits` below `value`; empty where there is none."""
    if isinstance(value, dict):
        resources = value.get("resources")
        limits = resources.get("limits") if isinstance(resources, dict) else None
        if isinstance(limits, dict):
            for name in limits:
                if gpu_resource_kind(str(name)):
                    return str(name)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(limited_gpu, parts)), "")


def _place(value: dict[str, Any], path: str) -> PodPlace | None:
    metadata = value.get("metadata") or {}
    spec = value.get("spec")
    if isinstance(spec, dict) and "containers" in spec:
        return PodPlace(f"{path}.spec", spec, metadata)
    containers = value.get("containers")
    if isinstance(containers, list) and any(_is_container(each) for each in containers):
        return PodPlace(path, value, metadata)
    for key in _SINGLE:
        container = value.get(key)
        if isinstance(container, dict) and _is_container(container):
            return PodPlace(path, {**value, "containers": [{"name": key, **container}]}, metadata)
    return None


def _is_container(value: Any) -> bool:
    return isinstance(value, dict) and ("image" in value or "resources" in value)
