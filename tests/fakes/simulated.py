"""The demo's cluster and both roles that watch it, moved through time by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuledger.app.audit.command import read_advisories
from gpuledger.app.cluster.books import ClusterBooks
from gpuledger.app.cluster.command import chosen_checks, feeds
from gpuledger.app.cluster.loop import ClusterLoop
from gpuledger.app.cluster.podintake import PodIntake
from gpuledger.app.cluster.scrape import ClusterPage
from gpuledger.app.http import Request
from gpuledger.app.node.bookkeeper import Bookkeeper, Findings
from gpuledger.app.node.scrape import MetricsPage
from gpuledger.app.settings import ClusterSettings
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.policy import Policy
from gpuledger.audit.verdict import Judge
from gpuledger.core.errors import SourceError
from gpuledger.core.meter import Moment
from gpuledger.core.snapshot import SourceHealth
from gpuledger.parse.kubeobjects import parse_pod
from gpuledger.sources.kubehttp import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuledger.core.model import NvmlReading, Pod
    from gpuledger.core.snapshot import NodeSnapshot
    from gpuledger.sources.clusterwatch import Feed
    from gpuledger.sources.simulated import SimulatedCluster, SimulatedNode

PODS = "/api/v1/pods"
SCRAPE = Request("GET", "/metrics", {})


@dataclass
class Clock:
    """Unix seconds, as told."""

    now: float

    def __call__(self) -> float:
        return self.now


def node_of(cluster: SimulatedCluster, name: str) -> SimulatedNode:
    """The node of that name."""
    (node,) = (node for node in cluster.nodes if node.machine.name == name)
    return node


def pods_of(cluster: SimulatedCluster, name: str, now: float) -> list[Pod]:
    """The pods that the API has of a node."""
    objects = cluster.api.objects(PODS, {"fieldSelector": f"spec.nodeName={name}"}, now)
    return [parse_pod(json.dumps(each).encode()) for each in objects]


def pids(reading: NvmlReading) -> set[int]:
    """The processes that NVML lists."""
    return {process.pid for gpu in reading.gpus for process in gpu.processes or ()}


class WatchedNode:
    """A node of the cluster, and the node role's books of it."""

    def __init__(self, cluster: SimulatedCluster, name: str, clock: Clock, idle_window: float = 3600.0) -> None:
        self.snapshot: NodeSnapshot | None = None
        self._cluster, self._name, self._clock = cluster, name, clock
        self._start = self._seen = clock()
        self._node = node_of(cluster, name)
        self._driver = SourceHealth("nvml", up=False)
        self._books = Bookkeeper(name, retention=120.0, process_metrics=True, idle_window=idle_window)
        self._page = MetricsPage(
            name, lambda: self.snapshot, self._health, lambda: self._seen, series_limit=10_000
        )

    def cycle(self) -> NodeSnapshot:
        """Book what the sources say now."""
        now, since = self._clock(), self._seen
        reading = self._nvml()
        self.snapshot = self._books.book(
            Findings(
                nvml=reading,
                facts=self._node.processes(pids(reading), listed_at=0.0) if reading else {},
                pods={pod.uid: pod for pod in pods_of(self._cluster, self._name, now)},
                api_is_current=True,
                allocations=self._node.allocations().allocations,
                xids=tuple(self._node.xids(since, now)),
            ),
            Moment(now - self._start, now),
        )
        self._seen = now
        return self.snapshot

    def page(self) -> str:
        """What a scrape shows after a cycle."""
        self.cycle()
        return self._page.answer(SCRAPE).body.decode()

    def _nvml(self) -> NvmlReading | None:
        try:
            reading = self._node.nvml()
        except SourceError as error:
            self._driver = SourceHealth("nvml", up=False, error=str(error))
            return None
        self._driver = _well("nvml", self._clock)
        return reading

    def _health(self) -> list[SourceHealth]:
        others = ("podresources", "podlogs", "procfs", "kube")
        return [self._driver, *(_well(name, self._clock) for name in others)]


class WatchedCluster:
    """The cluster role's books of the cluster."""

    def __init__(self, cluster: SimulatedCluster, clock: Clock) -> None:
        minimum = ClusterSettings().min_severity
        intake = PodIntake(chosen_checks(minimum), read_advisories(), clock)
        books = ClusterBooks(intake, Judge(CHECKS, ClusterFacts(), clock(), minimum))
        self._api, self._clock = cluster.api, clock
        followed = feeds(ClusterSettings(), books, intake, connected=cluster.api.connect)
        self._feeds = [feed for feed in followed if self._objects(feed) is not None]
        self._known: dict[str, list[dict[str, Any]] | None] = {}
        self._loop = _Current(self._feeds, books, clock)
        self._page = ClusterPage(self._loop, intake, series_limit=10_000)

    def page(self) -> str:
        """What a scrape shows once all is known that the API has now."""
        for feed in self._feeds:
            objects = self._objects(feed)
            if objects != self._known.get(feed.kind.name):
                self._known[feed.kind.name] = objects
                body = json.dumps({"metadata": {}, "items": objects}).encode()
                feed._sink.replace(feed.kind.parse_list(body).items)
        self._loop.books.refresh(Policy(), self._clock())
        return self._page.answer(SCRAPE).body.decode()

    def _objects(self, feed: Feed[Any]) -> list[dict[str, Any]] | None:
        """All of a kind; None where this cluster does not have the kind."""
        try:
            return self._api.objects(feed.kind.paths[0], {}, self._clock())
        except ApiError:
            return None


class _Current(ClusterLoop):
    """A loop that has just seen and judged all; no thread of it is started."""

    def __init__(self, followed: Sequence[Feed[Any]], books: ClusterBooks, clock: Clock) -> None:
        super().__init__(followed, books, None)
        self._clock = clock

    @property
    def ready(self) -> bool:
        return True

    def health(self) -> list[SourceHealth]:
        return [_well(name, self._clock) for name in self._feeds]

    def audited_at(self) -> float:
        return self._clock()


def _well(name: str, clock: Clock) -> SourceHealth:
    return SourceHealth(name, up=True, last_success=clock(), duration_seconds=0.01)
