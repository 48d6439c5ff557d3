/* GET /v1/rejections: who was rejected lately, by what, when; and the witness that remembers it. */
#include "server/exposition.h"
#include "server/json_answer.h"
#include "server/params.h"
#include "server/problem.h"
#include "server/route.h"
#include "server/see.h"
#include "server/see_limits.h"

#include "policy/report_parts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIMIT_PRESET 100u
#define LIMIT_MAX 1000u
#define COARSE_US 10000u /* that the coarse clock may lie behind the exact one */

/* To some milliseconds, which is enough for who asks later, and a fifth of the price. */
static uint64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- the witness */

void sl_see_rejection(void *ctx, const struct sl_witnessed *seen)
{
    const struct sl_see *see = ctx;
    const struct sl_shared *shared = seen->service->shared;
    const struct sl_policy *policy = sl_service_policy(seen->service);
    bool versions = atomic_load_explicit(&shared->policy_from_store, memory_order_relaxed);
    struct sl_who who;
    struct sl_rejected rejected = {
        .who = &who,
        .scope = seen->request->scope,
        .scope_len = seen->request->scope_len,
        .cost = seen->request->cost,
        .verdict = seen->verdict,
        .policy_hash = sl_policy_hash(policy),
        .policy_version = versions ? atomic_load_explicit(&shared->policy_version, memory_order_relaxed) : 0};

    sl_who_of(&who, seen->request, sl_policy_door(policy)->ipv6_prefix);
    sl_rejections_tell(see->rejections, seen->loop, &rejected, wall_us());
    if (see->top)
        sl_top_rejected(see->top, seen->loop, seen->request);
}

/* ---- metrics */

void sl_see_metrics(struct sl_exposition *x, struct sl_see *see)
{
    struct sl_rejections_reach reach;

    sl_rejections_reach(see->rejections, &reach);
    sl_exposition_gauge(x, "sluice_rejections_remembered", "Entries in the memory of recent rejections.", reach.kept);
    sl_exposition_counter(x, "sluice_rejections_forgotten",
                          "Entries of it that had to make room: some of what is older is not known any more.",
                          reach.dropped);
    sl_exposition_gauge(x, "sluice_traces", "Traces that record now.", sl_traces_armed(see->traces));
}

/* ---- the answer */

static json_t *time_json(uint64_t us)
{
    struct sl_date_cache cache = {.day = 0};
    char text[SL_RFC3339_LEN + 1];

    *sl_write_rfc3339(text, (int64_t)(us / 1000), &cache) = '\0';
    return json_string(text);
}

static int set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value);
}

static bool is_in_force(const struct sl_rejection *rejection, const struct sl_policy *policy)
{
    return strncmp(sl_policy_hash(policy), rejection->policy_hash, strlen(rejection->policy_hash)) == 0;
}

/* What stands in the limit's place for that key: an override may. A key that was cut is not known well enough, and has none:
 * what is shown of it ends with an ellipsis. */
static const struct sl_limit *limit_of(const struct sl_policy *policy, const struct sl_limit *limit,
                                       const struct sl_rejection *rejection)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;

    request.key = rejection->key;
    request.key_len = strlen(rejection->key);
    request.key_type = rejection->key_type;
    request.key_type_len = strlen(rejection->key_type);
    return sl_policy_limit_for(policy, &request, limit);
}

/* Of a scope that was cut, or of which something was replaced, nobody knows the endpoint. */
static bool is_whole(const char *shown)
{
    return !strstr(shown, "\xef\xbf\xbd") && !strstr(shown, "\xe2\x80\xa6");
}

/* What the last one wanted: of its own, or as the limit and the endpoint have it. `limit`: of the policy that was in force;
 * NULL: it is not known. */
static int add_cost(json_t *object, const struct sl_rejection *rejection, const struct sl_policy *policy,
                    const struct sl_limit *limit)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;
    int64_t cost = rejection->cost;

    request.scope = rejection->scope;
    request.scope_len = strlen(rejection->scope);
    if (cost < 0 && limit && (limit->cost >= 0 || is_whole(rejection->scope)))
        cost = sl_policy_cost(policy, &request, limit);
    return cost < 0 ? 0 : set(object, "cost", json_integer((json_int_t)cost));
}

