"""What the audit finds: the checks of `gpuledger audit`, on what runs now."""

from __future__ import annotations

from gpuledger.core.spec import counter, gauge

WORKLOAD = ("namespace", "workload_kind", "workload", "check", "severity")

AUDIT = (
    gauge(
        "audit_finding",
        ("namespace", "pod", "container", "workload_kind", "workload", "check", "severity"),
        "A rule that a pod breaks, with value 1; the node role finds those that begin with rt-.",
        "API pods; NVML, /proc and PodResources",
    ),
    gauge(
        "audit_workload_pods_affected",
        WORKLOAD,
        "Pods of the workload that break the rule, complete whatever the limit; to be summed over exporters.",
        "API pods",
    ),
    gauge(
        "audit_exempted",
        WORKLOAD,
        "Pods of the workload that would break the rule but are excused, by policy or as GPU infrastructure.",
        "API pods",
    ),
)

AUDIT_SELF = (
    gauge("audit_pods_scanned", (), "Pods that were looked at, whether or not they can reach a GPU."),
    gauge("audit_failed_objects", (), "Pods and claims on which a check failed when they were last audited."),
    gauge(
        "audit_last_success_timestamp_seconds",
        (),
        "Unix time at which the findings were last known to be those of all pods; old ones are doubtful.",
    ),
    counter(
        "audit_errors_total",
        ("reason",),
        "Objects that could not be audited: malformed ones, and those on which a check failed.",
    ),
)
