"""A collection of the Kubernetes API kept up to date: listed, then watched, whatever befalls the connection."""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from gpuledger.core.errors import SourceError
from gpuledger.core.model import NOTHING
from gpuledger.core.snapshot import SourceHealth
from gpuledger.sources.kubehttp import ApiError
from gpuledger.sources.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuledger.parse.kubelist import MalformedObject, ObjectList, WatchEvent

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)

_PAGE_LIMIT = "500"
_UNAUTHORIZED = 401
_GONE = 410
# After these a watch goes on from where it was; any other failure leaves that in doubt.
_RESUMABLE = (0, _UNAUTHORIZED, 429)
# More must be a mistake, which would blind us for too long.
_MAX_RETRY_AFTER = 300.0
# A watch that ends sooner, and tells nothing, was none.
_SHORTEST_WATCH = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient to be, in seconds.

    The server ends a watch after `watch`; one that is there `margin` later is dead. Any other answer may take
    `answer`. After a failure the wait is about `backoff`, doubled with each further one up to `backoff_max`.
    """

    watch: int = 300
    margin: float = 15.0
    answer: float = 60.0
    backoff: float = 1.0
    backoff_max: float = 60.0


DEFAULT_PACE = Pace()


@dataclass(frozen=True)
class Collection(Generic[T]):
    """Objects of one kind: where the API has them, which of them (`query`), and how to read them."""

    path: str
    parse_list: Callable[[bytes], ObjectList[T]]
    parse_event: Callable[[bytes], WatchEvent[T]]
    query: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    paged: bool = False
    """Whether even the first list comes in pages: the server's cache would send a whole cluster at once."""


class ApiAnswer(Protocol):
    """An answer on its way, for a `with` and to be read once; reading raises ApiError where it breaks off."""

    def __enter__(self) -> Self:
        """Itself."""

    def __exit__(self, *_: object) -> None:
        """Take no more of it."""

    def body(self) -> bytes:
        """All of it."""

    def lines(self) -> Iterator[bytes]:
        """Every complete line, as soon as it is there."""


class ApiConnection(Protocol):
    """Whom to ask: kubehttp's Connection, or a cluster that is simulated."""

    def get(self, path: str, query: Mapping[str, str], *, seconds: float, quiet: bool = False) -> ApiAnswer:
        """Ask for `path`; the answer may take `seconds`. Raises ApiError for what is no success."""

    def renew(self) -> None:
        """Read the configuration and the credentials again; raises SourceError."""

    def hang_up(self) -> None:
        """End what is being asked, from another thread, and ask nothing more."""


class Sink(Protocol[T_contra]):
    """Where a collection's objects go, always from the thread that runs the watch."""

    def replace(self, objects: Sequence[T_contra]) -> None:
        """All objects that there are: whatever else was known is gone."""

    def put(self, new: T_contra) -> None:
        """An object that has come or changed."""

    def remove(self, uid: str) -> None:
        """An object that has gone; it need not be known."""


