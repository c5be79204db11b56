"""`gpuledger node`: the exporter of one GPU node, wired from its real sources."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Mapping

from gpuledger.app.bookkeeper import Bookkeeper
from gpuledger.app.config import add_options, resolve
from gpuledger.app.http import Request, Response, Server
from gpuledger.app.logs import set_up_logging
from gpuledger.app.loop import NodeLoop, Pods, Sources
from gpuledger.app.page import render_page
from gpuledger.app.scrape import MetricsPage
from gpuledger.app.settings import NodeSettings
from gpuledger.core.errors import SourceError
from gpuledger.core.model import XidEvent
from gpuledger.sources.kubeapi import PodSource, connect
from gpuledger.sources.nvml import NvmlSource, XidWatcher
from gpuledger.sources.podlogs import PodLogsSource
from gpuledger.sources.podresources import PodResourcesSource
from gpuledger.sources.procfs import ProcfsSource, in_initial_pid_namespace

log = logging.getLogger(__name__)

STOP_SECONDS = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `gpuledger node`."""
    add_options(parser, NodeSettings)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; 0 on a clean end, 1 when the address can't be listened on."""
    settings = resolve(NodeSettings, arguments, os.environ)
    set_up_logging(settings.log_level, settings.log_format)
    node = settings.node_name or os.environ.get("NODE_NAME") or socket.gethostname()
    xids: deque[XidEvent] = deque(maxlen=10_000)
    watcher = XidWatcher(xids.append)
    loop = NodeLoop(
        node_sources(settings, node, xids),
        Bookkeeper(node, retention=settings.retention, process_metrics=settings.process_metrics),
        interval=settings.interval,
    )
    site = NodeSite(node, loop, settings)
    loop.start()
    watcher.start()
    try:
        return asyncio.run(serve(Server(site.answer), settings.web_listen_address))
    finally:
        watcher.stop()
        loop.stop(STOP_SECONDS)


def node_sources(settings: NodeSettings, node: str, xids: deque[XidEvent]) -> Sources:
    """The real sources, as far as this place offers them; what it does not is logged once."""
    procfs = str(settings.path_procfs)
    processes = None
    if in_initial_pid_namespace(procfs):
        source = ProcfsSource(procfs)
        processes = lambda pids, listed_at: source.read(pids, listed_at=listed_at)  # noqa: E731 - a seam, no name
    else:
        log.warning("not in the host's PID namespace: no process can be attributed; set hostPID: true")
    return Sources(
        nvml=NvmlSource().read,
        processes=processes,
        allocations=PodResourcesSource(settings.path_podresources).read,
        logs=PodLogsSource(str(settings.path_container_logs), str(settings.path_pod_logs)).read,
        pods=_pods(settings, node),
        xids=xids,
    )


def _pods(settings: NodeSettings, node: str) -> Pods | None:
    """The API's pods of this node; None where the API is switched off or, with `auto`, not configured."""
    if settings.kube == "off":
        return None
    try:
        connection = connect(settings.kube, settings.kubeconfig, settings.kube_context)
    except SourceError as error:
        if settings.kube != "auto":
            raise
        log.warning("kube: %s", error)
        return None
    return PodSource(connection, node)


class NodeSite:
    """What the node role answers on HTTP."""

    def __init__(self, node: str, loop: NodeLoop, settings: NodeSettings) -> None:
        self._node = node
        self._loop = loop
        self._stall_timeout = settings.stall_timeout
        self._metrics = MetricsPage(node, loop.snapshot, loop.health, series_limit=settings.series_limit)

    def answer(self, request: Request) -> Response:
        """Dispatch on the path."""
        routes = {
            "/metrics": lambda: self._metrics.answer(request),
            "/": self._page,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }
        route = routes.get(request.path)
        return route() if route is not None else not_found(routes)

    def _page(self) -> Response:
        page = render_page(self._node, self._loop.snapshot(), self._loop.health())
        return Response(200, page.encode(errors="replace"), "text/html; charset=utf-8", PAGE_HEADERS)

    def _healthz(self) -> Response:
        """Fails only for what a restart cures; a missing driver or API is no reason to be killed."""
        troubles = self._loop.troubles(self._stall_timeout)
        return Response(503, ("\n".join(troubles) + "\n").encode()) if troubles else Response(200, b"ok\n")

    def _readyz(self) -> Response:
        if self._loop.snapshot() is None:
            return Response(503, b"no cycle has been completed lately\n")
        return Response(200, b"ready\n")


PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Referrer-Policy": "no-referrer",
}


def not_found(routes: Mapping[str, object]) -> Response:
    """404, with what there is instead."""
    return Response(404, f"not found; there is {', '.join(routes)}\n".encode())


async def serve(server: Server, address: tuple[str, int]) -> int:
    """Serve until a signal asks to end; the exit code."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    host, port = address
    try:
        addresses = await server.start(host, port)
    except OSError as error:
        log.error("cannot listen on %s:%d: %s; set --web.listen-address", host, port, error.strerror or error)  # noqa: TRY400 - a traceback says no more
        return 1
    log.info("serving on %s", ", ".join(addresses))
    await stop.wait()
    log.info("stopping")
    await server.stop()
    return 0
