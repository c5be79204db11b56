"""Container image references: `registry/repository:tag@digest`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?P<repository>(?:{_HOST}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)

_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}


@dataclass(frozen=True, slots=True)
class Image:
    """An image reference; `repository` includes the registry, `tag` and `digest` are empty where absent."""

    repository: str
    tag: str
    digest: str


@lru_cache(maxsize=4096)
def parse_image(text: str) -> Image:
    """Split an image reference by the grammar of distribution's reference package.

    Raises:
        ValueError: the text is no reference, or its digest has not the length its algorithm gives.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise ValueError(f"not an image reference: {text!r}")
    digest = match["digest"] or ""
    algorithm, _, encoded = digest.partition(":")
    if len(encoded) != _DIGEST_LENGTHS.get(algorithm, len(encoded)):
        raise ValueError(f"malformed digest: {text!r}")
    return Image(match["repository"], match["tag"] or "", digest)
