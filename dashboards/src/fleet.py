"""Is anything broken, how full is the fleet, and who waits?"""

from __future__ import annotations

from boards import board, row
from links import NAMESPACE, NODE
from palette import (
    DOUBT_IF_ANY,
    EFFICIENCY,
    ELSE,
    FAULT_IF_ANY,
    FILLING,
    GOOD,
    HEADROOM,
    NOTICE,
    SEVERITY,
    WARNING,
    YES_NO,
)
from panels import Column, Line, bars, graph, number, rows
from promql import CRITICAL_XIDS, DEVICE, by_model, or_zero, per_gpu
from shared import pending, xids

TOTAL = "sum(model:gpuledger_gpus:sum{CLUSTER})"
FREE = "sum(model:gpuledger_gpus_free:sum{CLUSTER})"
UNCORRECTED = per_gpu("gpu_ecc_errors_total", matcher='type="uncorrected", scope="volatile"')
SLOWED = per_gpu("gpu_throttled", matcher='reason=~"hw_thermal_slowdown|hw_power_brake_slowdown"')
TEMPERATURE = per_gpu("gpu_temperature_celsius", matcher='sensor="gpu"')
KUBELETS = 'gpuledger_source_up{CLUSTER, source="podresources"} == 1'
HELD_GPU = "max by (cluster, gpu_uuid) (gpuledger_container_allocated{CLUSTER} > 0)"


def idle(window: str) -> str:
    """GPUs that are held and ran no kernel for 99 % of the time for which they were, within the window.

    Those divided by MIG don't tell. One rate by the other, since each alone is too low while history is short.
    """
    busy, held = (
        f"max by (cluster, gpu_uuid) (rate(gpuledger_{counter}{{CLUSTER}}[{window}]))"
        for counter in ("gpu_busy_seconds_total", "container_allocated_seconds_total")
    )
    return f"({HELD_GPU} and on (cluster, gpu_uuid) {busy} / {held} < 0.01)"


IDLE_NOW = or_zero(f"count({idle('$__rate_interval')})", KUBELETS)

HEALTH = row(
    "Is anything broken?",
    number(
        "GPUs lost",
        "GPUs that the driver lists and that don't answer it, such as after XID 79. Any is a fault: "
        "GpuMissing.",
        f"sum(1 - {per_gpu('gpu_up')})",
        steps=FAULT_IF_ANY,
    ),
    number(
        "To recover",
        "GPUs for which the driver itself asks for a reset, a drain or a restart of the node; driver 570 and "
        "newer.",
        f"sum({per_gpu('gpu_recovery_action')} > bool 0)",
        steps=FAULT_IF_ANY,
    ),
    number(
        "Critical XIDs",
        "GPUs that reported, within the last hour, an error after which they must be repaired: docs/xids.md.",
        or_zero(
            "count(max by (cluster, gpu_uuid) "
            f'(gpuledger_gpu_xid_last_timestamp_seconds{{CLUSTER, xid=~"{CRITICAL_XIDS}"}}) > time() - 3600)',
            "gpuledger_gpu_up{CLUSTER}",
        ),
        steps=FAULT_IF_ANY,
    ),
    number(
        "Memory errors",
        "GPUs with memory errors that could not be corrected since their driver was loaded: data were lost.",
        f"sum({UNCORRECTED} > bool 0)",
        steps=FAULT_IF_ANY,
    ),
    number(
        "To exchange",
        "Boards on which a broken memory row could not be replaced any more.",
        f"sum({per_gpu('gpu_row_remap_failed')})",
        steps=FAULT_IF_ANY,
    ),
    number(
        "Slowed down",
        "GPUs whose clocks the hardware holds down now because of heat or because of the power supply.",
        f"sum({SLOWED})",
        steps=DOUBT_IF_ANY,
    ),
    number(
        "Drivers silent",
        "Nodes whose exporter answers and whose NVIDIA driver does not.",
        'sum(1 - max by (cluster, node) (gpuledger_source_up{CLUSTER, source="nvml"}))',
        steps=FAULT_IF_ANY,
    ),
    number(
        "Nodes unwatched",
        "Nodes that have GPUs, as the API says, and no exporter that answers.",
        or_zero(
            "count(group by (cluster, node) (gpuledger_node_info{CLUSTER}) unless on (cluster, node) "
            'gpuledger_source_up{CLUSTER, source="nvml"})',
            "gpuledger_node_info{CLUSTER}",
        ),
        steps=FAULT_IF_ANY,
    ),
    rows(
        "Alerts that fire",
        "Alerts of gpuledger's rules by name, the 50 most frequent. Each has a runbook in docs/runbooks/.",
        {"alertname": "Alert", "severity": "Severity"},
        Column(
            "Firing",
            'topk(50, count by (alertname, severity) (ALERTS{CLUSTER, alertname=~"Gpu.+", '
            'alertstate="firing"}))',
        ),
        sort="Firing",
    ),
)

