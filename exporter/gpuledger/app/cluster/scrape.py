"""/metrics of the cluster role: every object's kept text joined, and how the exporter itself is doing."""

from __future__ import annotations

import platform
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.registry import CollectorRegistry

from gpuledger import __version__
from gpuledger.app.cluster.loop import ClusterLoop
from gpuledger.app.cluster.podintake import PodIntake
from gpuledger.app.http import Request, Response
from gpuledger.app.node.scrape import OPENMETRICS, accepts_gzip, preferred_style
from gpuledger.core.snapshot import WebHealth
from gpuledger.metrics import catalog
from gpuledger.metrics.exposition import Family
from gpuledger.metrics.objectcache import join_columns
from gpuledger.metrics.render import render_build, render_sources, render_web

GZIP_LEVEL = 1
"""The fastest, because pages are large: 50 MB become 4.5 in 0.1 s."""
_GZIP_BITS = 31


class ClusterPage:
    """Answers /metrics; before all is known it shows the exporter alone, never half a cluster."""

    def __init__(
        self,
        loop: ClusterLoop,
        intake: PodIntake,
        *,
        series_limit: int,
        web: Callable[[], WebHealth | None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._web = web
        self._intake = intake
        self._series_limit = series_limit
        self._dropped: Counter[str] = Counter()
        self._process = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._process)

    def answer(self, request: Request) -> Response:
        """The page in the format and encoding that the request's headers ask for."""
        style = preferred_style(request.headers.get("accept", ""))
        books = self._books(openmetrics=style is OPENMETRICS)
        exporter = style.render(self._exporter()).encode()
        pieces = (*books, exporter, style.render_own(self._process))
        headers = {"Vary": "Accept, Accept-Encoding"}
        if not accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(200, b"".join(pieces), style.content_type, headers)
        headers["Content-Encoding"] = "gzip"
        return Response(200, _compressed(pieces), style.content_type, headers)

    def _books(self, *, openmetrics: bool) -> list[bytes]:
        if not self._loop.ready:
            return []
        columns = self._loop.books.columns()
        page, dropped = join_columns(columns, limit=self._series_limit, openmetrics=openmetrics)
        self._dropped.update(dropped)
        return page

    def _exporter(self) -> Iterator[Family]:
        yield from self._audit()
        yield from render_build("", __version__, platform.python_version())
        yield from render_sources("", self._loop.health())
        yield from render_web("", self._web())
        rows = [(("", name), float(count)) for name, count in sorted(self._dropped.items())]
        if rows:
            yield Family(catalog.BY_NAME["series_dropped_total"], rows)

    def _audit(self) -> Iterator[Family]:
        audited_at = self._loop.audited_at()
        if audited_at is not None:
            scanned = float(self._loop.books.pods_scanned)
            yield Family(catalog.BY_NAME["audit_pods_scanned"], [((), scanned)])
            failed_now = float(self._loop.books.audits_failed)
            yield Family(catalog.BY_NAME["audit_failed_objects"], [((), failed_now)])
            yield Family(catalog.BY_NAME["audit_last_success_timestamp_seconds"], [((), audited_at)])
        failed = chain({"malformed": self._loop.malformed()}.items(), self._intake.failures.items())
        rows = [((reason,), float(count)) for reason, count in failed]
        yield Family(catalog.BY_NAME["audit_errors_total"], rows)


def _compressed(pieces: Iterable[bytes]) -> bytes:
    """The pieces as one gzip stream, without a copy of the whole page."""
    stream = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_BITS)
    return b"".join([*map(stream.compress, pieces), stream.flush()])
