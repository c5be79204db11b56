"""Known vulnerabilities of the GPU stack, which are data: advisories.json beside this module."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Advisory:
    """A vulnerability of releases below `fixed`; `component` is the last part of the image's repository.

    Without `fixed`, which releases are affected was not known when the list was written.
    """

    id: str
    component: str
    fixed: tuple[int, int, int] | None
    url: str


def parse_advisories(text: bytes) -> tuple[Advisory, ...]:
    """The advisories of a JSON array.

    Raises:
        msgspec.DecodeError: the text is not such an array.
    """
    return msgspec.json.decode(text, type=tuple[Advisory, ...])
