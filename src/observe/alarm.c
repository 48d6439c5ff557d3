#include "observe/alarm.h"

#include <string.h>

#define SECOND UINT64_C(1000000)

static const struct {
    const char *name, *meaning;
    uint64_t hold_us;
} kinds[SL_ALARMS] = {
#define X(id, text, hold_s, sentence) \
    [SL_ALARM_##id] = {.name = (text), .meaning = (sentence), .hold_us = (hold_s)*SECOND},
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

void sl_alarms_init(struct sl_alarms *alarms)
{
    memset(alarms, 0, sizeof *alarms);
    pthread_mutex_init(&alarms->lock, NULL);
}

void sl_alarms_fini(struct sl_alarms *alarms)
{
    pthread_mutex_destroy(&alarms->lock);
}

bool sl_alarm_raise(struct sl_alarms *alarms, enum sl_alarm alarm, uint64_t now_us)
{
    struct sl_alarm_state *state = &alarms->states[alarm];
    bool changed;

    pthread_mutex_lock(&alarms->lock);
    changed = !state->raised;
    state->raised = true;
    if (now_us > state->seen_us) /* threads read the clock before they come here */
        state->seen_us = now_us;
    if (changed) {
        state->since_us = now_us;
        state->count++;
    }
    pthread_mutex_unlock(&alarms->lock);
    return changed;
}

bool sl_alarm_rest(struct sl_alarms *alarms, enum sl_alarm alarm, uint64_t now_us)
{
    struct sl_alarm_state *state = &alarms->states[alarm];
    bool changed;

    pthread_mutex_lock(&alarms->lock);
    changed = state->raised && now_us >= state->seen_us && now_us - state->seen_us >= kinds[alarm].hold_us;
    if (changed) {
        state->raised = false;
        state->since_us = now_us;
    }
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
