"""`gpuledger cluster`: what the whole cluster has, what is asked of it, and which pods break the rules."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gpuledger.app.audit.command import read_advisories
from gpuledger.app.cluster.books import ClusterBooks
from gpuledger.app.cluster.loop import ClusterLoop
from gpuledger.app.cluster.podintake import PodIntake
from gpuledger.app.cluster.policyfile import PolicyFile
from gpuledger.app.cluster.scrape import ClusterPage
from gpuledger.app.cluster.site import ClusterSite
from gpuledger.app.config import ConfigError, add_options, resolve
from gpuledger.app.http import Server
from gpuledger.app.logs import set_up_logging
from gpuledger.app.node.site import serve
from gpuledger.app.settings import ClusterSettings
from gpuledger.app.web.command import make_guard
from gpuledger.audit.check import Check, Severity
from gpuledger.audit.checks import CHECKS, STATIC_CHECKS
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.verdict import Judge
from gpuledger.core.errors import SourceError
from gpuledger.core.snapshot import WebHealth
from gpuledger.parse.clusterobjects import (
    CLAIMS,
    CLASSES,
    DRA_GROUPS,
    NAMESPACES,
    QUOTAS,
    SLICES,
    WARNINGS,
    node_parser,
)
from gpuledger.parse.kubelist import ObjectParser
from gpuledger.sources.clusterwatch import Feed, Kind
from gpuledger.sources.kubeapi import connect
from gpuledger.sources.listwatch import DEFAULT_PACE, ApiConnection, Pace

T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `gpuledger cluster`."""
    add_options(parser, ClusterSettings)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; 0 on a clean end, 1 when the address can't be listened on."""
    settings = resolve(ClusterSettings, arguments, os.environ)
    set_up_logging(settings.log_level, settings.log_format)
    guard = make_guard(settings, lambda: connect("auto", settings.kubeconfig, settings.kube_context))
    loop, site = wire(settings, web=guard.health)
    loop.start()
    try:
        return asyncio.run(serve(Server(site.answer, guard), settings.web_listen_address))
    finally:
        guard.close()
        loop.stop()


def wire(
    settings: ClusterSettings,
    connected: Callable[[], ApiConnection] | None = None,
    web: Callable[[], WebHealth | None] = lambda: None,
) -> tuple[ClusterLoop, ClusterSite]:
    """All of the cluster role but its server; `connected` as in `feeds`."""
    checks = chosen_checks(settings.min_severity)
    intake = PodIntake(checks, read_advisories(), time.time, settings.gpu_resource, settings.shard)
    judge = Judge(CHECKS, ClusterFacts(), time.time(), settings.min_severity)
    books = ClusterBooks(intake, judge)
    followed = feeds(settings, books, intake, connected=connected)
    loop = ClusterLoop(followed, books, _policy(settings))
    return loop, ClusterSite(loop, ClusterPage(loop, intake, series_limit=settings.series_limit, web=web))


def chosen_checks(minimum: Severity) -> Sequence[Check]:
    """The checks that can find something of that severity, without those that have to be named."""
    return [check for check in STATIC_CHECKS if not check.opt_in and check.may_reach(minimum)]


def feeds(
    settings: ClusterSettings,
    books: ClusterBooks,
    intake: PodIntake,
    pace: Pace = DEFAULT_PACE,
    connected: Callable[[], ApiConnection] | None = None,
) -> list[Feed[Any]]:
    """Every kind of object that is followed, with where it goes; each over a connection of its own.

    `connected` makes connections to another API than the one that the settings lead to.
    """
    connected = connected or (lambda: connect("auto", settings.kubeconfig, settings.kube_context))

    def feed(name: str, parser: ObjectParser[Any, T], sink: Any, *paths: str, **query: str) -> Feed[T]:
        return Feed(connected(), Kind(name, paths, parser.parse_list, parser.parse_event, query), sink, pace)

    warnings = "type=Warning,involvedObject.kind=Pod"
    return [
        feed("pods", intake.parser(), books.pods, "/api/v1/pods"),
        feed("nodes", node_parser(settings.gpu_resource), books.nodes, "/api/v1/nodes"),
        feed("resourcequotas", QUOTAS, books.quotas, "/api/v1/resourcequotas"),
        feed("namespaces", NAMESPACES, books.namespaces, "/api/v1/namespaces"),
        feed("events", WARNINGS, books.warnings, "/api/v1/events", fieldSelector=warnings),
        feed("deviceclasses", CLASSES, books.classes, *(f"{path}/deviceclasses" for path in DRA_GROUPS)),
        feed("resourceclaims", CLAIMS, books.claims, *(f"{path}/resourceclaims" for path in DRA_GROUPS)),
        feed("resourceslices", SLICES, books.slices, *(f"{path}/resourceslices" for path in DRA_GROUPS)),
    ]


def _policy(settings: ClusterSettings) -> Any:
    """How to read the policy, which must be good at the start; None where there is none."""
    if settings.policy is None:
        return None
    policy = PolicyFile(settings.policy)
    try:
        policy.read()
    except SourceError as error:
        raise ConfigError(f"--policy: {error}") from error
    return policy.read
