/* Answers about the driver and about one device: identity and readings. */

#include "standin.h"

/* ---- the driver, and handles ---- */

nvmlReturn_t answer_nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    return standin_copy(standin_scenario()->driver, version, length);
}

nvmlReturn_t answer_nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    return standin_copy(standin_scenario()->nvml, version, length);
}

nvmlReturn_t answer_nvmlSystemGetCudaDriverVersion(int *version)
{
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = (int)standin_scenario()->cuda;
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return answer_nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t answer_nvmlDeviceGetCount_v2(unsigned int *count)
{
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = (unsigned)standin_scenario()->gpu_count;
    return NVML_SUCCESS;
}

static nvmlReturn_t hand_out(nvmlDevice_t found, nvmlDevice_t *device)
{
    if (found->gpu->lost)
        return NVML_ERROR_GPU_IS_LOST;
    *device = found;
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    const Scenario *scenario = standin_scenario();
    if (!device || index >= scenario->gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    return hand_out(standin_device(scenario->gpus[index].state.uuid), device);
}

nvmlReturn_t answer_nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlDevice_t found = standin_device(uuid);
    return found && found->state ? hand_out(found, device) : NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t by_text(int text, const char *wanted, nvmlDevice_t *device)
{
    const Scenario *scenario = standin_scenario();
    if (!wanted || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (size_t i = 0; i < scenario->gpu_count; i++)
        if (strcasecmp(scenario->gpus[i].state.texts[text], wanted) == 0)
            return hand_out(standin_device(scenario->gpus[i].state.uuid), device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t answer_nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    return by_text(TEXT_pci_bus_id, bus_id, device);
}

nvmlReturn_t answer_nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    return by_text(TEXT_serial, serial, device);
}

nvmlReturn_t answer_nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    const Scenario *scenario = standin_scenario();
    bool whole = device->state == &device->gpu->state;
    if (!index)
        return NVML_ERROR_INVALID_ARGUMENT;
    *index = (unsigned)(whole ? device->gpu - scenario->gpus : device->state - device->gpu->migs);
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    return standin_copy(device->uuid, uuid, length);
}

/* ---- texts and numbers that stand in the scenario as NVML says them ---- */

#define ANSWER_TEXT(call, text)                                                                                 \
    nvmlReturn_t answer_##call(nvmlDevice_t device, char *buffer, unsigned int length)                          \
    {                                                                                                           \
        return standin_copy(device->state->texts[TEXT_##text], buffer, length);                                 \
    }

ANSWER_TEXT(nvmlDeviceGetName, name)
ANSWER_TEXT(nvmlDeviceGetSerial, serial)
ANSWER_TEXT(nvmlDeviceGetVbiosVersion, vbios)
ANSWER_TEXT(nvmlDeviceGetBoardPartNumber, part_number)
ANSWER_TEXT(nvmlDeviceGetInforomImageVersion, inforom_image)

nvmlReturn_t answer_nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    return standin_copy(device->state->texts[TEXT_gsp_firmware], version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE);
}

#define ANSWER(call, type, reading)                                                                             \
    nvmlReturn_t answer_##call(nvmlDevice_t device, type *value)                                                \
    {                                                                                                           \
        return READ(device, reading, 0, value);                                                                 \
    }

ANSWER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, architecture)
ANSWER(nvmlDeviceGetBoardId, unsigned int, board_id)
ANSWER(nvmlDeviceGetBrand, nvmlBrandType_t, brand)
ANSWER(nvmlDeviceGetBusType, nvmlBusType_t, bus_type)
ANSWER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, compute_mode)
ANSWER(nvmlDeviceGetNumGpuCores, unsigned int, cores)
ANSWER(nvmlDeviceGetMemoryBusWidth, unsigned int, memory_bus_width)
ANSWER(nvmlDeviceGetMinorNumber, unsigned int, minor_number)
ANSWER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, persistence_mode)
ANSWER(nvmlDeviceGetPowerUsage, unsigned int, power)
ANSWER(nvmlDeviceGetPowerManagementLimit, unsigned int, power_limit)
ANSWER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, power_limit_enforced)
ANSWER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, power_limit_default)
ANSWER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, clock_event_reasons)
ANSWER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, clock_event_reasons)
ANSWER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, clock_event_reasons_supported)
ANSWER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, clock_event_reasons_supported)
ANSWER(nvmlDeviceGetPerformanceState, nvmlPstates_t, performance_state)
ANSWER(nvmlDeviceGetPowerState, nvmlPstates_t, performance_state)
ANSWER(nvmlDeviceGetNumFans, unsigned int, fans)
ANSWER(nvmlDeviceGetFanSpeed, unsigned int, fan_speed)
ANSWER(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, retired_pages_pending)
ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, pcie_generation)
ANSWER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, pcie_generation_max)
ANSWER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, pcie_generation_device_max)
ANSWER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, pcie_width)
ANSWER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, pcie_width_max)
ANSWER(nvmlDeviceGetPcieReplayCounter, unsigned int, pcie_replays)
ANSWER(nvmlDeviceGetSupportedEventTypes, unsigned long long, supported_events)
ANSWER(nvmlDeviceGetMaxMigDeviceCount, unsigned int, mig_devices_max)
ANSWER(nvmlDeviceGetGpuInstanceId, unsigned int, gpu_instance)
ANSWER(nvmlDeviceGetComputeInstanceId, unsigned int, compute_instance)

