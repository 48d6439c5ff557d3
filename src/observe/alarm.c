#include "observe/alarm.h"

#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000)

static const struct {
    const char *name, *meaning, *runbook;
    uint64_t hold_us;
} kinds[SL_ALARMS] = {
#define X(id, text, hold_s, sentence) \
    [SL_ALARM_##                      \
        id] = {.name = (text), .meaning = (sentence), .runbook = "docs/runbook.md#" text, .hold_us = (hold_s)*SECOND},
    SL_ALARM_MAP(X)
#undef X
};

const char *sl_alarm_name(enum sl_alarm alarm)
{
    return kinds[alarm].name;
}

const char *sl_alarm_meaning(enum sl_alarm alarm)
{
    return kinds[alarm].meaning;
}

const char *sl_alarm_runbook(enum sl_alarm alarm)
{
    return kinds[alarm].runbook;
}

void sl_alarms_init(struct sl_alarms *alarms)
{
    memset(alarms, 0, sizeof *alarms);
    pthread_mutex_init(&alarms->lock, NULL);
}

void sl_alarms_fini(struct sl_alarms *alarms)
{
    pthread_mutex_destroy(&alarms->lock);
}

void sl_alarms_set_sink(struct sl_alarms *alarms, sl_alarm_sink *sink, void *ctx)
{
    pthread_mutex_lock(&alarms->lock);
    alarms->sink = sink;
    alarms->sink_ctx = ctx;
    pthread_mutex_unlock(&alarms->lock);
}

static void tell(struct sl_alarms *alarms, enum sl_alarm alarm, uint64_t since_us, uint64_t now_us)
{
    const struct sl_alarm_state *state = &alarms->states[alarm];
    char sentence[SL_ALARM_SENTENCE_MAX];
    struct sl_alarm_news news = {.alarm = alarm,
                                 .raised = state->raised,
                                 .since_us = since_us,
                                 .at_us = now_us,
                                 .kind = kinds[alarm].name,
                                 .sentence = sentence,
                                 .detail = state->began,
                                 .runbook = kinds[alarm].runbook};

    if (!alarms->sink)
        return;
    snprintf(sentence, sizeof sentence, "%s%s%s", kinds[alarm].meaning, state->began[0] ? ": " : "", state->began);
    alarms->sink(alarms->sink_ctx, &news);
}

static void begin(struct sl_alarms *alarms, enum sl_alarm alarm, uint64_t now_us)
{
    struct sl_alarm_state *state = &alarms->states[alarm];

    state->raised = true;
    state->since_us = now_us;
    state->count++;
    memcpy(state->began, state->latest, sizeof state->began);
    tell(alarms, alarm, now_us, now_us);
}

static void end(struct sl_alarms *alarms, enum sl_alarm alarm, uint64_t now_us)
{
    struct sl_alarm_state *state = &alarms->states[alarm];
    struct sl_alarm_past *past = &alarms->past[alarms->n_past++ % SL_ALARM_HISTORY];
    uint64_t since_us = state->since_us;

    *past = (struct sl_alarm_past){.alarm = alarm, .from_us = since_us, .to_us = now_us};
    memcpy(past->detail, state->began, sizeof past->detail);
    state->raised = false;
    state->since_us = now_us;
    tell(alarms, alarm, since_us, now_us);
}

bool sl_alarm_raise(struct sl_alarms *alarms, enum sl_alarm alarm, const char *detail, uint64_t now_us)
{
    struct sl_alarm_state *state = &alarms->states[alarm];
    bool changed;

    pthread_mutex_lock(&alarms->lock);
    changed = !state->raised;
    if (now_us > state->seen_us) /* threads read the clock before they come here */
        state->seen_us = now_us;
    if (changed || (detail && *detail))
        snprintf(state->latest, sizeof state->latest, "%s", detail ? detail : "");
    if (changed)
        begin(alarms, alarm, now_us);
    pthread_mutex_unlock(&alarms->lock);
    return changed;
}

bool sl_alarm_rest(struct sl_alarms *alarms, enum sl_alarm alarm, uint64_t now_us)
{
    const struct sl_alarm_state *state = &alarms->states[alarm];
    bool changed;

    pthread_mutex_lock(&alarms->lock);
    changed = state->raised && now_us >= state->seen_us && now_us - state->seen_us >= kinds[alarm].hold_us;
    if (changed)
        end(alarms, alarm, now_us);
    pthread_mutex_unlock(&alarms->lock);
    return changed;
}

struct sl_alarm_state sl_alarm_read(struct sl_alarms *alarms, enum sl_alarm alarm)
{
    struct sl_alarm_state state;

    pthread_mutex_lock(&alarms->lock);
    state = alarms->states[alarm];
    pthread_mutex_unlock(&alarms->lock);
    return state;
}

unsigned sl_alarms_past(struct sl_alarms *alarms, struct sl_alarm_past *ret_past, unsigned n)
{
    pthread_mutex_lock(&alarms->lock);
    if (n > SL_ALARM_HISTORY)
        n = SL_ALARM_HISTORY;
    if (n > alarms->n_past)
        n = (unsigned)alarms->n_past;
    for (unsigned i = 0; i < n; i++)
        ret_past[i] = alarms->past[(alarms->n_past - 1 - i) % SL_ALARM_HISTORY];
    pthread_mutex_unlock(&alarms->lock);
    return n;
}
