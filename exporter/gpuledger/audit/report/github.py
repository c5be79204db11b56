"""Workflow commands of GitHub Actions, which become annotations of the files under review."""

from __future__ import annotations

from collections.abc import Iterator

from gpuledger.audit.check import Severity
from gpuledger.audit.report.model import Report
from gpuledger.core.text import printable

_COMMANDS = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "notice",
    Severity.INFO: "notice",
}


def render_github(report: Report) -> Iterator[str]:
    """A command for each finding of a workload, worst first: GitHub shows only the first ten of a step."""
    for line in sorted(report.grouped_lines(), key=lambda line: -line.finding.severity):
        pod, finding = line.pod, line.finding
        where = f"{pod.namespace}/{pod.name} {finding.container}".strip()
        message = f"{where}: {report.checks[finding.check].title}" + (
            f" ({finding.detail})" if finding.detail else ""
        )
        place = f"file={_property(pod.file)},line={pod.line},title={_property(finding.check)}"
        yield f"::{_COMMANDS[finding.severity]} {place}::{_data(message)}\n"
    for problem in report.problems:
        yield f"::error title=unreadable::{_data(problem)}\n"


def _data(text: str) -> str:
    return printable(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
