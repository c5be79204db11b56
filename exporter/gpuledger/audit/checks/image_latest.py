"""An image whose content changes under the same name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.parse.image import parse_image


@partial(
    Check,
    "image-latest",
    Severity.MEDIUM,
    title="image without a fixed tag",
    flags="image without tag and digest, or with the tag latest and no digest",
    why="What runs tomorrow is not what was reviewed today, and two replicas may run different code.",
    remediation="Name a release tag or, better, a digest.",
    references=("https://kubernetes.io/docs/concepts/containers/images/#image-names",),
)
def image_latest(pod: PodSubject) -> Iterator[Hit]:
    """A digest wins over any tag; tags are case-sensitive."""
    for container in pod.containers:
        if is_floating(container.spec.image):
            yield Hit(f"{container.path}.image", container.spec.image, container.name)


def is_floating(text: str) -> bool:
    """Whether an image reference means the newest there is."""
    try:
        image = parse_image(text)
    except ValueError:
        return False
    return not image.digest and image.tag in ("", "latest")
