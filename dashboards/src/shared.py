"""Panels that several dashboards show, each for the scope that is asked for."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table

from links import GPU, NODE, POD, WORKLOAD
from palette import BAD, GOOD, WARNING, YES_NO
from panels import Column, rows
from promql import CONTAINER, DEVICE, OWNER

_NEWEST = 200
"""Pods that a table lists at most."""

_AT = f"{DEVICE}, mig_uuid"
_WHO = "namespace, pod, container, workload_kind, workload"


def pods(scope: str) -> table.Panel:
    """What `kubectl get pods` shows, with the GPUs and their use."""
    newest = (
        f"topk({_NEWEST}, max by (cluster, namespace, pod) (gpuledger_pod_created_timestamp_seconds"
        f"{{NAMESPACE}}) and on (cluster, namespace, pod) gpuledger_pod_info{{{scope}}})"
    )

    def of_newest(query: str) -> str:
        return f"({query}) and on (cluster, namespace, pod) {newest}"

    def total(metric: str) -> str:
        each = f"max by ({DEVICE}, mig_uuid, namespace, pod, container) (gpuledger_{metric}{{{scope}}})"
        return f"sum by (cluster, namespace, pod) ({each})"

    restarts = f"max by ({CONTAINER}) (gpuledger_pod_container_restarts_total{{NAMESPACE}})"
    phase = (
        "max by (cluster, namespace, pod, phase) (gpuledger_pod_status_phase{NAMESPACE} == 1) "
        "* on (cluster, namespace, pod) group_left (workload_kind, workload) "
        f"max by (cluster, namespace, pod, workload_kind, workload) (gpuledger_pod_info{{{scope}}})"
    )
    return rows(
        "Pods",
        f"The {_NEWEST} newest pods that use, hold or ask for a GPU, as kubectl get pods shows them, with the "
        "GPUs that they hold, the share of SM time and the GPU memory that they use, each summed over their "
        "GPUs.",
        {
            "namespace": "Namespace",
            "pod": "Pod",
            "phase": "Status",
            "workload_kind": "Kind",
            "workload": "Workload",
            "cluster": "",
        },
        Column("Age", f"time() - {newest}", "s"),
        Column("", of_newest(phase)),
        Column(
            "Ready",
            of_newest("max by (cluster, namespace, pod) (gpuledger_pod_ready{NAMESPACE})"),
            states=YES_NO,
        ),
        Column(
            "Restarts",
            of_newest(f"sum by (cluster, namespace, pod) ({restarts})"),
            steps=((None, GOOD), (1, WARNING), (5, BAD)),
        ),
        Column("Held", of_newest(total("container_allocated"))),
        Column("SM", of_newest(total("container_sm_utilization_ratio")), "percentunit"),
        Column("GPU memory", of_newest(total("container_memory_used_bytes")), "bytes"),
        links={"pod": [POD], "workload": [WORKLOAD]},
        sort="GPU memory",
    )


def pending(scope: str) -> table.Panel:
    """Who waits for a GPU, and why."""
    since = (
        "max by (cluster, namespace, pod, workload_kind, workload, reason) "
        f"(gpuledger_pod_pending_since_timestamp_seconds{{{scope}}})"
    )
    return rows(
        "Pods that wait for a GPU",
        "Pods that ask for a GPU and have no node, with the scheduler's reason; the 100 that have waited "
        "longest. Amber from half an hour on, when GpuPodPending fires.",
        {
            "namespace": "Namespace",
            "pod": "Pod",
            "workload_kind": "Kind",
            "workload": "Workload",
            "reason": "Reason",
            "cluster": "",
        },
        Column("Waiting", f"topk(100, time() - {since})", "s", steps=((None, GOOD), (1800, WARNING))),
        links={"pod": [POD], "workload": [WORKLOAD]},
        sort="Waiting",
    )


def xids(scope: str, *, of_pod: bool = False) -> table.Panel:
    """The newest driver errors on GPUs in the scope, or while a pod in the scope was on the GPU."""
    key = f"{DEVICE}, xid"
    on_gpu, with_pod = ("CLUSTER", scope) if of_pod else (scope, "CLUSTER")
    last = f"(max by ({key}) (gpuledger_gpu_xid_last_timestamp_seconds{{{on_gpu}}}) > time() - 86400)"
    who = f"max by ({key}, namespace, pod) (gpuledger_gpu_xid_pod_info{{{with_pod}}})"
    known = f"{who} * on ({key}) group_left () {last}"
    nobody = "" if of_pod else f" or {last} unless on ({key}) {who}"
    return rows(
        "Driver errors (XID) of the last day",
        "The last error of each code on each GPU, and who was on the GPU at that time; that is known for an "
        "hour. What a code means and asks for: docs/xids.md.",
        {
            "node": "Node",
            "gpu": "GPU",
            "gpu_uuid": "",
            "xid": "XID",
            "namespace": "Namespace",
            "pod": "Pod",
            "cluster": "",
        },
        Column("Last", f"topk(100, {known}{nobody}) * 1000", "dateTimeFromNow"),
        links={"node": [NODE], "gpu": [GPU], "pod": [POD]},
        sort="Last",
    )


def processes(scope: str) -> table.Panel:
    """Processes on GPUs, those that nobody owns too."""
    key = f"{_AT}, {_WHO}, pid, process, reason"

    def each(metric: str) -> str:
        return f"max by ({key}) (gpuledger_process_{metric}{{{scope}}})"

    return rows(
        "Processes",
        "Processes with a context on a GPU, by their number on the node. Without a pod stands the reason why "
        "nobody owns it. Empty where the exporter runs with --process-metrics=false.",
        {
            "gpu": "GPU",
            "mig_uuid": "MIG device",
            "pid": "PID",
            "process": "Process",
            "namespace": "Namespace",
            "pod": "Pod",
            "container": "Container",
            "reason": "No owner because",
            **dict.fromkeys(("cluster", "node", "gpu_uuid", "workload_kind", "workload"), ""),
        },
        Column("GPU memory", each("memory_used_bytes"), "bytes"),
        Column("SM", each("sm_utilization_ratio"), "percentunit"),
        Column("Host memory", each("resident_memory_bytes"), "bytes"),
        Column("Age", f"time() - {each('start_time_seconds')}", "s"),
        links={"pod": [POD]},
        sort="GPU memory",
    )


def occupants(title: str, text: str, scope: str, *, among: str = "") -> table.Panel:
    """Containers on GPUs now; `among` restricts them by a condition on what they are on."""
    key = f"{_AT}, {_WHO}"

    def each(metric: str) -> str:
        return f"max by ({key}) (gpuledger_container_{metric}{{{scope}}}) {among}".strip()

    return rows(
        title,
        text,
        {
            "node": "Node",
            "gpu": "GPU",
            "mig_uuid": "MIG device",
            "namespace": "Namespace",
            "pod": "Pod",
            "container": "Container",
            "workload_kind": "Kind",
            "workload": "Workload",
            "cluster": "",
            "gpu_uuid": "",
        },
        Column("Held", each("allocated"), steps=((None, WARNING), (1, GOOD))),
        Column("SM", each("sm_utilization_ratio"), "percentunit"),
        Column("GPU memory", each("memory_used_bytes"), "bytes"),
        Column("Processes", each("processes")),
        links={"node": [NODE], "gpu": [GPU], "pod": [POD], "workload": [WORKLOAD]},
        sort="GPU memory",
    )


HELD = "namespace_workload:gpuledger_container_allocated:sum"
EFFICIENCY = "namespace_workload:gpuledger_sm_busy_seconds_per_allocated_seconds:ratio_rate5m"


def efficiency(by: str) -> str:
    """Use of what is held, weighted by how much is held, where both are known."""
    held = f'sum by ({OWNER}) ({HELD}{{WORKLOAD, resource!~".*/mig-.*"}})'
    used = f"{EFFICIENCY}{{WORKLOAD}}"
    both = f"{held} and on ({OWNER}) {used}"
    return f"sum{by} ({used} * on ({OWNER}) {held}) / (sum{by} ({both}) > 0)"
