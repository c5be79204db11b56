"""The loop of the node role: it brings the sources together and swaps the newest snapshot in.

A scrape reads `snapshot` and never waits for a source. What each source is, is in `Sources`; the real ones
are wired in node.py, simulated ones in demo.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from gpuledger.app.node.bookkeeper import Bookkeeper, Findings
from gpuledger.app.polling import Poll
from gpuledger.app.threads import Threads
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
PROCFS_DEADLINE_SECONDS = 5.0
WRONG_NODE = "the API lists none of the pods that the kubelet runs here; is --node-name this node's name?"
LOGS_INTERVAL_SECONDS = 1.0
LOGS_DEADLINE_SECONDS = 10.0
NO_PROCESSES = "not in the host's PID namespace, so that no process can be attributed; set hostPID: true"
STOP_SECONDS = 2.0
TICK_SECONDS = 1.0
"""How often the loop looks for news, however rarely the GPUs are read: a hang must show in time."""


class Processes(Protocol):
    """How /proc is asked about PIDs that NVML listed at a time since boot."""

    def __call__(self, pids: Collection[int], *, listed_at: float) -> Mapping[int, ProcessFacts]:
        """Facts of each of the PIDs. Raises SourceError."""


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
    processes: Processes | None
    """None outside the host's PID namespace, where NVML's PIDs mean nothing."""
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
        self._polls = (self._nvml, self._allocations, self._logs)
        self._procfs = SourceHealth("procfs", up=False, error="" if sources.processes else NO_PROCESSES)
        self._seen: NvmlReading | None = None
        self._snapshot: tuple[float, NodeSnapshot] | None = None
        self._cycled_at = time.monotonic()
        """Steady time at which the loop last was well, if only to see that nothing is new."""
        self._facts_asked_at: float | None = None
        """Steady time at which /proc was asked, while it has not answered."""
        runs = {
            "loop": self._run,
            "health": self._watch_health,
            **{poll.name: poll.run for poll in self._polls},
        }
        if sources.pods is not None:
            runs["kube"] = sources.pods.run
        self._threads = Threads(runs)

    def start(self) -> None:
        """Start the sources and the loop."""
        self._threads.start()

    def stop(self) -> None:
        """Stop everything within two seconds; a thread that hangs in the driver is left behind."""
        self._threads.stop(STOP_SECONDS)

    def snapshot(self) -> NodeSnapshot | None:
        """The newest snapshot; None before the first, and once it is too old to be shown as the present."""
        if self._snapshot is None:
            return None
        taken_at, snapshot = self._snapshot
        max_age = self._interval + NVML_DEADLINE_SECONDS * 2
        return snapshot if time.monotonic() - taken_at <= max_age else None

    def health(self) -> list[SourceHealth]:
        """How each source is doing now."""
        sources = [poll.health() for poll in self._polls]
        procfs, began = self._procfs, self._facts_asked_at
        if began is not None and time.monotonic() - began > PROCFS_DEADLINE_SECONDS:
            # As Poll words it: a count of seconds would be another state, and a line in the log, each second.
            procfs = replace(procfs, up=False, error=f"no answer for more than {PROCFS_DEADLINE_SECONDS:g} s")
        if self._sources.pods is None:
            return [*sources, procfs]
        kube = self._sources.pods.health()
        if kube.up and self._snapshot is not None and not self._snapshot[1].api_knows_node:
            kube = replace(kube, up=False, error=WRONG_NODE)
        return [*sources, procfs, kube]

    def last_cycle(self) -> float | None:
        """Unix time of the last cycle, however long ago."""
        return self._snapshot[1].taken_at if self._snapshot is not None else None

    def troubles(self, stall_timeout: float) -> list[str]:
        """What only a restart cures; empty while all is well."""
        troubles = []
        if self._nvml.needs_restart:
            troubles.append(f"nvml: {self._nvml.health().error}")
        if (stalled := self._nvml.stalled_for()) > stall_timeout:
            troubles.append(f"nvml: a call has been without an answer for {stalled:.0f} s")
        if (idle := time.monotonic() - self._cycled_at) > stall_timeout:
            troubles.append(f"loop: no cycle for {idle:.0f} s")
        return troubles

    def _run(self, stop: threading.Event) -> None:
        tick = min(self._interval, TICK_SECONDS)
        failure = ""
        while not stop.is_set():
            self._nvml.wait(tick)
            try:
                if self._cycle():
                    failure = ""
            except Exception as error:
                if repr(error) != failure:
                    log.exception("cycle failed; the last snapshot stands until it is too old")
                failure = repr(error)
            if not failure:
                self._cycled_at = time.monotonic()

    def _watch_health(self, stop: threading.Event) -> None:
        """Log changes of health from outside the loop, which may itself be what hangs."""
        errors: dict[str, str] = {}
        while not stop.wait(min(self._interval, TICK_SECONDS)):
            log_changes(self.health(), errors)

    def _cycle(self) -> bool:
        """Book what is new; False where there is nothing, for a reading booked twice would count twice."""
        reading = self._nvml.current()
        if reading is not None and reading is self._seen:
            return False
        self._seen = reading
        pods = self._sources.pods
        allocations = self._allocations.last(ALLOCATIONS_OUTLIVE_SECONDS)
        found = Findings(
            nvml=reading,
            facts=self._facts(reading),
            pods=pods.pods() if pods is not None else NOTHING,
            api_is_current=pods is not None and pods.health().up,
            logs=self._logs.last(ALLOCATIONS_OUTLIVE_SECONDS) or PodLogs(),
            allocations=allocations.allocations if allocations is not None else None,
            allocatable=allocations.allocatable if allocations is not None else NOTHING,
            xids=tuple(self._sources.xids.popleft() for _ in range(len(self._sources.xids))),
        )
        now = Moment(time.monotonic(), time.time())
        self._snapshot = (now.steady, self._bookkeeper.book(found, now))
        return True

    def _facts(self, reading: NvmlReading | None) -> Mapping[int, ProcessFacts] | None:
        """What /proc says of every process that NVML lists, looked up at once, before a PID can be reused."""
        if self._sources.processes is None:
            return None
        listed = [gpu for gpu in reading.gpus if gpu.processes] if reading is not None else []
        pids = {process.pid for gpu in listed for process in gpu.processes or ()}
        began = self._facts_asked_at = time.monotonic()
        try:
            listed_at = min((gpu.listed_at for gpu in listed), default=0.0)
            facts = self._sources.processes(pids, listed_at=listed_at)
        except SourceError as error:
            failures = self._procfs.failures + 1
            self._procfs = replace(self._procfs, up=False, failures=failures, error=str(error))
            return {pid: ProcessFacts(pid, fault="permission") for pid in pids}
        finally:
            self._facts_asked_at = None
        duration = time.monotonic() - began
        self._procfs = replace(
            self._procfs, up=True, last_success=time.time(), duration_seconds=duration, error=""
        )
        return facts


def log_changes(sources: Iterable[SourceHealth], errors: dict[str, str]) -> None:
    """Log a line for each source whose state has changed since `errors`, the last ones by source."""
    for source in sources:
        before = errors.get(source.name, "")
        if source.error and source.error != before:
            log.warning("%s: %s", source.name, source.error)
        elif source.up and before:
            log.info("%s: answers again", source.name)
        else:
            continue
        errors[source.name] = source.error
