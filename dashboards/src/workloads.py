"""Who holds how much, uses how much of it, wastes most, and has what quota."""

from __future__ import annotations

from boards import NAMESPACES, board, row
from boards import WORKLOADS as WORKLOAD_CHOICE
from links import FINDINGS, NAMESPACE, WORKLOAD
from palette import EFFICIENCY, FILLING, PLAIN, WARNING
from panels import Column, Line, bars, graph, number, rows
from promql import over_range
from shared import HELD, efficiency, pending, pods

BUSY = "namespace_workload:gpuledger_container_sm_busy_seconds:rate5m{WORKLOAD}"
MEMORY = "namespace_workload:gpuledger_container_memory_used_bytes:sum{WORKLOAD}"
WATTS = "namespace_workload:gpuledger_container_energy_joules:rate5m{WORKLOAD}"
HOURS = over_range("gpu_hours")
IDLE_HOURS = over_range("idle_gpu_hours")
KILOWATT_HOURS = over_range("energy_kilowatt_hours")

NOT_ADDED = "Devices, slices and shares are told apart by resource, since they must not be added up."
RANGE = "In the time shown, by the full hours in it; choose a day or more."


def columns(by: str, most: int) -> tuple[Column, ...]:
    """Use by namespace or by workload, of those `most` that held most."""
    largest = f"topk({most}, sum by ({by}) ({HOURS}))"

    def of_largest(query: str) -> str:
        return f"sum by ({by}) ({query}) and on ({by}) {largest}"

    return (
        Column("GPU-hours", largest),
        Column("Idle hours", of_largest(IDLE_HOURS), steps=((None, PLAIN[0][1]), (24, WARNING))),
        Column("kWh", of_largest(KILOWATT_HOURS), "kwatth"),
        Column("Held now", of_largest(f"{HELD}{{WORKLOAD}}")),
        Column("In use now", of_largest(BUSY)),
        Column("Efficiency", f"{efficiency(f' by ({by})')} and on ({by}) {largest}", "percentunit", bar=True),
        Column("GPU memory", of_largest(MEMORY), "bytes"),
    )


NOW = row(
    "Now, and in the time shown",
    number(
        "Held",
        f"What containers hold now. {NOT_ADDED}",
        f"sum by (resource) ({HELD}{{WORKLOAD}})",
        legend="{{resource}}",
        width=6,
    ),
    number("In use", "GPUs' worth of time in which kernels ran, over the last 5 minutes.", f"sum({BUSY})"),
    number(
        "Efficiency",
        "Use of what is held now, over the last 5 minutes, where both are known; MIG devices don't tell.",
        efficiency(""),
        "percentunit",
        steps=EFFICIENCY,
    ),
    number("GPU memory", "GPU memory that containers use now.", f"sum({MEMORY})", "bytes"),
    number("GPU-hours", f"Device-hours held. {RANGE}", f"sum({HOURS})"),
    number(
        "Idle hours",
        f"Of these, hours in which no kernel of the holder ran, where that is known. {RANGE}",
        f"sum({IDLE_HOURS})",
        steps=((None, PLAIN[0][1]), (24, WARNING)),
    ),
    number(
        "Energy",
        f"Estimated energy of what ran, split by SM time. {RANGE}",
        f"sum({KILOWATT_HOURS})",
        "kwatth",
    ),
)