#define ANSWER_INDEXED(call, index_type, type, reading)                                                         \
    nvmlReturn_t answer_##call(nvmlDevice_t device, index_type index, type *value)                              \
    {                                                                                                           \
        return READ(device, reading, INDEX(index, 0, 0), value);                                                \
    }

ANSWER_INDEXED(nvmlDeviceGetTemperature, nvmlTemperatureSensors_t, unsigned int, temperature)
ANSWER_INDEXED(nvmlDeviceGetTemperatureThreshold, nvmlTemperatureThresholds_t, unsigned int,
               temperature_threshold)
ANSWER_INDEXED(nvmlDeviceGetClockInfo, nvmlClockType_t, unsigned int, clock)
ANSWER_INDEXED(nvmlDeviceGetMaxClockInfo, nvmlClockType_t, unsigned int, clock_max)
ANSWER_INDEXED(nvmlDeviceGetFanSpeed_v2, unsigned int, unsigned int, fan_speed)
ANSWER_INDEXED(nvmlDeviceGetPcieThroughput, nvmlPcieUtilCounter_t, unsigned int, pcie_throughput)
ANSWER_INDEXED(nvmlDeviceGetNvLinkState, unsigned int, nvmlEnableState_t, nvlink_active)
ANSWER_INDEXED(nvmlDeviceGetNvLinkVersion, unsigned int, unsigned int, nvlink_version)

#define ANSWER_PAIR(call, type, first, second)                                                                  \
    nvmlReturn_t answer_##call(nvmlDevice_t device, type *one, type *two)                                       \
    {                                                                                                           \
        nvmlReturn_t result = READ(device, first, 0, one);                                                      \
        return result ? result : READ(device, second, 0, two);                                                  \
    }

ANSWER_PAIR(nvmlDeviceGetPowerManagementLimitConstraints, unsigned int, power_limit_min, power_limit_max)
ANSWER_PAIR(nvmlDeviceGetEccMode, nvmlEnableState_t, ecc_mode_current, ecc_mode_pending)
ANSWER_PAIR(nvmlDeviceGetMigMode, unsigned int, mig_mode_current, mig_mode_pending)

/* These say how much, and over which period: a sixth of a second, in microseconds. */
#define ANSWER_ENGINE(call, reading)                                                                            \
    nvmlReturn_t answer_##call(nvmlDevice_t device, unsigned int *utilization, unsigned int *period)            \
    {                                                                                                           \
        if (!period)                                                                                            \
            return NVML_ERROR_INVALID_ARGUMENT;                                                                 \
        *period = 167000;                                                                                       \
        return READ(device, reading, 0, utilization);                                                           \
    }

ANSWER_ENGINE(nvmlDeviceGetEncoderUtilization, utilization_encoder)
ANSWER_ENGINE(nvmlDeviceGetDecoderUtilization, utilization_decoder)
ANSWER_ENGINE(nvmlDeviceGetJpgUtilization, utilization_jpeg)
ANSWER_ENGINE(nvmlDeviceGetOfaUtilization, utilization_ofa)

/* ---- readings that NVML gives in a structure ---- */

nvmlReturn_t answer_nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    nvmlReturn_t result = READ(device, compute_capability, INDEX(0, 0, 0), major);
    return result ? result : READ(device, compute_capability, INDEX(1, 0, 0), minor);
}

nvmlReturn_t answer_nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    if (!rates)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = READ(device, utilization_gpu, 0, &rates->gpu);
    return result ? result : READ(device, utilization_memory, 0, &rates->memory);
}

/* Reserved memory may be absent: nothing of it is known then, and none counts as used. */
nvmlReturn_t answer_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->reserved = 0;
    READ(device, memory_reserved, 0, &memory->reserved);
    nvmlReturn_t result = READ(device, memory_total, 0, &memory->total);
    result = result ? result : READ(device, memory_free, 0, &memory->free);
    return result ? result : READ(device, memory_used, 0, &memory->used);
}

