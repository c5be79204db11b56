"""Kinds of objects of a whole cluster, each followed in a thread of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from gpuledger.core.errors import SourceError
from gpuledger.core.model import NOTHING
from gpuledger.core.snapshot import SourceHealth
from gpuledger.sources.kubehttp import ApiError
from gpuledger.sources.listwatch import (
    DEFAULT_PACE,
    ApiConnection,
    Collection,
    ListWatch,
    Pace,
    Sink,
    hang_up_on,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from gpuledger.parse.kubelist import ObjectList, WatchEvent

T = TypeVar("T")

_PROBE_SECONDS = 10.0
_PROBE_AGAIN_SECONDS = 10.0
_UNSERVED_SECONDS = 600.0
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of object: its name as a source, and the paths at which servers of some age have it, best first.

    A server that has it at none of several paths is asked again every ten minutes: it may be upgraded.
    """

    name: str
    paths: tuple[str, ...]
    parse_list: Callable[[bytes], ObjectList[T]]
    parse_event: Callable[[bytes], WatchEvent[T]]
    query: Mapping[str, str] = field(default_factory=lambda: NOTHING)


class Feed(Generic[T]):
    """Keeps `sink` equal to what the cluster has of a kind, over a connection of its own."""

    def __init__(
        self, connection: ApiConnection, kind: Kind[T], sink: Sink[T], pace: Pace = DEFAULT_PACE
    ) -> None:
        self.kind = kind
        self._connection = connection
        self._sink = sink
        self._pace = pace
        self._watch: ListWatch[T] | None = None
        self._probe = SourceHealth(kind.name, up=False)

    def run(self, stop: threading.Event) -> None:
        """Follow the API until `stop` is set."""
        path = self._served_path(stop)
        if path is not None:
            kind = self.kind
            everything = Collection(path, kind.parse_list, kind.parse_event, kind.query, paged=True)
            self._watch = ListWatch(self._connection, everything, self._sink, self._pace)
            self._watch.run(stop)

    def health(self) -> SourceHealth | None:
        """How the API answers; None where it does not have the kind."""
        if self._watch is not None:
            return replace(self._watch.health, name=self.kind.name)
        return self._probe if self._probe.error or len(self.kind.paths) == 1 else None

    @property
    def listed(self) -> bool:
        """Whether all objects were seen at least once."""
        return self._watch is not None and self._watch.health.last_success is not None

    def _served_path(self, stop: threading.Event) -> str | None:
        """The first path that the server has; None once told to stop."""
        if len(self.kind.paths) == 1:
            return self.kind.paths[0]
        hang_up_on(stop, self._connection)
        while not stop.is_set():
            try:
                path = next(filter(self._is_served, self.kind.paths), None)
            except SourceError as error:
                self._probe = replace(self._probe, failures=self._probe.failures + 1, error=str(error))
                stop.wait(_PROBE_AGAIN_SECONDS)
                continue
            self._probe = replace(self._probe, error="")
            if path is not None:
                return path
            stop.wait(_UNSERVED_SECONDS)
        return None

    def _is_served(self, path: str) -> bool:
        try:
            with self._connection.get(path, {"limit": "1"}, seconds=_PROBE_SECONDS) as answer:
                answer.body()
        except ApiError as error:
            if error.status == _UNAUTHORIZED:
                self._connection.renew()
            if error.status not in (_FORBIDDEN, _NOT_FOUND):
                raise
            return error.status == _FORBIDDEN  # which the watch says better than a probe
        return True
