"""Every metric of gpuledger, declared once.

HELP lines, docs/metrics.md, name checks and the selectors that rules and dashboards may use derive from here.
To add a device reading: its spec here and its row in sources/nvml/readings.py; nothing else.
"""

from __future__ import annotations

from gpuledger.core.spec import DEVICE, OWNER, MetricSpec

MIG = (*DEVICE, "mig_uuid")
PROCESS = (*OWNER, "pid", "process", "reason")
POD = ("node", "namespace", "pod")
SOURCE = ("node", "source")


def _gauge(name: str, labels: tuple[str, ...], text: str, source: str = "") -> MetricSpec:
    return MetricSpec(name, "gauge", text, labels, source)


def _counter(name: str, labels: tuple[str, ...], text: str, source: str = "") -> MetricSpec:
    return MetricSpec(name, "counter", text, labels, source)


GPU_INFO_LABELS = ("model", "architecture", "pci_bus_id", "driver_version", "cuda_version", "vbios_version")

GPU = (
    _gauge(
        "gpu_info",
        (*DEVICE, *GPU_INFO_LABELS),
        "What the GPU is, with value 1; join on gpu_uuid.",
        "nvmlDeviceGetName, …",
    ),
    _gauge(
        "gpu_up",
        DEVICE,
        "1 while the driver answers for the GPU, 0 once it is lost or fell off the bus.",
        "NVML_ERROR_GPU_IS_LOST",
    ),
    _gauge(
        "gpu_utilization_ratio",
        DEVICE,
        "Share of the driver's last sample period in which a kernel ran on the GPU, 0 to 1.",
        "nvmlDeviceGetUtilizationRates",
    ),
    _counter(
        "gpu_busy_seconds_total",
        DEVICE,
        "Seconds in which a kernel ran on the GPU since the exporter started, integrated from the driver's samples.",
        "nvmlDeviceGetSamples",
    ),
    _gauge(
        "gpu_memory_utilization_ratio",
        DEVICE,
        "Share of the driver's last sample period in which GPU memory was read or written, 0 to 1.",
        "nvmlDeviceGetUtilizationRates",
    ),
    _gauge("gpu_memory_total_bytes", DEVICE, "Memory of the GPU in bytes.", "nvmlDeviceGetMemoryInfo_v2"),
    _gauge(
        "gpu_memory_used_bytes",
        DEVICE,
        "Memory in use in bytes, without what the driver reserves for itself where it tells that apart.",
        "nvmlDeviceGetMemoryInfo_v2",
    ),
    _gauge("gpu_memory_free_bytes", DEVICE, "Memory free in bytes.", "nvmlDeviceGetMemoryInfo_v2"),
    _gauge(
        "gpu_memory_reserved_bytes",
        DEVICE,
        "Memory in bytes that the driver and firmware keep for themselves.",
        "nvmlDeviceGetMemoryInfo_v2",
    ),
    _gauge(
        "gpu_temperature_celsius",
        (*DEVICE, "sensor"),
        "Temperature in degrees Celsius, by sensor (gpu, memory).",
        "nvmlDeviceGetTemperature",
    ),
    _gauge(
        "gpu_temperature_slowdown_celsius",
        DEVICE,
        "Temperature in degrees Celsius at which this model's hardware slows itself down.",
        "nvmlDeviceGetTemperatureThreshold",
    ),
    _gauge("gpu_power_watts", DEVICE, "Power drawn by the board in watts.", "nvmlDeviceGetPowerUsage"),
    _gauge(
        "gpu_power_limit_watts",
        DEVICE,
        "Power limit in force in watts, the lowest of all that apply.",
        "nvmlDeviceGetEnforcedPowerLimit",
    ),
    _counter(
        "gpu_energy_joules_total",
        DEVICE,
        "Energy used in joules since the driver was loaded.",
        "nvmlDeviceGetTotalEnergyConsumption",
    ),
    _gauge(
        "gpu_clock_hertz",
        (*DEVICE, "clock"),
        "Clock frequency in hertz, by clock domain.",
        "nvmlDeviceGetClockInfo",
    ),
    _gauge(
        "gpu_clock_max_hertz",
        (*DEVICE, "clock"),
        "Highest clock frequency in hertz, by clock domain.",
        "nvmlDeviceGetMaxClockInfo",
    ),
    _gauge(
        "gpu_throttled",
        (*DEVICE, "reason"),
        "1 while the clocks are held down for this reason; idle and application settings are not faults.",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ),
    _counter(
        "gpu_throttled_seconds_total",
        (*DEVICE, "reason"),
        "Seconds for which gpu_throttled was 1, as sampled once a cycle since the exporter started.",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ),
    _counter(
        "gpu_ecc_errors_total",
        (*DEVICE, "type", "scope"),
        "ECC memory errors by type; volatile ones since the driver was loaded, aggregate ones of all time.",
        "nvmlDeviceGetTotalEccErrors",
    ),
    _gauge("gpu_ecc_enabled", DEVICE, "1 where ECC is in force.", "nvmlDeviceGetEccMode"),
    _gauge(
        "gpu_remapped_rows",
        (*DEVICE, "cause"),
        "Memory rows replaced by spares, by cause (correctable, uncorrectable).",
        "nvmlDeviceGetRemappedRows",
    ),
    _gauge(
        "gpu_row_remap_pending",
        DEVICE,
        "1 while a row waits for a GPU reset to be replaced.",
        "nvmlDeviceGetRemappedRows",
    ),
    _gauge(
        "gpu_row_remap_failed",
        DEVICE,
        "1 once a row could not be replaced: the board is due for exchange.",
        "nvmlDeviceGetRemappedRows",
    ),
    _gauge(
        "gpu_retired_pages",
        (*DEVICE, "cause"),
        "Memory pages taken out of use, by cause (single_bit_ecc, double_bit_ecc); GPUs before Ampere.",
        "NVML_FI_DEV_RETIRED_SBE, _DBE",
    ),
    _gauge(
        "gpu_retired_pages_pending",
        DEVICE,
        "1 while a page waits for a reboot to be taken out of use.",
        "NVML_FI_DEV_RETIRED_PENDING",
    ),
    _counter(
        "gpu_xid_errors_total",
        (*DEVICE, "xid"),
        "Errors that the driver reported for the GPU since the exporter started, by XID code.",
        "nvmlEventSetWait",
    ),
    _gauge(
        "gpu_xid_last_timestamp_seconds",
        (*DEVICE, "xid"),
        "Unix time of the last error of this XID code; alert on this: a counter's first value is no increase.",
        "nvmlEventSetWait",
    ),
    _gauge(
        "gpu_xid_pod_info",
        (*DEVICE, "xid", "namespace", "pod", "container", "workload_kind", "workload"),
        "Who was on the GPU at the last error with this XID code, with value 1, for an hour after it.",
        "nvmlEventSetWait",
    ),
    _gauge(
        "gpu_recovery_action",
        DEVICE,
        "What the driver asks for: 0 nothing, 1 GPU reset, 2 node reboot, 3 drain peer-to-peer, 4 drain and reset.",
        "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
    ),
    _gauge(
        "gpu_pcie_link_generation",
        DEVICE,
        "Current PCIe generation; an idle GPU lowers it to save power.",
        "nvmlDeviceGetCurrPcieLinkGeneration",
    ),
    _gauge(
        "gpu_pcie_link_generation_max",
        DEVICE,
        "Highest PCIe generation that the GPU and its slot allow.",
        "nvmlDeviceGetMaxPcieLinkGeneration",
    ),
    _gauge(
        "gpu_pcie_link_width",
        DEVICE,
        "Current number of PCIe lanes.",
        "nvmlDeviceGetCurrPcieLinkWidth",
    ),
    _gauge(
        "gpu_pcie_link_width_max",
        DEVICE,
        "Highest number of PCIe lanes that the GPU and its slot allow.",
        "nvmlDeviceGetMaxPcieLinkWidth",
    ),
    _counter(
        "gpu_pcie_replays_total",
        DEVICE,
        "PCIe packets sent again after an error.",
        "nvmlDeviceGetPcieReplayCounter",
    ),
    _counter(
        "gpu_pcie_transmitted_bytes_total",
        DEVICE,
        "Bytes sent over PCIe.",
        "NVML_FI_DEV_PCIE_COUNT_TX_BYTES",
    ),
    _counter(
        "gpu_pcie_received_bytes_total",
        DEVICE,
        "Bytes received over PCIe.",
        "NVML_FI_DEV_PCIE_COUNT_RX_BYTES",
    ),
    _gauge(
        "gpu_nvlink_up",
        (*DEVICE, "link"),
        "1 while the NVLink is active, 0 while it is not.",
        "nvmlDeviceGetNvLinkState",
    ),
    _counter(
        "gpu_nvlink_errors_total",
        (*DEVICE, "type"),
        "NVLink errors over all links, by type.",
        "NVML_FI_DEV_NVLINK_*_ERROR_COUNT_TOTAL",
    ),
    _counter(
        "gpu_nvlink_transmitted_bytes_total",
        DEVICE,
        "Bytes of payload sent over all NVLinks.",
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
    ),
    _counter(
        "gpu_nvlink_received_bytes_total",
        DEVICE,
        "Bytes of payload received over all NVLinks.",
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
    ),
    _gauge(
        "gpu_fan_speed_ratio",
        (*DEVICE, "fan"),
        "Speed that the fan is driven at, as a share of its highest; may exceed 1 for a moment.",
        "nvmlDeviceGetFanSpeed_v2",
    ),
    _gauge(
        "gpu_encoder_utilization_ratio",
        DEVICE,
        "Use of the video encoder, 0 to 1.",
        "nvmlDeviceGetEncoderUtilization",
    ),
    _gauge(
        "gpu_decoder_utilization_ratio",
        DEVICE,
        "Use of the video decoder, 0 to 1.",
        "nvmlDeviceGetDecoderUtilization",
    ),
    _gauge(
        "gpu_performance_state",
        DEVICE,
        "Performance state, 0 (fastest) to 15.",
        "nvmlDeviceGetPerformanceState",
    ),
    _gauge(
        "gpu_processes",
        DEVICE,
        "Processes with a context on the GPU, MIG devices included.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    _gauge("gpu_mig_enabled", DEVICE, "1 while the GPU is divided by MIG.", "nvmlDeviceGetMigMode"),
    _gauge(
        "gpu_persistence_enabled",
        DEVICE,
        "1 while the driver stays loaded without clients.",
        "nvmlDeviceGetPersistenceMode",
    ),
    _gauge(
        "gpu_sm_active_ratio",
        DEVICE,
        "Share of the streaming multiprocessors that were busy, 0 to 1; Hopper and newer.",
        "NVML GPM SM_UTIL",
    ),
    _gauge(
        "gpu_sm_occupancy_ratio",
        DEVICE,
        "Warps resident as a share of the most possible, 0 to 1; Hopper and newer.",
        "NVML GPM SM_OCCUPANCY",
    ),
    _gauge(
        "gpu_tensor_active_ratio",
        DEVICE,
        "Share of time in which tensor cores were busy, 0 to 1; Hopper and newer.",
        "NVML GPM ANY_TENSOR_UTIL",
    ),
    _gauge(
        "gpu_dram_active_ratio",
        DEVICE,
        "Memory bandwidth used as a share of the highest, 0 to 1; Hopper and newer.",
        "NVML GPM DRAM_BW_UTIL",
    ),
    _gauge(
        "gpu_unsupported",
        (*DEVICE, "reading"),
        "1 for each reading that this GPU or driver does not offer; its series is absent, and not 0.",
        "NVML_ERROR_NOT_SUPPORTED",
    ),
)

MIG_DEVICE = (
    _gauge(
        "mig_info",
        (*MIG, "profile", "gpu_instance", "compute_instance"),
        "What the MIG device is, with value 1.",
        "nvmlDeviceGetMigDeviceHandleByIndex",
    ),
    _gauge("mig_memory_total_bytes", MIG, "Memory of the MIG device in bytes.", "nvmlDeviceGetMemoryInfo_v2"),
    _gauge(
        "mig_memory_used_bytes",
        MIG,
        "Memory of the MIG device in use in bytes.",
        "nvmlDeviceGetMemoryInfo_v2",
    ),
    _gauge(
        "mig_memory_free_bytes", MIG, "Memory of the MIG device free in bytes.", "nvmlDeviceGetMemoryInfo_v2"
    ),
    _gauge(
        "mig_memory_reserved_bytes",
        MIG,
        "Memory of the MIG device in bytes that the driver keeps for itself.",
        "nvmlDeviceGetMemoryInfo_v2",
    ),
    _gauge("mig_sm_active_ratio", MIG, "As gpu_sm_active_ratio, of the GPU instance.", "NVML GPM SM_UTIL"),
    _gauge(
        "mig_sm_occupancy_ratio",
        MIG,
        "As gpu_sm_occupancy_ratio, of the GPU instance.",
        "NVML GPM SM_OCCUPANCY",
    ),
    _gauge(
        "mig_tensor_active_ratio",
        MIG,
        "As gpu_tensor_active_ratio, of the GPU instance.",
        "NVML GPM ANY_TENSOR_UTIL",
    ),
    _gauge(
        "mig_dram_active_ratio",
        MIG,
        "As gpu_dram_active_ratio, of the GPU instance.",
        "NVML GPM DRAM_BW_UTIL",
    ),
)

CONTAINER = (
    _gauge(
        "container_allocated",
        (*OWNER, "resource"),
        "Devices, slices or shares of this GPU that the kubelet has allocated to the container.",
        "kubelet PodResources",
    ),
    _counter(
        "container_allocated_seconds_total",
        (*OWNER, "resource"),
        "container_allocated integrated over time since the exporter started: device-seconds held.",
        "kubelet PodResources",
    ),
    _gauge(
        "container_memory_used_bytes",
        OWNER,
        "GPU memory in bytes of the container's processes; absent where the driver does not tell one's.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    _gauge(
        "container_sm_utilization_ratio",
        OWNER,
        "Share of time in which kernels of the container's processes ran, 0 to 1; not available on MIG.",
        "nvmlDeviceGetProcessUtilization",
    ),
    _counter(
        "container_sm_busy_seconds_total",
        OWNER,
        "Seconds in which kernels of the container's processes ran, integrated from the driver's samples.",
        "nvmlDeviceGetProcessUtilization",
    ),
    _gauge(
        "container_processes",
        OWNER,
        "Processes of the container with a context on the GPU.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    _counter(
        "container_energy_joules_total",
        OWNER,
        "Estimated energy in joules: each cycle's growth of gpu_energy_joules_total, split by SM time among all "
        "who ran in that cycle; cycles in which nobody ran are charged to nobody.",
        "nvmlDeviceGetTotalEnergyConsumption",
    ),
)

PROCESS_ROW = (
    _gauge(
        "process_memory_used_bytes",
        PROCESS,
        "GPU memory of the process in bytes.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    _gauge(
        "process_sm_utilization_ratio",
        PROCESS,
        "Share of time in which kernels of the process ran, 0 to 1; not available on MIG.",
        "nvmlDeviceGetProcessUtilization",
    ),
    _gauge(
        "process_start_time_seconds", PROCESS, "Unix time at which the process started.", "/proc/<pid>/stat"
    ),
    _counter("process_cpu_seconds_total", PROCESS, "CPU seconds used by the process.", "psutil cpu_times"),
    _gauge(
        "process_resident_memory_bytes",
        PROCESS,
        "Host memory of the process in bytes.",
        "psutil memory_info",
    ),
)

UNATTRIBUTED_LABELS = (*MIG, "reason", "unit")

UNATTRIBUTED = (
    _gauge(
        "unattributed_memory_used_bytes",
        UNATTRIBUTED_LABELS,
        "GPU memory in bytes that no container owns, by reason; with the containers' it adds up to the device's.",
        "nvmlDeviceGet*RunningProcesses, nvmlDeviceGetMemoryInfo_v2",
    ),
    _gauge(
        "unattributed_processes",
        UNATTRIBUTED_LABELS,
        "Processes on the GPU that no container owns, by reason and, for the host's, systemd unit.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    _counter(
        "unattributed_sm_busy_seconds_total",
        UNATTRIBUTED_LABELS,
        "Seconds in which kernels of processes that no container owns ran, by reason.",
        "nvmlDeviceGetProcessUtilization",
    ),
)

POD_FACTS = (
    _gauge(
        "pod_info",
        (*POD, "uid", "qos", "workload_kind", "workload", "workload_inferred"),
        "What a pod that uses, holds or asks for a GPU is, with value 1.",
        "API pods",
    ),
    _gauge("pod_status_phase", (*POD, "phase"), "1 for the pod's phase, 0 for the others.", "API pods"),
    _gauge("pod_ready", POD, "1 while the pod is ready.", "API pods"),
    _counter(
        "pod_container_restarts_total",
        (*POD, "container"),
        "Restarts of the container.",
        "API pods",
    ),
    _gauge("pod_created_timestamp_seconds", POD, "Unix time at which the pod was created.", "API pods"),
    _gauge(
        "pod_last_terminated_info",
        (*POD, "container", "reason", "exit_code"),
        "How the container last ended, with value 1.",
        "API pods",
    ),
)

SELF = (
    _gauge("build_info", ("node", "version", "python_version"), "The exporter's version, with value 1."),
    _gauge(
        "last_cycle_timestamp_seconds",
        ("node",),
        "Unix time of the cycle that this page shows; an old one means a stuck exporter.",
    ),
    _gauge("source_up", SOURCE, "1 while the source of evidence answers in time."),
    _gauge("source_last_success_timestamp_seconds", SOURCE, "Unix time at which the source last answered."),
    _gauge("source_duration_seconds", SOURCE, "Seconds that the source's last answer took."),
    _counter("source_failures_total", SOURCE, "Failed attempts to read the source."),
    _gauge(
        "attribution_processes",
        ("node", "result"),
        "Processes on GPUs by what attribution made of them: owned, or the reason why not.",
    ),
    _gauge(
        "unresolved_allocations",
        ("node",),
        "Devices that the kubelet has allocated and whose id names no GPU that the driver shows.",
        "kubelet PodResources",
    ),
    _counter(
        "dropped_readings_total",
        ("node", "reading"),
        "Readings thrown away because no real device could show them, by metric.",
    ),
    _counter(
        "series_dropped_total",
        ("node", "family"),
        "Series left out because their family had reached --series-limit.",
    ),
)

SPECS: tuple[MetricSpec, ...] = (
    *GPU,
    *MIG_DEVICE,
    *CONTAINER,
    *PROCESS_ROW,
    *UNATTRIBUTED,
    *POD_FACTS,
    *SELF,
)

BY_NAME: dict[str, MetricSpec] = {spec.name: spec for spec in SPECS}