STOCK = row(
    "How full is it?",
    number("GPUs", "GPUs that answer their driver.", TOTAL),
    number(
        "Held",
        "GPUs of which some container holds all or a part.",
        or_zero(f"count({HELD_GPU})", KUBELETS),
    ),
    number(
        "Held and idle",
        "Held GPUs on which no kernel ran in the last hour, or since they are held. GPUs divided by MIG don't "
        "tell, so they don't count.",
        or_zero(f"count({idle('1h')})", KUBELETS),
        steps=DOUBT_IF_ANY,
    ),
    number(
        "Free",
        "GPUs of which no container holds any part, on nodes whose kubelet tells: unknown is not free.",
        FREE,
    ),
    number(
        "Pods waiting",
        "Pods that ask for a GPU and have no node yet.",
        or_zero(
            "count(max by (cluster, namespace, pod) (gpuledger_pod_pending_since_timestamp_seconds{CLUSTER}))",
            "gpuledger_node_info{CLUSTER}",
        ),
        steps=DOUBT_IF_ANY,
    ),
    number(
        "Utilisation",
        "Mean share of time in which a kernel ran, over the GPUs that tell.",
        f"avg({per_gpu('gpu_utilization_ratio')})",
        "percentunit",
        steps=EFFICIENCY,
    ),
    number(
        "Memory used",
        "GPU memory in use, as a share of all.",
        f"sum({per_gpu('gpu_memory_used_bytes')}) / sum({per_gpu('gpu_memory_total_bytes')})",
        "percentunit",
        steps=FILLING,
    ),
    number("Power", "Power that all boards draw together.", f"sum({per_gpu('gpu_power_watts')})", "watt"),
    rows(
        "By model",
        "What there is of each model. The largest block is the most free GPUs that one node has: a job of "
        "more GPUs than that waits, however many are free in all.",
        {"model": "Model"},
        Column("GPUs", "sum by (model) (model:gpuledger_gpus:sum{CLUSTER})"),
        Column("Held", by_model("count", HELD_GPU)),
        Column("Free", "sum by (model) (model:gpuledger_gpus_free:sum{CLUSTER})"),
        Column("Largest free block", "max by (model) (model:gpuledger_gpus_free:max{CLUSTER})"),
        Column("Held and idle", by_model("count", idle("1h")), steps=DOUBT_IF_ANY),
        Column("Utilisation", by_model("avg", per_gpu("gpu_utilization_ratio")), "percentunit", bar=True),
        Column("Memory used", by_model("sum", per_gpu("gpu_memory_used_bytes")), "bytes"),
        Column("Memory", by_model("sum", per_gpu("gpu_memory_total_bytes")), "bytes"),
        Column("Power", by_model("sum", per_gpu("gpu_power_watts")), "watt"),
        sort="GPUs",
    ),
    graph(
        "GPUs by state",
        "Held and at work, held without a kernel at the time, and free. What is missing to the whole is "
        "unknown, or divided by MIG.",
        Line(f"count({HELD_GPU}) - ({IDLE_NOW})", "held, at work"),
        Line(IDLE_NOW, "held, idle"),
        Line(FREE, "free"),
        Line(TOTAL, "GPUs", limit=True),
        stack=True,
        colors={"held, at work": GOOD, "held, idle": WARNING, "free": NOTICE, "GPUs": ELSE},
    ),
    graph(
        "Scattered free GPUs",
        "Free GPUs of each model, and the most of them that one node has. Far apart: whole-node jobs wait "
        "although there is room (GpuClusterFragmented).",
        Line("sum by (model) (model:gpuledger_gpus_free:sum{CLUSTER})", "{{model}}, free"),
        Line("max by (model) (model:gpuledger_gpus_free:max{CLUSTER})", "{{model}}, on one node", limit=True),
    ),
)

USE = row(
    "What is it doing?",
    graph(
        "Utilisation by model",
        "Mean share of time in which a kernel ran. High says busy, not efficient: see SM activity on the GPU "
        "dashboard.",
        Line(by_model("avg", per_gpu("gpu_utilization_ratio")), "{{model}}"),
        unit="percentunit",
        highest=1,
    ),
    graph(
        "Power by model",
        "Power drawn, and the sum of the limits in force.",
        Line(by_model("sum", per_gpu("gpu_power_watts")), "{{model}}"),
        Line(f"sum({per_gpu('gpu_power_limit_watts')})", "limit of all", limit=True),
        unit="watt",
        stack=True,
    ),
    bars(
        "Closest to thermal slowdown",
        "Degrees left until the GPU's hardware slows it down, by its own model's limit; the ten with the "
        "least.",
        f"bottomk(10, {per_gpu('gpu_temperature_slowdown_celsius')} - on ({DEVICE}) {TEMPERATURE})",
        "{{node}} GPU {{gpu}}",
        "celsius",
        steps=HEADROOM,
    ),
    graph(
        "Driver errors by code",
        "XIDs a minute over all GPUs; the table below shows the first of a kind too, which no rate can show.",
        Line(
            "sum by (xid) (rate(gpuledger_gpu_xid_errors_total{CLUSTER}[$__rate_interval])) * 60", "XID {{xid}}"
        ),
        unit="cpm",
    ),
)

