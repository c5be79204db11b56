"""The GPU stack's own pods, told by owner, image and namespace together.

Owner and image are written by whoever makes a pod: the namespace is what keeps tenants out. A false finding is
better than a pod that excuses itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from gpuledger.core.model import Workload
from gpuledger.parse.image import parse_image

if TYPE_CHECKING:
    from gpuledger.parse.podspec import PodSpec

NAMESPACES = (
    "gpu-operator",
    "nvidia-gpu-operator",
    "gpu-operator-resources",
    "nvidia-device-plugin",
    "nvidia-dra-driver-gpu",
    "node-feature-discovery",
    "dcgm-exporter",
    "kube-system",
    "kube-amd-gpu",
    "inteldeviceplugins-system",
    "hami-system",
    "kai-resource-reservation",
    "gpuledger",
)
"""Where the GPU stack is installed: none of them is a tenant's to write to."""

TOOLKIT = "container toolkit"
"""The role whose settings say how GPUs are reached."""

_OWNERS = ("DaemonSet", "Deployment", "StaticPod", "ClusterPolicy", "NVIDIADriver")

# KAI's binder makes its reservation pods itself: they have no controller.
_BARE_PODS = "kai-resource-reservation"

_NVIDIA = r"nvcr\.io/nvidia/(?:k8s/|cloud-native/)?"
_HUB = r"(?:docker\.io/)?"

# Only the registries of those who make them: who runs mirrors says so in the policy.
_ROLES = {
    "device plugin": rf"{_NVIDIA}(?:k8s-device-plugin|gpu-feature-discovery)|{_HUB}rocm/k8s-device-plugin"
    rf"|(?:gke\.gcr\.io|gcr\.io/gke-release)/nvidia-gpu-device-plugin|{_HUB}intel/intel-gpu-plugin",
    "metrics exporter": rf"{_NVIDIA}dcgm(?:-exporter)?|{_HUB}rocm/device-metrics-exporter"
    r"|ghcr\.io/gpuledger/gpuledger",
    TOOLKIT: rf"{_NVIDIA}container-toolkit",
    "driver": rf"{_NVIDIA}(?:driver|k8s-driver-manager|gdrdrv|nvidia-fs)",
    "MIG manager": rf"{_NVIDIA}k8s-mig-manager",
    "operator": rf"{_NVIDIA}gpu-operator(?:-validator)?|registry\.k8s\.io/nfd/node-feature-discovery",
    "DRA driver": rf"{_NVIDIA}k8s-dra-driver-gpu",
    "scheduler": rf"{_HUB}projecthami/hami"
    r"|ghcr\.io/(?:nvidia|kai-scheduler)/kai-scheduler/resource-reservation",
}

_PATTERNS = {role: re.compile(pattern) for role, pattern in _ROLES.items()}


def infrastructure_role(namespace: str, workload: Workload, spec: PodSpec) -> str:
    """What part of the GPU stack a pod is, by its first container; empty where any evidence is missing."""
    containers = (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)
    return role_of(namespace, workload, (container.image for container in containers))


def role_of(namespace: str, workload: Workload, images: Iterable[str]) -> str:
    """What part of the GPU stack runs these images; empty where any evidence is missing.

    Every container's image has to be one of the stack's: a foreign one beside them is not excused.
    """
    owned = workload.kind in _OWNERS or namespace == _BARE_PODS
    if not owned or namespace not in NAMESPACES:
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
