"""The report for people, line by line as the script it replaces wrote it, and more between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuledger.audit.check import Check, Severity
from gpuledger.audit.finding import AuditedPod
from gpuledger.audit.inventory import NodeInventory, QuotaInventory
from gpuledger.audit.report.model import Held, Report, ReportLine, Totals, render_amount
from gpuledger.core.text import printable

_COLOURS = {
    Severity.CRITICAL: "\x1b[1;31m",
    Severity.HIGH: "\x1b[31m",
    Severity.MEDIUM: "\x1b[33m",
    Severity.LOW: "\x1b[36m",
    Severity.INFO: "\x1b[2m",
}
_RESET = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How much to say: `inventory` before the findings, reasons with `explain`, nothing new with `classic`."""

    inventory: bool = True
    explain: bool = False
    classic: bool = False
    colour: bool = False
    every_pod: bool = False


def render_text(report: Report, style: TextStyle) -> Iterator[str]:
    """The lines of the report, each with its line break."""
    for line in _lines(report, style):
        yield f"{line}\n"


def render_explanation(check: Check) -> Iterator[str]:
    """What a check flags, why, and what to do."""
    yield f"{check.id} ({check.severity}): {check.title}\n\n"
    yield f"Flags: {check.flags}.\n\n"
    yield f"Why: {check.why}\n\n"
    yield f"What to do: {check.remediation}\n"
    yield from (f"{reference}\n" for reference in check.references)


def _lines(report: Report, style: TextStyle) -> Iterator[str]:
    if style.inventory:
        yield from (_pod_line(pod, report.held(pod)) for pod in report.inventory())
        if not style.classic:
            yield from _cluster_lines(report)
    totals = report.totals()
    if not totals.pods and not totals.findings:
        if not report.problems:  # else nobody can say
            yield "no pods found" if style.every_pod else "no GPU pods found"
        return
    count = 0
    for line in report.lines() if style.classic else report.grouped_lines():
        yield _finding_line(line, report.checks[line.finding.check], style)
        if style.explain:
            yield from _explanation_lines(report.checks[line.finding.check])
        count += 1
    yield ""
    yield f"{totals.pods} pod(s) audited, {render_amount(totals.cards)} card(s) requested, {count} finding(s)"
    if not style.classic:
        yield from _total_lines(totals)
    if count and not totals.pods_with_findings:
        yield "ALERT device claims need review"
    elif count:
        yield f"ALERT {totals.pods_with_findings} of {totals.pods} pod(s) need review"
    else:
        yield "UNKNOWN no finding in what could be read" if report.problems else "OK clean"


# ---- findings ----


def _finding_line(line: ReportLine, check: Check, style: TextStyle) -> str:
    pod, finding = line.pod, line.finding
    where = " ".join(filter(None, (f"{pod.namespace}/{pod.name}", finding.container)))
    if style.classic:
        detail = finding.detail
    else:
        detail = f"{finding.severity}, {finding.check}" + (f": {finding.detail}" if finding.detail else "")
    if line.others:
        detail += f"; and {line.others} more of {pod.workload_kind} {pod.workload}"
    text = printable(f"{where}: {check.title}" + (f" ({detail})" if detail else ""))
    colour, reset = (_COLOURS[finding.severity], _RESET) if style.colour else ("", "")
    return f"{colour}[FINDING]{reset} {text}"


def _explanation_lines(check: Check) -> Iterator[str]:
    yield f"    why: {check.why}"
    yield f"    do:  {check.remediation}"


# ---- inventory ----


def _pod_line(pod: AuditedPod, held: Held) -> str:
    plain = held.cards == sum(held.gpus.values())
    notes = [] if plain else [f"{render_amount(amount)} {name}" for name, amount in sorted(held.gpus.items())]
    notes += [f"unknown amount of {name}" for name in pod.unknown_gpus]
    notes += [
        f"template of {render_amount(amount)} {name}, counted by its pods"
        for name, amount in sorted(pod.template.items())
    ]
    notes += [f"{name} {value}" for name, value in sorted(pod.fractions.items())]
    if held.unresolved_claims:
        notes.append(f"{held.unresolved_claims} unresolved claim(s)")
    if pod.reach and not held.gpus:
        notes.append(f"reaches GPUs by {', '.join(pod.reach)}")
    extra = f" ({', '.join(notes)})" if notes else ""
    cards = "?" if pod.unknown_gpus else render_amount(held.cards)
    return printable(f"{f'{pod.namespace}/{pod.name}':<44} {cards:>4} GPU{extra}")


def _cluster_lines(report: Report) -> Iterator[str]:
    for node in report.facts.inventory.nodes():
        yield from _node_lines(node)
    for quota in report.facts.inventory.quotas():
        yield _quota_line(quota)
    for pod in report.pending():
        if pod.gpus or pod.claims or pod.fractions:
            yield printable(f"pending {pod.namespace}/{pod.name}: {pod.pending}")
    posture = report.facts.posture
    if evidence := ", ".join(posture.evidence):
        yield printable(
            f"ways past the device plugin: environment {posture.environment},"
            f" volume mount {posture.volume_mount}, annotation {posture.annotation} ({evidence})"
        )


def _node_lines(node: NodeInventory) -> Iterator[str]:
    notes = [
        node.product,
        f"{node.cards} card(s)" if node.cards else "",
        node.sharing,
        node.mig and f"MIG {node.mig}",
    ]
    notes += ["" if node.ready else "not ready", "" if node.schedulable else "unschedulable"]
    extra = f" ({', '.join(filter(None, notes))})" if any(notes) else ""
    for resource in node.resources:
        amounts = [
            f"{'?' if amount is None else render_amount(amount)} {what}"
            for what, amount in (
                ("capacity", resource.capacity),
                ("allocatable", resource.allocatable),
                ("requested", resource.requested),
                ("free", resource.free),
            )
        ]
        if resource.unhealthy:
            amounts.append(f"{render_amount(resource.unhealthy)} unhealthy")
        yield printable(f"node {node.node}: {resource.resource}: {', '.join(amounts)}{extra}")


def _quota_line(quota: QuotaInventory) -> str:
    used, left = ("?" if amount is None else render_amount(amount) for amount in (quota.used, quota.left))
    name = f"quota {quota.namespace}/{quota.quota}: {quota.resource}"
    return printable(f"{name}: {render_amount(quota.hard)} hard, {used} used, {left} left")


# ---- totals ----


def _total_lines(totals: Totals) -> Iterator[str]:
    requested = [f"{render_amount(amount)} {name}" for name, amount in sorted(totals.gpus.items())]
    if totals.unknown:
        requested.append(f"unknown amounts of {totals.unknown} pod(s)")
    if totals.unresolved_claims:
        requested.append(f"{totals.unresolved_claims} claim(s) that the input does not explain")
    if requested:
        yield printable(f"requested: {', '.join(requested)}")
    counts = [f"{totals.findings[severity]} {severity}" for severity in sorted(totals.findings, reverse=True)]
    counts += [f"{totals.exempt} exempt"] if totals.exempt else []
    counts += [f"{totals.known} known from the baseline"] if totals.known else []
    if counts:
        yield f"over all pods: {', '.join(counts)}"
