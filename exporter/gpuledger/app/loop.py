"""The loop of the node role: it brings the sources together and swaps the newest snapshot in.

A scrape reads `snapshot` and never waits for a source. What each source is, is in `Sources`; the real ones
are wired in node.py, simulated ones in demo.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from gpuledger.app.bookkeeper import Bookkeeper, Findings
from gpuledger.app.polling import Poll
from gpuledger.core.errors import SourceError
from gpuledger.core.meter import Moment
from gpuledger.core.model import (
    NOTHING,
    AllocationsReading,
    NvmlReading,
    Pod,
    PodLogs,
    PodUid,
    ProcessFacts,
    XidEvent,
)
from gpuledger.core.snapshot import NodeSnapshot, SourceHealth

log = logging.getLogger(__name__)

NVML_DEADLINE_SECONDS = 5.0
KUBELET_INTERVAL_SECONDS = 5.0
KUBELET_DEADLINE_SECONDS = 10.0
ALLOCATIONS_OUTLIVE_SECONDS = 300.0
"""How long allocations stand after the kubelet fell silent: they change rarely, and its restarts are short."""
LOGS_INTERVAL_SECONDS = 1.0
LOGS_DEADLINE_SECONDS = 10.0
STOP_SECONDS = 2.0


class Pods(Protocol):
    """Where the API's pods come from: a thread of its own that keeps the newest picture."""

    def run(self, stop: threading.Event) -> None:
        """Keep the picture current until told to stop."""

    def pods(self) -> Mapping[PodUid, Pod]:
        """The newest picture; the same object as long as nothing changed."""

    def health(self) -> SourceHealth:
        """How the API is doing."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Everything that the loop reads; None where a source does not exist here."""

    nvml: Callable[[], NvmlReading]
    processes: Callable[[Collection[int], float], Mapping[int, ProcessFacts]] | None
    """Facts of PIDs listed at a time since boot; None outside the host's PID namespace."""
    allocations: Callable[[], AllocationsReading]
    logs: Callable[[], PodLogs]
    pods: Pods | None
    xids: deque[XidEvent]
    """Driver errors not yet booked; filled by a thread of its own."""


class NodeLoop:
    """Runs the sources and keeps the books until stopped."""

    def __init__(self, sources: Sources, bookkeeper: Bookkeeper, *, interval: float) -> None:
        self._sources = sources
        self._bookkeeper = bookkeeper
        self._interval = interval
        self._nvml = Poll("nvml", sources.nvml, interval=interval, deadline=NVML_DEADLINE_SECONDS)
        self._allocations = Poll(
            "podresources",
            sources.allocations,
            interval=KUBELET_INTERVAL_SECONDS,
            deadline=KUBELET_DEADLINE_SECONDS,
        )
        self._logs = Poll(
            "podlogs", sources.logs, interval=LOGS_INTERVAL_SECONDS, deadline=LOGS_DEADLINE_SECONDS
        )
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, name="loop", daemon=True)]
        if sources.pods is not None:
            self._threads.append(
                threading.Thread(target=sources.pods.run, args=(self._stop,), name="kube", daemon=True)
            )
        self._booked: NvmlReading | None = None
        self._procfs = SourceHealth("procfs", up=sources.processes is not None)
        self._snapshot: tuple[float, NodeSnapshot] | None = None

    def start(self) -> None:
        """Start the sources and the loop."""
        for poll in (self._nvml, self._allocations, self._logs):
            poll.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop everything within two seconds; a thread that hangs in the driver is left behind."""
        end = time.monotonic() + STOP_SECONDS
        self._stop.set()
        for poll in (self._nvml, self._allocations, self._logs):
            poll.stop(max(0.0, end - time.monotonic()))
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def snapshot(self) -> NodeSnapshot | None:
        """The newest snapshot; None before the first, and once it is too old to be shown as the present."""
        if self._snapshot is None or self._loop_age() > self._interval + NVML_DEADLINE_SECONDS * 2:
            return None
        return self._snapshot[1]

    def health(self) -> list[SourceHealth]:
        """How each source is doing now."""
        sources = [poll.health() for poll in (self._nvml, self._allocations, self._logs)]
        kube = [self._sources.pods.health()] if self._sources.pods is not None else []
        return [*sources, self._procfs, *kube]

    def troubles(self, stall_timeout: float) -> list[str]:
        """What only a restart cures; empty while all is well."""
        troubles = []
        if self._nvml.needs_restart:
            troubles.append(f"nvml: {self._nvml.health().error}")
        if self._nvml.stalled_for() > stall_timeout:
            troubles.append(f"nvml: a call has been without an answer for {self._nvml.stalled_for():.0f} s")
        if self._snapshot is not None and self._loop_age() > stall_timeout:
            troubles.append(f"loop: no cycle for {self._loop_age():.0f} s")
        return troubles

    def _loop_age(self) -> float:
        return time.monotonic() - self._snapshot[0] if self._snapshot is not None else 0.0

    def _run(self) -> None:
        while not self._stop.is_set():
            self._nvml.wait(self._interval)
            try:
                self._cycle()
            except Exception:
                log.exception("cycle failed; the last snapshot stands until it is too old")
                self._stop.wait(self._interval)

    def _cycle(self) -> None:
        """Book what is new; a reading that was booked already adds nothing while the next is on its way."""
        reading = self._nvml.current()
        if reading is not None and reading is self._booked:
            return
        self._booked = reading
        pods = self._sources.pods
        allocations = self._allocations.last(ALLOCATIONS_OUTLIVE_SECONDS)
        found = Findings(
            nvml=reading,
            facts=self._facts(reading),
            pods=pods.pods() if pods is not None else NOTHING,
            api_is_current=pods is not None and pods.health().up,
            logs=self._logs.last(ALLOCATIONS_OUTLIVE_SECONDS) or PodLogs(),
            allocations=allocations.allocations if allocations is not None else (),
            xids=tuple(self._sources.xids.popleft() for _ in range(len(self._sources.xids))),
        )
        now = Moment(time.monotonic(), time.time())
        self._snapshot = (now.steady, self._bookkeeper.book(found, now))

    def _facts(self, reading: NvmlReading | None) -> Mapping[int, ProcessFacts] | None:
        """What /proc says of every process that NVML lists, looked up at once, before a PID can be reused."""
        if self._sources.processes is None:
            return None
        listed = [gpu for gpu in reading.gpus if gpu.processes] if reading is not None else []
        pids = {process.pid for gpu in listed for process in gpu.processes or ()}
        began = time.monotonic()
        failures = self._procfs.failures
        try:
            facts = self._sources.processes(pids, min((gpu.listed_at for gpu in listed), default=0.0))
        except SourceError as error:
            if not self._procfs.error:
                log.warning("procfs: %s", error)
            self._procfs = SourceHealth(
                "procfs",
                up=False,
                last_success=self._procfs.last_success,
                failures=failures + 1,
                error=str(error),
            )
            return {}
        self._procfs = SourceHealth(
            "procfs",
            up=True,
            last_success=time.time(),
            duration_seconds=time.monotonic() - began,
            failures=failures,
        )
        return facts
