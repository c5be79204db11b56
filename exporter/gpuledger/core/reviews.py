"""Who asks for a page, as the Kubernetes API knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.core.model import NOTHING


@dataclass(frozen=True, slots=True)
class User:
    """A user of the API, as a TokenReview tells and a SubjectAccessReview takes it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NOTHING)
