/* Reads a scenario file. Its format is documented in scenario.py, which writes it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "standin.h"

#define AS_NAME(name) #name,
static const char *const READING_NAMES[] = {READINGS(AS_NAME) NULL};
static const char *const TEXT_NAMES[] = {TEXTS(AS_NAME) NULL};
static const char *const LIST_NAMES[] = {"compute", "graphics", "mps", NULL};
static const char *const FAULT_NAMES[] = {"error", "hang", "delay", "latency", NULL};
static const char *const TYPE_NAMES[] = {"double",   "uint", "ulong",  "ulonglong",
                                         "longlong", "int",  "ushort", NULL};

/* The line being read, for words to be taken off it and for complaints. */
typedef struct {
    const char *path;
    int number;
    char *rest;
} Line;

static void __attribute__((noreturn)) malformed(const Line *line, const char *what, const char *word)
{
    fprintf(stderr, "nvml stand-in: %s:%d: %s: '%s'\n", line->path, line->number, what, word);
    abort();
}

static char *word(Line *line)
{
    char *start = line->rest;
    if (*start == '\0')
        malformed(line, "a word is missing", "end of line");
    char *space = strchr(start, ' ');
    line->rest = space ? space + 1 : start + strlen(start);
    if (space)
        *space = '\0';
    return start;
}

static unsigned long long number(Line *line)
{
    char *text = word(line), *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        malformed(line, "not an unsigned number", text);
    return value;
}

static double decimal(Line *line)
{
    char *text = word(line), *end;
    double value = strtod(text, &end);
    if (end == text || *end)
        malformed(line, "not a decimal number", text);
    return value;
}

/* A number, or what `word` stands for. */
static unsigned long long number_or(Line *line, const char *name, unsigned long long value)
{
    size_t size = strlen(name);
    if (strncmp(line->rest, name, size) != 0 || (line->rest[size] != ' ' && line->rest[size] != '\0'))
        return number(line);
    word(line);
    return value;
}

static unsigned index_of(Line *line)
{
    unsigned part[3] = {0};
    char *text = word(line);
    for (int i = 0; i < 3; i++) {
        char *end;
        part[i] = (unsigned)strtoul(text, &end, 10);
        if (end == text || part[i] > 255 || (*end && *end != '.') || (*end && i == 2))
            malformed(line, "not an index", text);
        if (!*end)
            break;
        text = end + 1;
    }
    return INDEX(part[0], part[1], part[2]);
}

static int name_of(Line *line, const char *const *names)
{
    const char *text = word(line);
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    malformed(line, "unknown name", text);
}

static void text_of(Line *line, const char *text, char *into, size_t size)
{
    if (!*text || strlen(text) >= size)
        malformed(line, "text is empty or too long", text);
    strcpy(into, text);
}

static void uuid_of(Line *line, char *into)
{
    text_of(line, word(line), into, UUID_SIZE);
}

