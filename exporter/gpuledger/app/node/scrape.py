"""/metrics: the newest snapshot and the health of its sources, in the format that the scraper prefers."""

from __future__ import annotations

import platform
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import CollectorRegistry

from gpuledger import __version__
from gpuledger.app.http import Request, Response
from gpuledger.core.snapshot import NodeSnapshot, SourceHealth, WebHealth
from gpuledger.metrics import catalog
from gpuledger.metrics.dcgm import render_dcgm
from gpuledger.metrics.exposition import Family, render_openmetrics, render_text
from gpuledger.metrics.render import render_build, render_last_cycle, render_node, render_sources, render_web

GZIP_LEVEL = 1
"""The next that gains anything takes twice the time for 5 % less."""
GZIP_WBITS = 31
"""Of zlib: the largest window, in gzip's format."""
OPENMETRICS_VERSIONS = ("1.0.0", "0.0.1")
"""Whoever understands one understands this page."""


@dataclass(frozen=True, slots=True)
class _Style:
    """A format of the page, and how prometheus_client writes the exporter's own process metrics in it."""

    content_type: str
    render: Callable[[Iterable[Family]], str]
    render_own: Callable[[CollectorRegistry], Any]


TEXT = _Style(CONTENT_TYPE_PLAIN_0_0_4, render_text, generate_latest)
OPENMETRICS = _Style(openmetrics.CONTENT_TYPE_LATEST, render_openmetrics, openmetrics.generate_latest)
"""Its `# EOF` comes with the process metrics, which stand last."""


class _Rendered:
    """A snapshot's text, and its compression as far as it goes: what follows differs from scrape to scrape."""

    def __init__(self, snapshot: NodeSnapshot | None, text: bytes) -> None:
        self.snapshot = snapshot
        self.text = text

    def compressed_with(self, rest: bytes) -> bytes:
        """The text and `rest` as one gzip member."""
        head, compressor = self._begun
        compressor = compressor.copy()
        tail: bytes = compressor.compress(rest) + compressor.flush()
        return head + tail

    @cached_property
    def _begun(self) -> tuple[bytes, Any]:
        compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WBITS)
        return compressor.compress(self.text), compressor


class MetricsPage:
    """Renders /metrics. What a snapshot renders to is kept, so that a second scraper costs little."""

    def __init__(
        self,
        node: str,
        snapshot: Callable[[], NodeSnapshot | None],
        health: Callable[[], list[SourceHealth]],
        last_cycle: Callable[[], float | None],
        *,
        series_limit: int,
        dcgm_compatible: bool = False,
        web: Callable[[], WebHealth | None] = lambda: None,
    ) -> None:
        self._node = node
        self._snapshot = snapshot
        self._health = health
        self._last_cycle = last_cycle
        self._web = web
        self._series_limit = series_limit
        self._renderers = (render_node, render_dcgm) if dcgm_compatible else (render_node,)
        self._dropped: Counter[str] = Counter()
        self._rendered: dict[_Style, _Rendered] = {}
        self._counted: NodeSnapshot | None = None
        self._process = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._process)

    def answer(self, request: Request) -> Response:
        """The page in the format and encoding that the request's headers ask for."""
        style = preferred_style(request.headers.get("accept", ""))
        snapshot = self._snapshot()
        books = self._books(style, snapshot)
        rest = self._rest(style, snapshot)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            return Response(200, books.compressed_with(rest), style.content_type, headers)
        return Response(200, books.text + rest, style.content_type, headers)

    def _rest(self, style: _Style, snapshot: NodeSnapshot | None) -> bytes:
        """What is of the exporter itself, and new in every scrape."""
        exporter = chain(
            render_build(self._node, __version__, platform.python_version()),
            render_last_cycle(self._node, snapshot.taken_at if snapshot else self._last_cycle()),
            render_sources(self._node, self._health()),
            render_web(self._node, self._web()),
            self._dropped_series(),
        )
        own: bytes = style.render_own(self._process)
        return style.render(exporter).encode() + own

    def _books(self, style: _Style, snapshot: NodeSnapshot | None) -> _Rendered:
        kept = self._rendered.get(style)
        if kept is None or kept.snapshot is not snapshot:
            families = self._limited(snapshot) if snapshot is not None else ()
            kept = self._rendered[style] = _Rendered(snapshot, style.render(families).encode())
        return kept

    def _limited(self, snapshot: NodeSnapshot) -> Iterator[Family]:
        """The snapshot's families, cut at the limit; what is cut is counted once a snapshot."""
        for family in chain.from_iterable(render(snapshot) for render in self._renderers):
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


def preferred_style(accept: str) -> _Style:
    """OpenMetrics where the scraper likes it at least as much as text, else text."""
    liking = {OPENMETRICS: 0.0, TEXT: 0.0}
    for media_type, parameters in _offers(accept):
        style = {"application/openmetrics-text": OPENMETRICS, "text/plain": TEXT}.get(media_type)
        if style is OPENMETRICS and parameters.get("version", "1.0.0") not in OPENMETRICS_VERSIONS:
            continue
        if style is not None:
            liking[style] = max(liking[style], _weight(parameters))
    return OPENMETRICS if 0 < liking[OPENMETRICS] >= liking[TEXT] else TEXT


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether a body may be sent in gzip."""
    return any(coding == "gzip" and _weight(parameters) > 0 for coding, parameters in _offers(accept_encoding))


def _offers(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """What a header of RFC 9110, section 12.5, offers, each with its parameters."""
    for offer in header.lower().split(","):
        name, *parameters = (part.strip() for part in offer.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield name, {key: value.strip('"') for key, _, value in pairs}


def _weight(parameters: dict[str, str]) -> float:
    """How much an offer is liked; a weight that is no number counts as 0."""
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0