COURSE = row(
    "Held and used",
    graph(
        "Held by namespace",
        f"What containers hold; the ten largest. {NOT_ADDED}",
        Line(f"topk(10, sum by (namespace, resource) ({HELD}{{WORKLOAD}}))", "{{namespace}} {{resource}}"),
        stack=True,
    ),
    graph(
        "In use by namespace",
        "GPUs' worth of time in which kernels ran; the ten largest. Compare with what is held.",
        Line(f"topk(10, sum by (namespace) ({BUSY}))", "{{namespace}}"),
        stack=True,
    ),
    graph(
        "Quotas",
        "GPUs that the namespace's pods ask for, and dashed what its quota allows; the ten fullest. At the "
        "line new pods are refused.",
        Line(
            "topk(10, max by (namespace, quota, resource) (gpuledger_quota_used{NAMESPACE}))",
            "{{namespace}} {{quota}} {{resource}}",
        ),
        Line(
            "topk(10, max by (namespace, quota, resource) (gpuledger_quota_hard{NAMESPACE}))",
            "{{namespace}} {{quota}} {{resource}}, limit",
            limit=True,
        ),
    ),
    graph(
        "Power by namespace",
        "Estimated power of what ran, over 5 minutes; the ten largest.",
        Line(f"topk(10, sum by (namespace) ({WATTS}))", "{{namespace}}"),
        unit="watt",
        stack=True,
    ),
)

WASTE = row(
    "Who wastes?",
    bars(
        "Most idle GPU-hours",
        f"Workloads by the hours for which they held GPUs and ran nothing; the 15 worst. {RANGE}",
        f"topk(15, sum by (namespace, workload_kind, workload) ({IDLE_HOURS}))",
        "{{namespace}}/{{workload}} ({{workload_kind}})",
        steps=((None, PLAIN[0][1]), (24, WARNING)),
    ),
    bars(
        "Least efficient now",
        "Workloads by use of what they hold, over the last 5 minutes; the 15 lowest.",
        f"bottomk(15, {efficiency(' by (namespace, workload_kind, workload)')})",
        "{{namespace}}/{{workload}} ({{workload_kind}})",
        "percentunit",
        steps=EFFICIENCY,
    ),
    rows(
        "Namespaces",
        f"The 100 that held most. {RANGE}",
        {"namespace": "Namespace"},
        *columns("namespace", 100),
        links={"namespace": [NAMESPACE, FINDINGS]},
        sort="GPU-hours",
    ),
    rows(
        "Workloads",
        f"The 100 that held most. {RANGE} Select one to see its pods.",
        {"namespace": "Namespace", "workload_kind": "Kind", "workload": "Workload"},
        *columns("namespace, workload_kind, workload", 100),
        links={"namespace": [NAMESPACE], "workload": [WORKLOAD]},
        sort="GPU-hours",
    ),
)

ASKED = row(
    "What is asked for, and who waits",
    rows(
        "Quotas now",
        "GPUs that a namespace's pods may ask for, and do; GpuQuotaNearlyExhausted fires above 90 %.",
        {"namespace": "Namespace", "quota": "Quota", "resource": "Resource"},
        Column("Used", "max by (namespace, quota, resource) (gpuledger_quota_used{NAMESPACE})"),
        Column("Limit", "max by (namespace, quota, resource) (gpuledger_quota_hard{NAMESPACE})"),
        Column(
            "Full",
            "max by (namespace, quota, resource) (gpuledger_quota_used{NAMESPACE}) "
            "/ (max by (namespace, quota, resource) (gpuledger_quota_hard{NAMESPACE}) > 0)",
            "percentunit",
            steps=FILLING,
        ),
        links={"namespace": [NAMESPACE]},
        sort="Full",
        width=12,
    ),
    rows(
        "Claims (DRA)",
        "Devices that resource claims hold, or wait for; the 100 largest.",
        {"namespace": "Namespace", "claim": "Claim", "device_class": "Class", "state": "State"},
        Column(
            "Devices",
            "topk(100, max by (namespace, claim, device_class, state) (gpuledger_claim_devices{NAMESPACE}))",
        ),
        links={"namespace": [NAMESPACE]},
        sort="Devices",
        width=12,
    ),
    pending("WORKLOAD"),
)

PODS = row("Pods", pods("WORKLOAD"))

BOARD = board(
    "workloads",
    "Namespaces and workloads",
    "Namespaces and workloads: what they hold, use, waste and may have, down to their pods.",
    variables=(NAMESPACES, WORKLOAD_CHOICE),
    rows=(NOW, COURSE, WASTE, ASKED, PODS),
    since="now-24h",
)
