/* Answers about critical errors: event sets, and waiting on them. */
#include <stdlib.h>
#include <unistd.h>

#include "standin.h"

typedef struct {
    nvmlDevice_t device;
    unsigned long long types;
    unsigned long long seen; /* the last serial number that this set was given, or that is older than it */
} Registration;

struct nvmlEventSet_st {
    Registration registrations[MAX_GPUS];
    size_t count;
    int changes; /* from standin_watch */
};

nvmlReturn_t answer_nvmlEventSetCreate(nvmlEventSet_t *set)
{
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    *set = calloc(1, sizeof **set);
    if (!*set)
        return NVML_ERROR_MEMORY;
    (*set)->changes = standin_watch();
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlEventSetFree(nvmlEventSet_t set)
{
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    close(set->changes);
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    const Scenario *scenario = standin_scenario();
    unsigned long long supported;
    if (!set || set->count == MAX_GPUS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (READ(device, supported_events, 0, &supported) || types & ~supported)
        return NVML_ERROR_NOT_SUPPORTED;
    Registration *registration = &set->registrations[set->count++];
    *registration = (Registration){.device = device, .types = types};
    for (size_t i = 0; i < scenario->event_count; i++)
        if (scenario->events[i].serial > registration->seen)
            registration->seen = scenario->events[i].serial;
    return NVML_SUCCESS;
}

static const Event *next_event(const Registration *registration)
{
    const Scenario *scenario = standin_scenario();
    for (size_t i = 0; scenario && i < scenario->event_count; i++) {
        const Event *event = &scenario->events[i];
        if (event->serial > registration->seen && event->type & registration->types &&
            strcmp(event->gpu, registration->device->uuid) == 0)
            return event;
    }
    return NULL;
}

static bool deliver(nvmlEventSet_t set, nvmlEventData_t *data)
{
    for (size_t i = 0; i < set->count; i++) {
        Registration *registration = &set->registrations[i];
        const Event *event = next_event(registration);
        if (!event)
            continue;
        registration->seen = event->serial;
        *data = (nvmlEventData_t){registration->device, event->type, event->data, event->gpu_instance,
                                  event->compute_instance};
        return true;
    }
    return false;
}

nvmlReturn_t answer_nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout)
{
    if (!set || !data)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned long long deadline = standin_now() + timeout * 1000ULL;
    while (!deliver(set, data)) {
        unsigned long long now = standin_now();
        if (now >= deadline)
            return NVML_ERROR_TIMEOUT;
        standin_await(set->changes, deadline - now);
    }
    return NVML_SUCCESS;
}