#define APPEND(line, array, count)                                                                              \
    ({                                                                                                          \
        if ((count) == sizeof(array) / sizeof(*(array)))                                                        \
            malformed(line, "the stand-in has no room for more of", #array);                                    \
        &(array)[(count)++];                                                                                    \
    })

static void parse_field(Line *line, State *state)
{
    Field *field = APPEND(line, state->fields, state->field_count);
    *field = (Field){.id = (unsigned)number(line)};
    field->scope = (unsigned)number(line);
    if (strncmp(line->rest, "error ", 6) == 0) {
        word(line);
        field->result = (nvmlReturn_t)number(line);
        return;
    }
    field->type = (nvmlValueType_t)name_of(line, TYPE_NAMES);
    if (field->type == NVML_VALUE_TYPE_DOUBLE)
        field->value.dVal = decimal(line);
    else if (*line->rest == '-' && line->rest++)
        field->value.sllVal = -(long long)number(line);
    else
        field->value.ullVal = number(line);
}

static void parse_process(Line *line, Gpu *gpu)
{
    Process *process = APPEND(line, gpu->processes, gpu->process_count);
    process->list = name_of(line, LIST_NAMES);
    process->info.pid = (unsigned)number(line);
    process->info.usedGpuMemory = number_or(line, "-", (unsigned long long)NVML_VALUE_NOT_AVAILABLE);
    process->info.gpuInstanceId = (unsigned)number_or(line, "-", NO_INSTANCE);
    process->info.computeInstanceId = (unsigned)number_or(line, "-", NO_INSTANCE);
}

static void parse_sample(Line *line, Gpu *gpu)
{
    Sample *sample = APPEND(line, gpu->samples, gpu->sample_count);
    *sample = (Sample){.type = (int)number(line)};
    sample->time = number_or(line, "live", LIVE);
    sample->use[0] = (unsigned)number(line);
}

static void parse_process_sample(Line *line, Gpu *gpu)
{
    Sample *sample = APPEND(line, gpu->samples, gpu->sample_count);
    *sample = (Sample){.type = PROCESS_SAMPLES, .time = number_or(line, "live", LIVE)};
    sample->pid = (unsigned)number(line);
    for (int i = 0; i < 4; i++)
        sample->use[i] = (unsigned)number(line);
}

/* Returns false for a word that says nothing of a device. */
static bool parse_state_line(Line *line, const char *key, State *state)
{
    if (strcmp(key, "value") == 0) {
        Value *value = APPEND(line, state->values, state->value_count);
        value->reading = name_of(line, READING_NAMES);
        value->index = index_of(line);
        value->number = number(line);
    } else if (strcmp(key, "text") == 0) {
        int text = name_of(line, TEXT_NAMES);
        text_of(line, line->rest, state->texts[text], UUID_SIZE);
        line->rest += strlen(line->rest);
    } else if (strcmp(key, "field") == 0) {
        parse_field(line, state);
    } else {
        return false;
    }
    return true;
}

static bool parse_gpu_line(Line *line, const char *key, Gpu *gpu)
{
    if (strcmp(key, "process") == 0) {
        parse_process(line, gpu);
    } else if (strcmp(key, "sample") == 0) {
        parse_sample(line, gpu);
    } else if (strcmp(key, "process_sample") == 0) {
        parse_process_sample(line, gpu);
    } else if (strcmp(key, "energy") == 0) {
        gpu->has_energy = true;
        gpu->energy = number(line);
        gpu->energy_rate = number(line);
        gpu->energy_since = number(line);
    } else if (strcmp(key, "retired_page") == 0) {
        RetiredPage *page = APPEND(line, gpu->retired_pages, gpu->retired_page_count);
        page->cause = (nvmlPageRetirementCause_t)number(line);
        page->address = number(line);
        page->time = number(line);
    } else if (strcmp(key, "metric") == 0) {
        Metric *metric = APPEND(line, gpu->metrics, gpu->metric_count);
        metric->gpu_instance = (unsigned)number_or(line, "-", NO_INSTANCE);
        metric->metric = (unsigned)number(line);
        metric->value = decimal(line);
    } else if (strcmp(key, "gpm") == 0) {
        gpu->gpm = true;
    } else if (strcmp(key, "lost") == 0) {
        gpu->lost = true;
    } else {
        return false;
    }
    return true;
}

/* A call's name, or that name before _v<n>, or * for all but nvmlInit's and nvmlShutdown. */
static bool names_call(const char *name, const char *call)
{
    size_t size = strlen(name);
    if (strcmp(name, "*") == 0)
        return strncmp(call, "nvmlInit", 8) != 0 && strcmp(call, "nvmlShutdown") != 0;
    return strncmp(name, call, size) == 0 && (call[size] == '\0' || strncmp(call + size, "_v", 2) == 0);
}

static void parse_fault(Line *line, Scenario *into)
{
    Fault *fault = APPEND(line, into->faults, into->fault_count);
    *fault = (Fault){0};
    const char *name = word(line);
    bool known = false;
    for (int call = 0; call < CALL_COUNT; call++)
        known |= fault->calls[call] = names_call(name, CALL_NAMES[call]);
    if (!known)
        malformed(line, "NVML has no call", name);
    uuid_of(line, fault->gpu);
    if (strcmp(fault->gpu, "*") == 0)
        *fault->gpu = '\0';
    fault->kind = name_of(line, FAULT_NAMES);
    fault->number = number(line);
}

static void parse_event(Line *line, Scenario *into)
{
    Event *event = APPEND(line, into->events, into->event_count);
    event->serial = number(line);
    uuid_of(line, event->gpu);
    event->type = number(line);
    event->data = number(line);
    event->gpu_instance = (unsigned)number_or(line, "-", NO_INSTANCE);
    event->compute_instance = (unsigned)number_or(line, "-", NO_INSTANCE);
}

static bool parse_node_line(Line *line, const char *key, Scenario *into)
{
    if (strcmp(key, "driver") == 0)
        text_of(line, word(line), into->driver, sizeof into->driver);
    else if (strcmp(key, "nvml") == 0)
        text_of(line, word(line), into->nvml, sizeof into->nvml);
    else if (strcmp(key, "cuda") == 0)
        into->cuda = number(line);
    else if (strcmp(key, "event") == 0)
        parse_event(line, into);
    else if (strcmp(key, "fault") == 0)
        parse_fault(line, into);
    else
        return false;
    return true;
}

static void start_state(Line *line, State *state)
{
    state->value_count = state->field_count = 0;
    memset(state->texts, 0, sizeof state->texts);
    uuid_of(line, state->uuid);
}

static Gpu *start_gpu(Line *line, Scenario *into)
{
    Gpu *gpu = APPEND(line, into->gpus, into->gpu_count);
    gpu->mig_count = gpu->process_count = gpu->sample_count = gpu->retired_page_count = gpu->metric_count = 0;
    gpu->lost = gpu->gpm = gpu->has_energy = false;
    start_state(line, &gpu->state);
    return gpu;
}

static void parse_lines(FILE *file, Line *line, Scenario *into)
{
    char buffer[512];
    Gpu *gpu = NULL;
    State *state = NULL;
    const char *key = "";
    while (fgets(buffer, sizeof buffer, file)) {
        line->number++;
        line->rest = buffer;
        char *end = strchr(buffer, '\n');
        if (!end)
            malformed(line, "the line is too long or cut off", buffer);
        *end = '\0';
        key = word(line);
        if (strcmp(key, "end") == 0) {
            return;
        } else if (strcmp(key, "gpu") == 0) {
            gpu = start_gpu(line, into);
            state = &gpu->state;
        } else if (strcmp(key, "mig") == 0 && gpu) {
            state = APPEND(line, gpu->migs, gpu->mig_count);
            start_state(line, state);
        } else if (!(gpu ? parse_state_line(line, key, state) || parse_gpu_line(line, key, gpu)
                         : parse_node_line(line, key, into))) {
            malformed(line, "unknown or out of place", key);
        }
        if (*line->rest)
            malformed(line, "more than the line may say", line->rest);
    }
    malformed(line, "the file is cut off: its last line must be 'end', not", key);
}

void scenario_parse(FILE *file, const char *path, Scenario *into)
{
    Line line = {.path = path};
    into->gpu_count = into->event_count = into->fault_count = 0;
    *into->driver = *into->nvml = '\0';
    into->cuda = 0;
    parse_lines(file, &line, into);
}
