"""Facts of the pods that use, hold or ask for a GPU."""

from __future__ import annotations

from gpuledger.core.spec import counter, gauge

POD = ("node", "namespace", "pod")

POD_FACTS = (
    gauge(
        "pod_info",
        (*POD, "uid", "qos", "workload_kind", "workload", "workload_inferred"),
        "What a pod that uses, holds or asks for a GPU is, with value 1.",
        "API pods",
    ),
    gauge("pod_status_phase", (*POD, "phase"), "1 for the pod's phase, 0 for the others.", "API pods"),
    gauge("pod_ready", POD, "1 while the pod is ready.", "API pods"),
    gauge(
        "pod_condition",
        (*POD, "condition"),
        "1 while the pod's condition is true, 0 while it is false; absent where it is unknown.",
        "API pods",
    ),
    counter(
        "pod_container_restarts_total",
        (*POD, "container"),
        "Restarts of the container.",
        "API pods",
    ),
    gauge("pod_created_timestamp_seconds", POD, "Unix time at which the pod was created.", "API pods"),
    gauge(
        "pod_last_terminated_info",
        (*POD, "container", "reason", "exit_code"),
        "How the container last ended, with value 1.",
        "API pods",
    ),
)
