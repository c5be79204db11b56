"""Who uses GPUs: containers, processes, and what has no owner."""

from __future__ import annotations

from gpuledger.core.spec import DEVICE, OWNER, counter, gauge

PROCESS = (*OWNER, "pid", "process", "reason")

CONTAINER = (
    gauge(
        "container_allocated",
        (*OWNER, "resource"),
        "Devices, slices or shares of this GPU that the kubelet has allocated to the container.",
        "kubelet PodResources",
    ),
    counter(
        "container_allocated_seconds_total",
        (*OWNER, "resource"),
        "container_allocated integrated over time since the exporter started: device-seconds held.",
        "kubelet PodResources",
    ),
    gauge(
        "container_memory_used_bytes",
        OWNER,
        "GPU memory in bytes of the container's processes; absent where the driver does not tell one's.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    gauge(
        "container_sm_utilization_ratio",
        OWNER,
        "Share of time in which kernels of the container's processes ran, 0 to 1; not available on MIG.",
        "nvmlDeviceGetProcessUtilization",
    ),
    counter(
        "container_sm_busy_seconds_total",
        OWNER,
        "Seconds in which kernels of the container's processes ran, integrated from the driver's samples.",
        "nvmlDeviceGetProcessUtilization",
    ),
    gauge(
        "container_processes",
        OWNER,
        "Processes of the container with a context on the GPU.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    counter(
        "container_energy_joules_total",
        OWNER,
        "Estimated energy in joules: each cycle's growth of gpu_energy_joules_total, split by SM time among "
        "all who ran in that cycle; cycles in which nobody ran are charged to nobody.",
        "nvmlDeviceGetTotalEnergyConsumption",
    ),
)

KUBELET = (
    gauge(
        "kubelet_allocatable_devices",
        ("node", "resource"),
        "Healthy devices, slices or shares that device plugins offer the kubelet, held by a container or not.",
        "kubelet PodResources",
    ),
)

PROCESS_ROW = (
    gauge(
        "process_memory_used_bytes",
        PROCESS,
        "GPU memory of the process in bytes.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    gauge(
        "process_sm_utilization_ratio",
        PROCESS,
        "Share of time in which kernels of the process ran, 0 to 1; not available on MIG.",
        "nvmlDeviceGetProcessUtilization",
    ),
    gauge("process_start_time_seconds", PROCESS, "Unix time at which the process started.", "/proc/<pid>/stat"),
    counter("process_cpu_seconds_total", PROCESS, "CPU seconds used by the process.", "psutil cpu_times"),
    gauge(
        "process_resident_memory_bytes",
        PROCESS,
        "Host memory of the process in bytes.",
        "psutil memory_info",
    ),
)

UNATTRIBUTED_LABELS = (*DEVICE, "mig_uuid", "reason", "unit")

UNATTRIBUTED = (
    gauge(
        "unattributed_memory_used_bytes",
        UNATTRIBUTED_LABELS,
        "GPU memory in bytes that no container owns, by reason; with all containers' it adds up to the whole.",
        "nvmlDeviceGet*RunningProcesses, nvmlDeviceGetMemoryInfo_v2",
    ),
    gauge(
        "unattributed_processes",
        UNATTRIBUTED_LABELS,
        "Processes on the GPU that no container owns, by reason and, for the host's, systemd unit.",
        "nvmlDeviceGet*RunningProcesses",
    ),
    counter(
        "unattributed_sm_busy_seconds_total",
        UNATTRIBUTED_LABELS,
        "Seconds in which kernels of processes that no container owns ran, by reason.",
        "nvmlDeviceGetProcessUtilization",
    ),
)
