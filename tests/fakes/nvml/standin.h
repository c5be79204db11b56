/*
 * What the parts of the NVML stand-in share: the scenario as parsed, and the session that holds it.
 *
 * Every exported function is generated (build.py) around its answer: standin_enter takes the lock, answer_<call>
 * fills in the caller's structures from the scenario, standin_leave gives the lock back.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <nvml.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"

#define MAX_GPUS 16
#define MAX_MIGS 8
#define MAX_VALUES 512
#define MAX_FIELDS 256
#define MAX_PROCESSES 4096
#define MAX_SAMPLES 8192
#define MAX_RETIRED_PAGES 64
#define MAX_METRICS 128
#define MAX_EVENTS 1024
#define MAX_FAULTS 64

#define UUID_SIZE NVML_DEVICE_UUID_V2_BUFFER_SIZE
#define NO_INSTANCE 0xFFFFFFFFu

/* Plain numbers of a device, by the name that they have in the scenario. */
#define READINGS(X)                                                                                             \
    X(architecture) X(board_id) X(brand) X(bus_type) X(compute_capability) X(compute_mode) X(cores)             \
    X(memory_bus_width) X(minor_number) X(pci_device_id) X(pci_subsystem_id) X(persistence_mode)                \
    X(utilization_gpu) X(utilization_memory) X(utilization_encoder) X(utilization_decoder) X(utilization_jpeg)  \
    X(utilization_ofa) X(memory_total) X(memory_used) X(memory_free) X(memory_reserved) X(bar1_total)           \
    X(bar1_used) X(bar1_free) X(temperature) X(temperature_threshold) X(power) X(power_limit)                   \
    X(power_limit_enforced) X(power_limit_default) X(power_limit_min) X(power_limit_max) X(clock) X(clock_max)  \
    X(clock_event_reasons) X(clock_event_reasons_supported) X(performance_state) X(fans) X(fan_speed)           \
    X(ecc_mode_current) X(ecc_mode_pending) X(ecc_errors) X(memory_errors) X(remapped_rows)                     \
    X(retired_pages_pending) X(pcie_generation) X(pcie_generation_max) X(pcie_generation_device_max)            \
    X(pcie_width) X(pcie_width_max) X(pcie_replays) X(pcie_throughput) X(nvlink_active) X(nvlink_version)       \
    X(nvlink_errors) X(supported_events) X(mig_mode_current) X(mig_mode_pending) X(mig_devices_max)             \
    X(gpu_instance) X(compute_instance) X(multiprocessors) X(gpu_slices) X(compute_slices)

#define TEXTS(X) X(name) X(serial) X(vbios) X(part_number) X(pci_bus_id) X(inforom_image) X(gsp_firmware)

#define AS_READING(name) READING_##name,
#define AS_TEXT(name) TEXT_##name,
enum { READINGS(AS_READING) READING_COUNT };
enum { TEXTS(AS_TEXT) TEXT_COUNT };

/* An index of up to three numbers, as an ECC counter by type and location has them. */
#define INDEX(a, b, c) ((unsigned)(a) | (unsigned)(b) << 8 | (unsigned)(c) << 16)

typedef struct {
    int reading;
    unsigned index;
    unsigned long long number;
} Value;

typedef struct {
    unsigned id, scope;
    nvmlReturn_t result;
    nvmlValueType_t type;
    nvmlValue_t value;
} Field;

/* What a whole GPU and a MIG device have in common. */
typedef struct {
    char uuid[UUID_SIZE];
    char texts[TEXT_COUNT][UUID_SIZE];
    Value values[MAX_VALUES];
    size_t value_count;
    Field fields[MAX_FIELDS];
    size_t field_count;
} State;

enum { LIST_compute, LIST_graphics, LIST_mps, LIST_COUNT };

typedef struct {
    int list;
    nvmlProcessInfo_t info;
} Process;

#define PROCESS_SAMPLES NVML_SAMPLINGTYPE_COUNT /* beside NVML's own sampling types */
#define LIVE 0                                  /* a sample's time: a new one every period */

