/* Answers about the processes on a device, and NVML's protocol of growing buffers. */
#include "standin.h"

static bool is_on(nvmlDevice_t device, const Process *process)
{
    if (device->state == &device->gpu->state)
        return true;
    unsigned gpu_instance = NO_INSTANCE, compute_instance = NO_INSTANCE;
    READ(device, gpu_instance, 0, &gpu_instance);
    READ(device, compute_instance, 0, &compute_instance);
    return process->info.gpuInstanceId == gpu_instance && process->info.computeInstanceId == compute_instance;
}

static nvmlReturn_t processes(nvmlDevice_t device, int list, unsigned int *count, nvmlProcessInfo_t *infos)
{
    const Gpu *gpu = device->gpu;
    unsigned int found = 0;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (size_t i = 0; i < gpu->process_count; i++) {
        const Process *process = &gpu->processes[i];
        if (process->list != list || !is_on(device, process))
            continue;
        if (infos && found < *count)
            infos[found] = process->info;
        found++;
    }
    bool fits = found == 0 || (infos && found <= *count);
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

/* Versions 2 and 3 have the same structure. */
#define ANSWER_PROCESSES(call, list)                                                                            \
    nvmlReturn_t answer_##call(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)              \
    {                                                                                                           \
        return processes(device, LIST_##list, count, infos);                                                    \
    }

ANSWER_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, compute)
ANSWER_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, compute)
ANSWER_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, graphics)
ANSWER_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, graphics)
ANSWER_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, mps)
ANSWER_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, mps)
