"""Names and numbers that nobody chose: made from the seed and what they belong to, and so always the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

_RANDOM = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of Kubernetes' generated names (apimachinery, util/rand)."""
_OF_NUMBERS = "456789bcdf"
"""Those in which a template's hash, a number, is written."""


@lru_cache(maxsize=4096)
def _digest(seed: int, of: tuple[object, ...]) -> bytes:
    return sha256("/".join(map(str, (seed, *of))).encode()).digest()


@dataclass(frozen=True, slots=True)
class Identities:
    """What random generators would give, by a seed."""

    seed: int

    def uuid(self, *of: object) -> str:
        """A UUID."""
        digits = _digest(self.seed, of).hex()
        return "-".join((digits[:8], digits[8:12], f"4{digits[13:16]}", f"8{digits[17:20]}", digits[20:32]))

    def container_id(self, *of: object) -> str:
        """64 hex digits."""
        return _digest(self.seed, of).hex()

    def suffix(self, *of: object) -> str:
        """The five letters that end a pod's name."""
        return "".join(_RANDOM[byte % len(_RANDOM)] for byte in _digest(self.seed, of)[:5])

    def template_hash(self, *of: object) -> str:
        """A ReplicaSet's hash of its pods' template."""
        return "".join(_OF_NUMBERS[byte % len(_OF_NUMBERS)] for byte in _digest(self.seed, of)[:9])

    def fraction(self, *of: object) -> float:
        """A number from 0 to 1."""
        return int.from_bytes(_digest(self.seed, of)[:4]) / 2**32
