"""What a GPU, or a MIG device of it, is and does."""

from __future__ import annotations

from gpuledger.core.spec import DEVICE, counter, gauge
from gpuledger.metrics.xids import read_xids

MIG = (*DEVICE, "mig_uuid")
REPAIR = ", ".join(str(xid.code) for xid in read_xids().of_tier("critical"))
GPU_INFO_LABELS = ("model", "architecture", "pci_bus_id", "driver_version", "cuda_version", "vbios_version")

GPU = (
    gauge(
        "gpu_info",
        (*DEVICE, *GPU_INFO_LABELS),
        "What the GPU is, with value 1; join on gpu_uuid.",
        "nvmlDeviceGetName, …",
    ),
    gauge(
        "gpu_up",
        DEVICE,
        "1 while the driver answers for the GPU, 0 once it is lost or fell off the bus.",
        "NVML_ERROR_GPU_IS_LOST",
    ),
    gauge(
        "gpu_utilization_ratio",
        DEVICE,
        "Share of the driver's last sample period in which a kernel ran on the GPU, 0 to 1.",
        "nvmlDeviceGetUtilizationRates",
    ),
    counter(
        "gpu_busy_seconds_total",
        DEVICE,
        "Seconds in which a kernel ran on the GPU, from the driver's samples since the exporter started.",
        "nvmlDeviceGetSamples",
    ),
    gauge(
        "gpu_memory_utilization_ratio",
        DEVICE,
        "Share of the driver's last sample period in which GPU memory was read or written, 0 to 1.",
        "nvmlDeviceGetUtilizationRates",
    ),
    gauge("gpu_memory_total_bytes", DEVICE, "Memory of the GPU in bytes.", "nvmlDeviceGetMemoryInfo_v2"),
    gauge(
        "gpu_memory_used_bytes",
        DEVICE,
        "Memory in use in bytes, without what the driver reserves for itself where it tells that apart.",
        "nvmlDeviceGetMemoryInfo_v2",
    ),
    gauge("gpu_memory_free_bytes", DEVICE, "Memory free in bytes.", "nvmlDeviceGetMemoryInfo_v2"),
    gauge(
        "gpu_memory_reserved_bytes",
        DEVICE,
        "Memory in bytes that the driver and firmware keep for themselves.",
        "nvmlDeviceGetMemoryInfo_v2",
    ),
    gauge(
        "gpu_temperature_celsius",
        (*DEVICE, "sensor"),
        "Temperature in degrees Celsius, by sensor (gpu, memory).",
        "nvmlDeviceGetTemperature",
    ),
    gauge(
        "gpu_temperature_slowdown_celsius",
        DEVICE,
        "Temperature in degrees Celsius at which this model's hardware slows itself down.",
        "nvmlDeviceGetTemperatureThreshold",
    ),
    gauge("gpu_power_watts", DEVICE, "Power drawn by the board in watts.", "nvmlDeviceGetPowerUsage"),
    gauge(
        "gpu_power_limit_watts",
        DEVICE,
        "Power limit in force in watts, the lowest of all that apply.",
        "nvmlDeviceGetEnforcedPowerLimit",
    ),
    counter(
        "gpu_energy_joules_total",
        DEVICE,
        "Energy used in joules since the driver was loaded.",
        "nvmlDeviceGetTotalEnergyConsumption",
    ),
    gauge(
        "gpu_clock_hertz",
        (*DEVICE, "clock"),
        "Clock frequency in hertz, by clock domain.",
        "nvmlDeviceGetClockInfo",
    ),
    gauge(
        "gpu_clock_max_hertz",
        (*DEVICE, "clock"),
        "Highest clock frequency in hertz, by clock domain.",
        "nvmlDeviceGetMaxClockInfo",
    ),
    gauge(
        "gpu_throttled",
        (*DEVICE, "reason"),
        "1 while the clocks are held down for this reason; idle and application settings are not faults.",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ),
    counter(
        "gpu_throttled_seconds_total",
        (*DEVICE, "reason"),
        "Seconds for which gpu_throttled was 1, as sampled once a cycle since the exporter started.",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ),
    counter(
        "gpu_ecc_errors_total",
        (*DEVICE, "type", "scope"),
        "ECC memory errors by type; volatile ones since the driver was loaded, aggregate ones of all time.",
        "nvmlDeviceGetTotalEccErrors",
    ),
    gauge("gpu_ecc_enabled", DEVICE, "1 where ECC is in force.", "nvmlDeviceGetEccMode"),
    gauge(
        "gpu_remapped_rows",
        (*DEVICE, "cause"),
        "Memory rows replaced by spares, by cause (correctable, uncorrectable).",
        "nvmlDeviceGetRemappedRows",
    ),
    gauge(
        "gpu_row_remap_pending",
        DEVICE,
        "1 while a row waits for a GPU reset to be replaced.",
        "nvmlDeviceGetRemappedRows",
    ),
    gauge(
        "gpu_row_remap_failed",
        DEVICE,
        "1 once a row could not be replaced: the board is due for exchange.",
        "nvmlDeviceGetRemappedRows",
    ),
    gauge(
        "gpu_retired_pages",
        (*DEVICE, "cause"),
        "Memory pages taken out of use, by cause (single_bit_ecc, double_bit_ecc); GPUs before Ampere.",
        "NVML_FI_DEV_RETIRED_SBE, _DBE",
    ),
    gauge(
        "gpu_retired_pages_pending",
        DEVICE,
        "1 while a page waits for a reboot to be taken out of use.",
        "NVML_FI_DEV_RETIRED_PENDING",
    ),
    counter(
        "gpu_xid_errors_total",
        (*DEVICE, "xid"),
        "Errors that the driver reported for the GPU since the exporter started, by XID code; these call for a "
        f"repair: {REPAIR}.",
        "nvmlEventSetWait",
    ),
    gauge(
        "gpu_xid_last_timestamp_seconds",
        (*DEVICE, "xid"),
        "Unix time of the last error of this XID code; alert on this: a counter's first value is no increase.",
        "nvmlEventSetWait",
    ),
    gauge(
        "gpu_xid_pod_info",
        (*DEVICE, "xid", "namespace", "pod", "container", "workload_kind", "workload"),
        "Who was on the GPU at the last error with this XID code, with value 1, for an hour after it.",
        "nvmlEventSetWait",
    ),
    gauge(
        "gpu_recovery_action",
        DEVICE,
        "What the driver asks for: 0 nothing, 1 reset, 2 reboot, 3 drain peer-to-peer, 4 drain and reset.",
        "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
    ),
    gauge(
        "gpu_pcie_link_generation",
        DEVICE,
        "Current PCIe generation; an idle GPU lowers it to save power.",
        "nvmlDeviceGetCurrPcieLinkGeneration",
    ),
    gauge(
        "gpu_pcie_link_generation_max",
        DEVICE,
        "Highest PCIe generation that the GPU and its slot allow.",
        "nvmlDeviceGetMaxPcieLinkGeneration",
    ),
    gauge(
        "gpu_pcie_link_width",
        DEVICE,
        "Current number of PCIe lanes.",
        "nvmlDeviceGetCurrPcieLinkWidth",
    ),
    gauge(
        "gpu_pcie_link_width_max",
        DEVICE,
        "Highest number of PCIe lanes that the GPU and its slot allow.",
        "nvmlDeviceGetMaxPcieLinkWidth",
    ),
    counter(
        "gpu_pcie_replays_total",
        DEVICE,
        "PCIe packets sent again after an error.",
        "nvmlDeviceGetPcieReplayCounter",
    ),
    counter(
        "gpu_pcie_transmitted_bytes_total",
        DEVICE,
        "Bytes sent over PCIe since the exporter started; Hopper and newer.",
        "NVML GPM PCIE_TX_PER_SEC",
    ),
    counter(
        "gpu_pcie_received_bytes_total",
        DEVICE,
        "Bytes received over PCIe since the exporter started; Hopper and newer.",
        "NVML GPM PCIE_RX_PER_SEC",
    ),
    gauge(
        "gpu_nvlink_up",
        (*DEVICE, "link"),
        "1 while the NVLink is active, 0 while it is not; a board without a bridge shows its links as 0.",
        "nvmlDeviceGetNvLinkState",
    ),
    counter(
        "gpu_nvlink_errors_total",
        (*DEVICE, "type"),
        "NVLink errors over all links, by type.",
        "NVML_FI_DEV_NVLINK_*_ERROR_COUNT_TOTAL",
    ),
    counter(
        "gpu_nvlink_transmitted_bytes_total",
        DEVICE,
        "Bytes of payload sent over all NVLinks.",
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
    ),
    counter(
        "gpu_nvlink_received_bytes_total",
        DEVICE,
        "Bytes of payload received over all NVLinks.",
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
    ),
    gauge(
        "gpu_fan_speed_ratio",
        (*DEVICE, "fan"),
        "Speed that the fan is driven at, as a share of its highest; may exceed 1 for a moment.",
        "nvmlDeviceGetFanSpeed_v2",
    ),
    gauge(
        "gpu_encoder_utilization_ratio",
        DEVICE,
        "Use of the video encoder, 0 to 1.",
        "nvmlDeviceGetEncoderUtilization",
    ),
    gauge(
        "gpu_decoder_utilization_ratio",
        DEVICE,
        "Use of the video decoder, 0 to 1.",
        "nvmlDeviceGetDecoderUtilization",
    ),
    gauge(
        "gpu_performance_state",
        DEVICE,
        "Performance state, 0 (fastest) to 15.",
        "nvmlDeviceGetPerformanceState",
    ),
    gauge(
        "gpu_processes",
        DEVICE,
        "Processes with a context on the GPU, MIG devices included.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    gauge("gpu_mig_enabled", DEVICE, "1 while the GPU is divided by MIG.", "nvmlDeviceGetMigMode"),
    gauge(
        "gpu_persistence_enabled",
        DEVICE,
        "1 while the driver stays loaded without clients.",
        "nvmlDeviceGetPersistenceMode",
    ),
    gauge(
        "gpu_graphics_active_ratio",
        DEVICE,
        "Share of time in which the compute or graphics engine was busy, 0 to 1; Hopper and newer.",
        "NVML GPM GRAPHICS_UTIL",
    ),
    gauge(
        "gpu_sm_active_ratio",
        DEVICE,
        "Share of the streaming multiprocessors that were busy, 0 to 1; Hopper and newer.",
        "NVML GPM SM_UTIL",
    ),
    gauge(
        "gpu_sm_occupancy_ratio",
        DEVICE,
        "Warps resident as a share of the most possible, 0 to 1; Hopper and newer.",
        "NVML GPM SM_OCCUPANCY",
    ),
    gauge(
        "gpu_tensor_active_ratio",
        DEVICE,
        "Share of time in which tensor cores were busy, 0 to 1; Hopper and newer.",
        "NVML GPM ANY_TENSOR_UTIL",
    ),
    gauge(
        "gpu_dram_active_ratio",
        DEVICE,
        "Memory bandwidth used as a share of the highest, 0 to 1; Hopper and newer.",
        "NVML GPM DRAM_BW_UTIL",
    ),
    gauge(
        "gpu_unsupported",
        (*DEVICE, "reading"),
        "1 for each reading that this GPU or driver does not offer; its series is absent, and not 0.",
        "NVML_ERROR_NOT_SUPPORTED",
    ),
)

MIG_DEVICE = (
    gauge(
        "mig_info",
        (*MIG, "profile", "gpu_instance", "compute_instance"),
        "What the MIG device is, with value 1.",
        "nvmlDeviceGetMigDeviceHandleByIndex",
    ),
    gauge("mig_memory_total_bytes", MIG, "Memory of the MIG device in bytes.", "nvmlDeviceGetMemoryInfo_v2"),
    gauge(
        "mig_memory_used_bytes",
        MIG,
        "Memory of the MIG device in use in bytes.",
        "nvmlDeviceGetMemoryInfo_v2",
    ),
    gauge(
        "mig_memory_free_bytes", MIG, "Memory of the MIG device free in bytes.", "nvmlDeviceGetMemoryInfo_v2"
    ),
    gauge(
        "mig_memory_reserved_bytes",
        MIG,
        "Memory of the MIG device in bytes that the driver keeps for itself.",
        "nvmlDeviceGetMemoryInfo_v2",
    ),
    gauge(
        "mig_graphics_active_ratio",
        MIG,
        "As gpu_graphics_active_ratio, of the GPU instance: what utilisation is to a GPU without MIG.",
        "NVML GPM GRAPHICS_UTIL",
    ),
    gauge("mig_sm_active_ratio", MIG, "As gpu_sm_active_ratio, of the GPU instance.", "NVML GPM SM_UTIL"),
    gauge(
        "mig_sm_occupancy_ratio",
        MIG,
        "As gpu_sm_occupancy_ratio, of the GPU instance.",
        "NVML GPM SM_OCCUPANCY",
    ),
    gauge(
        "mig_tensor_active_ratio",
        MIG,
        "As gpu_tensor_active_ratio, of the GPU instance.",
        "NVML GPM ANY_TENSOR_UTIL",
    ),
    gauge(
        "mig_dram_active_ratio",
        MIG,
        "As gpu_dram_active_ratio, of the GPU instance.",
        "NVML GPM DRAM_BW_UTIL",
    ),
)
