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

/* Version 1 of the structure ends before the instances, hence the element's size. */
static nvmlReturn_t processes(nvmlDevice_t device, int list, unsigned int *count, void *infos, size_t size)
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
            memcpy((char *)infos + found * size, &process->info, size);
        found++;
    }
    bool fits = found == 0 || (infos && found <= *count);
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

#define ANSWER_PROCESSES(call, type, list)                                                                      \
    nvmlReturn_t answer_##call(nvmlDevice_t device, unsigned int *count, type *infos)                           \
    {                                                                                                           \
        return processes(device, LIST_##list, count, infos, sizeof(type));                                      \
    }

ANSWER_PROCESSES(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, compute)
ANSWER_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, compute)
ANSWER_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, compute)
ANSWER_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, graphics)
ANSWER_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, graphics)
ANSWER_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, graphics)
ANSWER_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, mps)
ANSWER_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, mps)
ANSWER_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, mps)