class ListWatch(Generic[T]):
    """Keeps `sink` equal to `collection` until it is stopped; what is known outlives every outage.

    Source: Kubernetes API Concepts, "Efficient detection of changes", and client-go's reflector.
    """

    def __init__(self, connection: ApiConnection, collection: Collection[T], sink: Sink[T], pace: Pace) -> None:
        self._connection = connection
        self._collection = collection
        self._sink = sink
        self._pace = pace
        self._version: str | None = None
        """The resourceVersion up to which the sink is complete; None where all must be listed."""
        self._listed = False
        self._failures_in_row = 0
        self._unreadable = Unreadable(collection.path.rpartition("/")[2])
        self.health = SourceHealth("kube", up=False, malformed=0, unreadable=0)
        """As of now, replaced whole; `duration_seconds` is the last list's."""

    def run(self, stop: threading.Event) -> None:
        """List and watch until `stop` is set; returns at once then, or after a TCP connect that hangs."""
        hang_up_on(stop, self._connection)
        pause = 0.0
        while not stop.wait(pause):
            try:
                if self._version is None:
                    self._list()
                self._watch()
                pause = 0.0
            except SourceError as error:
                pause = 0.0 if stop.is_set() else self._after(error)
            except Exception as error:
                log.exception("kube: unexpected failure")
                pause = self._after(SourceError(f"{type(error).__name__}: {error}"))

    def _list(self) -> None:
        """All pages, and then the sink at once.

        The first list may come from the server's cache (resourceVersion 0); a later one must not be older than
        what is known already.
        """
        began = time.monotonic()
        query = {**self._collection.query, "limit": _PAGE_LIMIT}
        query |= {} if self._listed or self._collection.paged else {"resourceVersion": "0"}
        objects: list[T] = []
        malformed: list[MalformedObject] = []
        while True:
            with self._connection.get(self._collection.path, query, seconds=self._pace.answer) as answer:
                page = _understood(self._collection.parse_list, answer.body())
            objects += page.items
            malformed += page.malformed
            if not page.continue_token:
                break
            query = {**self._collection.query, "limit": _PAGE_LIMIT, "continue": page.continue_token}
        self._sink.replace(objects)
        self._unreadable.replace(malformed)
        self._version, self._listed = page.resource_version, True
        self.health = replace(self.health, duration_seconds=time.monotonic() - began)
        self._alive(malformed=len(malformed))

    def _watch(self) -> None:
        """Events until the server ends the watch, which goes on from there the next time."""
        began, events = time.monotonic(), 0
        patience = self._pace.watch + self._pace.margin
        query = {
            **self._collection.query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            "timeoutSeconds": str(self._pace.watch),
        }
        with self._connection.get(self._collection.path, query, seconds=patience, quiet=True) as answer:
            self._alive()
            for line in answer.lines():
                self._take(_understood(self._collection.parse_event, line))
                events += 1
        if not events and time.monotonic() - began < _SHORTEST_WATCH:
            raise ApiError(f"GET {self._collection.path}: the watch ended at once")
        self._failures_in_row = 0

    def _take(self, event: WatchEvent[T]) -> None:
        if event.type == "ERROR":
            self._version = None
            raise ApiError(f"watch {self._collection.path}: {event.message}", status=event.status)
        if event.malformed is not None:
            self._unreadable.put(event.malformed)
        elif event.type != "BOOKMARK":
            self._unreadable.remove(event.uid)
        if event.object is not None:
            self._sink.put(event.object)
        elif event.type != "BOOKMARK":
            # Malformed is as good as gone, as it is after the next list.
            self._sink.remove(event.uid)
        self._version = event.resource_version or self._version
        self._failures_in_row = 0
        self._alive(malformed=int(event.malformed is not None))

    def _alive(self, malformed: int = 0) -> None:
        self.health = replace(
            self.health,
            up=True,
            last_success=time.time(),
            malformed=(self.health.malformed or 0) + malformed,
            unreadable=len(self._unreadable),
            error="",
        )

    def _after(self, error: SourceError) -> float:
        """Note a failure; returns how long to wait before the next attempt, in seconds."""
        status, retry_after = (error.status, error.retry_after) if isinstance(error, ApiError) else (None, 0.0)
        self._failures_in_row += 1
        if status not in _RESUMABLE:
            self._version = None
        if status != _GONE:
            self._ailing(error)
        if status == _UNAUTHORIZED:
            self._renew()
            if self._failures_in_row == 1:
                return 0.0
        bound = min(self._pace.backoff * 2.0 ** min(self._failures_in_row - 1, 16), self._pace.backoff_max)
        # At random, so that a thousand nodes that lost the same server don't come back all at once.
        return max(random.uniform(bound / 2, bound), min(retry_after, _MAX_RETRY_AFTER))  # noqa: S311 - no secret

    def _renew(self) -> None:
        try:
            self._connection.renew()
        except SourceError as error:
            self._ailing(error)

    def _ailing(self, error: SourceError) -> None:
        self.health = replace(self.health, up=False, failures=self.health.failures + 1, error=str(error))


def _understood(parse: Callable[[bytes], R], text: bytes) -> R:
    try:
        return parse(text)
    except ValueError as error:
        raise SourceError(f"the API server's answer: {error}") from error


def hang_up_on(stop: threading.Event, connection: ApiConnection) -> None:
    """See to it that nothing is waited for on `connection` once `stop` is set."""

    def wait() -> None:
        stop.wait()
        connection.hang_up()

    threading.Thread(target=wait, name="kube-stop", daemon=True).start()
