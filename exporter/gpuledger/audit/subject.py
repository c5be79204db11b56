"""A pod as the checks see it: its containers of every kind, what it asks for, how it reaches GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import msgspec

from gpuledger.audit.advisories import Advisory
from gpuledger.core.accounting import ContainerKind
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.manifests import PodManifest
from gpuledger.parse.podrequests import requests_of
from gpuledger.parse.podspec import Container, Number, PodSpec, Volume, VolumeMount
from gpuledger.parse.quantity import parse_quantity

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
NO_DEVICES = ("", "void", "none")
"""Values of NVIDIA_VISIBLE_DEVICES that give no device (container toolkit documentation)."""

CDI_ANNOTATION = "nvidia.cdi.k8s.io/"
"""Prefix of the annotations by which NVIDIA's NRI plugin injects CDI devices."""

VOLUME_MOUNT_ROOT = "/var/run/nvidia-container-devices"
"""Below it, names of mounted /dev/null volumes are devices (accept-nvidia-visible-devices-as-volume-mounts)."""

FRACTION_ANNOTATIONS = ("gpu-fraction", "gpu-memory")
"""KAI scheduler's requests for part of a GPU, which no resource shows."""

_DEVICE_PATHS = re.compile(
    r"/|/dev|/dev/(?:nvidia|dri|kfd|accel).*|/(?:var/)?run/nvidia.*|/(?:var/run|etc)/cdi|/tmp/nvidia-mps.*"
    r"|/var/lib/kubelet(?:/(?:device-plugins|pod-resources).*)?"
    r"|/(?:var/)?run(?:/(?:containerd(?:/containerd\.sock)?|crio(?:/crio\.sock)?|docker\.sock|cri-dockerd\.sock))?"
)


def is_device_path(path: str) -> bool:
    """Whether a path of the node leads to GPU devices, or to a socket that hands them out."""
    return _DEVICE_PATHS.fullmatch(normal_path(path)) is not None


def normal_path(path: str) -> str:
    """The path without repeated or final slashes and without `.` and `..`, as the kubelet resolves it."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


class ContainerSubject(msgspec.Struct, frozen=True):
    """A container of any kind, with the path of its fields and the GPU resources that it names."""

    spec: Container
    kind: ContainerKind
    path: str
    gpus: tuple[str, ...]

    @property
    def name(self) -> str:
        """The container's name."""
        return self.spec.name

    @property
    def asks(self) -> bool:
        """Whether it asks for a GPU, or for a device by claim, which may be one."""
        return bool(self.gpus or self.spec.resources.claims)

    def env_index(self, name: str) -> int | None:
        """The index of an environment variable: the last of that name is the one that counts."""
        places = [index for index, variable in enumerate(self.spec.env) if variable.name == name]
        return places[-1] if places else None


@dataclass(frozen=True, slots=True)
class AuditContext:
    """What the audit knows beside the objects: Unix time, more GPU resources, known advisories."""

    now: float
    also: re.Pattern[str] | None = None
    advisories: tuple[Advisory, ...] = ()


class PodSubject(msgspec.Struct, frozen=True):
    """A pod or a pod template under audit."""

    manifest: PodManifest
    context: AuditContext
    containers: tuple[ContainerSubject, ...]

    @property
    def spec(self) -> PodSpec:
        """The pod's spec."""
        return self.manifest.spec

    @property
    def linux(self) -> bool:
        """Whether the Linux controls of the Pod Security Standards apply."""
        return self.spec.os.name != "windows"

    def mounts(self, volume: str) -> Iterator[tuple[ContainerSubject, VolumeMount]]:
        """Who mounts a volume, and where."""
        for container in self.containers:
            for mount in container.spec.volume_mounts:
                if mount.name == volume:
                    yield container, mount

    @property
    def asks(self) -> bool:
        """Whether any of its containers asks for a GPU, or a scheduler's annotation does."""
        return asks_for_gpu(self.manifest, self.context.also)

    def has_limit(self, container: ContainerSubject, resource: str) -> bool:
        """Whether a container has an effective limit: its own or the pod's (KEP-2837), and 0 means none."""
        return any(
            _is_positive(resources.limits.get(resource, "0"))
            for resources in (container.spec.resources, self.spec.resources)
        )

    def host_path_detail(self, volume: Volume) -> str:
        """A hostPath volume in words: its path, and who mounts it how."""
        users: dict[str, bool] = {}
        for container, mount in self.mounts(volume.name):
            users[container.name] = users.get(container.name, True) and mount.read_only
        mounted = ", ".join(f"{name}{' read-only' if read_only else ''}" for name, read_only in users.items())
        path = volume.host_path.path if volume.host_path else ""
        return f"{volume.name}: {path}, {f'mounted by {mounted}' if mounted else 'not mounted'}"

    def path(self, field: str) -> str:
        """The path of a field of the pod's spec in the object that holds it."""
        return f"{self.manifest.path}.{field}"

    @property
    def annotations_path(self) -> str:
        """The path of the pod's annotations in the object that holds it."""
        return f"{self.manifest.path.removesuffix('spec')}metadata.annotations"

    @property
    def gpu_requests(self) -> dict[str, Decimal]:
        """The effective request per GPU resource."""
        also = self.context.also
        requests = requests_of(self.spec, self.manifest.status, also)
        return {name: amount for name, amount in requests.items() if gpu_resource_kind(name, also)}


