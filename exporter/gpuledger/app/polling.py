"""Each source of evidence in a thread of its own, so that one that hangs holds up nobody else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from gpuledger.core.errors import SourceError
from gpuledger.core.snapshot import SourceHealth

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BACKOFF_SECONDS = 30.0


class Poll(Generic[T]):
    """Reads a source at a cadence and keeps its newest value.

    `current` is the value while the source is well; `last` is what it said last, for evidence that outlives an
    outage. An attempt that takes longer than `deadline` seconds has failed, though it goes on. After a failure
    the next attempt waits longer each time. One line is logged per change of state, not per attempt.
    """

    def __init__(self, name: str, read: Callable[[], T], *, interval: float, deadline: float) -> None:
        self.name = name
        self._read = read
        self._interval = interval
        self._deadline = deadline
        self._value: T | None = None
        self._read_at: float | None = None
        """Steady time of the last success."""
        self._success_at: float | None = None
        """Wall time of the last success."""
        self._began_at: float | None = None
        """Steady time at which the attempt under way began."""
        self._duration: float | None = None
        self._failures = 0
        self._failures_in_row = 0
        self._error = ""
        self.needs_restart = False
        """The source said that only a restart of this process will bring it back."""
        self._stopped = threading.Event()
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Begin no further attempt, and give the one under way `timeout` seconds: it may hang for ever."""
        self._stopped.set()
        self._thread.join(timeout)

    def wait(self, timeout: float) -> None:
        """Wait for the end of an attempt, but no longer than `timeout` seconds."""
        if self._news.wait(timeout):
            self._news.clear()

    def current(self) -> T | None:
        """The newest value, unless the source has failed or fallen silent since."""
        return None if self._error else self.last(self._interval + self._deadline)

    def last(self, max_age: float) -> T | None:
        """The newest value that is no older than `max_age` seconds, whatever has happened since."""
        fresh = self._read_at is not None and time.monotonic() - self._read_at <= max_age
        return self._value if fresh else None

    def stalled_for(self) -> float:
        """Seconds for which the attempt under way has been without an answer."""
        began = self._began_at
        return 0.0 if began is None else time.monotonic() - began

    def health(self) -> SourceHealth:
        """How the source is doing now."""
        stalled = self.stalled_for() > self._deadline
        error = f"no answer for {self.stalled_for():.0f} s" if stalled else self._error
        return SourceHealth(
            self.name, self.current() is not None, self._success_at, self._duration, self._failures, error
        )

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            began = self._began_at = time.monotonic()
            try:
                value = self._read()
            except SourceError as error:
                self._failed(error)
                backoff = min(self._interval * 2 ** min(self._failures_in_row, 10), MAX_BACKOFF_SECONDS)
                pause = max(self._interval, backoff)
            except Exception as error:
                log.exception("%s: unexpected failure", self.name)
                self._failed(SourceError(f"{type(error).__name__}: {error}"))
                pause = max(self._interval, MAX_BACKOFF_SECONDS)
            else:
                self._succeeded(value, began)
                pause = max(0.0, began + self._interval - time.monotonic())
            self._began_at = None
            self._news.set()

    def _failed(self, error: SourceError) -> None:
        if str(error) != self._error:
            log.warning("%s: %s", self.name, error)
        self._error = str(error)
        self._failures += 1
        self._failures_in_row += 1
        self.needs_restart = error.restart

    def _succeeded(self, value: T, began: float) -> None:
        if self._error:
            log.info("%s: answers again", self.name)
        self._error = ""
        self._failures_in_row = 0
        self._value = value
        self._read_at = time.monotonic()
        self._success_at = time.time()
        self._duration = self._read_at - began
        self.needs_restart = False