NODES = row(
    "Which node?",
    rows(
        "Nodes",
        "Every node with an exporter. Select a node to see its GPUs.",
        {"node": "Node", "cluster": "Cluster"},
        Column("GPUs", "sum by (cluster, node) (node_model:gpuledger_gpus:count{CLUSTER})"),
        Column("Free", "sum by (cluster, node) (node_model:gpuledger_gpus_free:count{CLUSTER})"),
        Column(
            "Utilisation",
            f"avg by (cluster, node) ({per_gpu('gpu_utilization_ratio')})",
            "percentunit",
            bar=True,
        ),
        Column(
            "Memory used",
            f"sum by (cluster, node) ({per_gpu('gpu_memory_used_bytes')}) "
            f"/ sum by (cluster, node) ({per_gpu('gpu_memory_total_bytes')})",
            "percentunit",
            bar=True,
        ),
        Column("Power", f"sum by (cluster, node) ({per_gpu('gpu_power_watts')})", "watt"),
        Column(
            "Hottest",
            f"max by (cluster, node) ({TEMPERATURE})",
            "celsius",
        ),
        Column("Lost", f"sum by (cluster, node) (1 - {per_gpu('gpu_up')})", steps=FAULT_IF_ANY),
        Column(
            "Driver answers",
            'max by (cluster, node) (gpuledger_source_up{CLUSTER, source="nvml"})',
            states=YES_NO,
        ),
        links={"node": [NODE]},
        sort="GPUs",
    ),
    xids("CLUSTER"),
)

QUEUE = row(
    "Who waits, and for what?",
    pending("CLUSTER"),
    rows(
        "What pods can ask for",
        "Units that nodes offer by resource name; one new pod can get at most what stands under placeable. "
        "Allocatable below capacity: devices are unhealthy.",
        {"resource": "Resource"},
        *(
            Column(
                heading,
                f"{aggregation} by (resource) (max by (cluster, node, resource) "
                f'(gpuledger_node_resource_{name}{{CLUSTER, resource=~".+/.+"}}))',
            )
            for heading, aggregation, name in (
                ("Capacity", "sum", "capacity"),
                ("Allocatable", "sum", "allocatable"),
                ("Asked for", "sum", "requested"),
                ("Free", "sum", "free"),
                ("Placeable", "max", "placeable"),
            )
        ),
        sort="Capacity",
    ),
    graph(
        "Pods waiting by reason",
        "Pods that ask for a GPU and have no node, by the scheduler's reason.",
        Line(
            "count by (reason) (max by (cluster, namespace, pod, reason) "
            "(gpuledger_pod_pending_since_timestamp_seconds{CLUSTER}))",
            "{{reason}}",
        ),
        stack=True,
    ),
    graph(
        "Devices by claim (DRA)",
        "Devices that DRA drivers offer, and those that claims hold; claims of which not all can be told.",
        Line(
            "sum by (driver) (max by (cluster, driver, pool) (gpuledger_dra_pool_allocated{CLUSTER}))",
            "{{driver}}, held",
        ),
        Line(
            "sum by (driver) (max by (cluster, node, driver, pool) (gpuledger_dra_pool_devices{CLUSTER}))",
            "{{driver}}, offered",
            limit=True,
        ),
        Line(
            "count(max by (cluster, namespace, claim) (gpuledger_claim_unresolved{CLUSTER}))",
            "unresolved claims",
        ),
    ),
    graph(
        "Audit findings",
        "Pods that break a rule, by severity; the Audit dashboard tells which.",
        Line(
            "sum by (severity) (gpuledger_audit_workload_pods_affected{CLUSTER})",
            "{{severity}}",
        ),
        stack=True,
        colors=SEVERITY,
    ),
    rows(
        "Namespaces that hold most",
        "Devices, slices and shares that containers hold now, by what they are; the 50 largest.",
        {"namespace": "Namespace", "resource": "Resource"},
        Column(
            "Held",
            "topk(50, sum by (namespace, resource) "
            "(namespace_workload:gpuledger_container_allocated:sum{CLUSTER}))",
        ),
        links={"namespace": [NAMESPACE]},
        sort="Held",
        width=12,
    ),
)

BOARD = board(
    "fleet",
    "Fleet",
    "All GPUs at a glance: faults, stock by model, use, nodes, and who waits.",
    variables=(),
    rows=(HEALTH, STOCK, USE, NODES, QUEUE),
)
