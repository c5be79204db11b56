"""A pod as the checks see it: its containers of every kind, what it asks for, how it reaches GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import msgspec

from gpuledger.audit.advisories import Advisory
from gpuledger.audit.claims import claim_names
from gpuledger.core.accounting import ContainerKind
from gpuledger.core.model import NOTHING
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.manifests import PodManifest
from gpuledger.parse.podrequests import requests_of
from gpuledger.parse.podspec import Container, Number, PodSpec, Volume, VolumeMount
from gpuledger.parse.quantity import parse_amount

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
NO_DEVICES = ("", "void", "none")
"""Values of NVIDIA_VISIBLE_DEVICES that give no device (container toolkit documentation)."""

IMEX_CHANNELS = "NVIDIA_IMEX_CHANNELS"

CDI_ANNOTATION = "nvidia.cdi.k8s.io/"
"""Prefix of the annotations by which NVIDIA's NRI plugin injects CDI devices."""

VOLUME_MOUNT_ROOT = "/var/run/nvidia-container-devices"
"""Below it, names of mounted /dev/null volumes are devices (accept-nvidia-visible-devices-as-volume-mounts)."""

FRACTION_ANNOTATIONS = ("gpu-fraction", "gpu-memory")
"""KAI scheduler's requests for part of a GPU, which no resource shows."""

MAYBE_BY_ENVIRONMENT = "environment (unknown)"
BY_SYS_ADMIN = "SYS_ADMIN"
TENTATIVE_WAYS = frozenset((MAYBE_BY_ENVIRONMENT, BY_SYS_ADMIN))
"""Ways that most pods take for other reasons: such a pod is shown only for a finding about GPUs."""

_OWN_WAYS = ("environment", MAYBE_BY_ENVIRONMENT, "privileged", BY_SYS_ADMIN, "IMEX channels")

