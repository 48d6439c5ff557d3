/* GET /v1/top: the hottest keys and the most rejected ones, as clients sent them, and how it goes all in all. */
#include "server/params.h"
#include "server/json_answer.h"
#include "server/problem.h"
#include "server/route.h"

#include "observe/alarm.h"
#include "sluice/sluice.h"

#include <jansson.h>
#include <stdlib.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define VERSION TEXT(SLUICE_VERSION_MAJOR) "." TEXT(SLUICE_VERSION_MINOR) "." TEXT(SLUICE_VERSION_PATCH)

#define KEYS_PRESET 20u /* of each kind */

/* All of these: NULL when memory is out. */
static json_t *keys_json(struct sl_top *top, enum sl_top_kind kind, unsigned n)
{
    struct sl_top_key *keys = calloc(n, sizeof *keys);
    json_t *array = keys ? json_array() : NULL;

    n = keys ? sl_top_read(top, kind, keys, n) : 0;
    for (unsigned i = 0; array && i < n; i++)
        if (json_array_append_new(array, json_pack("{s:s, s:s, s:f}", "key", keys[i].key, "keyType", keys[i].key_type,
                                                   "opsPerSecond", keys[i].per_second))) {
            json_decref(array);
            array = NULL;
        }
    free(keys);
    return array;
}

/* The number, or null. */
static json_t *known(bool is_known, double value)
{
    return is_known ? json_real(value) : json_null();
}

static json_t *decisions_json(struct sl_top *top)
{
    struct sl_top_summary s;
    bool any;

    sl_top_summarise(top, &s);
    any = s.span_s > 0;
    return json_pack("{s:f, s:o, s:o, s:o, s:o}", "spanSeconds", s.span_s, "allowedPerSecond",
                     known(any, s.allowed_per_second), "rejectedPerSecond", known(any, s.rejected_per_second), "p50Us",
                     known(s.p50_us >= 0, s.p50_us), "p99Us", known(s.p99_us >= 0, s.p99_us));
}

static json_t *policy_json(struct sl_service *service)
{
    const struct sl_shared *shared = service->shared;
    const struct sl_policy *policy = sl_service_policy(service);
    uint64_t version = atomic_load(&shared->policy_from_store) ? atomic_load(&shared->policy_version) : 0;

    return json_pack("{s:o, s:s, s:I}", "version", version ? json_integer((json_int_t)version) : json_null(), "hash",
                     sl_policy_hash(policy), "limits", (json_int_t)sl_policy_n_limits(policy));
}

/* Those that are raised, by name. */
static json_t *alarms_json(struct sl_alarms *alarms)
{
    json_t *array = json_array();

    for (int kind = 0; array && alarms && kind < SL_ALARMS; kind++)
        if (sl_alarm_read(alarms, (enum sl_alarm)kind).raised &&
            json_array_append_new(array, json_string(sl_alarm_name((enum sl_alarm)kind)))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

static json_t *answer_json(struct sl_service *service, unsigned n)
{
    struct sl_top *top = service->shared->top;

    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "sluiced", VERSION, "policy", policy_json(service), "decisions",
                     decisions_json(top), "alarms", alarms_json(service->shared->alarms), "hot",
                     keys_json(top, SL_TOP_HOT, n), "rejected", keys_json(top, SL_TOP_REJECTED, n));
}

void sl_handle_top(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    char number[8];
    struct sl_param params[] = {{.name = "n", .text = number, .size = sizeof number}};
    uint64_t n = KEYS_PRESET;
    json_t *value;
    char *text;

    (void)request;
    if (!call->service->shared->top) {
        sl_problem(response, 501, "This server does not follow its hottest keys.", NULL);
        return;
    }
    if (sl_params_read(call->query, params, 1, response) ||
        sl_param_number(&params[0], 1, SL_TOP_KEYS_MAX, &n, response))
        return;
    value = answer_json(call->service, (unsigned)n);
    text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    sl_answer_text(response, text ? 200 : 500, text, "Out of memory.", NULL);
    free(text);
    json_decref(value);
}