def subject_of(manifest: PodManifest, context: AuditContext) -> PodSubject:
    """The pod as the checks see it."""
    spec = manifest.spec
    containers = (
        *_subjects(spec.init_containers, "init", f"{manifest.path}.initContainers", context),
        *_subjects(spec.containers, "regular", f"{manifest.path}.containers", context),
        *_subjects(spec.ephemeral_containers, "ephemeral", f"{manifest.path}.ephemeralContainers", context),
    )
    return PodSubject(manifest, context, containers)


def asks_for_gpu(manifest: PodManifest, also: re.Pattern[str] | None) -> bool:
    """Whether a pod asks for a GPU, by resource, by claim or by a scheduler's annotation."""
    spec = manifest.spec
    if spec.resource_claims:
        return True
    for container in (*spec.containers, *spec.init_containers):
        for names in (container.resources.limits, container.resources.requests):
            for name in names:
                if "/" in name and gpu_resource_kind(name, also):  # every extended resource has a domain
                    return True
    annotations = manifest.annotations
    return any(name in annotations for name in FRACTION_ANNOTATIONS)


def _is_positive(quantity: Number) -> bool:
    try:
        return parse_quantity(str(quantity)) > 0
    except ValueError:
        return False


def _subjects(
    specs: list[Container], kind: Literal["init", "regular", "ephemeral"], path: str, context: AuditContext
) -> Iterator[ContainerSubject]:
    for index, spec in enumerate(specs):
        names = dict.fromkeys((*spec.resources.limits, *spec.resources.requests))
        gpus = tuple(name for name in names if gpu_resource_kind(name, context.also))
        sidecar = kind == "init" and spec.restart_policy == "Always"
        yield ContainerSubject(spec, "sidecar" if sidecar else kind, f"{path}[{index}]", gpus)


def ways_to_gpu(manifest: PodManifest) -> Iterator[str]:
    """The pod's ways to a GPU that need no request."""
    spec = manifest.spec
    containers = (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)
    environment = privileged = False
    for container in containers:
        environment |= visible_devices(container) != ""
        privileged |= container.security_context.privileged
    if environment:
        yield "environment"
    if privileged:
        yield "privileged"
    host_paths = {volume.name: volume.host_path.path for volume in spec.volumes if volume.host_path}
    if host_paths:
        if any(is_device_path(path) for path in host_paths.values()):
            yield "host path"
        if any(
            is_device_mount(mount, host_paths) for container in containers for mount in container.volume_mounts
        ):
            yield "volume mount"
    if any(name.startswith(CDI_ANNOTATION) for name in manifest.annotations):
        yield "annotation"
    if spec.runtime_class_name.startswith("nvidia"):
        yield "runtime class"


def visible_devices(container: Container) -> str:
    """The devices that NVIDIA_VISIBLE_DEVICES names in the manifest, empty where it names none."""
    devices = ""
    for variable in container.env:
        if variable.name == VISIBLE_DEVICES:
            devices = "" if variable.value_from or variable.value in NO_DEVICES else variable.value
    return devices


def is_device_mount(mount: VolumeMount, host_paths: Mapping[str, str]) -> bool:
    """Whether a mount asks the container toolkit for a device: /dev/null below its root."""
    place = f"{normal_path(mount.mount_path)}/"
    return normal_path(host_paths.get(mount.name, "/")) == "/dev/null" and place.startswith(
        f"{VOLUME_MOUNT_ROOT}/"
    )


def waiting_for(manifest: PodManifest) -> str:
    """Why a pod has no node yet, as its gates or the scheduler say; empty where it has one."""
    if manifest.status.phase != "Pending" or manifest.spec.node_name:
        return ""
    if manifest.spec.scheduling_gates:
        return f"gated by {', '.join(gate.name for gate in manifest.spec.scheduling_gates)}"
    for condition in manifest.status.conditions:
        if condition.type == "PodScheduled" and condition.status != "True":
            return f"{condition.reason}: {condition.message}".strip(": ")
    return "not looked at by the scheduler"
