/* What holds between calls: the lock, the scenario in force, handles, faults and the count of calls. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

#define HANG_POLL_US 10000
#define MICRO 1000000ULL

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Scenario scenarios[2]; /* the one in force, and the one to parse the next into */
static Scenario *current;     /* NULL: there is no scenario, so no driver is loaded */
static struct stat loaded;    /* the file that `current` was read from */
static nvmlDevice_t devices;
static unsigned initialized;

unsigned long long standin_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * MICRO + (unsigned long long)now.tv_nsec / 1000;
}

static unsigned long long modified(const struct stat *file)
{
    return (unsigned long long)file->st_mtim.tv_sec * MICRO + (unsigned long long)file->st_mtim.tv_nsec / 1000;
}

/* ---- counted calls: a file of these records, mapped, so that other processes read along ---- */

typedef struct {
    char name[120];
    unsigned long long count;
} Counter;

static Counter *counters;

static void __attribute__((constructor)) map_counters(void)
{
    const char *path = getenv("NVML_STANDIN_CALLS");
    if (!path)
        return;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, CALL_COUNT * sizeof(Counter)) != 0) {
        perror(path);
        abort();
    }
    counters = mmap(NULL, CALL_COUNT * sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (counters == MAP_FAILED) {
        perror(path);
        abort();
    }
    for (int call = 0; call < CALL_COUNT; call++)
        strncpy(counters[call].name, CALL_NAMES[call], sizeof counters[call].name - 1);
}

/* ---- handles ---- */

nvmlDevice_t standin_device(const char *uuid)
{
    for (nvmlDevice_t device = devices; device; device = device->next)
        if (strcmp(device->uuid, uuid) == 0)
            return device;
    return NULL;
}

static void attach(Gpu *gpu, State *state)
{
    nvmlDevice_t device = standin_device(state->uuid);
    if (!device) {
        device = calloc(1, sizeof *device);
        if (!device)
            abort();
        strcpy(device->uuid, state->uuid);
        device->next = devices;
        devices = device;
    }
    device->gpu = gpu;
    device->state = state;
}

static void attach_all(Scenario *scenario)
{
    for (nvmlDevice_t device = devices; device; device = device->next) {
        device->gpu = NULL;
        device->state = NULL;
    }
    for (size_t i = 0; scenario && i < scenario->gpu_count; i++) {
        Gpu *gpu = &scenario->gpus[i];
        attach(gpu, &gpu->state);
        for (size_t j = 0; j < gpu->mig_count; j++)
            attach(gpu, &gpu->migs[j]);
    }
}

static bool attached(nvmlDevice_t handle)
{
    for (nvmlDevice_t device = devices; device; device = device->next)
        if (device == handle)
            return device->state != NULL;
    return false;
}

/* ---- the scenario ---- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && modified(a) == modified(b);
}

static void swap(Scenario *next, unsigned long long since)
{
    current = next;
    attach_all(next);
    for (nvmlDevice_t device = devices; device; device = device->next)
        history_change(device, since);
}

static void refresh(void)
{
    const char *path = getenv("NVML_STANDIN_SCENARIO");
    struct stat found;
    if (path && stat(path, &found) == 0 && current && same_file(&found, &loaded))
        return;
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file) {
        if (current)
            swap(NULL, standin_now());
        return;
    }
    if (fstat(fileno(file), &loaded) != 0)
        abort();
    Scenario *next = current == &scenarios[0] ? &scenarios[1] : &scenarios[0];
    scenario_parse(file, path, next);
    fclose(file);
    swap(next, modified(&loaded));
}

const Scenario *standin_scenario(void)
{
    return current;
}

bool standin_read(nvmlDevice_t device, int reading, unsigned index, unsigned long long *number)
{
    const State *state = device->state;
    for (size_t i = 0; i < state->value_count; i++) {
        if (state->values[i].reading == reading && state->values[i].index == index) {
            *number = state->values[i].number;
            return true;
        }
    }
    return false;
}

nvmlReturn_t standin_copy(const char *text, char *buffer, unsigned int size)
{
    if (!buffer)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!*text)
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

/* ---- calls ---- */

void standin_pause(unsigned long long microseconds)
{
    struct timespec span = {(time_t)(microseconds / MICRO), (long)(microseconds % MICRO * 1000)};
    pthread_mutex_unlock(&lock);
    nanosleep(&span, NULL);
    pthread_mutex_lock(&lock);
    refresh();
}

int standin_watch(void)
{
    const char *path = getenv("NVML_STANDIN_SCENARIO");
    char folder[PATH_MAX] = "";
    int changes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    strncpy(folder, path ? path : "", sizeof folder - 1);
    inotify_add_watch(changes, dirname(folder), IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE);
    return changes;
}

void standin_await(int changes, unsigned long long microseconds)
{
    struct pollfd watched = {.fd = changes, .events = POLLIN};
    char seen[4096];
    pthread_mutex_unlock(&lock);
    if (poll(&watched, 1, (int)(microseconds / 1000) + 1) > 0)
        while (read(changes, seen, sizeof seen) > 0)
            ;
    pthread_mutex_lock(&lock);
    refresh();
}

static const Fault *fault_of(int kind, enum Call call, const nvmlDevice_t *device)
{
    for (size_t i = 0; current && i < current->fault_count; i++) {
        const Fault *fault = &current->faults[i];
        if (fault->kind != kind || !fault->calls[call])
            continue;
        if (!*fault->gpu || (device && attached(*device) && strcmp((*device)->gpu->state.uuid, fault->gpu) == 0))
            return fault;
    }
    return NULL;
}

static bool needs_init(enum Call call)
{
    return call != CALL_nvmlInit && call != CALL_nvmlInit_v2 && call != CALL_nvmlInitWithFlags &&
           call != CALL_nvmlSystemGetNVMLVersion && call != CALL_nvmlSystemGetCudaDriverVersion &&
           call != CALL_nvmlSystemGetCudaDriverVersion_v2;
}

nvmlReturn_t standin_enter(enum Call call, const nvmlDevice_t *device)
{
    if (counters)
        __atomic_fetch_add(&counters[call].count, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    refresh();
    const Fault *fault = fault_of(FAULT_latency, call, device);
    if (fault)
        standin_pause(fault->number);
    while (fault_of(FAULT_hang, call, device))
        standin_pause(HANG_POLL_US);
    fault = fault_of(FAULT_error, call, device);
    if (fault)
        return (nvmlReturn_t)fault->number;
    if (needs_init(call) && !initialized)
        return NVML_ERROR_UNINITIALIZED;
    if (!current && call != CALL_nvmlShutdown)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (device && !attached(*device))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (device && (*device)->gpu->lost)
        return NVML_ERROR_GPU_IS_LOST;
    return NVML_SUCCESS;
}

nvmlReturn_t standin_leave(enum Call call, const nvmlDevice_t *device, nvmlReturn_t result)
{
    const Fault *delay = fault_of(FAULT_delay, call, device);
    unsigned long long milliseconds = delay ? delay->number : 0;
    pthread_mutex_unlock(&lock);
    if (milliseconds)
        usleep((useconds_t)(milliseconds * 1000));
    return result;
}

nvmlReturn_t answer_nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    initialized++;
    return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlInit_v2(void)
{
    return answer_nvmlInitWithFlags(0);
}

nvmlReturn_t answer_nvmlInit(void)
{
    return answer_nvmlInitWithFlags(0);
}

nvmlReturn_t answer_nvmlShutdown(void)
{
    initialized--;
    return NVML_SUCCESS;
}
