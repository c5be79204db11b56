"""Each source of evidence read in a thread of its own, so that one that hangs holds up nobody else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpuledger.core.errors import SourceError
from gpuledger.core.snapshot import SourceHealth

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BACKOFF_SECONDS = 30.0


@dataclass(frozen=True)
class _Answer(Generic[T]):
    """What a source said: `steady` and `wall` are the times at which it had, `duration` what it took."""

    value: T
    steady: float
    wall: float
    duration: float


class Poll(Generic[T]):
    """Reads a source at a cadence and keeps its newest value.

    `current` is the value while the source is well; `last` is what it said last, for evidence that outlives an
    outage. An attempt without an answer after `deadline` seconds shows in `health`, and goes on: nothing can
    end a call into a driver. After a failure the next attempt waits longer each time.

    One thread runs it and others look on: what they see changes by single assignments.
    """

    def __init__(self, name: str, read: Callable[[], T], *, interval: float, deadline: float) -> None:
        self.name = name
        self._read = read
        self._interval = interval
        self._deadline = deadline
        self._answer: _Answer[T] | None = None
        self._error: SourceError | None = None
        """Of the last attempt; None where it succeeded."""
        self._failures = 0
        self._began_at: float | None = None
        """Steady time at which the attempt under way began."""
        self._news = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Read the source until `stop` is set; returns then, unless an attempt hangs."""
        pause, failures_in_row = 0.0, 0
        while not stop.wait(pause):
            self._began_at = began = time.monotonic()
            self._attempt(began)
            self._began_at = None
            if self._error is None:
                failures_in_row = 0
                pause = max(0.0, began + self._interval - time.monotonic())
            else:
                self._failures += 1
                failures_in_row += 1
                backoff = self._interval * 2 ** min(failures_in_row, 10)
                pause = max(self._interval, min(backoff, MAX_BACKOFF_SECONDS))
            self._news.set()
        self._news.set()

    def _attempt(self, began: float) -> None:
        try:
            value = self._read()
        except SourceError as error:
            self._error = error
        except Exception as error:
            unexpected = SourceError(f"{type(error).__name__}: {error}")
            if str(unexpected) != str(self._error):
                log.exception("%s: unexpected failure", self.name)
            self._error = unexpected
        else:
            now = time.monotonic()
            self._answer = _Answer(value, now, time.time(), now - began)
            self._error = None  # last, so that nobody takes the answer before for a new one

    def wait(self, timeout: float) -> None:
        """Wait for the end of an attempt, or of them all, but no longer than `timeout` seconds."""
        if self._news.wait(timeout):
            self._news.clear()

    def current(self) -> T | None:
        """The newest value, unless the source has failed or fallen silent since."""
        return None if self._error is not None else self.last(self._interval + self._deadline)

    def last(self, max_age: float) -> T | None:
        """The newest value that is no older than `max_age` seconds, whatever has happened since."""
        answer = self._answer
        return answer.value if answer is not None and time.monotonic() - answer.steady <= max_age else None

    @property
    def needs_restart(self) -> bool:
        """Whether the source said that only a restart of this process will bring it back."""
        return self._error is not None and self._error.restart

    def stalled_for(self) -> float:
        """Seconds for which the attempt under way has been without an answer."""
        began = self._began_at
        return 0.0 if began is None else time.monotonic() - began

    def health(self) -> SourceHealth:
        """How the source is doing now."""
        answer, error = self._answer, str(self._error or "")
        if self.stalled_for() > self._deadline:
            error = f"no answer for more than {self._deadline:g} s"
        return SourceHealth(
            self.name,
            up=self.current() is not None,
            last_success=answer.wall if answer is not None else None,
            duration_seconds=answer.duration if answer is not None else None,
            failures=self._failures,
            error=error,
        )
