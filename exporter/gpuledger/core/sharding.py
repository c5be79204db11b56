"""Which of several exporters an object belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` exporters, numbered from 0, that share a cluster's objects by their UIDs."""

    index: int = 0
    count: int = 1

    def owns(self, uid: str) -> bool:
        """Whether the object is this shard's: exactly one of the shards says so, and always the same."""
        return crc32(uid.encode()) % self.count == self.index