/* Can this limit have rejected so? By the figures that it told. */
static bool can_tell(const struct sl_limit *limit, const struct sl_rejection *rejection)
{
    if (rejection->reason == SLUICE_REASON_BLOCKED)
        return limit->kind == SL_RATE_BLOCKED;
    if (rejection->reason != SLUICE_REASON_RATE_LIMITED && rejection->reason != SLUICE_REASON_COST_EXCEEDS_LIMIT)
        return true;
    for (unsigned i = 0; i < limit->n_rates; i++)
        if (limit->shapes[i].limit == rejection->limit)
            return true;
    return false;
}

/* Was it an override that rejected? One that was set later was not, nor one with other figures. Figures that the file's limit
 * cannot have told are those of an override that is gone, or another by now. `limit`: as in add_cost. */
static int add_override(json_t *object, const struct sl_rejection *rejection, const struct sl_policy *policy,
                        const struct sl_limit *limit)
{
    const struct sl_override *override =
        limit ? sl_see_override(policy, rejection->policy, rejection->key, rejection->key_type) : NULL;

    if (override && sl_see_is_since(override, rejection->last_us + COARSE_US) &&
        can_tell(limit_of(policy, limit, rejection), rejection))
        return sl_see_add_override(object, override);
    return limit && !can_tell(limit, rejection) ? sl_see_add_override(object, NULL) : 0;
}

/* What the limit is, and what the request wanted of it; only of the policy that is in force still. */
static int add_limit(json_t *object, const struct sl_rejection *rejection, const struct sl_policy *policy)
{
    const struct sl_limit *limit = is_in_force(rejection, policy) ? sl_see_limit(policy, rejection->policy) : NULL;
    char line[SL_RATE_LINE_MAX + 160];

    if (limit) {
        sl_limit_line(limit_of(policy, limit, rejection), line, sizeof line);
        if (set(object, "limitIs", json_string(line)) ||
            set(object, "askedOf",
                json_string(limit->shared && limit->coordination != SL_COORD_SPLIT ? "store" : "instance")))
            return -1;
    }
    return add_override(object, rejection, policy, limit) || add_cost(object, rejection, policy, limit);
}

