"""A GPU itself: heat and power, states, faults, links and MIG devices; rows of the node's dashboard."""

from __future__ import annotations

from boards import row
from palette import (
    DOUBT_IF_ANY,
    ELSE,
    FAULT_IF_ANY,
    GOOD,
    NOTICE,
    ON_OFF,
    PENDING,
    RECOVERY,
    WARNING,
)
from panels import Column, Line, graph, rows, timeline
from promql import DEVICE, NOT_SLOWED
from shared import xids


def gpu(metric: str, matcher: str = "", more: str = "") -> str:
    """A reading of each chosen GPU, by its index and by `more` labels."""
    selector = f"GPU, {matcher}" if matcher else "GPU"
    return f"max by (gpu, gpu_uuid{more}) (gpuledger_{metric}{{{selector}}})"


def gpu_rate(metric: str, more: str = "", matcher: str = "") -> str:
    """How fast a counter of each chosen GPU grows, a second."""
    selector = f"GPU, {matcher}" if matcher else "GPU"
    return f"max by (gpu{more}) (rate(gpuledger_{metric}{{{selector}}}[$__rate_interval]))"


def ecc(kind: str, scope: str) -> str:
    """Memory errors of each chosen GPU."""
    return gpu("gpu_ecc_errors_total", f'type="{kind}", scope="{scope}"')


def cause(metric: str, name: str) -> str:
    """A reading of each chosen GPU that is told apart by cause."""
    return gpu(metric, f'cause="{name}"')


LABELS = {"gpu": "GPU", "gpu_uuid": "UUID"}
MIG_KEY = "gpu, gpu_uuid, mig_uuid"

HEAT = row(
    "Heat, power and clocks",
    graph(
        "Temperature",
        "By sensor, and the temperature at which the hardware of this model slows itself down.",
        Line(gpu("gpu_temperature_celsius", more=", sensor"), "GPU {{gpu}} {{sensor}}"),
        Line("min(gpuledger_gpu_temperature_slowdown_celsius{GPU})", "slowdown", limit=True),
        unit="celsius",
    ),
    graph(
        "Power",
        "Power drawn, and the limit in force.",
        Line(gpu("gpu_power_watts"), "GPU {{gpu}}"),
        Line("max(gpuledger_gpu_power_limit_watts{GPU})", "highest limit", limit=True),
        unit="watt",
    ),
    graph(
        "Clocks",
        "Clock of the multiprocessors and of the memory, and the highest that the multiprocessors may have.",
        Line(gpu("gpu_clock_hertz", 'clock=~"sm|memory"', ", clock"), "GPU {{gpu}} {{clock}}"),
        Line('max(gpuledger_gpu_clock_max_hertz{GPU, clock="sm"})', "highest sm", limit=True),
        unit="hertz",
    ),
    graph(
        "Energy",
        "Mean power from the board's own energy counter: exact whatever the interval of scrapes.",
        Line(gpu_rate("gpu_energy_joules_total"), "GPU {{gpu}}"),
        unit="watt",
    ),
    graph(
        "Fans",
        "Speed that each fan is driven at. Boards without a fan of their own show none.",
        Line(gpu("gpu_fan_speed_ratio", more=", fan"), "GPU {{gpu}} fan {{fan}}"),
        unit="percentunit",
    ),
    graph(
        "Time slowed down",
        "Share of time for which each reason held the clocks down, but for idleness, settings and the power "
        "cap.",
        Line(
            gpu_rate("gpu_throttled_seconds_total", ", reason", f'reason!~"{NOT_SLOWED}"'),
            "GPU {{gpu}} {{reason}}",
        ),
        unit="percentunit",
    ),
)

STATES = row(
    "In which state?",
    timeline(
        "Clocks held down",
        "Reasons that hold the clocks down. The power cap is normal on a busy GPU; heat and the power brake "
        "are not.",
        'max by (gpu, reason) (gpuledger_gpu_throttled{GPU, reason!="idle"} == 1)',
        "GPU {{gpu}} {{reason}}",
        {"1": ("held down", WARNING)},
    ),
    timeline(
        "Performance state",
        "0 is the fastest, 15 the slowest; an idle GPU goes to 8 or beyond.",
        gpu("gpu_performance_state"),
        "GPU {{gpu}}",
        {
            "0": ("P0", GOOD),
            "1": ("P1", GOOD),
            "2": ("P2", GOOD),
            "5": ("P5", NOTICE),
            "8": ("P8", ELSE),
            "12": ("P12", ELSE),
        },
    ),
    timeline(
        "What the driver asks for",
        "The driver's own verdict on the GPU: nothing, a reset, a restart of the node, or a drain; driver 570 "
        "and newer.",
        gpu("gpu_recovery_action"),
        "GPU {{gpu}}",
        RECOVERY,
    ),
)

