"""Whom the server turns away: always counted, and told so that it is found but fills no disk."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter

from gpuledger.app.web.limits import MAX_ADDRESSES, Bucket
from gpuledger.core.text import printable

log = logging.getLogger(__name__)

REASONS = ("handshake", "credentials", "forbidden", "rate-limit", "unavailable")
QUIET_SECONDS = 600.0
"""How long nothing more is said of an address that is turned away for what was said before."""
LINES = 20
"""What may be said at once of all addresses together …"""
LINE_SECONDS = 10.0
"""… and how long it takes until there may be one more line."""


class Refusals:
    """Counts refusals by reason, and logs a warning for each address and cause."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        self._told_at: dict[tuple[str, str], float] = {}
        """When a line on an address and a cause was last written, the oldest first."""
        self._lines = Bucket(LINE_SECONDS, LINES)

    def add(self, reason: str, peer: str, cause: str) -> None:
        """`peer` was turned away for one of REASONS; `cause` says to people which fault it was."""
        self.counts[reason] += 1
        key, now = (peer, cause), time.monotonic()
        if now - self._told_at.get(key, -math.inf) < QUIET_SECONDS or not self._lines.take(now):
            return
        self._told_at.pop(key, None)
        self._told_at[key] = now
        if len(self._told_at) > MAX_ADDRESSES:
            del self._told_at[next(iter(self._told_at))]
        log.warning("%s was turned away: %s", peer, printable(cause))