static json_t *rejection_json(const struct sl_rejection *r, const struct sl_policy *policy)
{
    char id[17];
    json_t *object;

    snprintf(id, sizeof id, "%016llx", (unsigned long long)r->key_id);
    object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "key", r->key, "keyType", r->key_type,
                       "keyId", id, "scope", r->scope, "policy", r->policy, "reason", sluice_reason_name(r->reason),
                       "source", sluice_source_name(r->source), "limit", (json_int_t)r->limit, "remaining",
                       (json_int_t)r->remaining, "retryAfterMs", (json_int_t)r->retry_after_ms);
    if (!object)
        return NULL;
    if (set(object, "first", time_json(r->first_us)) || set(object, "last", time_json(r->last_us)) ||
        set(object, "count", json_integer((json_int_t)r->count)) || set(object, "certain", json_boolean(r->certain)) ||
        set(object, "policyHash", json_string(r->policy_hash)) ||
        (r->policy_version && set(object, "policyVersion", json_integer((json_int_t)r->policy_version))) ||
        add_limit(object, r, policy)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *list_json(const struct sl_rejection *list, size_t n, const struct sl_policy *policy)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < n; i++)
        if (json_array_append_new(array, rejection_json(&list[i], policy))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

/* The policy in force now, and how far back all this reaches. */
static json_t *answer_json(struct sl_service *service, const struct sl_rejection *list, size_t n,
                           const struct sl_rejections_reach *reach)
{
    const struct sl_shared *shared = service->shared;
    const struct sl_policy *policy = sl_service_policy(service);
    char hash[SL_REJECTIONS_HASH_MAX];
    json_t *answer;

    snprintf(hash, sizeof hash, "%s", sl_policy_hash(policy));
    answer = json_pack("{s:o, s:o, s:I, s:I, s:I, s:s, s:o}", "now", time_json(wall_us()), "reachesBackTo",
                       time_json(reach->since_us), "kept", (json_int_t)reach->kept, "dropped",
                       (json_int_t)reach->dropped, "matching", (json_int_t)reach->matching, "policyHash", hash,
                       "rejections", list_json(list, n, policy));
    if (answer && atomic_load(&shared->policy_from_store) && atomic_load(&shared->policy_version) &&
        set(answer, "policyVersion", json_integer((json_int_t)atomic_load(&shared->policy_version)))) {
        json_decref(answer);
        answer = NULL;
    }
    return answer;
}

/* The query, decoded. */
struct question {
    char key[SLUICE_KEY_MAX + 1], key_type[SLUICE_NAME_MAX], since[40], until[40], limit[8];
    struct sluice_request request;
    struct sl_who who;
    struct sl_rejections_query query;
    uint64_t max;
};

static int read_question(struct sl_call *call, struct question *q, struct sl_http_response *response)
{
    struct sl_param params[] = {{.name = "key", .text = q->key, .size = sizeof q->key},
                                {.name = "keyType", .text = q->key_type, .size = sizeof q->key_type},
                                {.name = "since", .text = q->since, .size = sizeof q->since},
                                {.name = "until", .text = q->until, .size = sizeof q->until},
                                {.name = "limit", .text = q->limit, .size = sizeof q->limit}};
    int e = sl_params_read(call->query, params, sizeof params / sizeof *params, response);

    q->query = (struct sl_rejections_query){.until_us = UINT64_MAX, .any_type = !params[1].given};
    if (e || (e = sl_param_time(&params[2], &q->query.since_us, response)) ||
        (e = sl_param_time(&params[3], &q->query.until_us, response)) ||
        (e = sl_param_number(&params[4], 1, LIMIT_MAX, &q->max, response)))
        return e;
    if (params[1].given && !params[0].given) {
        sl_problem(response, 400, "`keyType` is of a `key`, which is missing.", "key");
        return -1;
    }
    if (params[0].given) {
        q->request = (struct sluice_request)SLUICE_REQUEST_INIT;
        q->request.key = q->key;
        q->request.key_len = params[0].len;
        q->request.key_type = params[1].given ? q->key_type : NULL;
        q->request.key_type_len = params[1].len;
        q->query.who = &q->who;
    }
    return 0;
}

/* An address is kept in one spelling: one that is asked for without its type is looked for in this one too. */
static int look(struct sl_call *call, struct question *q, struct sl_rejection *list, size_t *ret_n,
                struct sl_rejections_reach *ret_reach)
{
    struct sl_rejections *rejections = call->service->shared->see->rejections;
    unsigned prefix = sl_policy_door(sl_service_policy(call->service))->ipv6_prefix;
    int err;

    if (q->query.who)
        sl_who_of(&q->who, &q->request, prefix);
    err = sl_rejections_read(rejections, &q->query, list, q->max, ret_n, ret_reach);
    if (err || *ret_n || !q->query.who || !q->query.any_type)
        return err;
    q->request.key_type = "address";
    q->request.key_type_len = 7;
    sl_who_of(&q->who, &q->request, prefix);
    return sl_rejections_read(rejections, &q->query, list, q->max, ret_n, ret_reach);
}

void sl_handle_rejections(struct sl_call *call, const struct sl_http_request *request,
                          struct sl_http_response *response)
{
    struct sl_rejections_reach reach;
    struct sl_rejection *list;
    struct question q = {.max = LIMIT_PRESET};
    size_t n = 0;

    (void)request;
    if (!call->service->shared->see) {
        sl_problem(response, 501, "This server does not remember rejections.", NULL);
        return;
    }
    if (read_question(call, &q, response))
        return;
    list = calloc(q.max, sizeof *list);
    if (list && look(call, &q, list, &n, &reach) == 0)
        sl_answer_json(response, answer_json(call->service, list, n, &reach));
    else
        sl_problem(response, 500, "Out of memory.", NULL);
    free(list);
}
