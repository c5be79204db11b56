"""How often something may happen, and how much of it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

GUESSES = 10
"""Wrong credentials that an address may send at once …"""
GUESS_SECONDS = 10.0
"""… and how long it takes to get another try."""
MAX_ADDRESSES = 1024
MAX_WAITING = 8
CHECK_SECONDS = 8.0
"""How long a check may take with its turn in the queue: less than a scrape may, 10 s by default."""


class Bucket:
    """A token bucket: `burst` at once, and one more every `interval` seconds."""

    def __init__(self, interval: float, burst: int) -> None:
        self._interval = interval
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at: float | None = None

    def take(self, now: float) -> bool:
        """Whether there was one at the steady time `now`; it is gone then."""
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) / self._interval)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """As if the last had not been taken."""
        self._tokens = min(self._burst, self._tokens + 1)


class Guesses:
    """A bucket for each address; of too many the one that has been quiet longest is forgotten."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def take(self, address: str, now: float) -> bool:
        """Whether the address may try credentials that are not known to be right."""
        bucket = self._buckets.pop(address, None) or Bucket(GUESS_SECONDS, GUESSES)
        self._buckets[address] = bucket
        if len(self._buckets) > MAX_ADDRESSES:
            del self._buckets[next(iter(self._buckets))]
        return bucket.take(now)

    def give_back(self, address: str) -> None:
        """The credentials were right."""
        if bucket := self._buckets.get(address):
            bucket.give_back()


class TooBusyError(Exception):
    """Too many wait for their check already, or it took too long."""


class Lane:
    """Slow checks, one at a time in a thread beside the event loop."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting = 0

    async def run(self, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the check says; raises TooBusyError, and whatever the check raises."""
        if self._waiting >= MAX_WAITING:
            raise TooBusyError
        self._waiting += 1
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await asyncio.wrap_future(self._threads.submit(check, *args, **kwargs))
        except TimeoutError as error:
            raise TooBusyError from error
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Start no more checks."""
        self._threads.shutdown(wait=False, cancel_futures=True)
