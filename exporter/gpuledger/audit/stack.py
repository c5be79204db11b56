"""The GPU stack's components by their images' names, wherever an image was mirrored to, and their releases."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuledger.parse.image import parse_image

_NAMES = re.compile(
    r"(?:.*/)?(?:mirrored-|nvidia-)*(?P<component>container-toolkit|gpu-operator|k8s-device-plugin"
    r"|gpu-feature-discovery|dcgm-exporter|k8s-mig-manager|k8s-dra-driver-gpu)"
)
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?P<rest>\D.*)?")
_PRE_RELEASE = re.compile(r"[-.](?:rc|alpha|beta|dev)", re.IGNORECASE)

Release = tuple[int, int, int, int]
"""Major, minor and patch, and whether it is final (1) or comes before (0)."""


@lru_cache(maxsize=4096)
def component_of(image: str) -> str:
    """Which component of the GPU stack an image is, by its name alone; empty where it is none."""
    try:
        match = _NAMES.fullmatch(parse_image(image).repository)
    except ValueError:
        return ""
    return match["component"] if match else ""


def parse_release(tag: str) -> Release | None:
    """The release that a tag names; None where it names none. `v24.9` is 24.9.0, an `-rc.1` comes before."""
    match = _VERSION.fullmatch(tag)
    if match is None:
        return None
    major, minor, patch, rest = match.groups()
    return int(major), int(minor), int(patch or 0), 0 if _PRE_RELEASE.match(rest or "") else 1
