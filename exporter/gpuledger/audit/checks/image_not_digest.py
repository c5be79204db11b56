"""An image that is not named by its digest."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.parse.image import parse_image


@partial(
    Check,
    "image-not-digest",
    Severity.LOW,
    title="image without a digest",
    flags="image without a digest",
    why="Any tag can be moved to another image; only a digest names content.",
    remediation="Append the digest: repository:tag@sha256:...",
    references=("https://kubernetes.io/docs/concepts/containers/images/#image-names",),
    covered_by=("image-latest",),
    opt_in=True,
)
def image_not_digest(pod: PodSubject) -> Iterator[Hit]:
    """References that can't be read are another check's."""
    for container in pod.containers:
        try:
            image = parse_image(container.spec.image)
        except ValueError:
            continue
        if not image.digest:
            yield Hit(f"{container.path}.image", container.spec.image, container.name)
