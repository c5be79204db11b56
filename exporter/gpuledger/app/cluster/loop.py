"""What runs in the cluster role: a thread for each kind of object, one that judges anew, one for the policy."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from gpuledger.app.cluster.books import ClusterBooks
from gpuledger.app.node.loop import log_changes
from gpuledger.app.polling import Poll
from gpuledger.app.threads import Threads
from gpuledger.audit.policy import Policy
from gpuledger.core.snapshot import SourceHealth
from gpuledger.sources.clusterwatch import Feed

log = logging.getLogger(__name__)

REFRESH_SECONDS = 5.0
POLICY_SECONDS = 10.0
STALLED_SECONDS = 120.0
STOP_SECONDS = 2.0
NEEDED = ("pods", "nodes")
"""Without these the page says nothing that could be relied on."""


class ClusterLoop:
    """Keeps `books` what the API says until stopped, and their findings what `policy` says."""

    def __init__(
        self, feeds: Sequence[Feed[Any]], books: ClusterBooks, policy: Callable[[], Policy] | None
    ) -> None:
        self.books = books
        self._feeds = {feed.kind.name: feed for feed in feeds}
        self._policy = (
            Poll("policy", policy, interval=POLICY_SECONDS, deadline=POLICY_SECONDS) if policy else None
        )
        self._refreshed_at: float | None = None
        """Unix time at which the findings were last judged."""
        self._alive_at = time.monotonic()
        runs = {"refresh": self._run, **{name: feed.run for name, feed in self._feeds.items()}}
        if self._policy is not None:
            runs["policy"] = self._policy.run
        self._threads = Threads(runs)

    def start(self) -> None:
        """Start following the API."""
        self._threads.start()

    def stop(self) -> None:
        """Stop everything within two seconds."""
        self._threads.stop(STOP_SECONDS)

    @property
    def ready(self) -> bool:
        """Whether all pods and nodes were seen and judged; what is known stays so when the API goes away."""
        return self._refreshed_at is not None

    def health(self) -> list[SourceHealth]:
        """How each kind of object that the API has is doing, and the policy."""
        feeds = [health for feed in self._feeds.values() if (health := feed.health()) is not None]
        return [*feeds, self._policy.health()] if self._policy is not None else feeds

    def malformed(self) -> int:
        """Objects left out since the start, because they don't have the shape of their kind."""
        return sum(health.malformed or 0 for health in self.health())

    def audited_at(self) -> float | None:
        """Unix time at which the findings were last known to be those of all pods on all nodes."""
        if self._refreshed_at is None:
            return None
        healths = [self._feeds[name].health() for name in NEEDED]
        seen = [health.last_success for health in healths if health is not None and health.last_success]
        return min([*seen, self._refreshed_at])

    def troubles(self) -> list[str]:
        """What only a restart cures; empty while all is well."""
        idle = time.monotonic() - self._alive_at
        return [f"refresh: no end for {idle:.0f} s"] if idle > STALLED_SECONDS else []

    def _run(self, stop: threading.Event) -> None:
        errors: dict[str, str] = {}
        failure = ""
        while not stop.is_set():
            try:
                self._refresh()
                failure = ""
            except Exception as error:
                if repr(error) != failure:
                    log.exception("findings could not be judged anew; those before stand, and age")
                failure = repr(error)
            self._alive_at = time.monotonic()
            log_changes(self.health(), errors)
            stop.wait(REFRESH_SECONDS if self.ready else REFRESH_SECONDS / 10)

    def _refresh(self) -> None:
        """Judge anew; a policy that can't be read now leaves the last one in force, and the findings age."""
        if not all(self._feeds[name].listed for name in NEEDED):
            return
        policy = self._policy.last(float("inf")) if self._policy is not None else Policy()
        if policy is None:
            return
        now = time.time()
        self.books.refresh(policy, now)
        if self._policy is None or self._policy.current() is not None:
            self._refreshed_at = now
