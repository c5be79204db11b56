"""The four checks of old, under their names, for cron jobs that want no surprise."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.checks.image_latest import is_floating
from gpuledger.audit.places import privileged_containers
from gpuledger.audit.subject import PodSubject
from gpuledger.parse.image import parse_image

_declare = partial(Check, references=())


@partial(
    _declare,
    "unpinned image",
    Severity.MEDIUM,
    title="unpinned image",
    flags="image without tag and digest, with the tag latest, or that is no reference at all",
    why="The code that runs tomorrow is not the code that was reviewed.",
    remediation="Name a release tag or a digest.",
)
def unpinned_image(pod: PodSubject) -> Iterator[Hit]:
    """image-latest and invalid-image as one."""
    for container in pod.containers:
        image = container.spec.image
        if is_floating(image) or not _is_reference(image):
            yield Hit(f"{container.path}.image", image, container.name)


@partial(
    _declare,
    "no cpu/memory limits",
    Severity.MEDIUM,
    title="no cpu/memory limits",
    flags="a container or sidecar without a limit on CPU, or on memory",
    why="One pod can starve its node.",
    remediation="Set both limits, on the container or on the pod.",
)
def no_limits(pod: PodSubject) -> Iterator[Hit]:
    """cpu-limit and memory-limit as one."""
    for container in pod.containers:
        if container.kind in ("init", "ephemeral"):
            continue
        if not (pod.has_limit(container, "cpu") and pod.has_limit(container, "memory")):
            yield Hit(f"{container.path}.resources.limits", "", container.name)


@partial(
    _declare,
    "privileged container",
    Severity.HIGH,
    title="privileged container",
    flags="securityContext.privileged: true",
    why="A privileged container is root on its node.",
    remediation="Remove privileged.",
)
def privileged_container(pod: PodSubject) -> Iterator[Hit]:
    """As privileged."""
    return privileged_containers(pod)


@partial(
    _declare,
    "hostPath volume",
    Severity.MEDIUM,
    title="hostPath volume",
    flags="spec.volumes[].hostPath",
    why="The pod sees files of its node.",
    remediation="Use a PersistentVolumeClaim or an emptyDir.",
)
def host_path_volume(pod: PodSubject) -> Iterator[Hit]:
    """As host-path, mounted or not."""
    for index, volume in enumerate(pod.spec.volumes):
        if volume.host_path:
            yield Hit(pod.path(f"volumes[{index}].hostPath"), volume.name or "?")


CLASSIC_CHECKS = (unpinned_image, no_limits, privileged_container, host_path_volume)


def _is_reference(text: str) -> bool:
    try:
        parse_image(text)
    except ValueError:
        return False
    return True
