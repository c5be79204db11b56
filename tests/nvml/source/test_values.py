"""Each reading arrives under the catalogue's name and in base units, or is absent, and it is told why."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest

from fakes.nvml.gpu_node import GpuNode
from fakes.nvml.presets import h100
from fakes.nvml.scenario import Energy, Fault, FieldValue, Gpu
from gpuledger.core.model import Memory
from gpuledger.metrics.catalog import SPECS
from gpuledger.sources.nvml.readings import FIELDS, READINGS

Labelled = dict[tuple[str, ...], float]

UUID = "GPU-1"
ALL_LINKS = 0xFFFFFFFF
NOT_TOLD = 0xFFFFFFFF

VOLATILE, AGGREGATE = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC
CORRECTED, UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
CLOCKS = {
    pynvml.NVML_CLOCK_GRAPHICS: 1,
    pynvml.NVML_CLOCK_SM: 2,
    pynvml.NVML_CLOCK_MEM: 3,
    pynvml.NVML_CLOCK_VIDEO: 4,
}
HERTZ: Labelled = {("graphics",): 1e6, ("sm",): 2e6, ("memory",): 3e6, ("video",): 4e6}
THROTTLE_REASONS = (
    "idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
)


def fields(values: dict[Any, FieldValue]) -> dict[str, Any]:
    return {"fields": values}


def counter(value: int) -> FieldValue:
    return FieldValue(value=value)


VALUES: list[tuple[str, dict[str, Any], Labelled]] = [
    ("gpu_utilization_ratio", {"utilization_gpu": 87, "utilization_memory": 41}, {(): 0.87}),
    ("gpu_memory_utilization_ratio", {"utilization_gpu": 87, "utilization_memory": 41}, {(): 0.41}),
    ("gpu_encoder_utilization_ratio", {"utilization_encoder": 12}, {(): 0.12}),
    ("gpu_decoder_utilization_ratio", {"utilization_decoder": 100}, {(): 1.0}),
    ("gpu_temperature_celsius", {"temperature": {pynvml.NVML_TEMPERATURE_GPU: 56}}, {("gpu",): 56.0}),
    (
        "gpu_temperature_celsius",
        fields({pynvml.NVML_FI_DEV_MEMORY_TEMP: FieldValue(value=64, type="uint")}),
        {("memory",): 64.0},
    ),
    (
        "gpu_temperature_slowdown_celsius",
        {"temperature_threshold": {pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN: 89}},
        {(): 89.0},
    ),
    ("gpu_power_watts", {"power": 412_345}, {(): 412.345}),
    ("gpu_power_limit_watts", {"power_limit": 600_000, "power_limit_enforced": 450_000}, {(): 450.0}),
    ("gpu_energy_joules_total", {"energy": Energy(millijoules=91_000_000_123)}, {(): 91_000_000.123}),
    ("gpu_clock_hertz", {"clock": CLOCKS}, HERTZ),
    ("gpu_clock_max_hertz", {"clock_max": CLOCKS}, HERTZ),
    (
        "gpu_throttled",
        {"clock_event_reasons": pynvml.nvmlClocksEventReasonSwPowerCap},
        {(reason,): float(reason == "sw_power_cap") for reason in THROTTLE_REASONS},
    ),
    ("gpu_throttled", {"clock_event_reasons": 0x1FF}, {(reason,): 1.0 for reason in THROTTLE_REASONS}),
    (
        "gpu_ecc_errors_total",
        {
            "ecc_errors": {
                (CORRECTED, VOLATILE): 1,
                (UNCORRECTED, VOLATILE): 2,
                (CORRECTED, AGGREGATE): 3,
                (UNCORRECTED, AGGREGATE): 4,
            }
        },
        {
            ("corrected", "volatile"): 1.0,
            ("uncorrected", "volatile"): 2.0,
            ("corrected", "aggregate"): 3.0,
            ("uncorrected", "aggregate"): 4.0,
        },
    ),
    (
        "gpu_remapped_rows",
        {"remapped_rows": {0: 7, 1: 2, 2: 1, 3: 0}},
        {("correctable",): 7.0, ("uncorrectable",): 2.0},
    ),
    ("gpu_row_remap_pending", {"remapped_rows": {0: 7, 1: 2, 2: 1, 3: 0}}, {(): 1.0}),
    ("gpu_row_remap_failed", {"remapped_rows": {0: 7, 1: 2, 2: 0, 3: 1}}, {(): 1.0}),
    (
        "gpu_retired_pages",
        fields({pynvml.NVML_FI_DEV_RETIRED_SBE: counter(3), pynvml.NVML_FI_DEV_RETIRED_DBE: counter(1)}),
        {("single_bit_ecc",): 3.0, ("double_bit_ecc",): 1.0},
    ),
    ("gpu_retired_pages_pending", fields({pynvml.NVML_FI_DEV_RETIRED_PENDING: counter(1)}), {(): 1.0}),
    (
        "gpu_recovery_action",
        fields({pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: FieldValue(value=4, type="uint")}),
        {(): 4.0},
    ),
    ("gpu_pcie_link_generation", {"pcie_generation": 3}, {(): 3.0}),
    ("gpu_pcie_link_generation_max", {"pcie_generation_max": 5}, {(): 5.0}),
    ("gpu_pcie_link_width", {"pcie_width": 8}, {(): 8.0}),
    ("gpu_pcie_link_width_max", {"pcie_width_max": 16}, {(): 16.0}),
    ("gpu_pcie_replays_total", {"pcie_replays": 5}, {(): 5.0}),
    ("gpu_nvlink_up", {"nvlink_active": {0: 1, 1: 0}}, {("0",): 1.0, ("1",): 0.0}),
    (
        "gpu_nvlink_errors_total",
        fields(
            {
                pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL: counter(1),
                pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL: counter(2),
                pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL: counter(3),
                pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL: counter(4),
            }
        ),
        {("crc_flit",): 1.0, ("crc_data",): 2.0, ("replay",): 3.0, ("recovery",): 4.0},
    ),
    (
        "gpu_nvlink_transmitted_bytes_total",
        fields({(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS): counter(5)}),
        {(): 5 * 1024.0},
    ),
    (
        "gpu_nvlink_received_bytes_total",
        fields({(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS): counter(6)}),
        {(): 6 * 1024.0},
    ),
    ("gpu_fan_speed_ratio", {"fans": 2, "fan_speed": {0: 30, 1: 105}}, {("0",): 0.3, ("1",): 1.05}),
    ("gpu_performance_state", {"performance_state": 8}, {(): 8.0}),
    ("gpu_mig_enabled", {"mig_mode_current": 0, "mig_mode_pending": 1}, {(): 0.0}),
    ("gpu_ecc_enabled", {"ecc_mode_current": 1, "ecc_mode_pending": 0}, {(): 1.0}),
    ("gpu_persistence_enabled", {"persistence_mode": 1}, {(): 1.0}),
]


@pytest.mark.parametrize(
    ("name", "told", "expected"),
    [pytest.param(*case, id=f"{case[0]}-{number}") for number, case in enumerate(VALUES)],
)
def test_a_reading_is_in_base_units(node: GpuNode, name: str, told: dict[str, Any], expected: Labelled) -> None:
    node.has(Gpu(uuid=UUID, **told))

    assert expected == node.read_gpu().values[name]


def test_every_reading_of_the_table_is_tested_and_in_the_catalogue() -> None:
    table = {name for row in READINGS for name, _ in row.series} | {field.name for field in FIELDS}

    assert table <= {name for name, _, _ in VALUES}
    assert table <= {spec.name for spec in SPECS}


@pytest.mark.parametrize(
    ("raw", "type_", "expected"),
    [
        (64, "uint", 64.0),
        (64, "ulong", 64.0),
        (64, "ulonglong", 64.0),
        (64.5, "double", 64.5),
        (-5, "longlong", -5.0),
        (-5, "int", -5.0),
        (64, "ushort", 64.0),
    ],
)
def test_a_field_is_read_by_its_type(node: GpuNode, raw: float, type_: Any, expected: float) -> None:
    node.has(Gpu(uuid=UUID, fields={pynvml.NVML_FI_DEV_MEMORY_TEMP: FieldValue(value=raw, type=type_)}))

    assert {("memory",): expected} == node.read_gpu().values["gpu_temperature_celsius"]


def test_what_the_gpu_is(node: GpuNode) -> None:
    node.has(h100())
    reading = node.read_gpu()

    assert {
        "model": "NVIDIA H100 80GB HBM3",
        "architecture": "Hopper",
        "pci_bus_id": "00000000:1B:00.0",
        "driver_version": "570.124.06",
        "cuda_version": "12.8",
        "vbios_version": "96.00.74.00.01",
    } == reading.info
    assert (0, h100().uuid, 0) == (reading.gpu.index, reading.gpu.uuid, reading.gpu.minor)


MEMORY: list[tuple[str, dict[str, int], Memory | None, int]] = [
    (
        "all told",
        {"memory_total": 100, "memory_used": 60, "memory_free": 33, "memory_reserved": 7},
        Memory(total=100, used=60, free=33, reserved=7),
        0,
    ),
    ("refused", {}, None, 0),
    ("no memory of its own", dict.fromkeys(("memory_total", "memory_used", "memory_free"), 0), None, 0),
    ("more used than there is", {"memory_total": 100, "memory_used": 101, "memory_free": 0}, None, 1),
    ("more free than there is", {"memory_total": 100, "memory_used": 0, "memory_free": 101}, None, 1),
]


@pytest.mark.parametrize(
    ("told", "expected", "dropped"), [pytest.param(*case, id=name) for name, *case in MEMORY]
)
def test_memory(node: GpuNode, told: dict[str, int], expected: Memory | None, dropped: int) -> None:
    node.has(Gpu(uuid=UUID, **{"memory_reserved": 0, **told} if told else told))  # type: ignore[arg-type] # by name
    reading = node.read()

    assert expected == reading.gpus[0].memory
    assert dropped == reading.dropped.get("gpu_memory_used_bytes", 0)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gpu_temperature_celsius", {"temperature": {pynvml.NVML_TEMPERATURE_GPU: 201}}),
        ("gpu_temperature_slowdown_celsius", {"temperature_threshold": {1: NOT_TOLD}}),
        ("gpu_power_watts", {"power": 10_000_001}),
        ("gpu_power_watts", {"power": NOT_TOLD}),
        ("gpu_energy_joules_total", {"energy": Energy(millijoules=2**64 - 1)}),
        ("gpu_utilization_ratio", {"utilization_gpu": 101, "utilization_memory": 0}),
        ("gpu_clock_hertz", {"clock": {pynvml.NVML_CLOCK_SM: NOT_TOLD}}),
        ("gpu_pcie_link_width", {"pcie_width": 0}),
        ("gpu_recovery_action", fields({pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: counter(256)})),
        ("gpu_retired_pages", fields({pynvml.NVML_FI_DEV_RETIRED_DBE: counter(NOT_TOLD)})),
        ("gpu_persistence_enabled", {"persistence_mode": 2}),
    ],
)
def test_what_cannot_be_is_dropped_and_counted(node: GpuNode, name: str, told: dict[str, Any]) -> None:
    node.has(Gpu(uuid=UUID, **told))
    reading = node.read()

    assert name not in reading.gpus[0].values
    assert {name: 1} == reading.dropped


def test_drops_add_up(node: GpuNode) -> None:
    node.has(Gpu(uuid=UUID, power=NOT_TOLD))

    assert [1, 2, 3] == [node.read(after=1).dropped["gpu_power_watts"] for _ in range(3)]


def test_an_unknown_performance_state_is_absent_but_no_fault(node: GpuNode) -> None:
    node.has(Gpu(uuid=UUID, performance_state=pynvml.NVML_PSTATE_UNKNOWN))
    reading = node.read()

    assert "gpu_performance_state" not in reading.gpus[0].values
    assert {} == reading.dropped


def test_what_the_gpu_lacks_is_named(node: GpuNode) -> None:
    node.has(Gpu(uuid=UUID, power=1000, clock={pynvml.NVML_CLOCK_SM: 1000}))
    reading = node.read_gpu()
    table = {name for row in READINGS for name, _ in row.series} | {field.name for field in FIELDS}
    beside = {
        "gpu_mig_enabled",
        "gpu_memory_total_bytes",
        "gpu_memory_used_bytes",
        "gpu_memory_free_bytes",
        "gpu_memory_reserved_bytes",
        "gpu_busy_seconds_total",
        "gpu_graphics_active_ratio",
        "gpu_sm_active_ratio",
        "gpu_sm_occupancy_ratio",
        "gpu_tensor_active_ratio",
        "gpu_dram_active_ratio",
        "gpu_pcie_transmitted_bytes_total",
        "gpu_pcie_received_bytes_total",
    }

    assert {"gpu_power_watts", "gpu_clock_hertz"} == set(reading.values)
    assert (table | beside) - set(reading.values) == reading.unsupported
    assert reading.unsupported <= {spec.name for spec in SPECS}


@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
    ],
)
def test_a_refusal_is_remembered(node: GpuNode, code: int) -> None:
    node.scenario.faults = [Fault(call="nvmlDeviceGetPowerUsage", kind="error", number=code)]
    node.has(h100())
    refused = node.read_gpu()
    node.scenario.faults = []
    node.change()
    later = node.read_gpu(after=60)

    assert "gpu_power_watts" in refused.unsupported
    assert "gpu_power_watts" in later.unsupported
    assert "gpu_power_watts" not in later.values
    assert refused.up


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_TIMEOUT, pynvml.NVML_ERROR_IN_USE]
)
def test_a_failure_is_forgotten(node: GpuNode, code: int) -> None:
    node.has(h100())
    before = node.read_gpu()
    node.scenario.faults = [Fault(call="nvmlDeviceGetPowerUsage", kind="error", number=code)]
    node.change()
    failed = node.read_gpu(after=1)
    node.scenario.faults = []
    node.change()
    after = node.read_gpu(after=1)

    assert "gpu_power_watts" not in failed.values
    assert "gpu_power_watts" not in failed.unsupported
    assert failed.up
    assert before.values["gpu_power_watts"] == after.values["gpu_power_watts"]


def test_gpus_take_turns_at_what_changes_rarely(node: GpuNode) -> None:
    gpus = [h100(index) for index in range(4)]
    node.has(*gpus)
    node.read()
    for gpu in gpus:
        gpu.power, gpu.pcie_replays, gpu.pcie_width_max = 1000, 5, 8
    node.change()
    seen_at: dict[int, int] = {}
    for second in range(1, 11):
        for reading in node.read(after=1).gpus:
            assert {(): 1.0} == reading.values["gpu_power_watts"]
            assert {(): 16.0} == reading.values["gpu_pcie_link_width_max"]
            if reading.values["gpu_pcie_replays_total"][()] == 5:
                seen_at.setdefault(reading.gpu.index, second)

    assert [0, 1, 2, 3] == sorted(seen_at)
    assert 4 == len(set(seen_at.values()))
