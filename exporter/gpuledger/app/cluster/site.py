"""What the cluster role answers on HTTP."""

from __future__ import annotations

import time

from gpuledger.app.cluster.loop import ClusterLoop
from gpuledger.app.cluster.scrape import ClusterPage
from gpuledger.app.http import Request, Response
from gpuledger.app.pages import markup
from gpuledger.app.pages.cluster import render_cluster_page
from gpuledger.app.routes import dispatch, healthz


class ClusterSite:
    """Dispatches on the path."""

    def __init__(self, loop: ClusterLoop, metrics: ClusterPage) -> None:
        self._loop = loop
        self._metrics = metrics

    def answer(self, request: Request) -> Response:
        """The answer to any request."""
        routes = {
            "/metrics": lambda: self._metrics.answer(request),
            "/": self._page,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }
        return dispatch(request, routes)

    def _page(self) -> Response:
        overview = self._loop.books.overview() if self._loop.ready else None
        return markup.answer(render_cluster_page(overview, self._loop.health(), time.time()))

    def _healthz(self) -> Response:
        """Fails only for what a restart cures; an API that is away is no reason to be killed."""
        return healthz(self._loop.troubles())

    def _readyz(self) -> Response:
        if self._loop.ready:
            return Response(200, b"ready\n")
        problems = [f"{source.name}: {source.error}" for source in self._loop.health() if source.error]
        return Response(503, ("\n".join(["not all pods and nodes are known yet", *problems]) + "\n").encode())
