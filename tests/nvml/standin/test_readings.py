"""Each reading is told as the scenario has it, and follows its changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fakes.nvml.presets import a100_mig, h100, l4
from fakes.nvml.scenario import Energy, FieldValue, Gpu, MigDevice, RetiredPage, Scenario

Play = Callable[[Scenario], None]
Read = Callable[[Any], object]

UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
AGGREGATE = pynvml.NVML_AGGREGATE_ECC
DRAM = pynvml.NVML_MEMORY_LOCATION_DRAM
MEMORY = {"memory_total": 100, "memory_used": 60, "memory_free": 33, "memory_reserved": 7}


def values(*names: str) -> Callable[[object], tuple[object, ...]]:
    return lambda structure: tuple(getattr(structure, name) for name in names)


def memory_v1(gpu: object) -> object:
    return values("total", "used", "free")(pynvml.nvmlDeviceGetMemoryInfo(gpu))


def memory_v2(gpu: object) -> object:
    return values("total", "used", "free", "reserved")(
        pynvml.nvmlDeviceGetMemoryInfo(gpu, pynvml.nvmlMemory_v2)
    )


def pci(gpu: object) -> object:
    return values("busId", "busIdLegacy", "bus", "pciDeviceId")(pynvml.nvmlDeviceGetPciInfo(gpu))


READINGS: list[tuple[str, dict[str, Any], Read, object]] = [
    ("name", {"name": "NVIDIA H100 80GB HBM3"}, pynvml.nvmlDeviceGetName, "NVIDIA H100 80GB HBM3"),
    ("uuid", {}, pynvml.nvmlDeviceGetUUID, "GPU-1"),
    ("index", {}, pynvml.nvmlDeviceGetIndex, 0),
    ("serial", {"serial": "165"}, pynvml.nvmlDeviceGetSerial, "165"),
    ("vbios", {"vbios": "96.00"}, pynvml.nvmlDeviceGetVbiosVersion, "96.00"),
    ("part number", {"part_number": "692"}, pynvml.nvmlDeviceGetBoardPartNumber, "692"),
    ("inforom image", {"inforom_image": "G520"}, pynvml.nvmlDeviceGetInforomImageVersion, "G520"),
    ("gsp firmware", {"gsp_firmware": "570.1"}, pynvml.nvmlDeviceGetGspFirmwareVersion, b"570.1"),
    (
        "pci",
        {"pci_bus_id": "00000000:1B:00.0", "pci_device_id": 0x233010DE},
        pci,
        ("00000000:1B:00.0", "0000:1B:00.0", 0x1B, 0x233010DE),
    ),
    ("architecture", {"architecture": 9}, pynvml.nvmlDeviceGetArchitecture, 9),
    (
        "compute capability",
        {"compute_capability": {0: 9, 1: 0}},
        pynvml.nvmlDeviceGetCudaComputeCapability,
        (9, 0),
    ),
    ("board id", {"board_id": 6912}, pynvml.nvmlDeviceGetBoardId, 6912),
    ("brand", {"brand": 14}, pynvml.nvmlDeviceGetBrand, 14),
    ("bus type", {"bus_type": 2}, pynvml.nvmlDeviceGetBusType, 2),
    ("compute mode", {"compute_mode": 3}, pynvml.nvmlDeviceGetComputeMode, 3),
    ("cores", {"cores": 16896}, pynvml.nvmlDeviceGetNumGpuCores, 16896),
    ("bus width", {"memory_bus_width": 5120}, pynvml.nvmlDeviceGetMemoryBusWidth, 5120),
    ("minor number", {"minor_number": 3}, pynvml.nvmlDeviceGetMinorNumber, 3),
    ("persistence mode", {"persistence_mode": 1}, pynvml.nvmlDeviceGetPersistenceMode, 1),
    ("supported events", {"supported_events": 10}, pynvml.nvmlDeviceGetSupportedEventTypes, 10),
    (
        "utilization",
        {"utilization_gpu": 87, "utilization_memory": 41},
        lambda gpu: values("gpu", "memory")(pynvml.nvmlDeviceGetUtilizationRates(gpu)),
        (87, 41),
    ),
    (
        "encoder",
        {"utilization_encoder": 5},
        lambda gpu: pynvml.nvmlDeviceGetEncoderUtilization(gpu)[0],
        5,
    ),
    (
        "decoder",
        {"utilization_decoder": 6},
        lambda gpu: pynvml.nvmlDeviceGetDecoderUtilization(gpu)[0],
        6,
    ),
    ("jpeg", {"utilization_jpeg": 7}, lambda gpu: pynvml.nvmlDeviceGetJpgUtilization(gpu)[0], 7),
    ("ofa", {"utilization_ofa": 8}, lambda gpu: pynvml.nvmlDeviceGetOfaUtilization(gpu)[0], 8),
    ("memory, version 1: reserved is used", MEMORY, memory_v1, (100, 67, 33)),
    ("memory, version 2", MEMORY, memory_v2, (100, 60, 33, 7)),
    (
        "bar1",
        {"bar1_total": 9, "bar1_used": 2, "bar1_free": 7},
        lambda gpu: values("bar1Total", "bar1Used", "bar1Free")(pynvml.nvmlDeviceGetBAR1MemoryInfo(gpu)),
        (9, 2, 7),
    ),
    ("temperature", {"temperature": {0: 56}}, lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, 0), 56),
    (
        "temperature, versioned",
        {"temperature": {0: 56}},
        lambda gpu: pynvml.nvmlDeviceGetTemperatureV(gpu, 0),
        56,
    ),
    (
        "threshold",
        {"temperature_threshold": {1: 89}},
        lambda gpu: pynvml.nvmlDeviceGetTemperatureThreshold(gpu, 1),
        89,
    ),
    ("power", {"power": 412_000}, pynvml.nvmlDeviceGetPowerUsage, 412_000),
    ("limit", {"power_limit": 500_000}, pynvml.nvmlDeviceGetPowerManagementLimit, 500_000),
    ("enforced limit", {"power_limit_enforced": 4}, pynvml.nvmlDeviceGetEnforcedPowerLimit, 4),
    ("default limit", {"power_limit_default": 7}, pynvml.nvmlDeviceGetPowerManagementDefaultLimit, 7),
    (
        "limits",
        {"power_limit_min": 2, "power_limit_max": 7},
        pynvml.nvmlDeviceGetPowerManagementLimitConstraints,
        [2, 7],
    ),
    ("energy", {"energy": Energy(millijoules=91)}, pynvml.nvmlDeviceGetTotalEnergyConsumption, 91),
    ("clock", {"clock": {1: 1755}}, lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, 1), 1755),
    ("current clock", {"clock": {1: 1755}}, lambda gpu: pynvml.nvmlDeviceGetClock(gpu, 1, 0), 1755),
    ("fastest clock", {"clock_max": {1: 1980}}, lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, 1), 1980),
    ("reasons", {"clock_event_reasons": 4}, pynvml.nvmlDeviceGetCurrentClocksEventReasons, 4),
    ("reasons, old", {"clock_event_reasons": 4}, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, 4),
    (
        "supported reasons",
        {"clock_event_reasons_supported": 511},
        pynvml.nvmlDeviceGetSupportedClocksEventReasons,
        511,
    ),
    ("performance state", {"performance_state": 2}, pynvml.nvmlDeviceGetPerformanceState, 2),
    ("fans", {"fans": 2}, pynvml.nvmlDeviceGetNumFans, 2),
    ("fan", {"fan_speed": {0: 30, 1: 40}}, lambda gpu: pynvml.nvmlDeviceGetFanSpeed_v2(gpu, 1), 40),
    ("ecc mode", {"ecc_mode_current": 1, "ecc_mode_pending": 0}, pynvml.nvmlDeviceGetEccMode, [1, 0]),
    (
        "ecc errors",
        {"ecc_errors": {(UNCORRECTED, AGGREGATE): 5_000_000_000}},
        lambda gpu: pynvml.nvmlDeviceGetTotalEccErrors(gpu, UNCORRECTED, AGGREGATE),
        5_000_000_000,
    ),
    (
        "ecc errors by location",
        {"memory_errors": {(UNCORRECTED, AGGREGATE, DRAM): 3}},
        lambda gpu: pynvml.nvmlDeviceGetMemoryErrorCounter(gpu, UNCORRECTED, AGGREGATE, DRAM),
        3,
    ),
    (
        "remapped rows",
        {"remapped_rows": {0: 1, 1: 2, 2: 1, 3: 0}},
        pynvml.nvmlDeviceGetRemappedRows,
        (1, 2, 1, 0),
    ),
    (
        "retired pages",
        {"retired_pages_pending": 0, "retired_pages": [RetiredPage(cause=1, address=4096, time=9)]},
        lambda gpu: [pynvml.nvmlDeviceGetRetiredPages_v2(gpu, cause) for cause in (0, 1)],
        [[], [{"address": 4096, "timestamp": 9}]],
    ),
    (
        "pending retirement",
        {"retired_pages_pending": 1},
        pynvml.nvmlDeviceGetRetiredPagesPendingStatus,
        1,
    ),
    ("pcie generation", {"pcie_generation": 4}, pynvml.nvmlDeviceGetCurrPcieLinkGeneration, 4),
    ("best generation", {"pcie_generation_max": 5}, pynvml.nvmlDeviceGetMaxPcieLinkGeneration, 5),
    (
        "best generation of the device",
        {"pcie_generation_device_max": 5},
        pynvml.nvmlDeviceGetGpuMaxPcieLinkGeneration,
        5,
    ),
    ("pcie width", {"pcie_width": 8}, pynvml.nvmlDeviceGetCurrPcieLinkWidth, 8),
    ("best width", {"pcie_width_max": 16}, pynvml.nvmlDeviceGetMaxPcieLinkWidth, 16),
    ("replays", {"pcie_replays": 12}, pynvml.nvmlDeviceGetPcieReplayCounter, 12),
    (
        "pcie throughput",
        {"pcie_throughput": {1: 34}},
        lambda gpu: pynvml.nvmlDeviceGetPcieThroughput(gpu, 1),
        34,
    ),
    ("nvlink", {"nvlink_active": {3: 1}}, lambda gpu: pynvml.nvmlDeviceGetNvLinkState(gpu, 3), 1),
    ("nvlink version", {"nvlink_version": {3: 4}}, lambda gpu: pynvml.nvmlDeviceGetNvLinkVersion(gpu, 3), 4),
    (
        "nvlink errors",
        {"nvlink_errors": {(3, 2): 6}},
        lambda gpu: pynvml.nvmlDeviceGetNvLinkErrorCounter(gpu, 3, 2),
        6,
    ),
    ("mig mode", {"mig_mode_current": 0, "mig_mode_pending": 1}, pynvml.nvmlDeviceGetMigMode, [0, 1]),
    ("no mig device", {}, lambda gpu: pynvml.nvmlDeviceIsMigDeviceHandle(gpu).value, 0),
]


@pytest.mark.parametrize(("given", "read", "expected"), [pytest.param(*row[1:], id=row[0]) for row in READINGS])
def test_reading_is_told_as_written(play: Play, given: dict[str, Any], read: Read, expected: object) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1", **given)]))
    assert expected == read(pynvml.nvmlDeviceGetHandleByIndex(0))


@pytest.mark.parametrize("read", [pytest.param(row[2], id=row[0]) for row in READINGS if row[1]])
def test_reading_left_out_is_not_supported(play: Play, read: Read) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1")]))
    with pytest.raises(pynvml.NVMLError_NotSupported):
        read(pynvml.nvmlDeviceGetHandleByIndex(0))


def test_driver_is_told_as_written(play: Play) -> None:
    play(Scenario(gpus=[h100(0), h100(1)], driver="550.90.07", nvml="12.550.90.07", cuda=12040))
    told = (
        pynvml.nvmlSystemGetDriverVersion(),
        pynvml.nvmlSystemGetNVMLVersion(),
        pynvml.nvmlSystemGetCudaDriverVersion(),
        pynvml.nvmlSystemGetCudaDriverVersion_v2(),
        pynvml.nvmlDeviceGetCount(),
    )
    assert told == ("550.90.07", "12.550.90.07", 12040, 12040, 2)


@pytest.mark.parametrize(
    ("find", "key"),
    [
        (pynvml.nvmlDeviceGetHandleByIndex, 1),
        (pynvml.nvmlDeviceGetHandleByUUID, b"GPU-2"),
        (pynvml.nvmlDeviceGetHandleByPciBusId, b"00000000:2a:00.0"),
        (pynvml.nvmlDeviceGetHandleBySerial, b"165"),
    ],
)
def test_device_is_found(play: Play, find: Callable[[Any], Any], key: object) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1"), Gpu(uuid="GPU-2", serial="165", pci_bus_id="00000000:2A:00.0")]))
    assert pynvml.nvmlDeviceGetUUID(find(key)) == "GPU-2"


@pytest.mark.parametrize(
    ("value", "member", "expected"),
    [
        (FieldValue(value=56.25, type="double"), "dVal", 56.25),
        (FieldValue(value=64, type="uint"), "uiVal", 64),
        (FieldValue(value=2**63, type="ulonglong"), "ullVal", 2**63),
        (FieldValue(value=-5, type="longlong"), "sllVal", -5),
        (FieldValue(value=-5, type="int"), "siVal", -5),
        (FieldValue(value=7, type="ushort"), "usVal", 7),
    ],
    ids=lambda given: given.type if isinstance(given, FieldValue) else "",
)
def test_field_value_has_its_type(play: Play, value: FieldValue, member: str, expected: float) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1", fields={(138, 4): value})]))
    field = pynvml.nvmlDeviceGetFieldValues(pynvml.nvmlDeviceGetHandleByIndex(0), [(138, 4)])[0]
    assert (field.nvmlReturn, getattr(field.value, member)) == (pynvml.NVML_SUCCESS, expected)


def test_field_values_fail_each_for_itself(play: Play) -> None:
    error = FieldValue(value=pynvml.NVML_ERROR_INVALID_ARGUMENT, type="error")
    play(Scenario(gpus=[Gpu(uuid="GPU-1", fields={82: FieldValue(value=64, type="uint"), 230: error})]))
    told = pynvml.nvmlDeviceGetFieldValues(pynvml.nvmlDeviceGetHandleByIndex(0), [82, (82, 1), 230])
    assert [field.nvmlReturn for field in told] == [
        pynvml.NVML_SUCCESS,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
    ]


def test_energy_grows_with_time(play: Play) -> None:
    hour_ago = time.time_ns() // 1000 - 3_600_000_000
    play(Scenario(gpus=[Gpu(uuid="GPU-1", energy=Energy(millijoules=1000, rate=500, since=hour_ago))]))
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    told = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
    field = pynvml.nvmlDeviceGetFieldValues(gpu, [pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION])[0]
    assert told == pytest.approx(1000 + 500 * 3600, abs=10_000)
    assert field.value.ullVal == pytest.approx(told, abs=10_000)


def test_change_is_seen_through_the_handle_there_is(play: Play) -> None:
    gpu = Gpu(uuid="GPU-2", power=100)
    play(Scenario(gpus=[Gpu(uuid="GPU-1"), gpu]))
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    gpu.power = 200
    play(Scenario(gpus=[gpu]))
    assert (pynvml.nvmlDeviceGetPowerUsage(handle), pynvml.nvmlDeviceGetIndex(handle)) == (200, 0)


def test_handle_of_a_device_that_is_gone_is_invalid_until_it_comes_back(play: Play) -> None:
    play(Scenario(gpus=[Gpu(uuid="GPU-1", power=100)]))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    play(Scenario())
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetPowerUsage(handle)
    play(Scenario(gpus=[Gpu(uuid="GPU-1", power=300)]))
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 300


def test_mig_device_tells_its_own_readings(play: Play) -> None:
    mig = MigDevice(
        uuid="MIG-1", name="1g.5gb", gpu_instance=7, compute_instance=1, gpu_slices=1, compute_slices=1
    )
    mig.multiprocessors, mig.memory_total, mig.memory_used, mig.memory_free = 14, 1 << 30, 5, 9
    play(Scenario(gpus=[Gpu(uuid="GPU-1", name="A100", power=5, mig_devices_max=7, migs=[mig])]))
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    told = (
        pynvml.nvmlDeviceGetUUID(handle),
        pynvml.nvmlDeviceGetName(handle),
        pynvml.nvmlDeviceGetGpuInstanceId(handle),
        pynvml.nvmlDeviceGetComputeInstanceId(handle),
        pynvml.nvmlDeviceIsMigDeviceHandle(handle).value,
        pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)),
        values("multiprocessorCount", "memorySizeMB")(pynvml.nvmlDeviceGetAttributes(handle)),
    )
    assert told == ("MIG-1", "1g.5gb", 7, 1, 1, "GPU-1", (14, 1024))
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetPowerUsage(handle)


@pytest.mark.parametrize(
    ("index", "error"),
    [(2, pynvml.NVMLError_NotFound), (7, pynvml.NVMLError_InvalidArgument)],
    ids=["no device there", "never a device there"],
)
def test_mig_index_without_device(play: Play, index: int, error: type[Exception]) -> None:
    play(Scenario(gpus=[a100_mig(0, ["1g.5gb", "1g.5gb"])]))
    with pytest.raises(error):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(pynvml.nvmlDeviceGetHandleByIndex(0), index)


@pytest.mark.parametrize(
    ("gpu", "unsupported"),
    [
        (h100(), {"fan", "retired pages", "pending retirement", "inforom image"}),
        (
            l4(),
            {"fan", "retired pages", "pending retirement", "inforom image"}
            | {"nvlink", "nvlink version", "nvlink errors", "mig mode"},
        ),
        (a100_mig(), {"fan", "retired pages", "pending retirement", "inforom image", "utilization"}),
    ],
    ids=["h100", "l4", "a100 with mig"],
)
def test_preset_has_what_such_a_device_has(play: Play, gpu: Gpu, unsupported: set[str]) -> None:
    play(Scenario(gpus=[gpu]))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    refused = set()
    for name, _, read, _ in READINGS:
        try:
            read(handle)
        except pynvml.NVMLError_NotSupported:
            refused.add(name)
    assert unsupported == refused


def test_readings_hold_while_threads_call_and_the_scenario_changes(play: Play, scenario_file: Path) -> None:
    gpu = Gpu(uuid="GPU-1", utilization_gpu=1, utilization_memory=1)
    play(Scenario(gpus=[gpu]))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    def read_many(_: int) -> bool:
        told = (pynvml.nvmlDeviceGetUtilizationRates(handle) for _ in range(2000))
        return all(rates.gpu == rates.memory for rates in told)

    with ThreadPoolExecutor(4) as pool:
        reading = pool.map(read_many, range(4))
        for value in range(50):
            gpu.utilization_gpu = gpu.utilization_memory = value
            Scenario(gpus=[gpu]).write(scenario_file)
        assert all(reading)
