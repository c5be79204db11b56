"""Audits text in tests as the command does, at one time."""

import importlib.resources
from collections.abc import Iterable

from gpuledger.audit.advisories import parse_advisories
from gpuledger.audit.check import Check, Severity
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.engine import Audit
from gpuledger.audit.finding import Finding
from gpuledger.audit.policy import Policy
from gpuledger.audit.report.model import Report
from gpuledger.audit.subject import AuditContext
from gpuledger.audit.verdict import Judge
from gpuledger.parse.dump import Located, parse_dump

NOON = 1767268800.0
"""2026-01-01T12:00:00Z."""

ADVISORIES = parse_advisories((importlib.resources.files("gpuledger.audit") / "advisories.json").read_bytes())


def audited(text: str | bytes, *checks: str, every_pod: bool = False, policy: Policy | None = None) -> Report:
    """The report on a dump by the named checks, or by all that run without being named."""
    data = text if isinstance(text, bytes) else text.encode()
    chosen = [CHECKS[name] for name in checks] or [check for check in CHECKS.values() if not check.opt_in]
    return report_of(data, chosen, every_pod=every_pod, policy=policy)


def report_of(
    data: bytes,
    checks: Iterable[Check],
    *,
    every_pod: bool = False,
    reach: bool = True,
    policy: Policy | None = None,
) -> Report:
    """The report on a dump by these checks, whatever their severity."""
    audit = Audit(tuple(checks), AuditContext(NOON, None, ADVISORIES), every_pod=every_pod, reach=reach)
    pods, problems = [], []
    for found in parse_dump([data]):
        if isinstance(found, Located):
            pods.append(audit.take(found.item))
        else:
            problems.append(found.message)
    judge = Judge(
        {check.id: check for check in audit.checks}, audit.facts, NOON, Severity.INFO, policy or Policy()
    )
    return Report([pod for pod in pods if pod], judge, None, tuple(problems))


def findings(report: Report) -> list[Finding]:
    """What is to be reported."""
    return [line.finding for line in report.lines()]
