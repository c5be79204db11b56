"""Bearer tokens, of which the Kubernetes API says whose they are and what those may read."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from enum import Enum
from typing import Protocol

from gpuledger.app.web.limits import Lane
from gpuledger.core.errors import SourceError
from gpuledger.core.reviews import User

log = logging.getLogger(__name__)

MAX_VERDICTS = 1024


class Verdict(Enum):
    """What Kubernetes says of a token and a path; the value is for how many seconds that is taken to hold."""

    ALLOWED = 60.0
    FORBIDDEN = 30.0
    UNKNOWN = 0.0


class Reviewer(Protocol):
    """Who is asked; each method waits for the API and raises SourceError where that can't tell."""

    def user_of(self, token: str) -> User | None:
        """Whose token it is; None for one that is no good."""

    def may_get(self, user: User, path: str) -> bool:
        """Whether the user may read a path of this server."""

    def hang_up(self) -> None:
        """Ask nothing more."""


class Tokens:
    """Verdicts on tokens, kept for a while by digests of them; without a verdict nobody gets in."""

    def __init__(self, reviewer: Reviewer) -> None:
        self._reviewer = reviewer
        self._key = secrets.token_bytes(32)
        self._verdicts: dict[bytes, tuple[Verdict, float]] = {}
        """Each with the steady time at which it ends, the oldest first."""
        self._lane = Lane("tokens")
        self._problem = ""

    def known(self, token: str, path: str) -> Verdict | None:
        """The verdict while it holds."""
        verdict, ends_at = self._verdicts.get(self._digest(token, path), (None, 0.0))
        return verdict if time.monotonic() < ends_at else None

    async def verdict(self, token: str, path: str) -> Verdict:
        """Ask; raises TooBusyError, and SourceError where the API gives no answer."""
        try:
            verdict = await self._lane.run(self._ask, token, path)
        except SourceError as error:
            if str(error) != self._problem:
                log.warning("--web.kubernetes-auth: nobody gets in by token: %s", error)
            self._problem = str(error)
            raise
        if self._problem:
            log.info("--web.kubernetes-auth: the API answers again")
            self._problem = ""
        self._keep(self._digest(token, path), verdict)
        return verdict

    def close(self) -> None:
        """Ask no more, whatever is under way."""
        self._reviewer.hang_up()
        self._lane.close()

    def _ask(self, token: str, path: str) -> Verdict:
        user = self._reviewer.user_of(token)
        if user is None:
            return Verdict.UNKNOWN
        return Verdict.ALLOWED if self._reviewer.may_get(user, path) else Verdict.FORBIDDEN

    def _keep(self, digest: bytes, verdict: Verdict) -> None:
        self._verdicts.pop(digest, None)
        if verdict is Verdict.UNKNOWN:
            return  # anybody can make one up, and push those out that are asked for
        self._verdicts[digest] = (verdict, time.monotonic() + verdict.value)
        if len(self._verdicts) > MAX_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]

    def _digest(self, token: str, path: str) -> bytes:
        return hashlib.blake2b(f"{path} {token}".encode(), key=self._key).digest()
