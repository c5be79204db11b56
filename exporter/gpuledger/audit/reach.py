"""How a pod reaches GPUs without asking for them: past the device plugin, through the host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from gpuledger.parse.manifests import PodManifest
from gpuledger.parse.podspec import Container, Volume, VolumeMount

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
NO_DEVICES = ("", "void", "none")
"""Values of NVIDIA_VISIBLE_DEVICES that give no device (container toolkit documentation)."""

IMEX_CHANNELS = "NVIDIA_IMEX_CHANNELS"

CDI_ANNOTATION = "nvidia.cdi.k8s.io/"
"""Prefix of the annotations by which NVIDIA's NRI plugin injects CDI devices."""

VOLUME_MOUNT_ROOT = "/var/run/nvidia-container-devices"
"""Below it, names of mounted /dev/null volumes are devices (accept-nvidia-visible-devices-as-volume-mounts)."""

MAYBE_BY_ENVIRONMENT = "environment (unknown)"
BY_SYS_ADMIN = "SYS_ADMIN"
BY_ADMIN_CLAIM = "admin claim"
"""A device claim with admin access, which only the claim tells."""
TENTATIVE_WAYS = frozenset((MAYBE_BY_ENVIRONMENT, BY_SYS_ADMIN))
"""Ways that most pods take for other reasons: such a pod is shown only for a finding about GPUs."""

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


def ways_to_gpu(manifest: PodManifest) -> tuple[str, ...]:
    """The pod's ways to a GPU that need no request."""
    spec = manifest.spec
    containers = (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)
    ways: list[str] = []
    for container in containers:
        if container.env or container.env_from:
            ways += _ways_by_environment(container)
        context = container.security_context
        if context.privileged:
            ways.append("privileged")
        if context.capabilities.add and has_sys_admin(container):
            ways.append(BY_SYS_ADMIN)
    if spec.volumes:
        ways += _ways_by_host_path(spec.volumes, containers)
    if manifest.annotations:
        ways += ["annotation" for name in manifest.annotations if name.startswith(CDI_ANNOTATION)]
    if spec.runtime_class_name.startswith("nvidia"):
        ways.append("runtime class")
    return tuple(dict.fromkeys(ways)) if ways else ()


def _ways_by_host_path(volumes: Iterable[Volume], containers: Iterable[Container]) -> Iterator[str]:
    host_paths = {volume.name: volume.host_path.path for volume in volumes if volume.host_path}
    if host_paths:
        if any(is_device_path(path) for path in host_paths.values()):
            yield "host path"
        if any(
            is_device_mount(mount, host_paths) for container in containers for mount in container.volume_mounts
        ):
            yield "volume mount"


def _ways_by_environment(container: Container) -> Iterator[str]:
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


def capability(name: str) -> str:
    """A capability as Kubernetes writes it: runtimes take it with and without `CAP_`, in any case."""
    return name.upper().removeprefix("CAP_")


def is_privileged(container: Container) -> bool:
    """Whether a container is privileged, as the container toolkit sees it: it looks for SYS_ADMIN alone."""
    return container.security_context.privileged or has_sys_admin(container)


def has_sys_admin(container: Container) -> bool:
    """Whether a container is given the capability SYS_ADMIN."""
    added = container.security_context.capabilities.add
    return bool(added) and any(capability(name) in ("SYS_ADMIN", "ALL") for name in added)


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
