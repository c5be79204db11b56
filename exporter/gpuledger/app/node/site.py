"""What a node answers on HTTP, and how it is served until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from gpuledger.app.http import Request, Response, Server
from gpuledger.app.node.loop import NodeLoop
from gpuledger.app.node.scrape import MetricsPage
from gpuledger.app.pages import markup
from gpuledger.app.pages.node import render_node_page
from gpuledger.app.routes import dispatch, healthz
from gpuledger.core.snapshot import WebHealth

log = logging.getLogger(__name__)


class NodeSite:
    """What the node role answers on HTTP."""

    def __init__(
        self,
        node: str,
        loop: NodeLoop,
        *,
        stall_timeout: float,
        series_limit: int,
        dcgm_compatible: bool = False,
        web: Callable[[], WebHealth | None] = lambda: None,
    ) -> None:
        self._node = node
        self._loop = loop
        self._stall_timeout = stall_timeout
        self._metrics = MetricsPage(
            node,
            loop.snapshot,
            loop.health,
            loop.last_cycle,
            series_limit=series_limit,
            dcgm_compatible=dcgm_compatible,
            web=web,
        )

    def answer(self, request: Request) -> Response:
        """Dispatch on the path."""
        routes = {
            "/metrics": lambda: self._metrics.answer(request),
            "/": self._page,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }
        return dispatch(request, routes)

    def _page(self) -> Response:
        return markup.answer(render_node_page(self._node, self._loop.snapshot(), self._loop.health()))

    def _healthz(self) -> Response:
        """Fails only for what a restart cures; a missing driver or API is no reason to be killed."""
        return healthz(self._loop.troubles(self._stall_timeout))

    def _readyz(self) -> Response:
        if self._loop.snapshot() is None:
            return Response(503, b"no cycle has been completed lately\n")
        return Response(200, b"ready\n")


async def serve(server: Server, address: tuple[str, int], *, flag: str = "--web.listen-address") -> int:
    """Serve on `address`, which `flag` sets, until a signal asks to end; the exit code."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    host, port = address
    try:
        addresses = await server.start(host, port)
    except OSError as error:
        reason = str(error.strerror).rpartition(": ")[2]  # asyncio puts the address before it once more
        log.error("cannot listen on %s:%d: %s; set %s", host, port, reason, flag)  # noqa: TRY400 - a traceback says no more
        return 1
    log.info("serving on %s", ", ".join(addresses))
    await stop.wait()
    log.info("stopping")
    await server.stop()
    return 0
