"""An image reference that no runtime can pull."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.parse.image import parse_image


@partial(
    Check,
    "invalid-image",
    Severity.MEDIUM,
    title="image reference that can't be pulled",
    flags="image that is empty (in a pod), malformed, or has a digest of the wrong length",
    why="A malformed digest looks pinned and is not: the container never starts, or somebody mends it in a"
    " hurry.",
    remediation="Write registry/repository:tag@sha256:<64 hex digits>.",
    references=("https://github.com/distribution/reference",),
)
def invalid_image(pod: PodSubject) -> Iterator[Hit]:
    """A template may leave the image to who uses it; a pod may not."""
    for container in pod.containers:
        text = container.spec.image
        if not text and pod.manifest.kind != "Pod":
            continue
        try:
            parse_image(text)
        except ValueError:
            yield Hit(f"{container.path}.image", text or "empty", container.name)
