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
#define PROCESS_ROOM 100       /* what NVML says when asked for the size, whatever there is */
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

static bool has_samples(nvmlDevice_t device, int type)
{
    const Gpu *gpu = device->gpu;
    for (size_t i = 0; device->state == &gpu->state && i < gpu->sample_count; i++)
        if (gpu->samples[i].type == type)
            return true;
    return false;
}

/* The first and the last time of a span's samples in (after, now]; first > last: there are none. */
static void sample_times(const Span *span, uint64_t after, uint64_t now, uint64_t *first, uint64_t *last)
{
    uint64_t from = now - BUFFER;
    if (from < after)
        from = after;
    if (from < span->from)
        from = span->from;
    *first = (from / PERIOD + 1) * PERIOD;
    *last = (span->to < now ? span->to : now) / PERIOD * PERIOD;
}

/* ---- of a whole GPU: every sample ---- */

typedef struct {
    nvmlSample_t *samples; /* NULL: they are only counted */
    size_t room, found;
} Buffer;

static void put(Buffer *buffer, uint64_t time, unsigned value)
{
    if (buffer->samples && buffer->found < buffer->room)
        buffer->samples[buffer->found] = (nvmlSample_t){.timeStamp = time, .sampleValue.uiVal = value};
    buffer->found++;
}

static void put_all(Buffer *buffer, nvmlDevice_t device, int type, uint64_t after)
{
    const Gpu *gpu = device->gpu;
    for (size_t i = 0; i < gpu->sample_count; i++)
        if (gpu->samples[i].type == type && gpu->samples[i].time > after)
            put(buffer, gpu->samples[i].time, gpu->samples[i].use[0]);
    const struct History *history = device->history;
    uint64_t now = standin_now(), first, last;
    for (size_t i = 0; history && i < history->count; i++) {
        if (history->spans[i].sample.type != type)
            continue;
        sample_times(&history->spans[i], after, now, &first, &last);
        for (; first <= last; first += PERIOD)
            put(buffer, first, history->spans[i].sample.use[0]);
    }
}

nvmlReturn_t answer_nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long after,
                                         nvmlValueType_t *value_type, unsigned int *count, nvmlSample_t *samples)
{
    if (!value_type || !count || (samples && *count == 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!has_samples(device, (int)type))
        return NVML_ERROR_NOT_SUPPORTED;
    Buffer buffer = {.samples = samples, .room = *count};
    put_all(&buffer, device, (int)type, after);
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    *count = (unsigned)(samples && buffer.found > *count ? *count : buffer.found);
    return buffer.found ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* ---- of each process: of what is newer the average, as one sample with the time of the newest ---- */

typedef struct {
    unsigned pid;
    uint64_t newest, samples, use[4];
} Total;

static void add_up(Total *totals, size_t *count, const Sample *sample, uint64_t newest, uint64_t samples)
{
    Total *total = totals;
    while (total < totals + *count && total->pid != sample->pid)
        total++;
    if (total == totals + *count) {
        *total = (Total){.pid = sample->pid};
        ++*count;
    }
    if (total->newest < newest)
        total->newest = newest;
    total->samples += samples;
    for (int i = 0; i < 4; i++)
        total->use[i] += sample->use[i] * samples;
}

static size_t live_processes(nvmlDevice_t device, uint64_t after, nvmlProcessUtilizationSample_t *into,
                             size_t room)
{
    static Total totals[MAX_SAMPLES];
    const struct History *history = device->history;
    uint64_t now = standin_now(), first, last;
    size_t count = 0;
    for (size_t i = 0; history && i < history->count && count < room; i++) {
        const Span *span = &history->spans[i];
        sample_times(span, after, now, &first, &last);
        if (span->sample.type == PROCESS_SAMPLES && first <= last)
            add_up(totals, &count, &span->sample, last, (last - first) / PERIOD + 1);
    }
    for (size_t i = 0; i < count; i++) {
        unsigned average[4];
        for (int j = 0; j < 4; j++)
            average[j] = (unsigned)(totals[i].use[j] / totals[i].samples);
        into[i] = (nvmlProcessUtilizationSample_t){totals[i].pid, totals[i].newest, average[0],
                                                   average[1],    average[2],       average[3]};
    }
    return count;
}

/* What the scenario gives with a time comes as it stands there: it may hold what no sane driver says. */
static size_t given_processes(const Gpu *gpu, uint64_t after, nvmlProcessUtilizationSample_t *into)
{
    size_t count = 0;
    for (size_t i = 0; i < gpu->sample_count; i++) {
        const Sample *sample = &gpu->samples[i];
        if (sample->type == PROCESS_SAMPLES && sample->time > after)
            into[count++] = (nvmlProcessUtilizationSample_t){sample->pid,    sample->time,   sample->use[0],
                                                             sample->use[1], sample->use[2], sample->use[3]};
    }
    return count;
}

nvmlReturn_t answer_nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                                    unsigned int *count, unsigned long long after)
{
    static nvmlProcessUtilizationSample_t found[2 * MAX_SAMPLES];
    unsigned int mig = 0;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    READ(device, mig_mode_current, 0, &mig);
    if (mig || device->state != &device->gpu->state)
        return NVML_ERROR_NOT_SUPPORTED;
    size_t given = given_processes(device->gpu, after, found);
    size_t all = given + live_processes(device, after, found + given, MAX_SAMPLES);
    if (!samples || all > *count) {
        *count = all > PROCESS_ROOM ? (unsigned)all : PROCESS_ROOM;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(samples, found, all * sizeof *found);
    *count = (unsigned)all;
    return all ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
