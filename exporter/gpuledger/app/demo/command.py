"""`gpuledger demo`: both roles over a simulated cluster, for whoever has no GPUs or no Kubernetes at hand."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
import time
import webbrowser
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from gpuledger.app.cluster.command import wire
from gpuledger.app.config import add_options, resolve
from gpuledger.app.demo.prometheus import running_prometheus
from gpuledger.app.demo.site import DemoSite, Role
from gpuledger.app.http import Server
from gpuledger.app.logs import set_up_logging
from gpuledger.app.node.bookkeeper import Bookkeeper
from gpuledger.app.node.loop import NodeLoop, Sources
from gpuledger.app.node.site import NodeSite, serve
from gpuledger.app.settings import ClusterSettings, DemoSettings, NodeSettings
from gpuledger.audit.check import Severity
from gpuledger.core.model import XidEvent
from gpuledger.sources.kubeapi import PodSource
from gpuledger.sources.simulated import SimulatedApi, SimulatedCluster, SimulatedNode

IDLE_SECONDS = 60.0
"""After three hours of the simulation's day a GPU counts as idle."""

WELCOME = """\
A simulated cluster of five GPU nodes and dozens of pods is being watched; a day of it takes 8 minutes. Look at

  {url}/                   where everything is
  {url}/node/gpu-h100-1/   whole GPUs
  {url}/node/gpu-a100-1/   GPUs divided by MIG
  {url}/node/gpu-l4-1/     GPUs that pods share
  {url}/cluster/           what there is, who waits for it, and who breaks the rules
  {url}/targets            all metrics, for Prometheus' http_sd_configs; --prometheus starts one

{faults}Ctrl-C ends it.
"""

FAULTS = """\
Things go wrong (--faults=false for a cluster where all is well). On gpu-h100-1 notebooks are left idle, a pod
crashes, and a pod uses a GPU that it never asked for; after a minute a GPU gets too hot, after 100 seconds one
reports a memory error, and is due for a reset. gpu-l4-1 runs a process of the host, gpu-t4-1 has no driver.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `gpuledger demo`."""
    add_options(parser, DemoSettings)
    parser.add_argument(
        "--prometheus",
        action="store_true",
        help="Start a local Prometheus too, with the rules of the folder that this is run in.",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="Open no browser, also where there is a display."
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve the simulated cluster until SIGTERM or SIGINT."""
    settings = resolve(DemoSettings, arguments, os.environ)
    set_up_logging(settings.log_level, settings.log_format)
    simulated = SimulatedCluster(settings.seed, time.time, faults=settings.faults)
    url = f"http://127.0.0.1:{settings.port}"
    with ExitStack() as stack:
        roles = {
            f"/node/{node.machine.name}": stack.enter_context(_running_node(node, simulated.api))
            for node in simulated.nodes
        }
        roles["/cluster"] = stack.enter_context(_running_cluster(simulated.api))
        if not arguments.no_browser and _has_display():
            stack.enter_context(_browser(url))
        sys.stderr.write(WELCOME.format(url=url, faults=FAULTS if settings.faults else ""))
        if arguments.prometheus:
            sys.stderr.write(stack.enter_context(running_prometheus(f"{url}/targets")))
        site = DemoSite(roles, simulated.hour)
        return asyncio.run(serve(Server(site.answer), (settings.address, settings.port), flag="--port"))


@contextmanager
def _running_node(node: SimulatedNode, api: SimulatedApi) -> Iterator[Role]:
    """The node role of a simulated node."""
    settings, xids, name = NodeSettings(), deque[XidEvent](), node.machine.name
    sources = Sources(
        nvml=node.nvml,
        processes=node.processes,
        allocations=node.allocations,
        logs=node.logs,
        pods=PodSource(api.connect(), name),
        xids=xids,
    )
    bookkeeper = Bookkeeper(name, retention=settings.retention, process_metrics=True, idle_window=IDLE_SECONDS)
    loop = NodeLoop(sources, bookkeeper, interval=settings.interval)
    site = NodeSite(name, loop, stall_timeout=settings.stall_timeout, series_limit=settings.series_limit)
    stop = threading.Event()
    driver = threading.Thread(target=_report_xids, args=(node, xids, stop), daemon=True)
    loop.start()
    driver.start()
    try:
        yield Role("gpuledger-node", name, site.answer, loop.snapshot)
    finally:
        stop.set()
        loop.stop()


@contextmanager
def _running_cluster(api: SimulatedApi) -> Iterator[Role]:
    """The cluster role."""
    loop, site = wire(ClusterSettings(min_severity=Severity.INFO), api.connect)
    loop.start()
    try:
        yield Role("gpuledger-cluster", "cluster", site.answer)
    finally:
        loop.stop()


def _report_xids(node: SimulatedNode, xids: deque[XidEvent], stop: threading.Event) -> None:
    """Hand over errors as they happen, as the driver's event thread does."""
    reported = time.time()
    while not stop.wait(1.0):
        now = time.time()
        xids.extend(node.xids(reported, now))
        reported = now


def _has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def _browser(url: str) -> Iterator[None]:
    """Opens a browser once the server may be expected to be there, unless it has ended by then."""
    opening = threading.Timer(1.0, webbrowser.open, (url,))
    opening.daemon = True
    opening.start()
    try:
        yield
    finally:
        opening.cancel()
