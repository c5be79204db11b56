"""SARIF 2.1.0, for code scanning: rules from checks, results from findings, exceptions as suppressions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuledger.audit.baseline import fingerprint
from gpuledger.audit.check import Check, Severity
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.report.full_json import json_text
from gpuledger.audit.report.model import Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "note",
    Severity.INFO: "note",
}

# GitHub's bands: critical above 9, high from 7, medium from 4.
_SCORES = {
    Severity.CRITICAL: "9.5",
    Severity.HIGH: "8.0",
    Severity.MEDIUM: "5.5",
    Severity.LOW: "3.0",
    Severity.INFO: "1.0",
}

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


def render_sarif(report: Report) -> Iterator[str]:
    """The log in pieces: one run, its results in the order of the input."""
    rules = [_rule(check) for check in report.checks.values()]
    tool = {"driver": {"name": "gpuledger", "rules": rules}}
    yield f'{{"$schema": {json_text(SCHEMA)}, "version": "2.1.0", "runs": [{{'
    yield f'"tool": {json_text(tool)}, "invocations": {json_text([_invocation(report)])}, "results": ['
    separator = "\n"
    for judged in report.pods():
        for finding in (*judged.reported, *judged.exempt, *judged.known):
            known = finding in judged.known
            yield separator + json_text(
                _result(judged.pod, finding, known=known, compared=bool(report.judge.baseline))
            )
            separator = ",\n"
    yield "\n]}]}\n"


def _rule(check: Check) -> dict[str, Any]:
    rule = {
        "id": check.id,
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.why},
        "help": {"text": f"Flags: {check.flags}.\n{check.why}\n{check.remediation}"},
        "defaultConfiguration": {"level": _LEVELS[check.severity]},
        "properties": {"security-severity": _SCORES[check.severity], "tags": ["security", "kubernetes", "gpu"]},
    }
    return {**rule, "helpUri": check.references[0]} if check.references else rule


def _result(pod: AuditedPod, finding: Finding, *, known: bool, compared: bool) -> dict[str, Any]:
    where = f"{pod.kind} {pod.namespace}/{pod.name}" + (
        f", container {finding.container}" if finding.container else ""
    )
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{where}: {finding.path}" + (f": {finding.detail}" if finding.detail else "")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(pod.file)},
                    "region": {"startLine": pod.line},
                },
                "logicalLocations": [
                    {
                        "fullyQualifiedName": f"{pod.namespace}/{pod.kind}/{pod.name}/{finding.path}",
                        "kind": "member",
                    }
                ],
            }
        ],
        "partialFingerprints": {"gpuledger/v1": fingerprint(pod, finding)},
        "properties": {"severity": str(finding.severity)},
    }
    if finding.exempt:
        result["suppressions"] = [{"kind": "external", "justification": finding.exempt}]
    if compared:
        result["baselineState"] = "unchanged" if known else "new"
    return result


def _invocation(report: Report) -> dict[str, Any]:
    notes = [{"level": "error", "message": {"text": problem}} for problem in report.problems]
    return {"executionSuccessful": not notes, "toolExecutionNotifications": notes}


def _uri(path: str) -> str:
    """A path as a relative reference (RFC 3986)."""
    return "".join(
        chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in path.encode(errors="surrogateescape")
    )
