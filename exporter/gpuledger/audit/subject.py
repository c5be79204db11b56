"""A pod as the checks see it: its containers of every kind, what it asks for, how it reaches GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import msgspec

from gpuledger.audit.advisories import Advisory
from gpuledger.audit.claims import claim_names, has_claims
from gpuledger.core.accounting import ContainerKind, Quantities
from gpuledger.core.model import NOTHING
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.manifests import PodManifest
from gpuledger.parse.podrequests import gpu_requests_of
from gpuledger.parse.podspec import (
    Container,
    Lifecycle,
    Number,
    PodSpec,
    Resources,
    SecurityContext,
    Volume,
    VolumeMount,
)
from gpuledger.parse.quantity import readable_amount

Part = Literal["security context", "hostPath", "environment", "annotations", "network", "GPU request"]
"""What some pods have and many don't: of each, the checks of it have something to look at."""

FRACTION_ANNOTATIONS = ("gpu-fraction", "gpu-memory")
"""KAI scheduler's requests for part of a GPU, which no resource shows."""


class ContainerSubject(msgspec.Struct, frozen=True, gc=False):
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


class PodSubject(msgspec.Struct, frozen=True, gc=False):
    """A pod or a pod template under audit, and which of the parts it has that not every pod has."""

    manifest: PodManifest
    spec: PodSpec
    context: AuditContext
    containers: tuple[ContainerSubject, ...]
    parts: frozenset[Part]

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
        own, of_pod = container.spec.resources.limits, self.spec.resources.limits
        return is_asked(own.get(resource, "0")) or is_asked(of_pod.get(resource, "0"))

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
        unknown = {
            name
            for container in self.containers
            for name in container.gpus
            for amounts in (container.spec.resources.limits, container.spec.resources.requests)
            if name in amounts and readable_amount(amounts[name]) is None
        }
        return tuple(sorted(unknown))

    @property
    def gpu_requests(self) -> Quantities:
        """The effective request per GPU resource."""
        return gpu_requests_of(self.spec, self.manifest.status, self.context.also)


def subject_of(manifest: PodManifest, context: AuditContext) -> PodSubject:
    """The pod as the checks see it."""
    containers = tuple(_subjects(manifest, context))
    return PodSubject(manifest, manifest.spec, context, containers, frozenset(_parts(manifest, containers)))


def _parts(manifest: PodManifest, containers: Iterable[ContainerSubject]) -> Iterator[Part]:
    if manifest.spec.security_context != _NO_CONTEXT:
        yield "security context"
    if manifest.annotations:
        yield "annotations"
    if any(volume.host_path for volume in manifest.spec.volumes):
        yield "hostPath"
    for container in containers:
        spec = container.spec
        if container.gpus:
            yield "GPU request"
        if spec.env or spec.env_from:
            yield "environment"
        if spec.security_context != _NO_CONTEXT:
            yield "security context"
        probed = spec.liveness_probe or spec.readiness_probe or spec.startup_probe
        if spec.ports or probed or spec.lifecycle != _NO_HOOKS:
            yield "network"


_NO_CONTEXT = SecurityContext()
_NO_HOOKS = Lifecycle()


_NO_RESOURCES = Resources()
_PLAIN = frozenset(("cpu", "memory", "ephemeral-storage"))
"""What nearly every container asks for."""


def asks_for_gpu(manifest: PodManifest, also: re.Pattern[str] | None) -> bool:
    """Whether a pod asks for a GPU, by resource, claim (which may be for something else) or annotation."""
    return has_claims(manifest) or names_gpu(manifest, also)


def names_gpu(manifest: PodManifest, also: re.Pattern[str] | None) -> bool:
    """Whether a pod asks for a GPU by a resource, of a container or (wrongly) of its own, or by annotation."""
    return any(gpu_resource_kind(name, also) for name in extended_resources(manifest)) or bool(
        fractions_of(manifest)
    )


def extended_resources(manifest: PodManifest) -> list[str]:
    """The extended resources, of any devices, that a pod asks for in a container or (wrongly) as a whole."""
    spec = manifest.spec
    names: list[str] = []
    for containers in (spec.containers, spec.init_containers):
        for container in containers:
            resources = container.resources
            # all pods of a dump come by here, and few go on
            if not (_PLAIN.issuperset(resources.limits) and _PLAIN.issuperset(resources.requests)):
                names += _extended(resources)
    return names + _extended(spec.resources) if spec.resources != _NO_RESOURCES else names


def _extended(resources: Resources) -> list[str]:
    """Every extended resource has a domain."""
    return [
        name
        for amounts in (resources.limits, resources.requests)
        for name in amounts
        if "/" in name and is_asked(amounts[name])
    ]


def fractions_of(manifest: PodManifest) -> dict[str, str]:
    """KAI's requests for part of a GPU that ask for more than nothing."""
    annotations = manifest.annotations
    if not annotations or annotations.keys().isdisjoint(FRACTION_ANNOTATIONS):
        return {}
    asked = {name: annotations[name] for name in FRACTION_ANNOTATIONS if name in annotations}
    return {name: amount for name, amount in asked.items() if is_asked(amount)}


def _gpus_of(resources: Resources, also: re.Pattern[str] | None) -> list[str]:
    return [name for name in _extended(resources) if gpu_resource_kind(name, also)]


_OTHER_VENDORS = re.compile(
    r"(?:deviceclass\.resource\.kubernetes\.io/gpu\.)?(?:(?:amd|gpu\.intel|intel|aws\.amazon|google|huawei|cambricon"
    r"|hygon|metax-tech|mthreads|enflame|kunlunxin)\.com|habana\.ai|iluvatar\.(?:ai|com))(?:/.+)?"
)


@lru_cache(maxsize=4096)
def is_nvidia_device(name: str, also: re.Pattern[str] | None) -> bool:
    """Whether a resource gives devices that may be NVIDIA's; attributes alone give none."""
    kind = gpu_resource_kind(name, also)
    return kind not in (None, "attribute") and _OTHER_VENDORS.fullmatch(name) is None


def is_asked(amount: Number) -> bool:
    """Whether an amount is more than nothing; one that can't be read is."""
    return readable_amount(amount) != 0


def _subjects(manifest: PodManifest, context: AuditContext) -> Iterator[ContainerSubject]:
    pod = manifest.spec
    claims = claim_names(manifest) if pod.resource_claims else NOTHING
    kinds: tuple[tuple[str, ContainerKind, list[Container]], ...] = (
        ("initContainers", "init", pod.init_containers),
        ("containers", "regular", pod.containers),
        ("ephemeralContainers", "ephemeral", pod.ephemeral_containers),
    )
    for field, kind, specs in kinds:
        for index, spec in enumerate(specs):
            gpus = tuple(dict.fromkeys(_gpus_of(spec.resources, context.also)))
            used = tuple(claims[each.name] for each in spec.resources.claims if each.name in claims)
            sidecar = kind == "init" and spec.restart_policy == "Always"
            path = f"{manifest.path}.{field}[{index}]"
            yield ContainerSubject(spec, "sidecar" if sidecar else kind, path, gpus, used)


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
