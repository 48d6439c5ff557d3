/* /v1/traces: what is decided about one key, decision by decision, while it happens; and the witness that records it.
 *
 *     POST   /v1/traces?key=...            arms one
 *     GET    /v1/traces                    lists them
 *     GET    /v1/traces/ID?after=SEQ       what it has recorded behind number SEQ, asked for again and again
 *     DELETE /v1/traces/ID                 ends it */
#include "server/audit.h"
#include "server/json_answer.h"
#include "server/params.h"
#include "server/problem.h"
#include "server/route.h"
#include "server/see.h"
#include "server/see_limits.h"

#include "base/clock.h"
#include "base/err.h"
#include "limiter/counters.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH "/v1/traces"
#define COUNT_PRESET 10u
#define FOR_PRESET_S 60u
#define READ_MAX 100u /* decisions in one answer */

static uint64_t mono_us(void)
{
    return sl_stopwatch_ns() / 1000;
}

/* ---- the witness */

bool sl_see_wants(void *ctx, const struct sluice_request *request)
{
    return sl_traces_want(((struct sl_see *)ctx)->traces, request);
}

static void copy_name(char to[static SLUICE_NAME_MAX], const char *from)
{
    snprintf(to, SLUICE_NAME_MAX, "%s", from);
}

/* Which tier and endpoint the request belongs to: looked up once more, as the decision did. */
static void find_names(struct sl_service *service, const struct sluice_request *request, struct sl_traced *traced)
{
    struct sl_resolved resolved;

    if (sl_limiter_resolve(service->shared->limiter, sl_service_policy(service), request, &resolved))
        return; /* the policy has changed, and this one refuses it */
    copy_name(traced->tier, resolved.resolution.tier);
    copy_name(traced->endpoint, resolved.resolution.endpoint);
}

/* Which of the buckets have an override in their limit's place. */
static void mark_overridden(struct sl_service *service, const struct sluice_request *request, struct sl_traced *traced)
{
    const struct sl_policy *policy = sl_service_policy(service);
    const struct sl_overrides *all = sl_policy_overrides(policy);
    const struct sl_limit *limit;

    if (!all || !all->n)
        return;
    for (unsigned i = 0; i < traced->n_items && i < SL_TRACE_ITEMS_MAX; i++) {
        limit = sl_see_limit(policy, traced->items[i].name);
        if (limit && sl_policy_override_for(policy, request, limit))
            traced->overridden |= 1u << i;
    }
    limit = sl_see_limit(policy, traced->verdict.policy);
    if (limit && sl_policy_override_for(policy, request, limit))
        traced->overridden |= SL_TRACE_VERDICT;
}

void sl_see_traced(void *ctx, const struct sl_witnessed *seen)
{
    struct sl_see *see = ctx;
    struct sl_clock clock = sl_clock_system();
    struct sl_traced traced = {.cost = seen->request->cost, .verdict = *seen->verdict};

    if (!seen->report || !sl_traces_want(see->traces, seen->request))
        return; /* others wanted to see it */
    traced.at_us = clock.wall_us(clock.ctx);
    find_names(seen->service, seen->request, &traced);
    traced.n_items = seen->report->n;
    for (unsigned i = 0; i < traced.n_items && i < SL_TRACE_ITEMS_MAX; i++)
        traced.items[i] = seen->report->items[i];
    mark_overridden(seen->service, seen->request, &traced);
    sl_traces_record(see->traces, seen->request, &traced, mono_us());
}

/* ---- as JSON; NULL: out of memory */

static json_t *time_json(uint64_t us)
{
    struct sl_date_cache cache = {.day = 0};
    char text[SL_RFC3339_LEN + 1];

    *sl_write_rfc3339(text, (int64_t)(us / 1000), &cache) = '\0';
    return json_string(text);
}

static json_t *id_json(uint64_t id)
{
    return json_sprintf("%016llx", (unsigned long long)id);
}

static json_t *verdict_json(const struct sluice_verdict *verdict)
{
    struct sl_date_cache cache = {.day = 0};
    char text[SL_VERDICT_JSON_MAX];
    char *end = sl_write_verdict(text, verdict, &cache);

    return json_loadb(text, (size_t)(end - text), 0, NULL);
}

/* A decision, and what it is looked up with once more. */
struct told {
    const struct sl_traced *traced;
    const struct sl_trace_state *trace;
    const struct sl_policy *policy; /* in force now */
};

/* The override is looked up when it is asked for, which is a moment later: by then it may be another, and is not named. */
static int add_override(json_t *object, const struct told *told, const char *limit)
{
    const struct sl_override *o = sl_see_override(told->policy, limit, told->trace->key, told->trace->key_type);

    return sl_see_add_override(object, o && sl_see_is_since(o, told->traced->at_us) ? o : NULL);
}

