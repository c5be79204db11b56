"""OpenReports' custom resource, one for each workload, for `kubectl apply` and policy dashboards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from gpuledger.audit.check import Severity
from gpuledger.audit.finding import AuditedPod
from gpuledger.audit.report.model import Report, ReportLine
from gpuledger.core.text import printable

API_VERSION = "openreports.io/v1alpha1"

_API_GROUPS = {
    "Pod": "v1",
    "ReplicationController": "v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}


def render_policy_report(report: Report) -> Iterator[str]:
    """YAML documents; low and informational findings are warnings."""
    import yaml  # noqa: PLC0415 - other formats need none of it

    empty = True
    for _, lines in groupby(report.grouped_lines(), key=lambda line: _scope(line.pod)):
        empty = False
        yield "---\n" + yaml.dump(_document(list(lines), report), Dumper=yaml.CSafeDumper, sort_keys=False)
    if empty:
        yield "# nothing to report\n"
    yield from (f"# could not be read: {printable(problem)}\n" for problem in report.problems)


def _document(lines: list[ReportLine], report: Report) -> dict[str, Any]:
    scope = _scope(lines[0].pod)
    results = [_result(line, report) for line in lines]
    counts = Counter(result["result"] for result in results)
    name = re.sub(r"[^a-z0-9.-]+", "-", f"gpuledger-{scope['kind']}-{scope['name']}".lower())
    return {
        "apiVersion": API_VERSION,
        "kind": "Report",
        "metadata": {
            "name": name[:253].strip("-."),
            "namespace": scope["namespace"],
            "labels": {"app.kubernetes.io/managed-by": "gpuledger"},
        },
        "source": "gpuledger",
        "scope": scope,
        "summary": {outcome: counts[outcome] for outcome in ("pass", "fail", "warn", "error", "skip")},
        "results": results,
    }


def _scope(pod: AuditedPod) -> dict[str, str]:
    scope = {"kind": pod.workload_kind, "name": pod.workload, "namespace": pod.namespace}
    version = _API_GROUPS.get(pod.workload_kind)
    return {"apiVersion": version, **scope} if version else scope


def _result(line: ReportLine, report: Report) -> dict[str, Any]:
    finding = line.finding
    check = report.checks[finding.check]
    properties = {"path": finding.path, "container": finding.container, "remediation": check.remediation}
    if line.others:
        properties["pods"] = str(line.others + 1)
    return {
        "source": "gpuledger",
        "policy": finding.check,
        "category": "GPU" if finding.check.startswith("gpu-") else "Pod Security",
        "severity": str(finding.severity),
        "result": "fail" if finding.severity >= Severity.MEDIUM else "warn",
        "message": f"{check.title}: {finding.detail}" if finding.detail else check.title,
        "properties": {name: value for name, value in properties.items() if value},
    }
