/* GET /v1/alarms: what is raised now, and what was until lately. */
#include "server/json_answer.h"
#include "server/problem.h"
#include "server/route.h"

#include "base/clock.h"
#include "base/write.h"
#include "limiter/counters.h"

#include <jansson.h>
#include <stdio.h>

/* Alarms take a clock that does not step; people want the other one. */
struct clocks {
    uint64_t mono_us;
    uint64_t wall_us;
};

static struct clocks clocks_now(void)
{
    struct sl_clock clock = sl_clock_system();

    return (struct clocks){.mono_us = sl_stopwatch_ns() / 1000, .wall_us = clock.wall_us(clock.ctx)};
}

static json_t *time_json(const struct clocks *now, uint64_t at_us)
{
    uint64_t ago_us = now->mono_us > at_us ? now->mono_us - at_us : 0;
    uint64_t wall_us = now->wall_us > ago_us ? now->wall_us - ago_us : 0;
    struct sl_date_cache cache = {.day = 0};
    char text[SL_RFC3339_LEN + 1];

    *sl_write_rfc3339(text, (int64_t)(wall_us / 1000), &cache) = '\0';
    return json_string(text);
}

/* The detail may hold what a file or another program wrote. */
static json_t *text_json(const char *text)
{
    json_t *value = json_string(text);

    return value ? value : json_string("(it is no UTF-8)");
}

static json_t *sentence_json(enum sl_alarm kind, const char *detail)
{
    char sentence[SL_ALARM_SENTENCE_MAX];

    snprintf(sentence, sizeof sentence, "%s%s%s", sl_alarm_meaning(kind), *detail ? ": " : "", detail);
    return text_json(sentence);
}

static json_int_t seconds(uint64_t from_us, uint64_t to_us)
{
    return to_us > from_us ? (json_int_t)((to_us - from_us) / 1000000) : 0;
}

static json_t *raised_json(enum sl_alarm kind, const struct sl_alarm_state *state, const struct clocks *now)
{
    return json_pack("{s:s, s:o, s:I, s:o, s:o, s:o, s:I, s:s}", "kind", sl_alarm_name(kind), "since",
                     time_json(now, state->since_us), "seconds", seconds(state->since_us, now->mono_us), "sentence",
                     sentence_json(kind, state->latest), "detail", text_json(state->latest), "began",
                     text_json(state->began), "times", (json_int_t)state->count, "runbook", sl_alarm_runbook(kind));
}

static json_t *past_json(const struct sl_alarm_past *past, const struct clocks *now)
{
    return json_pack("{s:s, s:o, s:o, s:I, s:o, s:o, s:s}", "kind", sl_alarm_name(past->alarm), "from",
                     time_json(now, past->from_us), "to", time_json(now, past->to_us), "seconds",
                     seconds(past->from_us, past->to_us), "sentence", sentence_json(past->alarm, past->detail),
                     "detail", text_json(past->detail), "runbook", sl_alarm_runbook(past->alarm));
}

static json_t *all_raised(struct sl_alarms *alarms, const struct clocks *now)
{
    json_t *array = json_array();

    for (unsigned i = 0; array && i < SL_ALARMS; i++) {
        struct sl_alarm_state state = sl_alarm_read(alarms, (enum sl_alarm)i);

        if (state.raised && json_array_append_new(array, raised_json((enum sl_alarm)i, &state, now))) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *all_past(struct sl_alarms *alarms, const struct clocks *now)
{
    struct sl_alarm_past past[SL_ALARM_HISTORY];
    unsigned n = sl_alarms_past(alarms, past, SL_ALARM_HISTORY);
    json_t *array = json_array();

    for (unsigned i = 0; array && i < n; i++)
        if (json_array_append_new(array, past_json(&past[i], now))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

void sl_handle_alarms(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_alarms *alarms = call->service->shared->alarms;
    struct clocks now = clocks_now();

    (void)request;
    if (!alarms) {
        sl_problem(response, 501, "This server has no alarms.", NULL);
        return;
    }
    sl_answer_json(response,
                   json_pack("{s:o, s:o}", "raised", all_raised(alarms, &now), "past", all_past(alarms, &now)));
}
