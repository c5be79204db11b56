"""Objects of the Kubernetes API that can't be read now, each told in the log once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gpuledger.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuledger.parse.kubelist import MalformedObject

log = logging.getLogger(__name__)

_NAMED = 20
"""Of one list; after an upgrade of the API it may be all of them."""
_LONGEST = 500
"""Characters of a line."""


class Unreadable:
    """The UIDs of the objects of one kind that are malformed; of those that are not, nothing is kept."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._uids: set[str] = set()

    def __len__(self) -> int:
        return len(self._uids)

    def replace(self, malformed: Sequence[MalformedObject]) -> None:
        """All that there are."""
        new = [each for each in malformed if each.uid not in self._uids]
        for each in new[:_NAMED]:
            self._tell(each)
        if len(new) > _NAMED:
            log.warning("%s: %d more can't be read", self._kind, len(new) - _NAMED)
        self._uids = {each.uid for each in malformed}

    def put(self, malformed: MalformedObject) -> None:
        """One that has come, or was well-formed before."""
        if malformed.uid not in self._uids:
            self._tell(malformed)
            self._uids.add(malformed.uid)

    def remove(self, uid: str) -> None:
        """An object that has gone or is well-formed; it need not be known."""
        self._uids.discard(uid)

    def _tell(self, malformed: MalformedObject) -> None:
        name = f"{malformed.namespace}/{malformed.name}".removeprefix("/")
        text = f"{self._kind} {name} can't be read: {malformed.problem}"
        log.warning("%s", printable(text)[:_LONGEST])
