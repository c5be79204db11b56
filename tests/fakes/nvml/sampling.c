/*
 * Answers from NVML's sample buffers: of a whole GPU, and of each process.
 *
 * A live sample of the scenario stands for one new sample each period. What was live before the scenario changed
 * is remembered as spans, so that the buffer holds the values of their time.
 */
#include <stdlib.h>

#include "standin.h"

#define PERIOD 166667ULL       /* microseconds: a sixth of a second */
#define BUFFER (100 * PERIOD)  /* how far back the driver's buffer reaches */
#define ALWAYS UINT64_MAX

typedef struct {
    Sample sample;
    uint64_t from, to; /* microseconds since 1970; the sample is live in (from, to] */
} Span;

struct History {
    size_t count, room;
    Span spans[];
};

static void add_span(nvmlDevice_t device, const Sample *sample, uint64_t from)
{
    struct History *history = device->history;
    if (!history || history->count == history->room) {
        size_t room = history ? history->room * 2 : 16;
        history = realloc(history, sizeof *history + room * sizeof(Span));
        if (!history)
            abort();
        history->count = device->history ? history->count : 0;
        history->room = room;
        device->history = history;
    }
    history->spans[history->count++] = (Span){*sample, from, ALWAYS};
}

void history_change(nvmlDevice_t device, unsigned long long time)
{
    struct History *history = device->history;
    size_t kept = 0;
    for (size_t i = 0; history && i < history->count; i++) {
        Span span = history->spans[i];
        if (span.to == ALWAYS)
            span.to = time;
        if (span.to + BUFFER > time)
            history->spans[kept++] = span;
    }
    if (history)
        history->count = kept;
    if (!device->gpu || device->state != &device->gpu->state)
        return;
    for (size_t i = 0; i < device->gpu->sample_count; i++)
        if (device->gpu->samples[i].time == LIVE)
            add_span(device, &device->gpu->samples[i], time);
}

/* Takes each sample that is newer, in the order of time; returns how many there are. */
typedef void Take(const Sample *sample, uint64_t time, void *into, size_t at);

static size_t take_explicit(const Gpu *gpu, int type, uint64_t after, size_t room, Take *take, void *into)
{
    size_t found = 0;
    for (size_t i = 0; i < gpu->sample_count; i++) {
        const Sample *sample = &gpu->samples[i];
        if (sample->type != type || sample->time == LIVE || sample->time <= after)
            continue;
        if (into && found < room)
            take(sample, sample->time, into, found);
        found++;
    }
    return found;
}

static size_t take_newer(nvmlDevice_t device, int type, uint64_t after, size_t room, Take *take, void *into)
{
    size_t found = take_explicit(device->gpu, type, after, room, take, into);
    const struct History *history = device->history;
    uint64_t now = standin_now(), oldest = now - BUFFER;
    if (oldest < after)
        oldest = after;
    for (uint64_t time = (oldest / PERIOD + 1) * PERIOD; history && time <= now; time += PERIOD) {
        for (size_t i = 0; i < history->count; i++) {
            const Span *span = &history->spans[i];
            if (span->sample.type != type || time <= span->from || time > span->to)
                continue;
            if (into && found < room)
                take(&span->sample, time, into, found);
            found++;
        }
    }
    return found;
}

static bool has_samples(nvmlDevice_t device, int type)
{
    const Gpu *gpu = device->gpu;
    for (size_t i = 0; device->state == &gpu->state && i < gpu->sample_count; i++)
        if (gpu->samples[i].type == type)
            return true;
    return false;
}

static void take_value(const Sample *sample, uint64_t time, void *into, size_t at)
{
    ((nvmlSample_t *)into)[at] = (nvmlSample_t){.timeStamp = time, .sampleValue.uiVal = sample->use[0]};
}

nvmlReturn_t answer_nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long after,
                                         nvmlValueType_t *value_type, unsigned int *count, nvmlSample_t *samples)
{
    if (!value_type || !count || (samples && *count == 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!has_samples(device, (int)type))
        return NVML_ERROR_NOT_SUPPORTED;
    size_t found = take_newer(device, (int)type, after, *count, take_value, samples);
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    *count = samples && found > *count ? *count : (unsigned)found;
    return found ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

static void take_process(const Sample *sample, uint64_t time, void *into, size_t at)
{
    ((nvmlProcessUtilizationSample_t *)into)[at] = (nvmlProcessUtilizationSample_t){
        .pid = sample->pid,
        .timeStamp = time,
        .smUtil = sample->use[0],
        .memUtil = sample->use[1],
        .encUtil = sample->use[2],
        .decUtil = sample->use[3],
    };
}

nvmlReturn_t answer_nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                                    unsigned int *count, unsigned long long after)
{
    unsigned int mig = 0;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    READ(device, mig_mode_current, 0, &mig);
    if (mig || device->state != &device->gpu->state)
        return NVML_ERROR_NOT_SUPPORTED;
    size_t found = take_newer(device, PROCESS_SAMPLES, after, *count, take_process, samples);
    if (found == 0)
        return NVML_ERROR_NOT_FOUND;
    bool fits = samples && found <= *count;
    *count = (unsigned)(fits ? found : found * 2 + 5); /* room for what comes before the next call */
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}
