"""`gpuledger node`: the exporter of one GPU node, wired from its real sources."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import socket
from collections import deque

from gpuledger.app.config import ConfigError, add_options, resolve
from gpuledger.app.http import Server
from gpuledger.app.logs import set_up_logging
from gpuledger.app.node.bookkeeper import Bookkeeper
from gpuledger.app.node.loop import NodeLoop, Pods, Sources
from gpuledger.app.node.site import NodeSite, serve
from gpuledger.app.settings import NodeSettings
from gpuledger.app.web.command import make_guard
from gpuledger.core.errors import SourceError
from gpuledger.core.model import XidEvent
from gpuledger.sources.kubeapi import PodSource, connect
from gpuledger.sources.kubehttp import Connection
from gpuledger.sources.nvml import NvmlSource, XidWatcher
from gpuledger.sources.podlogs import PodLogsSource
from gpuledger.sources.podresources import PodResourcesSource
from gpuledger.sources.procfs import ProcfsSource, in_initial_pid_namespace

log = logging.getLogger(__name__)


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
    guard = make_guard(settings, lambda: _connect(settings))
    loop = NodeLoop(
        node_sources(settings, node, xids),
        Bookkeeper(
            node,
            retention=settings.retention,
            process_metrics=settings.process_metrics,
            idle_window=settings.idle_window,
        ),
        interval=settings.interval,
    )
    site = NodeSite(
        node,
        loop,
        stall_timeout=settings.stall_timeout,
        series_limit=settings.series_limit,
        dcgm_compatible=settings.metrics_dcgm_compatible,
        web=guard.health,
    )
    gc.freeze()  # what was imported stays: each full collection would stop all threads to find that out again
    loop.start()
    watcher.start()
    try:
        return asyncio.run(serve(Server(site.answer, guard), settings.web_listen_address))
    finally:
        guard.close()
        watcher.stop()
        loop.stop()


def node_sources(settings: NodeSettings, node: str, xids: deque[XidEvent]) -> Sources:
    """The real sources, as far as this place offers them."""
    procfs = str(settings.path_procfs)
    if not settings.path_procfs.is_dir():
        raise ConfigError(f"--path.procfs={procfs}: there is no such folder; name where the host's /proc is")
    return Sources(
        nvml=NvmlSource().read,
        processes=ProcfsSource(procfs).read if in_initial_pid_namespace(procfs) else None,
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
        connection = _connect(settings)
    except SourceError as error:
        if settings.kube != "auto" or settings.kubeconfig or settings.kube_context:
            raise
        log.warning("kube: %s, or use --kube=off", error)
        return None
    return PodSource(connection, node)


def _connect(settings: NodeSettings) -> Connection:
    if settings.kube == "off":
        raise ConfigError("--web.kubernetes-auth asks the API, which --kube=off rules out; leave one out")
    return connect(settings.kube, settings.kubeconfig, settings.kube_context)
