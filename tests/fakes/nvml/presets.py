"""GPUs as they are met in clusters: each has every reading that such a device has, at a moment of work."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pynvml

from fakes.nvml.scenario import Energy, FieldValue, Gpu, MigDevice, Scenario

MIB = 1 << 20
ALL_LINKS = 0xFFFFFFFF
"""The scope of an NVLink field value that sums over all links."""

MIG_PROFILES = {
    # profile: GPU instance id of the first, slices, multiprocessors, memory (MiB) on an A100 of 40 GB
    "1g.5gb": (7, 1, 14, 4864),
    "2g.10gb": (3, 2, 28, 9856),
    "3g.20gb": (1, 3, 42, 19968),
    "4g.20gb": (1, 4, 56, 19968),
    "7g.40gb": (0, 7, 98, 40192),
}


def node(count: int) -> Scenario:
    """A node with `count` H100s."""
    return Scenario(gpus=[h100(index) for index in range(count)])


def h100(index: int = 0) -> Gpu:
    """An H100 of 80 GB (SXM): NVLink, GPM, no fan of its own."""
    gpu = Gpu(
        uuid=_uuid("GPU", f"h100-{index}"),
        name="NVIDIA H100 80GB HBM3",
        serial=f"16529230{index:05}",
        vbios="96.00.74.00.01",
        part_number="692-2G520-0200-000",
        gsp_firmware="570.124.06",
        architecture=pynvml.NVML_DEVICE_ARCH_HOPPER,
        compute_capability={0: 9, 1: 0},
        cores=16896,
        memory_bus_width=5120,
        pci_device_id=0x233010DE,
        pci_subsystem_id=0x16C110DE,
        utilization_gpu=87,
        utilization_memory=41,
        live=True,
        temperature={pynvml.NVML_TEMPERATURE_GPU: 56},
        power=412_000,
        energy=Energy(millijoules=91_000_000_000, rate=412_000),
        gpm={
            pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: 87.0,
            pynvml.NVML_GPM_METRIC_SM_UTIL: 71.5,
            pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: 38.25,
            pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 44.0,
            pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 35.5,
            pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 1200.0,
            pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: 3400.0,
        },
    )
    _place(gpu, index)
    _add_memory(gpu, total=81559, reserved=551, used=50_000)
    _add_limits(gpu, power=700_000, power_min=200_000, slowdown=89, shutdown=92)
    _add_clocks(gpu, {"sm": (1755, 1980), "memory": (2619, 2619), "video": (1320, 1545)})
    _add_health(gpu)
    _add_pcie(gpu, generation=5)
    _add_nvlinks(gpu, links=18, version=4)
    _add_fields(gpu, memory_temperature=64)
    return gpu


def l4(index: int = 0) -> Gpu:
    """An L4: a small PCIe card for inference, without NVLink, MIG and GPM."""
    gpu = Gpu(
        uuid=_uuid("GPU", f"l4-{index}"),
        name="NVIDIA L4",
        serial=f"13220230{index:05}",
        vbios="95.04.29.00.06",
        part_number="900-2G193-0000-001",
        gsp_firmware="570.124.06",
        architecture=pynvml.NVML_DEVICE_ARCH_ADA,
        compute_capability={0: 8, 1: 9},
        cores=7424,
        memory_bus_width=192,
        pci_device_id=0x27B810DE,
        pci_subsystem_id=0x16EE10DE,
        utilization_gpu=23,
        utilization_memory=8,
        live=True,
        temperature={pynvml.NVML_TEMPERATURE_GPU: 48},
        power=31_500,
        energy=Energy(millijoules=2_100_000_000, rate=31_500),
    )
    _place(gpu, index)
    _add_memory(gpu, total=23034, reserved=444, used=6_200)
    _add_limits(gpu, power=72_000, power_min=40_000, slowdown=95, shutdown=98)
    _add_clocks(gpu, {"sm": (1995, 2040), "memory": (6250, 6251), "video": (1665, 1770)})
    _add_health(gpu)
    _add_pcie(gpu, generation=4)
    _add_fields(gpu, memory_temperature=None)
    gpu.mig_mode_current = gpu.mig_mode_pending = gpu.mig_devices_max = None
    return gpu


def a100_mig(index: int = 0, profiles: Sequence[str] = ("3g.20gb", "2g.10gb", "1g.5gb")) -> Gpu:
    """An A100 of 40 GB (SXM) in MIG mode: NVML tells no utilisation, neither of it nor of its processes."""
    gpu = Gpu(
        uuid=_uuid("GPU", f"a100-{index}"),
        name="NVIDIA A100-SXM4-40GB",
        serial=f"15658210{index:05}",
        vbios="92.00.45.00.03",
        part_number="692-2G506-0200-002",
        gsp_firmware="570.124.06",
        architecture=pynvml.NVML_DEVICE_ARCH_AMPERE,
        compute_capability={0: 8, 1: 0},
        cores=6912,
        memory_bus_width=5120,
        pci_device_id=0x20B010DE,
        pci_subsystem_id=0x134F10DE,
        temperature={pynvml.NVML_TEMPERATURE_GPU: 41},
        power=148_000,
        energy=Energy(millijoules=55_000_000_000, rate=148_000),
    )
    _place(gpu, index)
    _add_memory(gpu, total=40960, reserved=583, used=9_300)
    _add_limits(gpu, power=400_000, power_min=100_000, slowdown=92, shutdown=95)
    _add_clocks(gpu, {"sm": (1410, 1410), "memory": (1215, 1215), "video": (1275, 1290)})
    _add_health(gpu)
    _add_pcie(gpu, generation=4)
    _add_nvlinks(gpu, links=12, version=3)
    _add_fields(gpu, memory_temperature=43)
    gpu.mig_mode_current = gpu.mig_mode_pending = 1
    _add_migs(gpu, index, profiles)
    return gpu


def _uuid(prefix: str, name: str) -> str:
    return f"{prefix}-{uuid.uuid5(uuid.NAMESPACE_DNS, name)}"


def _place(gpu: Gpu, index: int) -> None:
    gpu.pci_bus_id = f"{0:08X}:{0x1B + 0x0E * index:02X}:00.0"
    gpu.minor_number = index
    gpu.board_id = 0x1B00 + 0x0E00 * index
    gpu.brand = pynvml.NVML_BRAND_NVIDIA
    gpu.bus_type = pynvml.NVML_BUS_TYPE_PCIE
    gpu.compute_mode = pynvml.NVML_COMPUTEMODE_DEFAULT
    gpu.persistence_mode = 1
    gpu.supported_events = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
    gpu.performance_state = 0
    gpu.utilization_encoder = gpu.utilization_decoder = gpu.utilization_jpeg = gpu.utilization_ofa = 0
    gpu.fans = 0
    gpu.mig_mode_current = gpu.mig_mode_pending = 0
    gpu.mig_devices_max = 7


def _add_memory(gpu: Gpu, *, total: int, reserved: int, used: int) -> None:
    gpu.memory_total = total * MIB
    gpu.memory_reserved = reserved * MIB
    gpu.memory_used = used * MIB
    gpu.memory_free = (total - reserved - used) * MIB
    gpu.bar1_total, gpu.bar1_used, gpu.bar1_free = 131072 * MIB, 2 * MIB, 131070 * MIB


def _add_limits(gpu: Gpu, *, power: int, power_min: int, slowdown: int, shutdown: int) -> None:
    gpu.power_limit = gpu.power_limit_enforced = gpu.power_limit_default = gpu.power_limit_max = power
    gpu.power_limit_min = power_min
    gpu.temperature_threshold = {
        pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN: shutdown,
        pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN: slowdown,
        pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX: slowdown - 2,
    }


def _add_clocks(gpu: Gpu, clocks: dict[str, tuple[int, int]]) -> None:
    kinds = {
        pynvml.NVML_CLOCK_GRAPHICS: "sm",
        pynvml.NVML_CLOCK_SM: "sm",
        pynvml.NVML_CLOCK_MEM: "memory",
        pynvml.NVML_CLOCK_VIDEO: "video",
    }
    gpu.clock = {kind: clocks[name][0] for kind, name in kinds.items()}
    gpu.clock_max = {kind: clocks[name][1] for kind, name in kinds.items()}
    gpu.clock_event_reasons = pynvml.nvmlClocksEventReasonNone
    gpu.clock_event_reasons_supported = 0x1FF


def _add_health(gpu: Gpu) -> None:
    kinds = (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
    counters = (pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC)
    locations = (pynvml.NVML_MEMORY_LOCATION_DRAM, pynvml.NVML_MEMORY_LOCATION_SRAM)
    gpu.ecc_mode_current = gpu.ecc_mode_pending = 1
    gpu.ecc_errors = {(kind, counter): 0 for kind in kinds for counter in counters}
    gpu.memory_errors = {(*total, location): 0 for total in gpu.ecc_errors for location in locations}
    gpu.remapped_rows = {0: 0, 1: 0, 2: 0, 3: 0}


def _add_pcie(gpu: Gpu, *, generation: int) -> None:
    gpu.pcie_generation = gpu.pcie_generation_max = gpu.pcie_generation_device_max = generation
    gpu.pcie_width = gpu.pcie_width_max = 16
    gpu.pcie_replays = 0
    gpu.pcie_throughput = {pynvml.NVML_PCIE_UTIL_TX_BYTES: 120_000, pynvml.NVML_PCIE_UTIL_RX_BYTES: 340_000}
    gpu.fields[pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES] = FieldValue(value=3_020_371_496, type="uint")
    gpu.fields[pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES] = FieldValue(value=3_893_142_392, type="uint")


def _add_nvlinks(gpu: Gpu, *, links: int, version: int) -> None:
    gpu.nvlink_active = dict.fromkeys(range(links), 1)
    gpu.nvlink_version = dict.fromkeys(range(links), version)
    gpu.nvlink_errors = {(link, counter): 0 for link in range(links) for counter in range(4)}
    gpu.fields[pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT] = FieldValue(value=links, type="uint")
    for total in (
        pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
        pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
        pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
        pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
    ):
        gpu.fields[total] = FieldValue(value=0)
    for scope in (*range(links), ALL_LINKS):
        gpu.fields[pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, scope] = FieldValue(value=5_000_000)
        gpu.fields[pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, scope] = FieldValue(value=6_000_000)


def _add_fields(gpu: Gpu, *, memory_temperature: int | None) -> None:
    recovery = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    gpu.fields[recovery] = FieldValue(value=pynvml.NVML_GPU_RECOVERY_ACTION_NONE, type="uint")
    gpu.fields[pynvml.NVML_FI_DEV_POWER_INSTANT] = FieldValue(value=gpu.power or 0, type="uint")
    if memory_temperature is not None:
        gpu.fields[pynvml.NVML_FI_DEV_MEMORY_TEMP] = FieldValue(value=memory_temperature, type="uint")
    for reason in (
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
    ):
        gpu.fields[reason] = FieldValue(value=0)


def _add_migs(gpu: Gpu, index: int, profiles: Sequence[str]) -> None:
    taken: set[int] = set()
    for order, profile in enumerate(profiles):
        first, slices, multiprocessors, memory = MIG_PROFILES[profile]
        instance = next(free for free in range(first, 14) if free not in taken)
        taken.add(instance)
        mig = MigDevice(
            uuid=_uuid("MIG", f"a100-{index}-{order}-{profile}"),
            name=f"{gpu.name} MIG {profile}",
            gpu_instance=instance,
            compute_instance=0,
            gpu_slices=slices,
            compute_slices=slices,
            multiprocessors=multiprocessors,
            memory_total=memory * MIB,
            memory_reserved=0,
            memory_used=1024 * MIB,
            memory_free=(memory - 1024) * MIB,
        )
        gpu.migs.append(mig)