_RUN = r"/(?:var/)?run"
_DEVICE_NODES = r"nvidia|nvhost|dri|dxg|kfd|accel|vfio|char|neuron|davinci|habanalabs|hisi_hdc"
_DEVICE_PATHS = re.compile(
    # what holds everything below
    rf"/|/dev|/var|/var/lib|/etc|{_RUN}|/var/lib/kubelet"
    rf"|/dev/(?:{_DEVICE_NODES}).*"
    rf"|{_RUN}/nvidia.*|(?:{_RUN}|/etc)/cdi(?:/.*)?|/etc/nvidia-container-runtime(?:/.*)?"
    r"|/var/lib/kubelet/(?:device-plugins|pod-resources|plugins|plugins_registry)(?:/.*)?"
    rf"|{_RUN}/(?:k3s|crio|podman|docker|(?:k3s/)?containerd)"
    rf"|{_RUN}/(?:.*/)?(?:containerd|crio|docker|cri-dockerd|dockershim|podman)\.sock"
    r"|/.*/(?:nvidia-mps[^/]*|mps)(?:/.*)?"
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
    """A container of any kind, with the path of its fields and the GPU resources that it asks for.

    `claims` names the device claims that it uses, which may be for anything.
    """

    spec: Container
    kind: ContainerKind
    path: str
    gpus: tuple[str, ...]
    claims: tuple[str, ...]

    @property
    def name(self) -> str:
        """The container's name."""
        return self.spec.name

    @property
    def asks(self) -> bool:
        """Whether it asks for a GPU, or for a device by claim, which may be one."""
        return bool(self.gpus or self.claims)

    def is_entitled(self, also: re.Pattern[str] | None) -> bool:
        """Whether a resource that it asks for gives it one of NVIDIA's GPUs."""
        return any(is_nvidia_device(name, also) for name in self.gpus)

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
            is_asked(resources.limits.get(resource, "0"))
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
    def unknown_gpus(self) -> tuple[str, ...]:
        """The GPU resources of which the amount can't be read."""
        parts = (*self.spec.containers, *self.spec.init_containers)
        amounts = [
            entry
            for part in parts
            for entry in (*part.resources.limits.items(), *part.resources.requests.items())
        ]
        also = self.context.also
        unknown = {name for name, amount in amounts if not is_amount(amount) and gpu_resource_kind(name, also)}
        return tuple(sorted(unknown))

    @property
    def gpu_requests(self) -> dict[str, Decimal]:
        """The effective request per GPU resource."""
        also = self.context.also
        requests = requests_of(self.spec, self.manifest.status, also)
        return {name: amount for name, amount in requests.items() if gpu_resource_kind(name, also)}


def subject_of(manifest: PodManifest, context: AuditContext) -> PodSubject:
    """The pod as the checks see it."""
    spec, path = manifest.spec, manifest.path
    claims = claim_names(manifest) if spec.resource_claims else NOTHING
    containers = (
        *_subjects(spec.init_containers, "init", f"{path}.initContainers", context, claims),
        *_subjects(spec.containers, "regular", f"{path}.containers", context, claims),
        *_subjects(spec.ephemeral_containers, "ephemeral", f"{path}.ephemeralContainers", context, claims),
    )
    return PodSubject(manifest, context, containers)


def asks_for_gpu(manifest: PodManifest, also: re.Pattern[str] | None) -> bool:
    """Whether a pod asks for a GPU, by resource, claim (which may be for something else) or annotation."""
    return bool(manifest.spec.resource_claims) or names_gpu(manifest, also)


def names_gpu(manifest: PodManifest, also: re.Pattern[str] | None) -> bool:
    """Whether a pod asks for a GPU by a resource, of a container or (wrongly) of its own, or by annotation."""
    spec = manifest.spec
    containers = (*spec.containers, *spec.init_containers)
    for resources in (spec.resources, *(container.resources for container in containers)):
        for amounts in (resources.limits, resources.requests):
            for name, amount in amounts.items():
                if "/" in name and gpu_resource_kind(name, also) and is_asked(amount):
                    return True
    return bool(fractions_of(manifest))


def fractions_of(manifest: PodManifest) -> dict[str, str]:
    """KAI's requests for part of a GPU that ask for more than nothing."""
    annotations = manifest.annotations
    return {
        name: annotations[name]
        for name in FRACTION_ANNOTATIONS
        if name in annotations and is_asked(annotations[name])
    }


_OTHER_VENDORS = re.compile(
    r"(?:deviceclass\.resource\.kubernetes\.io/gpu\.)?(?:(?:amd|gpu\.intel|intel|aws\.amazon|google|huawei|cambricon"
    r"|hygon|metax-tech|mthreads|enflame|kunlunxin)\.com|habana\.ai|iluvatar\.(?:ai|com))(?:/.+)?"
)


def is_nvidia_device(name: str, also: re.Pattern[str] | None) -> bool:
    """Whether a resource gives devices that may be NVIDIA's; attributes alone give none."""
    kind = gpu_resource_kind(name, also)
    return kind not in (None, "attribute") and _OTHER_VENDORS.fullmatch(name) is None


def is_asked(amount: Number) -> bool:
    """Whether an amount is more than nothing; one that can't be read is."""
    try:
        return parse_amount(amount) > 0
    except ValueError:
        return True


def is_amount(quantity: Number) -> bool:
    """Whether Kubernetes takes the quantity in a resource list."""
    try:
        parse_amount(quantity)
    except ValueError:
        return False
    return True


def _subjects(
    specs: list[Container],
    kind: Literal["init", "regular", "ephemeral"],
    path: str,
    context: AuditContext,
    claims: Mapping[str, str],
) -> Iterator[ContainerSubject]:
    for index, spec in enumerate(specs):
        amounts = (*spec.resources.limits.items(), *spec.resources.requests.items())
        names = dict.fromkeys(name for name, amount in amounts if is_asked(amount))
        gpus = tuple(name for name in names if gpu_resource_kind(name, context.also))
        used = tuple(claims[each.name] for each in spec.resources.claims if each.name in claims)
        sidecar = kind == "init" and spec.restart_policy == "Always"
        yield ContainerSubject(spec, "sidecar" if sidecar else kind, f"{path}[{index}]", gpus, used)


def ways_to_gpu(manifest: PodManifest) -> Iterator[str]:
    """The pod's ways to a GPU that need no request."""
    spec = manifest.spec
    containers = (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)
    ways = {way for container in containers for way in _own_ways(container)}
    yield from (way for way in _OWN_WAYS if way in ways)
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


def _own_ways(container: Container) -> Iterator[str]:
    for variable in container.env:
        if variable.name == VISIBLE_DEVICES:
            if variable.value_from:
                yield MAYBE_BY_ENVIRONMENT
            elif visible_devices(container):
                yield "environment"
        elif variable.name == IMEX_CHANNELS:
            yield "IMEX channels"
    if container.env_from:
        yield MAYBE_BY_ENVIRONMENT
    context = container.security_context
    if context.privileged:
        yield "privileged"
    if context.capabilities.add and has_sys_admin(container):
        yield BY_SYS_ADMIN


def capability(name: str) -> str:
    """A capability as Kubernetes writes it: runtimes take it with and without `CAP_`, in any case."""
    return name.upper().removeprefix("CAP_")


def is_privileged(container: Container) -> bool:
    """Whether a container is privileged, as the container toolkit sees it: it looks for SYS_ADMIN alone."""
    return container.security_context.privileged or has_sys_admin(container)


def has_sys_admin(container: Container) -> bool:
    """Whether a container is given the capability SYS_ADMIN."""
    return any(capability(name) in ("SYS_ADMIN", "ALL") for name in container.security_context.capabilities.add)


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
