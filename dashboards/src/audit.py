"""Which pods can reach a GPU or the host without being entitled to, and is it getting better?"""

from __future__ import annotations

from boards import FOUND_IN, SEVERITIES, board, row
from links import FINDINGS, NODE, POD, WORKLOAD
from palette import BAD, DOUBT_IF_ANY, FAULT_IF_ANY, GOOD, SEVERITY, WARNING
from panels import Column, Line, bars, graph, number, rows
from promql import or_zero

AFFECTED = "gpuledger_audit_workload_pods_affected{AUDIT}"
SCANNED = "sum(gpuledger_audit_pods_scanned{CLUSTER})"

WORKLOAD_KEY = "cluster, namespace, workload_kind, workload, check, severity"
WORKLOAD_LABELS = {
    "namespace": "Namespace",
    "workload_kind": "Kind",
    "workload": "Workload",
    "check": "Check",
    "severity": "Severity",
}


def pods_by_severity(severity: str) -> str:
    """How many pods have a finding of that severity; 0 only where pods were scanned."""
    selector = f'{{NAMESPACE, severity="{severity}"}}'
    return or_zero(
        f"sum(gpuledger_audit_workload_pods_affected{selector})", "gpuledger_audit_pods_scanned{CLUSTER}"
    )


POSTURE = row(
    "How do we stand?",
    number(
        "Critical",
        "Findings, counted by pod, that let a pod reach what it must not: mend them at once.",
        pods_by_severity("critical"),
        steps=FAULT_IF_ANY,
    ),
    number(
        "High",
        "Findings, counted by pod, that are dangerous: mend them in working hours.",
        pods_by_severity("high"),
        steps=DOUBT_IF_ANY,
    ),
    number("Medium", "Findings, counted by pod, of medium severity.", pods_by_severity("medium")),
    number(
        "Low",
        "Findings, counted by pod, of low severity; shown with --min-severity=low or info.",
        pods_by_severity("low"),
    ),
    number(
        "Excused",
        "Findings, counted by pod, that policy excuses or that GPU infrastructure is expected to have.",
        or_zero("sum(gpuledger_audit_exempted{NAMESPACE})", "gpuledger_audit_pods_scanned{CLUSTER}"),
    ),
    number(
        "Pods without a finding",
        "Share of the scanned pods that break no rule at the severities chosen.",
        f"1 - (count(group by (cluster, namespace, pod) (gpuledger_audit_finding{{AUDIT}})) or vector(0)) / "
        f"{SCANNED}",
        "percentunit",
        steps=((None, BAD), (0.5, WARNING), (0.9, GOOD)),
    ),
    number("Pods scanned", "Pods that were looked at, whether or not they can reach a GPU.", SCANNED),
    number(
        "Age",
        "Since when the findings may be out of date. A failed scan ages; it never reads as clean. "
        "GpuAuditStale fires at 15 minutes.",
        "time() - min(gpuledger_audit_last_success_timestamp_seconds{CLUSTER})",
        "s",
        steps=((None, GOOD), (300, WARNING), (900, BAD)),
    ),
)

COURSE = row(
    "Is it getting better?",
    graph(
        "Findings by severity",
        "Findings over time, counted by pod.",
        Line(f"sum by (severity) ({AFFECTED})", "{{severity}}"),
        stack=True,
        colors=SEVERITY,
        width=24,
    ),
    bars(
        "By namespace",
        "Findings, counted by pod; the 15 namespaces with most.",
        f"topk(15, sum by (namespace) ({AFFECTED}))",
        "{{namespace}}",
    ),
    bars(
        "By check",
        "Findings, counted by pod; the 15 checks with most. What each means: docs/checks.md.",
        f"topk(15, sum by (check) ({AFFECTED}))",
        "{{check}}",
    ),
)

WHAT = row(
    "What is wrong where?",
    rows(
        "Workloads",
        "Workloads by the number of their pods that break a rule; complete, also past --series-limit. The 200 "
        "with most.",
        WORKLOAD_LABELS,
        Column("Pods", f"topk(200, sum by (namespace, workload_kind, workload, check, severity) ({AFFECTED}))"),
        links={"namespace": [FINDINGS], "workload": [WORKLOAD]},
        sort="Pods",
    ),
    rows(
        "Pods",
        "Single findings, 200 at most: narrow down by namespace and severity to see others.",
        {
            "namespace": "Namespace",
            "pod": "Pod",
            "container": "Container",
            "check": "Check",
            "severity": "Severity",
        },
        Column(
            "",
            "topk(200, max by (namespace, pod, container, check, severity) (gpuledger_audit_finding{AUDIT}))",
        ),
        links={"pod": [POD]},
    ),
    rows(
        "What is excused",
        "What policy excuses, and what GPU infrastructure is expected to have: counted, never dropped. The "
        "200 largest.",
        WORKLOAD_LABELS,
        Column(
            "Pods",
            "topk(200, sum by (namespace, workload_kind, workload, check, severity) "
            "(gpuledger_audit_exempted{AUDIT}))",
        ),
        links={"workload": [WORKLOAD]},
        sort="Pods",
        width=12,
    ),
    rows(
        "Not audited",
        "Objects that could not be audited since the exporter started, by reason. What they may break goes "
        "unseen.",
        {"reason": "Reason"},
        Column(
            "In an hour",
            "sum by (reason) (increase(gpuledger_audit_errors_total{CLUSTER}[1h]))",
            steps=DOUBT_IF_ANY,
        ),
        width=12,
    ),
)

RUNNING = row(
    "What goes on right now?",
    rows(
        "Pods on a GPU that they don't hold",
        "Seen by the node exporters: processes of a pod on a GPU while the kubelet has allocated the pod none "
        "on that node. GPU infrastructure is among them.",
        {
            "node": "Node",
            "gpu": "GPU",
            "namespace": "Namespace",
            "pod": "Pod",
            "container": "Container",
            "workload": "Workload",
        },
        Column(
            "Processes",
            "topk(100, max by (node, gpu, namespace, pod, container, workload) "
            "(gpuledger_container_processes{NAMESPACE} > 0 unless on (cluster, node, namespace, pod) "
            'gpuledger_container_allocated and on (cluster, node) gpuledger_source_up{source="podresources"} '
            "== 1))",
            steps=DOUBT_IF_ANY,
        ),
        links={"node": [NODE], "pod": [POD]},
        sort="Processes",
    ),
    rows(
        "Processes that are no pod's",
        "Processes on GPUs of the host or of containers that are not Kubernetes': the scheduler does not know "
        "of them.",
        {"node": "Node", "gpu": "GPU", "reason": "Whose", "unit": "systemd unit"},
        Column(
            "Processes",
            "topk(100, max by (node, gpu, reason, unit) "
            '(gpuledger_unattributed_processes{CLUSTER, reason=~"host|container|pod-unknown"} > 0))',
            steps=DOUBT_IF_ANY,
        ),
        links={"node": [NODE]},
        sort="Processes",
    ),
)

BOARD = board(
    "audit",
    "Audit",
    "What gpuledger's audit finds: pods that can reach a GPU or the host without being entitled to.",
    variables=(FOUND_IN, SEVERITIES),
    rows=(POSTURE, COURSE, WHAT, RUNNING),
    since="now-7d",
)
