"""The threads of a role, started together and stopped together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping


class Threads:
    """A thread for each of `runs`, by name; each runs until the event that it is given is set."""

    def __init__(self, runs: Mapping[str, Callable[[threading.Event], None]]) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=run, args=(self._stop,), name=name, daemon=True)
            for name, run in runs.items()
        ]

    def start(self) -> None:
        """Start them all."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> None:
        """Stop them all; who hangs for longer than `seconds` is left behind, to end with the process."""
        end = time.monotonic() + seconds
        self._stop.set()
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