FAULTS = row(
    "Is it dying?",
    rows(
        "Memory health",
        "Errors since the driver was loaded and of all time, rows replaced by spares, and repairs that wait "
        "for a reset. A failed repair means that the board is due for exchange. Pages are retired by GPUs "
        "before Ampere only.",
        LABELS,
        Column("ECC", gpu("gpu_ecc_enabled"), states=ON_OFF),
        Column("Corrected", ecc("corrected", "volatile")),
        Column("Corrected, ever", ecc("corrected", "aggregate")),
        Column("Uncorrected", ecc("uncorrected", "volatile"), steps=FAULT_IF_ANY),
        Column("Uncorrected, ever", ecc("uncorrected", "aggregate"), steps=DOUBT_IF_ANY),
        Column("Rows remapped", cause("gpu_remapped_rows", "correctable")),
        Column("after loss", cause("gpu_remapped_rows", "uncorrectable"), steps=DOUBT_IF_ANY),
        Column("Repair waits", gpu("gpu_row_remap_pending"), states=PENDING),
        Column("Repair failed", gpu("gpu_row_remap_failed"), states=PENDING),
        Column("Pages retired", cause("gpu_retired_pages", "single_bit_ecc")),
        Column("after loss of page", cause("gpu_retired_pages", "double_bit_ecc"), steps=DOUBT_IF_ANY),
        Column("Page waits", gpu("gpu_retired_pages_pending"), states=PENDING),
    ),
    xids("GPU"),
    graph(
        "Corrected memory errors",
        "Errors a minute that ECC corrected. Some are normal, a growing number comes before uncorrectable "
        "ones.",
        Line(
            'max by (gpu) (rate(gpuledger_gpu_ecc_errors_total{GPU, type="corrected", scope="volatile"}'
            "[$__rate_interval])) * 60",
            "GPU {{gpu}}",
        ),
        unit="cpm",
    ),
    rows(
        "What these GPUs don't tell",
        "Readings that the GPU or its driver does not offer. Their series are absent, and panels show n/a.",
        {"gpu": "GPU", "reading": "Reading"},
        Column("", "max by (gpu, reading) (gpuledger_gpu_unsupported{GPU})"),
        width=12,
    ),
)

LINKS = row(
    "Links",
    graph(
        "PCIe traffic",
        "Bytes a second over PCIe; Hopper and newer.",
        Line(gpu_rate("gpu_pcie_transmitted_bytes_total"), "GPU {{gpu}} sent"),
        Line(gpu_rate("gpu_pcie_received_bytes_total"), "GPU {{gpu}} received"),
        unit="Bps",
    ),
    graph(
        "NVLink traffic",
        "Bytes of payload a second over all NVLinks.",
        Line(gpu_rate("gpu_nvlink_transmitted_bytes_total"), "GPU {{gpu}} sent"),
        Line(gpu_rate("gpu_nvlink_received_bytes_total"), "GPU {{gpu}} received"),
        unit="Bps",
    ),
    graph(
        "Link errors",
        "Errors and replays a minute. A healthy PCIe link replays a few packets a day; NVLink errors come "
        "before a link goes.",
        Line(f"{gpu_rate('gpu_pcie_replays_total')} * 60", "GPU {{gpu}} PCIe replays"),
        Line(f"{gpu_rate('gpu_nvlink_errors_total', ', type')} * 60", "GPU {{gpu}} NVLink {{type}}"),
        unit="cpm",
    ),
    rows(
        "Link state",
        "An idle GPU lowers its PCIe generation; fewer lanes than possible is a fault. NVLinks up: fewer than "
        "before is one.",
        LABELS,
        Column("PCIe generation", gpu("gpu_pcie_link_generation")),
        Column("of", gpu("gpu_pcie_link_generation_max")),
        Column("Lanes", gpu("gpu_pcie_link_width")),
        Column("of lanes", gpu("gpu_pcie_link_width_max")),
        Column(
            "NVLinks up",
            "sum by (gpu, gpu_uuid) (max by (gpu, gpu_uuid, link) (gpuledger_gpu_nvlink_up{GPU}))",
        ),
        width=12,
    ),
    collapsed=True,
)

MIG = row(
    "MIG devices",
    rows(
        "MIG devices",
        "The parts of GPUs that MIG divides. NVML tells no SM time of processes on them; activity of the "
        "whole instance is told by Hopper and newer.",
        {
            "gpu": "GPU",
            "gpu_uuid": "",
            "mig_uuid": "MIG device",
            "profile": "Profile",
            "gpu_instance": "Instance",
        },
        Column("", f"max by ({MIG_KEY}, profile, gpu_instance) (gpuledger_mig_info{{GPU}})"),
        Column(
            "Held",
            f"sum by ({MIG_KEY}) (max by ({MIG_KEY}, namespace, pod, container) "
            '(gpuledger_container_allocated{GPU, mig_uuid!=""}))',
        ),
        Column("Memory used", f"max by ({MIG_KEY}) (gpuledger_mig_memory_used_bytes{{GPU}})", "bytes"),
        Column("Memory", f"max by ({MIG_KEY}) (gpuledger_mig_memory_total_bytes{{GPU}})", "bytes"),
        Column(
            "Busy", f"max by ({MIG_KEY}) (gpuledger_mig_graphics_active_ratio{{GPU}})", "percentunit", bar=True
        ),
        Column(
            "SM active", f"max by ({MIG_KEY}) (gpuledger_mig_sm_active_ratio{{GPU}})", "percentunit", bar=True
        ),
        Column("Occupancy", f"max by ({MIG_KEY}) (gpuledger_mig_sm_occupancy_ratio{{GPU}})", "percentunit"),
        Column("Tensor cores", f"max by ({MIG_KEY}) (gpuledger_mig_tensor_active_ratio{{GPU}})", "percentunit"),
        Column("Bandwidth", f"max by ({MIG_KEY}) (gpuledger_mig_dram_active_ratio{{GPU}})", "percentunit"),
    ),
    graph(
        "Memory of MIG devices",
        "Memory in use in each part.",
        Line(
            f"max by (gpu, mig_uuid, profile) (gpuledger_mig_memory_used_bytes{{GPU}} * on ({DEVICE}, "
            "mig_uuid) "
            "group_left (profile) gpuledger_mig_info{GPU})",
            "GPU {{gpu}} {{profile}} {{mig_uuid}}",
        ),
        unit="bytes",
        width=24,
    ),
    collapsed=True,
)
