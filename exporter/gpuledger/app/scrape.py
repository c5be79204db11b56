"""/metrics: the newest snapshot and the health of its sources, in the format that the scraper prefers."""

from __future__ import annotations

import gzip
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest, gzip_accepted
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import CollectorRegistry

from gpuledger import __version__
from gpuledger.app.http import Request, Response
from gpuledger.core.snapshot import NodeSnapshot, SourceHealth
from gpuledger.metrics import catalog
from gpuledger.metrics.exposition import Family, render_openmetrics, render_text
from gpuledger.metrics.render import render_build, render_node, render_sources

GZIP_LEVEL = 4

_OWN: Mapping[str, Callable[[CollectorRegistry], Any]] = {
    "openmetrics": openmetrics.generate_latest,
    "text": generate_latest,
}
"""How prometheus_client writes the exporter's own process metrics; in OpenMetrics `# EOF` ends them."""


class MetricsPage:
    """Renders /metrics. What a snapshot renders to is kept, so that a second scraper costs little."""

    def __init__(
        self,
        node: str,
        snapshot: Callable[[], NodeSnapshot | None],
        health: Callable[[], list[SourceHealth]],
        *,
        series_limit: int,
    ) -> None:
        self._node = node
        self._snapshot = snapshot
        self._health = health
        self._series_limit = series_limit
        self._dropped: Counter[str] = Counter()
        self._rendered: dict[str, tuple[NodeSnapshot, bytes]] = {}
        self._counted: NodeSnapshot | None = None
        self._process = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._process)

    def answer(self, request: Request) -> Response:
        """The page in the format and encoding that the request's headers ask for."""
        style = preferred_style(request.headers.get("accept", ""))
        body = self._body(style)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if gzip_accepted(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        content_type = openmetrics.CONTENT_TYPE_LATEST if style == "openmetrics" else CONTENT_TYPE_PLAIN_0_0_4
        return Response(200, body, content_type, headers)

    def _body(self, style: str) -> bytes:
        render = render_openmetrics if style == "openmetrics" else render_text
        books = self._books(style, render)
        self_metrics = render(
            chain(
                render_build(self._node, __version__, platform.python_version()),
                render_sources(self._node, self._health()),
                self._dropped_series(),
            )
        ).encode()
        own: bytes = _OWN[style](self._process)
        return books + self_metrics + own

    def _books(self, style: str, render: Callable[[Iterable[Family]], str]) -> bytes:
        snapshot = self._snapshot()
        if snapshot is None:
            return b""
        kept = self._rendered.get(style)
        if kept is None or kept[0] is not snapshot:
            kept = (snapshot, render(self._limited(snapshot)).encode())
            self._rendered[style] = kept
        return kept[1]

    def _limited(self, snapshot: NodeSnapshot) -> Iterator[Family]:
        """The snapshot's families, cut at the limit; what is cut is counted once a snapshot."""
        for family in render_node(snapshot):
            over = len(family.rows) - self._series_limit
            if over <= 0:
                yield family
                continue
            if self._counted is not snapshot:
                self._dropped[family.spec.name] += over
            yield Family(family.spec, family.rows[: self._series_limit])
        self._counted = snapshot

    def _dropped_series(self) -> Iterator[Family]:
        rows = [((self._node, name), float(count)) for name, count in sorted(self._dropped.items())]
        if rows:
            yield Family(catalog.BY_NAME["series_dropped_total"], rows)


def preferred_style(accept: str) -> str:
    """`openmetrics` where the scraper likes it at least as much as text, else `text`.

    Source: RFC 9110 section 12.5.1; a weight that is no number counts as 0.
    """
    liking = {"openmetrics": 0.0, "text": 0.0}
    for offer in accept.split(","):
        media_type, *parameters = (part.strip() for part in offer.split(";"))
        style = {"application/openmetrics-text": "openmetrics", "text/plain": "text"}.get(media_type)
        named = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if style == "openmetrics" and named.get("version", "1.0.0") not in ("1.0.0", "0.0.1"):
            continue
        if style is not None:
            liking[style] = max(liking[style], _weight(named.get("q", "1")))
    return "openmetrics" if liking["openmetrics"] > 0 and liking["openmetrics"] >= liking["text"] else "text"


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
