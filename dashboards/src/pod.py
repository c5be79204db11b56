"""One pod: what kubectl describes of it, and what it does on its GPUs."""

from __future__ import annotations

from boards import NAMESPACE, WORKLOADS, board, row
from boards import POD as POD_CHOICE
from links import FINDINGS
from palette import BAD, GOOD, NOTICE, PHASE, WARNING, YES_NO
from panels import Column, Line, graph, number, rows, timeline, word
from promql import CONTAINER, DEVICE
from shared import occupants, processes, xids

INFO = "gpuledger_pod_info{POD}"
ON = f"{DEVICE}, mig_uuid"

STATUS = row(
    "Status",
    number(
        "Phase",
        "The pod's phase, as the API has it.",
        "max by (phase) (gpuledger_pod_status_phase{POD} == 1)",
        legend="{{phase}}",
        states={"1": ("now", GOOD)},
        colors=PHASE,
    ),
    number("Ready", "Whether the pod is ready.", "min(gpuledger_pod_ready{POD})", states=YES_NO),
    number(
        "Restarts",
        "Restarts of all its containers since it was created.",
        f"sum(max by ({CONTAINER}) (gpuledger_pod_container_restarts_total{{POD}}))",
        steps=((None, GOOD), (1, WARNING), (5, BAD)),
    ),
    number(
        "Age",
        "Time since the pod was created.",
        "time() - min(gpuledger_pod_created_timestamp_seconds{POD})",
        "s",
    ),
    word("QoS", "Quality-of-service class, from requests and limits.", f"group by (qos) ({INFO})", "{{qos}}"),
    word("Node", "The node that it runs on.", f"group by (node) ({INFO})", "{{node}}"),
    word(
        "Owner",
        "The workload that it belongs to. Inferred: guessed from the pod's name, since the API did not tell.",
        f"group by (workload_kind, workload, workload_inferred) ({INFO})",
        "{{workload_kind}} {{workload}} (inferred: {{workload_inferred}})",
        width=6,
    ),
    rows(
        "What it asks for",
        "The pod's request by resource, as the scheduler counts it.",
        {"resource": "Resource"},
        Column("Units", "max by (resource) (gpuledger_pod_requested{POD})"),
        width=6,
    ),
    rows(
        "Containers",
        "Restarts of each container, and how it last ended: 137 with OOMKilled is out of host memory, 139 a "
        "crash.",
        {"container": "Container", "reason": "Last ended", "exit_code": "Exit code"},
        Column("Restarts", "max by (container) (gpuledger_pod_container_restarts_total{POD})"),
        Column("", "max by (container, reason, exit_code) (gpuledger_pod_last_terminated_info{POD})"),
        width=9,
    ),
    rows(
        "Warnings",
        "Warning events about the pod, as long as the API keeps them (an hour by default).",
        {"reason": "Reason"},
        Column("Events", "max by (reason) (gpuledger_pod_warning_events{POD})"),
        Column(
            "Last",
            "max by (reason) (gpuledger_pod_warning_last_timestamp_seconds{POD}) * 1000",
            "dateTimeFromNow",
        ),
        sort="Last",
        width=9,
    ),
    timeline(
        "Conditions",
        "The pod's conditions over time. Not there: unknown.",
        "max by (pod, condition) (gpuledger_pod_condition{POD})",
        "{{condition}} of {{pod}}",
        {"1": ("true", GOOD), "0": ("false", WARNING)},
        width=12,
    ),
    timeline(
        "Phase over time",
        "When it waited, ran and ended.",
        "max by (pod, phase) (gpuledger_pod_status_phase{POD} == 1)",
        "{{phase}} of {{pod}}",
        {"1": ("current", NOTICE)},
        width=12,
    ),
)

