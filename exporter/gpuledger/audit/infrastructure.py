"""The GPU stack's own pods, told by owner, image and namespace together: a tenant can fake any one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from gpuledger.core.model import Workload
from gpuledger.parse.image import parse_image

if TYPE_CHECKING:
    from gpuledger.parse.podspec import PodSpec

_NAMESPACES = re.compile(
    r"(?:nvidia-)?gpu-operator(?:-resources)?|kube-system|kube-amd-gpu|nvidia(?:-(?:device-plugin|dra-driver-gpu|system))?"
    r"|dcgm(?:-exporter)?|gpuledger|kai-resource-reservation|hami-system|inteldeviceplugins-system"
)

_OWNERS = ("DaemonSet", "Deployment", "StaticPod", "ClusterPolicy", "NVIDIADriver")

# KAI's binder makes its reservation pods itself: they have no controller.
_BARE_PODS = "kai-resource-reservation"

_ROLES = {
    "device plugin": r"(?:k8s-device-plugin|nvidia-gpu-device-plugin|gpu-feature-discovery|intel-gpu-plugin)",
    "metrics exporter": r"(?:dcgm(?:-exporter)?|device-metrics-exporter|gpuledger)",
    "container toolkit": r"container-toolkit",
    "driver": r"(?:driver|k8s-driver-manager|gdrdrv|nvidia-fs|nvidia-driver-installer)",
    "MIG manager": r"k8s-mig-manager",
    "operator": r"(?:gpu-operator(?:-validator)?|node-feature-discovery|nfd-.+)",
    "DRA driver": r"k8s-dra-driver-gpu",
    "CUDA for validation": r"cuda",
    "scheduler": r"(?:hami|resource-reservation)",
}

_PATTERNS = {role: re.compile(rf".+/{pattern}") for role, pattern in _ROLES.items()}


def infrastructure_role(namespace: str, workload: Workload, spec: PodSpec) -> str:
    """What part of the GPU stack a pod is, by its first container; empty where any evidence is missing."""
    containers = (*spec.containers, *spec.init_containers)
    return role_of(namespace, workload, [container.image for container in containers])


def role_of(namespace: str, workload: Workload, images: Iterable[str]) -> str:
    """What part of the GPU stack runs these images; empty where any evidence is missing.

    Every container's image has to be one of the stack's: a foreign one beside them is not excused.
    """
    owned = workload.kind in _OWNERS or namespace == _BARE_PODS
    if not owned or not _NAMESPACES.fullmatch(namespace):
        return ""
    roles = [image_role(image) for image in images]
    return roles[0] if roles and all(roles) else ""


@lru_cache(maxsize=4096)
def image_role(text: str) -> str:
    """What part of the GPU stack an image is, by its repository; empty where it is none."""
    try:
        repository = parse_image(text).repository
    except ValueError:
        return ""
    return next((role for role, pattern in _PATTERNS.items() if pattern.fullmatch(repository)), "")
