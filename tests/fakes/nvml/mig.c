/* Answers about MIG devices. */
#include "standin.h"

nvmlReturn_t answer_nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    if (!is_mig)
        return NVML_ERROR_INVALID_ARGUMENT;
    *is_mig = device->state != &device->gpu->state;
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                        nvmlDevice_t *mig)
{
    unsigned int most;
    nvmlReturn_t result = READ(device, mig_devices_max, 0, &most);
    if (result)
        return result;
    if (!mig || index >= most)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (index >= device->gpu->mig_count)
        return NVML_ERROR_NOT_FOUND;
    *mig = standin_device(device->gpu->migs[index].uuid);
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    if (!device || mig->state == &mig->gpu->state)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = standin_device(mig->gpu->state.uuid);
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    unsigned long long memory;
    if (!attributes)
        return NVML_ERROR_INVALID_ARGUMENT;
    *attributes = (nvmlDeviceAttributes_t){0};
    nvmlReturn_t result = READ(device, multiprocessors, 0, &attributes->multiprocessorCount);
    result = result ? result : READ(device, gpu_slices, 0, &attributes->gpuInstanceSliceCount);
    result = result ? result : READ(device, compute_slices, 0, &attributes->computeInstanceSliceCount);
    result = result ? result : READ(device, memory_total, 0, &memory);
    attributes->memorySizeMB = result ? 0 : memory >> 20;
    return result;
}
