/* Answers of GPM, NVML's performance metrics of Hopper and newer: two samples, and what was between them. */
#include <stdlib.h>

#include "standin.h"

struct nvmlGpmSample_st {
    nvmlDevice_t device; /* NULL until taken */
    unsigned gpu_instance;
    Metric metrics[MAX_METRICS];
    size_t count;
};

nvmlReturn_t answer_nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    if (!support)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (support->version != NVML_GPM_SUPPORT_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    support->isSupportedDevice = device->gpu->gpm;
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    *sample = calloc(1, sizeof **sample);
    return *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t answer_nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    free(sample);
    return sample ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t take(nvmlDevice_t device, unsigned gpu_instance, nvmlGpmSample_t sample)
{
    const Gpu *gpu = device->gpu;
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu->gpm || device->state != &gpu->state)
        return NVML_ERROR_NOT_SUPPORTED;
    sample->device = device;
    sample->gpu_instance = gpu_instance;
    sample->count = 0;
    for (size_t i = 0; i < gpu->metric_count; i++)
        if (gpu->metrics[i].gpu_instance == gpu_instance)
            sample->metrics[sample->count++] = gpu->metrics[i];
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    return take(device, NO_INSTANCE, sample);
}

nvmlReturn_t answer_nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpu_instance, nvmlGpmSample_t sample)
{
    const Gpu *gpu = device->gpu;
    for (size_t i = 0; i < gpu->metric_count; i++)
        if (gpu->metrics[i].gpu_instance == gpu_instance)
            return take(device, gpu_instance, sample);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t answer_nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
    if (!get)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (get->version != NVML_GPM_METRICS_GET_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const struct nvmlGpmSample_st *first = get->sample1, *second = get->sample2;
    if (!first || !second || !first->device || first->device != second->device ||
        first->gpu_instance != second->gpu_instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < get->numMetrics; i++) {
        nvmlGpmMetric_t *asked = &get->metrics[i];
        asked->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        memset(&asked->metricInfo, 0, sizeof asked->metricInfo);
        for (size_t j = 0; j < second->count; j++) {
            if (second->metrics[j].metric == asked->metricId) {
                asked->nvmlReturn = NVML_SUCCESS;
                asked->value = second->metrics[j].value;
            }
        }
    }
    return NVML_SUCCESS;
}