static json_t *bucket_json(const struct told *told, unsigned i)
{
    const struct sl_report_item *item = &told->traced->items[i];
    bool blocked = !item->quota && !item->period_us;
    json_t *object =
        json_pack("{s:s, s:b, s:s, s:I, s:I, s:I, s:b}", "policy", item->name, "allowed", item->allowed, "source",
                  sluice_source_name(item->source), "limit", (json_int_t)item->quota, "remaining",
                  (json_int_t)item->remaining, "nextMs", (json_int_t)item->next_ms, "dryRun", item->dry_run);

    if (object && ((!blocked && json_object_set_new(object, "cost", json_integer(item->cost))) ||
                   (told->traced->overridden >> i & 1 && add_override(object, told, item->name)))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *buckets_json(const struct told *told)
{
    json_t *array = json_array();

    for (unsigned i = 0; array && i < told->traced->n_items && i < SL_TRACE_ITEMS_MAX; i++)
        if (json_array_append_new(array, bucket_json(told, i))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

static json_t *decision_json(const struct told *told)
{
    const struct sl_traced *traced = told->traced;
    json_t *object =
        json_pack("{s:I, s:o, s:s, s:s, s:s, s:o, s:o}", "seq", (json_int_t)traced->seq, "time",
                  time_json(traced->at_us), "scope", traced->scope, "tier", traced->tier, "endpoint", traced->endpoint,
                  "verdict", verdict_json(&traced->verdict), "buckets", buckets_json(told));
    bool cut = traced->n_items > SL_TRACE_ITEMS_MAX;

    if (object && ((traced->cost >= 0 && json_object_set_new(object, "cost", json_integer((json_int_t)traced->cost))) ||
                   (traced->overridden & SL_TRACE_VERDICT && add_override(object, told, traced->verdict.policy)) ||
                   (cut && json_object_set_new(object, "bucketsLeftOut",
                                               json_integer((json_int_t)(traced->n_items - SL_TRACE_ITEMS_MAX)))))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *decisions_json(const struct sl_traced *list, int n, const struct sl_trace_state *trace,
                              const struct sl_policy *policy)
{
    json_t *array = json_array();

    for (int i = 0; array && i < n; i++)
        if (json_array_append_new(
                array, decision_json(&(struct told){.traced = &list[i], .trace = trace, .policy = policy}))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

static json_t *state_json(const struct sl_trace_state *state)
{
    static const char *const phases[] = {
        [SL_TRACE_ARMED] = "armed", [SL_TRACE_COMPLETE] = "complete", [SL_TRACE_EXPIRED] = "expired"};

    return json_pack("{s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:b}", "id", id_json(state->id), "state",
                     phases[state->phase], "key", state->key, "keyType", state->key_type, "scope", state->glob, "count",
                     (json_int_t)state->count, "recorded", (json_int_t)state->recorded, "leftMs",
                     (json_int_t)(state->left_us / 1000), "log", state->log);
}

/* ---- the routes */

struct order_texts {
    char key[SLUICE_KEY_MAX + 1], key_type[SLUICE_NAME_MAX], scope[SL_TRACE_GLOB_MAX + 1], count[8], seconds[8], log[8];
};

/* "true" or "false". */
static int read_switch(const struct sl_param *param, bool *ret_value, struct sl_http_response *response)
{
    *ret_value = param->given && !strcmp(param->text, "true");
    if (!param->given || *ret_value || !strcmp(param->text, "false"))
        return 0;
    sl_problem(response, 400, "A switch is `true` or `false`.", param->name);
    return SL_EINVALID;
}

static int read_order(struct sl_call *call, struct order_texts *texts, struct sl_trace_order *order,
                      struct sl_http_response *response)
{
    struct sl_param params[] = {{.name = "key", .text = texts->key, .size = sizeof texts->key},
                                {.name = "keyType", .text = texts->key_type, .size = sizeof texts->key_type},
                                {.name = "scope", .text = texts->scope, .size = sizeof texts->scope},
                                {.name = "count", .text = texts->count, .size = sizeof texts->count},
                                {.name = "seconds", .text = texts->seconds, .size = sizeof texts->seconds},
                                {.name = "log", .text = texts->log, .size = sizeof texts->log}};
    uint64_t count = COUNT_PRESET, seconds = FOR_PRESET_S;

    if (sl_params_read(call->query, params, sizeof params / sizeof *params, response) ||
        sl_param_number(&params[3], 1, SL_TRACE_DECISIONS_MAX, &count, response) ||
        sl_param_number(&params[4], 1, SL_TRACE_FOR_MAX_US / 1000000, &seconds, response) ||
        read_switch(&params[5], &order->log, response))
        return SL_EINVALID;
    if (!params[0].given) {
        sl_problem(response, 400, "The parameter `key` is missing.", "key");
        return SL_EINVALID;
    }
    order->whom = (struct sluice_request)SLUICE_REQUEST_INIT;
    order->whom.key = texts->key;
    order->whom.key_len = params[0].len;
    order->whom.key_type = params[1].given ? texts->key_type : NULL;
    order->whom.key_type_len = params[1].len;
    order->glob = params[2].given ? texts->scope : NULL;
    order->glob_len = params[2].len;
    order->count = (unsigned)count;
    order->for_us = seconds * 1000000;
    return 0;
}

/* A key that no request can have would wait in vain. */
static int check_key(const struct sl_policy *policy, const struct sl_trace_order *order,
                     struct sl_http_response *response)
{
    struct sl_request_buffer buffer;
    struct sluice_request checked;
    const char *field = "", *why = "";
    char detail[256];

    if (!sl_request_check(policy, &order->whom, &checked, &buffer, &field, &why))
        return 0;
    snprintf(detail, sizeof detail, "`%s`: %s.", field, why);
    sl_problem(response, 400, detail, field);
    return SL_EINVALID;
}

static void arm(struct sl_call *call, struct sl_traces *traces, const struct sl_http_request *request,
                struct sl_http_response *response)
{
    const struct sl_policy *policy = sl_service_policy(call->service);
    struct order_texts texts = {.key = ""};
    struct sl_trace_order order = {.count = 0};
    struct sl_trace_state state;
    struct sl_traced none;
    uint64_t id, now_us = mono_us();
    int err;

    if (read_order(call, &texts, &order, response) || check_key(policy, &order, response))
        return;
    err = sl_traces_arm(traces, &order, sl_policy_door(policy)->ipv6_prefix, now_us, &id);
    if (err == SL_EBUSY) {
        sl_problem(response, 409, "There are as many traces as there may be; end one, or ask for fewer decisions.",
                   NULL);
    } else if (err || sl_traces_read(traces, id, 0, &none, 0, now_us, &state) < 0) {
        sl_problem(response, 500, "Out of memory.", NULL);
    } else {
        sl_audit(call->service, request, "trace %016llx of %s `%.512s` armed, %u decisions within %llu s",
                 (unsigned long long)id, state.key_type, state.key, state.count,
                 (unsigned long long)(order.for_us / 1000000));
        response->status = 201;
        sl_answer_json(response, state_json(&state));
    }
}

static void list(struct sl_traces *traces, struct sl_http_response *response)
{
    struct sl_trace_state *states = calloc(SL_TRACES_MAX, sizeof *states);
    unsigned n = states ? sl_traces_list(traces, mono_us(), states) : 0;
    json_t *array = states ? json_array() : NULL;

    for (unsigned i = 0; array && i < n; i++)
        if (json_array_append_new(array, state_json(&states[i]))) {
            json_decref(array);
            array = NULL;
        }
    free(states);
    sl_answer_json(response, json_pack("{s:o}", "traces", array));
}

static void refuse_unknown(struct sl_http_response *response)
{
    sl_problem(response, 404, "There is no such trace, or no longer.", NULL);
}

static void read_trace(struct sl_call *call, struct sl_traces *traces, uint64_t id, struct sl_http_response *response)
{
    char text[24];
    struct sl_param params[] = {{.name = "after", .text = text, .size = sizeof text}};
    struct sl_traced *decisions;
    struct sl_trace_state state;
    uint64_t after = 0;
    json_t *answer;
    int n;

    if (sl_params_read(call->query, params, 1, response) ||
        sl_param_number(&params[0], 0, SL_TRACE_DECISIONS_MAX, &after, response))
        return;
    decisions = calloc(READ_MAX, sizeof *decisions);
    n = decisions ? sl_traces_read(traces, id, after, decisions, READ_MAX, mono_us(), &state) : SL_ENOMEM;
    if (n == SL_ENOTFOUND) {
        refuse_unknown(response);
    } else {
        answer = n < 0 ? NULL : state_json(&state);
        if (answer && json_object_set_new(answer, "decisions",
                                          decisions_json(decisions, n, &state, sl_service_policy(call->service)))) {
            json_decref(answer);
            answer = NULL;
        }
        sl_answer_json(response, answer);
    }
    free(decisions);
}

/* The part of the path behind "/v1/traces/"; 0: it is no id. */
static uint64_t id_of(struct sl_slice path)
{
    size_t len = path.len - (sizeof PATH - 1);
    char text[18] = "";

    if (len != 17 || path.text[sizeof PATH - 1] != '/')
        return 0;
    memcpy(text, path.text + sizeof PATH, 16);
    return strspn(text, "0123456789abcdef") == 16 ? strtoull(text, NULL, 16) : 0;
}

static struct sl_traces *traces_of(struct sl_call *call, struct sl_http_response *response)
{
    struct sl_see *see = call->service->shared->see;

    if (!see)
        sl_problem(response, 501, "This server records no traces.", NULL);
    return see ? see->traces : NULL;
}

void sl_handle_traces(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_traces *traces = traces_of(call, response);

    if (traces && request->method == SL_HTTP_POST)
        arm(call, traces, request, response);
    else if (traces)
        list(traces, response);
}

void sl_handle_trace(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_traces *traces = traces_of(call, response);
    uint64_t id = id_of(call->path);

    if (traces && request->method != SL_HTTP_DELETE)
        read_trace(call, traces, id, response);
    else if (traces && sl_traces_disarm(traces, id))
        refuse_unknown(response);
    else if (traces)
        sl_answer_json(response, json_pack("{s:b}", "ended", 1));
}
