"""JUnit XML, for CI systems that show test results: findings fail, exceptions are skipped, clean pods pass."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from gpuledger.audit.check import Check
from gpuledger.audit.finding import Finding
from gpuledger.audit.report.model import Report
from gpuledger.audit.verdict import JudgedPod


def render_junit(report: Report) -> Iterator[str]:
    """The document in pieces: one suite, a case for each finding, and one for each pod without any."""
    totals = report.totals()
    failures, errors = totals.findings.total(), len(report.problems)
    tests = errors + sum(max(1, len(judged.reported) + len(judged.exempt)) for judged in report.pods())
    counts = f'tests="{tests}" failures="{failures}" errors="{errors}"'
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="gpuledger audit" {counts}>\n'
    yield f'<testsuite name="gpuledger audit" {counts} skipped="{totals.exempt}">\n'
    for problem in report.problems:
        yield f'<testcase name="read"><error message={_attribute(problem)}/></testcase>\n'
    for judged in report.pods():
        yield from _cases(judged, report)
    yield "</testsuite>\n</testsuites>\n"


def _cases(judged: JudgedPod, report: Report) -> Iterator[str]:
    classname = _attribute(f"{judged.pod.namespace}/{judged.pod.name}")
    for finding in judged.reported:
        check = report.checks[finding.check]
        message = _attribute(f"{check.title}: {finding.detail}" if finding.detail else check.title)
        yield f"<testcase name={_name(finding)} classname={classname}>"
        yield f'<failure type="{finding.severity}" message={message}>{_text(_body(finding, check))}</failure>'
        yield "</testcase>\n"
    for finding in judged.exempt:
        skipped = f"<skipped message={_attribute(finding.exempt)}/>"
        yield f"<testcase name={_name(finding)} classname={classname}>{skipped}</testcase>\n"
    if not judged.reported and not judged.exempt:
        yield f'<testcase name="audit" classname={classname}/>\n'


def _name(finding: Finding) -> str:
    return _attribute(f"{finding.check} {finding.container}".strip())


def _body(finding: Finding, check: Check) -> str:
    return f"{finding.path}\n{check.why}\n{check.remediation}"


def _attribute(text: str) -> str:
    return f'"{_text(text)}"'


def _text(text: str) -> str:
    return escape(_xml_characters(text))


def _xml_characters(text: str) -> str:
    """The text without the characters that XML 1.0 has no way to write."""
    return "".join(
        char
        if char in "\t\n\r" or " " <= char <= "\ud7ff" or "\ue000" <= char <= "\ufffd" or char > "\uffff"
        else "?"
        for char in text
    )