typedef struct {
    int type;
    unsigned long long time; /* microseconds since 1970, or LIVE */
    unsigned pid;
    unsigned use[4]; /* sm, memory, encoder, decoder; of a GPU sample the first */
} Sample;

typedef struct {
    nvmlPageRetirementCause_t cause;
    unsigned long long address, time;
} RetiredPage;

typedef struct {
    unsigned gpu_instance, metric;
    double value;
} Metric;

typedef struct {
    State state;
    State migs[MAX_MIGS];
    size_t mig_count;
    bool lost, gpm;
    bool has_energy;
    unsigned long long energy, energy_rate, energy_since; /* mJ, mW, microseconds since 1970 */
    Process processes[MAX_PROCESSES];
    size_t process_count;
    Sample samples[MAX_SAMPLES];
    size_t sample_count;
    RetiredPage retired_pages[MAX_RETIRED_PAGES];
    size_t retired_page_count;
    Metric metrics[MAX_METRICS];
    size_t metric_count;
} Gpu;

typedef struct {
    unsigned long long serial, type, data;
    char gpu[UUID_SIZE];
    unsigned gpu_instance, compute_instance;
} Event;

enum { FAULT_error, FAULT_hang, FAULT_delay, FAULT_latency, FAULT_COUNT };

typedef struct {
    bool calls[CALL_COUNT];
    char gpu[UUID_SIZE]; /* empty: whatever the device */
    int kind;
    unsigned long long number;
} Fault;

typedef struct {
    char driver[UUID_SIZE], nvml[UUID_SIZE];
    unsigned long long cuda;
    Gpu gpus[MAX_GPUS];
    size_t gpu_count;
    Event events[MAX_EVENTS];
    size_t event_count;
    Fault faults[MAX_FAULTS];
    size_t fault_count;
} Scenario;

/* A handle. It lives as long as the process; the scenario's part is found anew by UUID on each change. */
struct nvmlDevice_st {
    char uuid[UUID_SIZE];
    State *state; /* NULL while the scenario has no such device */
    Gpu *gpu;     /* the whole GPU, of a MIG device its parent */
    struct History *history;
    struct nvmlDevice_st *next;
};

/* scenario.c: reads a scenario, or says what is wrong with which line and aborts. */
void scenario_parse(FILE *file, const char *path, Scenario *into);

/* session.c: what holds between calls. Everything below but enter and leave is for the lock's holder. */
nvmlReturn_t standin_enter(enum Call call, const nvmlDevice_t *device);
nvmlReturn_t standin_leave(enum Call call, const nvmlDevice_t *device, nvmlReturn_t result);
void standin_pause(unsigned long long microseconds); /* lets others call, and sees a changed scenario */
int standin_watch(void); /* a descriptor to await changes by; -1: there is none to be had */
void standin_await(int changes, unsigned long long microseconds); /* as standin_pause, until something changes */
const Scenario *standin_scenario(void);
nvmlDevice_t standin_device(const char *uuid);
bool standin_read(nvmlDevice_t device, int reading, unsigned index, unsigned long long *number);
unsigned long long standin_now(void); /* microseconds since 1970 */
nvmlReturn_t standin_copy(const char *text, char *buffer, unsigned int size);

/* sampling.c: keeps what live samples were before a scenario changed at `time`. */
void history_change(nvmlDevice_t device, unsigned long long time);

/* Copies a reading to where the caller wants it, in the caller's type. */
#define READ(device, reading, index, out)                                                                       \
    ({                                                                                                          \
        unsigned long long number_ = 0;                                                                         \
        nvmlReturn_t result_ = NVML_ERROR_INVALID_ARGUMENT;                                                     \
        if ((out) != NULL && standin_read(device, READING_##reading, index, &number_)) {                        \
            *(out) = (typeof(*(out)))number_;                                                                   \
            result_ = NVML_SUCCESS;                                                                             \
        } else if ((out) != NULL) {                                                                             \
            result_ = NVML_ERROR_NOT_SUPPORTED;                                                                 \
        }                                                                                                       \
        result_;                                                                                                \
    })

#endif
