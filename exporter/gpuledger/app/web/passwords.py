"""Passwords and bcrypt, which is slow by design: in a thread, one at a time, once for each that is right."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

import bcrypt

from gpuledger.app.web.limits import Lane

BCRYPT_BYTES = 72
"""bcrypt looks at no more of a password; so does Go's, where the Python library would refuse."""


class Passwords:
    """Checks names and passwords against the users of the moment.

    The verdict on a right password is kept as a keyed digest of it and its hash, one for each user; a new hash
    asks anew. A name that nobody has costs as much as a wrong password, so that names can't be guessed by time.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._right: dict[str, bytes] = {}
        self._lane = Lane("passwords")

    def known(self, users: Mapping[str, str], user: str, password: bytes) -> bool:
        """Whether just this was right before; takes microseconds."""
        digest = self._digest(users.get(user, ""), password)
        return hmac.compare_digest(self._right.get(user, b""), digest)

    async def right(self, users: Mapping[str, str], user: str, password: bytes) -> bool:
        """Whether the password is the user's; raises TooBusyError."""
        hashed = users.get(user) or next(iter(users.values()))
        matches = await self._lane.run(bcrypt.checkpw, password[:BCRYPT_BYTES], hashed.encode())
        if not (matches and user in users):
            return False
        self._right = {name: digest for name, digest in self._right.items() if name in users}
        self._right[user] = self._digest(hashed, password)
        return True

    def close(self) -> None:
        """Check no more."""
        self._lane.close()

    def _digest(self, hashed: str, password: bytes) -> bytes:
        return hashlib.blake2b(b"%b %b" % (hashed.encode(), password), key=self._key).digest()
