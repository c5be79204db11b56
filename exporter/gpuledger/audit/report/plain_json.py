"""One JSON object with the keys of the script it replaces."""

from __future__ import annotations

from collections.abc import Iterator

from gpuledger.audit.report.full_json import json_text
from gpuledger.audit.report.model import Report, number


def render_plain_json(report: Report) -> Iterator[str]:
    """The object in pieces, its keys in alphabetical order, as one line."""
    totals = report.totals()
    yield f'{{"cards": {json_text(number(totals.cards))}, "findings": ['
    separator = ""
    for judged in report.pods():
        for finding in judged.reported:
            entry = {
                "check": finding.check,
                "container": finding.container or "-",
                "detail": finding.detail,
                "namespace": judged.pod.namespace,
                "pod": judged.pod.name,
            }
            yield separator + json_text(entry)
            separator = ", "
    yield f'], "pods": {totals.pods}, "pods_with_findings": {totals.pods_with_findings}}}\n'
