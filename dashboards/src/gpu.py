"""The GPUs of one node: who is and was on them, what they do, and how they are."""

from __future__ import annotations

from boards import GPUS, NODE, board, row
from device import FAULTS, HEAT, LINKS, MIG, STATES, gpu
from links import EXPORTER
from links import GPU as THIS_GPU
from palette import (
    BAD,
    ELSE,
    EXTRA,
    FAULT_IF_ANY,
    FAULT_IF_NONE,
    GOOD,
    NOTICE,
    ON_OFF,
    WARNING,
    YES_NO,
)
from panels import Column, Line, graph, number, rows, timeline, word
from promql import per_gpu
from shared import occupants, processes

NODE_ROW = row(
    "This node",
    number(
        "GPUs that answer",
        "GPUs that answer the driver.",
        f"sum({per_gpu('gpu_up', 'NODE')})",
        steps=FAULT_IF_NONE,
    ),
    number(
        "Lost",
        "GPUs that the driver lists and that don't answer it.",
        f"sum(1 - {per_gpu('gpu_up', 'NODE')})",
        steps=FAULT_IF_ANY,
    ),
    number(
        "Free", "GPUs of which no container holds any part.", "sum(node_model:gpuledger_gpus_free:count{NODE})"
    ),
    number("GPU processes", "Processes with a context on a GPU.", f"sum({per_gpu('gpu_processes', 'NODE')})"),
    number(
        "Power of all",
        "Power that all boards of the node draw together.",
        f"sum({per_gpu('gpu_power_watts', 'NODE')})",
        "watt",
    ),
    word(
        "Driver",
        "Version of the NVIDIA driver.",
        "group by (driver_version) (gpuledger_gpu_info{NODE})",
        "{{driver_version}}",
    ),
    word(
        "CUDA",
        "Newest CUDA that the driver supports.",
        "group by (cuda_version) (gpuledger_gpu_info{NODE})",
        "{{cuda_version}}",
    ),
    number(
        "Age of this picture",
        "Seconds since the exporter last looked. Above a minute it is stuck: GpuExporterStale.",
        "time() - max(gpuledger_last_cycle_timestamp_seconds{NODE})",
        "s",
        steps=((None, GOOD), (60, BAD)),
    ),
    rows(
        "GPUs",
        "The node's GPUs, with what is measured of each now. Select one to see it alone.",
        {"gpu": "GPU", "model": "Model", "gpu_uuid": "UUID", "pci_bus_id": "PCI bus", "node": ""},
        Column("Answers", "max by (node, gpu, gpu_uuid) (gpuledger_gpu_up{NODE})", states=YES_NO),
        Column(
            "Model",
            "group by (node, gpu, gpu_uuid, model, pci_bus_id) (gpuledger_gpu_info{NODE})",
            states={"1": ("known", GOOD)},
        ),
        Column(
            "Utilisation",
            "max by (node, gpu, gpu_uuid) (gpuledger_gpu_utilization_ratio{NODE})",
            "percentunit",
            bar=True,
        ),
        Column("Memory used", "max by (node, gpu, gpu_uuid) (gpuledger_gpu_memory_used_bytes{NODE})", "bytes"),
        Column("Memory", "max by (node, gpu, gpu_uuid) (gpuledger_gpu_memory_total_bytes{NODE})", "bytes"),
        Column(
            "Temperature",
            'max by (node, gpu, gpu_uuid) (gpuledger_gpu_temperature_celsius{NODE, sensor="gpu"})',
            "celsius",
        ),
        Column("Power", "max by (node, gpu, gpu_uuid) (gpuledger_gpu_power_watts{NODE})", "watt"),
        Column("Processes", "max by (node, gpu, gpu_uuid) (gpuledger_gpu_processes{NODE})"),
        Column("MIG", "max by (node, gpu, gpu_uuid) (gpuledger_gpu_mig_enabled{NODE})", states=ON_OFF),
        Column(
            "Persistence",
            "max by (node, gpu, gpu_uuid) (gpuledger_gpu_persistence_enabled{NODE})",
            states=ON_OFF,
        ),
        links={"gpu": [THIS_GPU]},
        sort="Utilisation",
    ),
    rows(
        "The node as the API has it",
        "The node's labels, conditions and cordon, from gpuledger cluster.",
        {
            "node": "Node",
            "product": "Product",
            "sharing": "Sharing",
            "mig_strategy": "MIG strategy",
            "ready": "Ready",
            "schedulable": "Schedulable",
        },
        Column(
            "",
            "max by (node, product, sharing, mig_strategy, ready, schedulable) (gpuledger_node_info{NODE})",
        ),
        Column("Cards", "max by (node, product) (gpuledger_node_cards{NODE})"),
        links={"node": [EXPORTER]},
        width=12,
    ),
    rows(
        "What pods can ask for here",
        "Units by resource name. Allocatable below capacity: the device plugin calls devices unhealthy. "
        "The kubelet tells of the healthy ones without the API.",
        {"resource": "Resource"},
        *(
            Column(
                heading,
                f'max by (resource) (gpuledger_node_resource_{name}{{NODE, resource=~".+/.+"}})',
            )
            for heading, name in (
                ("Capacity", "capacity"),
                ("Allocatable", "allocatable"),
                ("Asked for", "requested"),
                ("Free", "free"),
                ("Placeable", "placeable"),
            )
        ),
        Column("By kubelet", "max by (resource) (gpuledger_kubelet_allocatable_devices{NODE})"),
        width=12,
    ),
)

