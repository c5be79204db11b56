"""The demo's first page: every node of the simulated cluster at a glance, and the way to all pages."""

from __future__ import annotations

from collections.abc import Mapping

from gpuledger.app.pages.amounts import UNKNOWN, count, gibibytes
from gpuledger.app.pages.markup import Cell, Html, Row, badges, bar, document, link, number, section, text
from gpuledger.audit.check import Severity
from gpuledger.core.snapshot import NodeSnapshot


def render_demo_page(nodes: Mapping[str, NodeSnapshot | None], cluster: str, note: str) -> Html:
    """The page; `nodes` and `cluster` are the paths at which their pages are."""
    head = ("Node", "Model", "#GPUs", "#Busy", "#Memory", "#Pods", "~Metrics", "Findings")
    rows = [_row(path, snapshot) for path, snapshot in nodes.items()]
    everything = Row(
        [
            link("all nodes", cluster),
            "inventory, pending, quotas, findings",
            link("metrics", f"{cluster}metrics"),
        ]
    )
    return document(
        "demo",
        "A simulated cluster",
        note,
        [
            section("Nodes", head, rows, "There is none."),
            section("Cluster", ("Page", "Shows", "~Metrics"), [everything], ""),
        ],
        ("targets",),
    )


def _row(path: str, snapshot: NodeSnapshot | None) -> Row:
    name, metrics = path.rstrip("/").rpartition("/")[2], link("metrics", f"{path}metrics")
    if snapshot is None or not snapshot.gpus:
        return Row([link(name, path), text("no driver", "bad"), *[number(None, UNKNOWN)] * 4, metrics, ""])
    readings = [state.reading for state in snapshot.gpus]
    busy = [reading.values.get("gpu_utilization_ratio", {}).get(()) for reading in readings]
    known = [ratio for ratio in busy if ratio is not None]
    memories = [reading.memory for reading in readings if reading.memory]
    used, total = sum(memory.used for memory in memories), sum(memory.total for memory in memories)
    on_it = {(use.owner.namespace, use.owner.pod) for use in snapshot.containers if use.active}
    found = {(finding.check, finding.severity) for finding in snapshot.findings if not finding.exempt}
    return Row(
        [
            link(name, path),
            readings[0].info.get("model", UNKNOWN),
            number(len(readings), count(len(readings))),
            bar(sum(known) / len(known) if known else None),
            bar(used / total if total else None, f"{gibibytes(used)} of {gibibytes(total)}"),
            number(len(on_it), count(len(on_it))),
            metrics,
            Cell(badges(sorted(found, key=_worst_first)), style="wrap"),
        ]
    )


def _worst_first(finding: tuple[str, str]) -> tuple[int, str]:
    check, severity = finding
    return -Severity[severity.upper()], check
