"""Everything that an audit knows, as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.inventory import NodeInventory, QuotaInventory
from gpuledger.audit.report.model import Report, number


def render_full_json(report: Report) -> Iterator[str]:
    """The object in pieces: pods with their findings, then the cluster, the totals, and what was unreadable."""
    yield '{"version": 1, "pods": ['
    separator = "\n"
    for judged in report.pods():
        held = report.held(judged.pod)
        entry = {
            **_pod(judged.pod),
            "cards": None if judged.pod.unknown_gpus else number(held.cards),
            "unknown": list(judged.pod.unknown_gpus),
            "fractions": judged.pod.fractions,
            "template": {name: number(amount) for name, amount in sorted(judged.pod.template.items())},
            "requests": {name: number(amount) for name, amount in sorted(held.gpus.items())},
            "unresolvedClaims": held.unresolved_claims,
            "findings": [_finding(finding) for finding in judged.reported],
            "exempt": [_finding(finding) for finding in judged.exempt],
            "known": [_finding(finding) for finding in judged.known],
        }
        yield separator + json_text(entry)
        separator = ",\n"
    yield f'\n], "cluster": {json_text(_cluster(report))}, "totals": {json_text(_totals(report))}'
    yield f', "problems": {json_text(list(report.problems))}}}\n'


def json_text(value: object) -> str:
    """JSON in ASCII, so that any terminal and any pipe takes it."""
    return json.dumps(value, sort_keys=True)


def _pod(pod: AuditedPod) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "kind": pod.kind,
        "workload": {"kind": pod.workload_kind, "name": pod.workload},
        "uid": pod.uid,
        "node": pod.node,
        "pending": pod.pending,
        "reach": list(pod.reach),
        "file": pod.file,
        "line": pod.line,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "check": finding.check,
        "severity": str(finding.severity),
        "container": finding.container,
        "path": finding.path,
        "detail": finding.detail,
    }
    return {**entry, "exempt": finding.exempt} if finding.exempt else entry


def _cluster(report: Report) -> dict[str, Any]:
    inventory, posture = report.facts.inventory, report.facts.posture
    return {
        "nodes": [_node(node) for node in inventory.nodes()],
        "quotas": [_quota(quota) for quota in inventory.quotas()],
        "posture": {
            "environment": posture.environment,
            "volumeMount": posture.volume_mount,
            "annotation": posture.annotation,
            "evidence": list(posture.evidence),
        },
    }


def _node(node: NodeInventory) -> dict[str, Any]:
    return {
        "node": node.node,
        "ready": node.ready,
        "schedulable": node.schedulable,
        "product": node.product,
        "cards": node.cards,
        "sharing": node.sharing,
        "mig": node.mig,
        "resources": {
            resource.resource: {
                "capacity": _optional(resource.capacity),
                "allocatable": _optional(resource.allocatable),
                "requested": number(resource.requested),
                "free": _optional(resource.free),
                "unhealthy": _optional(resource.unhealthy),
            }
            for resource in node.resources
        },
    }


def _quota(quota: QuotaInventory) -> dict[str, Any]:
    return {
        "namespace": quota.namespace,
        "quota": quota.quota,
        "resource": quota.resource,
        "hard": number(quota.hard),
        "used": _optional(quota.used),
        "left": _optional(quota.left),
    }


def _totals(report: Report) -> dict[str, Any]:
    totals = report.totals()
    return {
        "pods": totals.pods,
        "podsWithFindings": totals.pods_with_findings,
        "findings": {str(severity): count for severity, count in totals.findings.items()},
        "exempt": totals.exempt,
        "known": totals.known,
        "cards": number(totals.cards),
        "requests": {name: number(amount) for name, amount in sorted(totals.gpus.items())},
        "unresolvedClaims": totals.unresolved_claims,
    }


def _optional(amount: Decimal | None) -> int | float | None:
    return None if amount is None else number(amount)