WHO = row(
    "Who is on it?",
    occupants(
        "On these GPUs now",
        "Containers that hold a GPU, or use one that they don't hold (nothing stands under held). MIG devices "
        "have no SM time.",
        "GPU",
    ),
    processes("GPU"),
    timeline(
        "Who was on it, and when",
        "Containers with a process on the GPU, over time. A bar that begins anew is a restart.",
        "max by (gpu, namespace, pod, container) (gpuledger_container_processes{GPU} > bool 0)",
        "GPU {{gpu}}: {{namespace}}/{{pod}} {{container}}",
        {"1": ("on it", GOOD), "0": ("holds it, no process", WARNING)},
    ),
    rows(
        "Held in the time shown",
        "Who held these GPUs in the time shown, ended pods too, and for how long; the 100 longest.",
        {
            "gpu": "GPU",
            "namespace": "Namespace",
            "pod": "Pod",
            "workload_kind": "Kind",
            "workload": "Workload",
            "resource": "Resource",
        },
        Column(
            "Held for",
            "topk(100, sum by (gpu, namespace, pod, workload_kind, workload, resource) "
            "(increase(gpuledger_container_allocated_seconds_total{GPU}[$__range])))",
            "s",
        ),
        sort="Held for",
        width=12,
    ),
    graph(
        "Memory that no container owns",
        "By the reason why: of the host, of other containers, of the driver itself, or unknown. With all "
        "containers' it adds up to what the GPU has in use.",
        Line(
            "sum by (reason) (max by (gpu_uuid, mig_uuid, reason, unit) "
            "(gpuledger_unattributed_memory_used_bytes{GPU}))",
            "{{reason}}",
        ),
        unit="bytes",
        stack=True,
        colors={"driver": ELSE, "unmeasured": ELSE, "host": NOTICE, "container": EXTRA, "pod-unknown": BAD},
    ),
)

WORK = row(
    "What does it do?",
    graph(
        "Utilisation",
        "Share of time in which a kernel ran. A GPU divided by MIG does not tell.",
        Line(gpu("gpu_utilization_ratio"), "GPU {{gpu}}"),
        unit="percentunit",
        highest=1,
    ),
    graph(
        "Memory",
        "GPU memory in use, what the driver keeps for itself beside, and what there is.",
        Line(gpu("gpu_memory_used_bytes"), "GPU {{gpu}}"),
        Line(gpu("gpu_memory_reserved_bytes"), "GPU {{gpu}} reserved"),
        Line("max(gpuledger_gpu_memory_total_bytes{GPU})", "largest GPU", limit=True),
        unit="bytes",
    ),
    graph(
        "SM activity and tensor cores",
        "Share of time in which the engine was busy, of multiprocessors at work, of warps resident, and of "
        "time in which tensor cores ran; Hopper and newer. Well below utilisation: small batches, or waiting "
        "for data.",
        Line(gpu("gpu_graphics_active_ratio"), "GPU {{gpu}} engine"),
        Line(gpu("gpu_sm_active_ratio"), "GPU {{gpu}} SM active"),
        Line(gpu("gpu_sm_occupancy_ratio"), "GPU {{gpu}} occupancy"),
        Line(gpu("gpu_tensor_active_ratio"), "GPU {{gpu}} tensor"),
        unit="percentunit",
        highest=1,
    ),
    graph(
        "Memory bandwidth",
        "Bandwidth used as a share of the highest (Hopper and newer), and the share of time in which memory "
        "was in use at all.",
        Line(gpu("gpu_dram_active_ratio"), "GPU {{gpu}} bandwidth"),
        Line(gpu("gpu_memory_utilization_ratio"), "GPU {{gpu}} in use"),
        unit="percentunit",
        highest=1,
    ),
    graph(
        "Video engines",
        "Use of encoder and decoder.",
        Line(gpu("gpu_encoder_utilization_ratio"), "GPU {{gpu}} encoder"),
        Line(gpu("gpu_decoder_utilization_ratio"), "GPU {{gpu}} decoder"),
        unit="percentunit",
        highest=1,
    ),
    graph(
        "SM time by pod",
        "GPUs' worth of time in which kernels of each pod ran, the ten largest; and of processes that are no "
        "pod's.",
        Line(
            "topk(10, sum by (namespace, pod) (max by (gpu_uuid, namespace, pod, container) "
            "(rate(gpuledger_container_sm_busy_seconds_total{GPU}[$__rate_interval]))))",
            "{{namespace}}/{{pod}}",
        ),
        Line(
            "sum by (reason) (max by (gpu_uuid, reason, unit) "
            "(rate(gpuledger_unattributed_sm_busy_seconds_total{GPU}[$__rate_interval])))",
            "no pod: {{reason}}",
        ),
        stack=True,
    ),
)

BOARD = board(
    "gpu",
    "Node and its GPUs",
    "The GPUs of one node: readings, states, faults, links, MIG devices, and who is or was on them.",
    variables=(NODE, GPUS),
    rows=(NODE_ROW, WHO, WORK, HEAT, STATES, FAULTS, LINKS, MIG),
)