/* Version 1 counts what is reserved as used. */
nvmlReturn_t answer_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlMemory_v2_t all = {.version = nvmlMemory_v2};
    nvmlReturn_t result = memory ? answer_nvmlDeviceGetMemoryInfo_v2(device, &all) : NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *memory = (nvmlMemory_t){.total = all.total, .free = all.free, .used = all.used + all.reserved};
    return result;
}

nvmlReturn_t answer_nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = READ(device, bar1_total, 0, &memory->bar1Total);
    result = result ? result : READ(device, bar1_free, 0, &memory->bar1Free);
    return result ? result : READ(device, bar1_used, 0, &memory->bar1Used);
}

nvmlReturn_t answer_nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    if (!temperature)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (temperature->version != nvmlTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return READ(device, temperature, INDEX(temperature->sensorType, 0, 0), &temperature->temperature);
}

nvmlReturn_t answer_nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
    const Gpu *gpu = device->gpu;
    if (!energy)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu->has_energy || device->state != &gpu->state)
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned long long now = standin_now(), since = gpu->energy_since;
    *energy = gpu->energy + (now > since ? gpu->energy_rate * (now - since) / 1000000 : 0);
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id,
                                       unsigned int *clock)
{
    if (id != NVML_CLOCK_ID_CURRENT)
        return NVML_ERROR_NOT_SUPPORTED;
    return READ(device, clock, INDEX(type, 0, 0), clock);
}

nvmlReturn_t answer_nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                nvmlEccCounterType_t counter, unsigned long long *errors)
{
    return READ(device, ecc_errors, INDEX(type, counter, 0), errors);
}

nvmlReturn_t answer_nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                    nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
                                                    unsigned long long *errors)
{
    return READ(device, memory_errors, INDEX(type, counter, location), errors);
}

nvmlReturn_t answer_nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
                                              unsigned int *uncorrectable, unsigned int *pending,
                                              unsigned int *failed)
{
    nvmlReturn_t result = READ(device, remapped_rows, INDEX(0, 0, 0), correctable);
    result = result ? result : READ(device, remapped_rows, INDEX(1, 0, 0), uncorrectable);
    result = result ? result : READ(device, remapped_rows, INDEX(2, 0, 0), pending);
    return result ? result : READ(device, remapped_rows, INDEX(3, 0, 0), failed);
}

nvmlReturn_t answer_nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                                    nvmlNvLinkErrorCounter_t counter, unsigned long long *errors)
{
    return READ(device, nvlink_errors, INDEX(link, counter, 0), errors);
}

nvmlReturn_t answer_nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                                 unsigned int *count, unsigned long long *addresses,
                                                 unsigned long long *times)
{
    const Gpu *gpu = device->gpu;
    unsigned int found = 0, pending;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (READ(device, retired_pages_pending, 0, &pending))
        return NVML_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < gpu->retired_page_count; i++) {
        if (gpu->retired_pages[i].cause != cause)
            continue;
        if (addresses && found < *count)
            addresses[found] = gpu->retired_pages[i].address;
        if (times && found < *count)
            times[found] = gpu->retired_pages[i].time;
        found++;
    }
    bool fits = found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t answer_nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                              unsigned int *count, unsigned long long *addresses)
{
    return answer_nvmlDeviceGetRetiredPages_v2(device, cause, count, addresses, NULL);
}

nvmlReturn_t answer_nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    const char *bus_id = device->state->texts[TEXT_pci_bus_id];
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    *pci = (nvmlPciInfo_t){0};
    if (sscanf(bus_id, "%x:%x:%x.0", &pci->domain, &pci->bus, &pci->device) != 3)
        return NVML_ERROR_NOT_SUPPORTED;
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, NVML_DEVICE_PCI_BUS_ID_FMT_ARGS(pci));
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, pci->domain & 0xFFFF,
             pci->bus & 0xFF, pci->device & 0xFF);
    READ(device, pci_device_id, 0, &pci->pciDeviceId);
    READ(device, pci_subsystem_id, 0, &pci->pciSubSystemId);
    return NVML_SUCCESS;
}

static void answer_field(nvmlDevice_t device, nvmlFieldValue_t *asked)
{
    const State *state = device->state;
    asked->timestamp = (long long)standin_now();
    asked->latencyUsec = 0;
    asked->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    if (asked->fieldId == NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION) {
        asked->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        asked->nvmlReturn = answer_nvmlDeviceGetTotalEnergyConsumption(device, &asked->value.ullVal);
    }
    for (size_t i = 0; i < state->field_count; i++) {
        const Field *field = &state->fields[i];
        if (field->id == asked->fieldId && field->scope == asked->scopeId) {
            asked->nvmlReturn = field->result;
            asked->valueType = field->type;
            asked->value = field->value;
        }
    }
}

nvmlReturn_t answer_nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    if (!values || count <= 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++)
        answer_field(device, &values[i]);
    return NVML_SUCCESS;
}
