"""`gpuledger demo`: the node role over a simulated node, for whoever has neither GPU nor cluster at hand."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
import time
from collections import deque

from gpuledger.app.bookkeeper import Bookkeeper
from gpuledger.app.config import add_options, resolve
from gpuledger.app.http import Server
from gpuledger.app.logs import set_up_logging
from gpuledger.app.loop import NodeLoop, Sources
from gpuledger.app.settings import DemoSettings, NodeSettings
from gpuledger.app.site import NodeSite, serve
from gpuledger.core.model import XidEvent
from gpuledger.sources.simulated import SimulatedNode

WELCOME = """\
A simulated GPU node is being watched. Look at

  http://127.0.0.1:{port}/          who is on which GPU (reloads itself)
  http://127.0.0.1:{port}/metrics   what Prometheus scrapes

Try in a second terminal:  curl -s http://127.0.0.1:{port}/metrics | grep container_sm
A job comes and goes every minute, and every 2.5 minutes a pod uses a GPU that it never asked for.
Ctrl-C ends it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `gpuledger demo`."""
    add_options(parser, DemoSettings)


def run(arguments: argparse.Namespace) -> int:
    """Serve the simulated node until SIGTERM or SIGINT."""
    settings = resolve(DemoSettings, arguments, os.environ)
    set_up_logging(settings.log_level, settings.log_format)
    simulated = SimulatedNode("gpu-node-1", time.time)
    xids: deque[XidEvent] = deque()
    sources = Sources(
        nvml=simulated.nvml,
        processes=simulated.processes,
        allocations=simulated.allocations,
        logs=simulated.logs,
        pods=simulated,
        xids=xids,
    )
    node = NodeSettings()
    bookkeeper = Bookkeeper(simulated.node, retention=node.retention, process_metrics=node.process_metrics)
    loop = NodeLoop(sources, bookkeeper, interval=node.interval)
    stop = threading.Event()
    driver = threading.Thread(target=_report_xids, args=(simulated, xids, stop), daemon=True)
    loop.start()
    driver.start()
    sys.stderr.write(WELCOME.format(port=settings.port))
    try:
        site = NodeSite(simulated.node, loop, stall_timeout=node.stall_timeout, series_limit=node.series_limit)
        return asyncio.run(serve(Server(site.answer), ("127.0.0.1", settings.port), flag="--port"))
    finally:
        stop.set()
        loop.stop()


def _report_xids(simulated: SimulatedNode, xids: deque[XidEvent], stop: threading.Event) -> None:
    """Hand over errors as they happen, as the driver's event thread does."""
    reported = time.time()
    while not stop.wait(1.0):
        now = time.time()
        xids.extend(simulated.xids(reported, now))
        reported = now