GPUS = row(
    "On its GPUs",
    number(
        "Held",
        "Devices, slices or shares that it holds, by resource.",
        f"sum by (resource) (max by ({ON}, namespace, pod, container, resource) "
        f"(gpuledger_container_allocated{{POD}}))",
        legend="{{resource}}",
        width=6,
    ),
    number(
        "SM",
        "Share of time in which its kernels ran, summed over its GPUs; 2 is two whole GPUs.",
        f"sum(max by ({ON}, namespace, pod, container) (gpuledger_container_sm_utilization_ratio{{POD}}))",
        "percentunit",
    ),
    number(
        "GPU memory",
        "GPU memory that it uses, over all its GPUs.",
        f"sum(max by ({ON}, namespace, pod, container) (gpuledger_container_memory_used_bytes{{POD}}))",
        "bytes",
    ),
    number(
        "GPU processes",
        "Its processes with a context on a GPU.",
        f"sum(max by ({ON}, namespace, pod, container) (gpuledger_container_processes{{POD}}))",
    ),
    number(
        "GPU-hours",
        "Device-hours held in the time shown.",
        f"sum(max by ({ON}, namespace, pod, container, resource) "
        "(increase(gpuledger_container_allocated_seconds_total{POD}[$__range]))) / 3600",
    ),
    number(
        "Hours at work",
        "Of the time shown, hours in which its kernels ran, summed over its GPUs.",
        f"sum(max by ({ON}, namespace, pod, container) "
        "(increase(gpuledger_container_sm_busy_seconds_total{POD}[$__range]))) / 3600",
    ),
    number(
        "Energy",
        "Estimated energy of what it ran in the time shown, split by SM time among all who ran.",
        f"sum(max by ({ON}, namespace, pod, container) "
        "(increase(gpuledger_container_energy_joules_total{POD}[$__range]))) / 3600000",
        "kwatth",
    ),
    occupants("Its GPUs", "What each of its containers holds and uses now, by GPU.", "POD"),
    graph(
        "SM time",
        "Share of time in which its kernels ran, by GPU; and the whole GPU's utilisation, by everybody on it.",
        Line(
            "max by (gpu, mig_uuid, container) "
            "(rate(gpuledger_container_sm_busy_seconds_total{POD}[$__rate_interval]))",
            "{{container}} on GPU {{gpu}}",
        ),
        Line(
            "max by (gpu) (gpuledger_gpu_utilization_ratio{CLUSTER} and on (cluster, gpu_uuid) "
            "gpuledger_container_processes{POD})",
            "whole GPU {{gpu}}",
            limit=True,
        ),
        unit="percentunit",
    ),
    graph(
        "GPU memory over time",
        "GPU memory that its containers use, and what the largest of its GPUs has.",
        Line(
            "max by (gpu, mig_uuid, container) (gpuledger_container_memory_used_bytes{POD})",
            "{{container}} on GPU {{gpu}} {{mig_uuid}}",
        ),
        Line(
            "max(gpuledger_gpu_memory_total_bytes{CLUSTER} and on (cluster, gpu_uuid) "
            "gpuledger_container_processes{POD})",
            "GPU",
            limit=True,
        ),
        unit="bytes",
    ),
    graph(
        "Power",
        "Estimated power of what it runs, by GPU.",
        Line(
            "max by (gpu, container) (rate(gpuledger_container_energy_joules_total{POD}[$__rate_interval]))",
            "{{container}} on GPU {{gpu}}",
        ),
        unit="watt",
    ),
    graph(
        "CPU and host memory",
        "CPU cores that its GPU processes use. Few cores beside an idle GPU: it waits for something else.",
        Line(
            "sum by (container) (max by (namespace, pod, container, pid) "
            "(rate(gpuledger_process_cpu_seconds_total{POD}[$__rate_interval])))",
            "{{container}}",
        ),
    ),
    processes("POD"),
)

TROUBLE = row(
    "Trouble",
    xids("POD", of_pod=True),
    rows(
        "Audit findings",
        "Rules that the pod breaks. What each means and how to mend it: docs/checks.md.",
        {"check": "Check", "severity": "Severity", "container": "Container", "namespace": "Namespace"},
        Column("", "max by (namespace, container, check, severity) (gpuledger_audit_finding{POD})"),
        links={"check": [FINDINGS]},
    ),
    occupants(
        "Who shares its GPUs",
        "Containers of any pod on the same GPUs, its own too. Pods with shares of a GPU slow each other down.",
        "CLUSTER",
        among="and on (cluster, gpu_uuid, mig_uuid) gpuledger_container_processes{POD}",
    ),
)

BOARD = board(
    "pod",
    "Pod",
    "One pod: status, containers, requests and warnings as kubectl has them, and its use of GPUs over time.",
    variables=(NAMESPACE, WORKLOADS, POD_CHOICE),
    rows=(STATUS, GPUS, TROUBLE),
)
