/* /v1/buckets and /v1/reload. */
#include "server/audit.h"
#include "server/inquiry.h"
#include "server/json_answer.h"
#include "server/problem.h"
#include "server/route.h"

#include "base/err.h"
#include "core/rate.h"
#include "fleet/fleet.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sl_handle_reload(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_shared *shared = call->service->shared;
    struct sl_policy *policy;
    char why[512] = "";
    int err;

    if (!shared->hooks.reload) {
        sl_problem(response, 501, "This server has no policy file to load again.", NULL);
        return;
    }
    err = shared->hooks.reload(shared->hooks.ctx, why, sizeof why);
    sl_audit(call->service, request, "reload of the policy's file, %s,", err ? "not taken" : "taken");
    if (err) {
        sl_problem(response, err == SL_EBUSY ? 409 : 422,
                   *why ? why : "The policy could not be loaded; the one in force stays.", NULL);
        return;
    }
    policy = sl_limiter_policy(shared->limiter);
    sl_answer_json(response, json_pack("{s:b, s:s}", "reloaded", 1, "hash", sl_policy_hash(policy)));
    sl_policy_unref(policy);
}

/* The parameters of /v1/buckets, decoded. */
struct bucket_query {
    struct sluice_request request;
    struct sluice_label labels[SLUICE_LABELS_MAX];
    char text[8192]; /* decoded values, one after the other */
    size_t used;
};

static int refuse(struct sl_http_response *response, const char *detail, const char *field)
{
    sl_problem(response, 400, detail, field);
    return SL_EINVALID;
}

static int decode(struct bucket_query *q, struct sl_slice raw, const char **ret_text, size_t *ret_len)
{
    char *to = q->text + q->used;

    if (!sl_http_decode(raw, to, sizeof q->text - q->used, ret_len))
        return SL_EINVALID;
    *ret_text = to;
    q->used += *ret_len;
    return 0;
}

static bool is_named(struct sl_slice name, const char *want)
{
    return name.len == strlen(want) && !memcmp(name.text, want, name.len);
}

static int read_label(struct bucket_query *q, struct sl_slice name, struct sl_slice value)
{
    struct sluice_label *label = &q->labels[q->request.n_labels];
    struct sl_slice rest = {name.text + 6, name.len - 6};

    if (q->request.n_labels == SLUICE_LABELS_MAX || decode(q, rest, &label->name, &label->name_len) ||
        decode(q, value, &label->value, &label->value_len))
        return SL_EINVALID;
    q->request.n_labels++;
    q->request.labels = q->labels;
    return 0;
}

/* One that stands twice is malformed: which of two buckets a reset is meant for is not to be guessed. */
static int decode_once(struct bucket_query *q, struct sl_slice raw, const char **ret_text, size_t *ret_len)
{
    return *ret_text ? SL_EINVALID : decode(q, raw, ret_text, ret_len);
}

static int read_parameter(struct bucket_query *q, struct sl_slice name, struct sl_slice value)
{
    struct sluice_request *r = &q->request;

    if (is_named(name, "key"))
        return decode_once(q, value, &r->key, &r->key_len);
    if (is_named(name, "keyType"))
        return decode_once(q, value, &r->key_type, &r->key_type_len);
    if (is_named(name, "scope"))
        return decode_once(q, value, &r->scope, &r->scope_len);
    if (is_named(name, "tier"))
        return decode_once(q, value, &r->tier, &r->tier_len);
    if (is_named(name, "address"))
        return decode_once(q, value, &r->address, &r->address_len);
    if (name.len > 6 && !memcmp(name.text, "label.", 6))
        return read_label(q, name, value);
    return SL_ENOTFOUND;
}

static int read_query(struct sl_slice query, struct bucket_query *q, struct sl_http_response *response)
{
    struct sl_slice name, value;

    q->request = (struct sluice_request)SLUICE_REQUEST_INIT;
    q->used = 0;
    while (sl_http_next_parameter(&query, &name, &value)) {
        int e = read_parameter(q, name, value);

        if (e == SL_ENOTFOUND)
            return refuse(response, "Unknown parameter; known are key, keyType, scope, tier, address and label.NAME.",
                          NULL);
        if (e)
            return refuse(response, "A parameter is malformed, too long, or given twice.", NULL);
    }
    return q->request.key ? 0 : refuse(response, "The parameter `key` is missing.", "key");
}

/* What was found, for the answer. */
struct bucket_list {
    json_t *array;
    bool reset, failed;
    size_t n, unknown; /* live ones; those that could not be asked about */
};

static struct bucket_list *bucket_list_new(bool reset)
{
    struct bucket_list *list = calloc(1, sizeof *list);

    if (list) {
        list->reset = reset;
        list->array = json_array();
        list->failed = !list->array;
    }
    return list;
}

static void bucket_list_free(void *own)
{
    struct bucket_list *list = own;

    json_decref(list->array);
    free(list);
}

static void add_bucket(void *ctx, const struct sl_bucket_info *info)
{
    struct bucket_list *list = ctx;
    const struct sl_shape *shape = &info->limit->shapes[info->rate_idx];
    struct sl_rate rate = {SL_RATE_LIMITED, shape->count, shape->period_us};
    char text[SL_RATE_TEXT_MAX];
    json_t *entry;

    if (list->reset)
        return;
    sl_rate_format(&rate, text);
    entry =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "name", info->limit->name, "layer", info->limit->layer,
                  "endpoint", info->endpoint, "algorithm", sl_algorithm_name((enum sl_algorithm)shape->algorithm),
                  "rate", text, "limit", (json_int_t)info->numbers.limit, "remaining",
                  (json_int_t)info->numbers.remaining, "resetAfterMs", (json_int_t)info->numbers.reset_after_ms);
    if (!entry || json_array_append_new(list->array, entry))
        list->failed = true;
}

/* {"buckets": [...]} or {"reset": 2}; with `unknown` when some could not be asked about. */
static void answer_list(const struct bucket_list *list, struct sl_http_response *response)
{
    json_t *answer = list->failed  ? NULL
                     : list->reset ? json_pack("{s:I}", "reset", (json_int_t)list->n)
                                   : json_pack("{s:O}", "buckets", list->array);

    if (answer && list->unknown && json_object_set_new(answer, "unknown", json_integer((json_int_t)list->unknown))) {
        json_decref(answer);
        answer = NULL;
    }
    sl_answer_json(response, answer);
}

static void look_here(struct sl_limiter *limiter, const struct sluice_request *request, struct bucket_list *list,
                      struct sl_http_response *response)
{
    list->n = list->reset ? sl_limiter_reset(limiter, request) : sl_limiter_inspect(limiter, request, add_bucket, list);
    answer_list(list, response);
    bucket_list_free(list);
}

/* ---- the same with a lane: the store's buckets come later */

static void on_bucket(void *ctx, const struct sl_bucket_info *info)
{
    add_bucket(((struct sl_inquiry *)ctx)->own, info);
}

static void on_all(void *ctx, size_t n, size_t unknown)
{
    struct sl_inquiry *inquiry = ctx;
    struct bucket_list *list = inquiry->own;

    list->n = n;
    list->unknown = unknown;
    sl_inquiry_came(inquiry);
}

static void answer_inquiry(struct sl_inquiry *inquiry, struct sl_http_response *response)
{
    answer_list(inquiry->own, response);
}

static void look_everywhere(struct sl_call *call, const struct sluice_request *request, struct bucket_list *list,
                            struct sl_http_response *response)
{
    struct sl_inquiry *inquiry = sl_inquiry_new(call->service, 0, false);
    struct sl_lane_visitor visitor = {.bucket = on_bucket, .done = on_all, .ctx = inquiry};
    const char *field = "", *why = "";

    if (!inquiry) {
        bucket_list_free(list);
        sl_inquiry_refuse(response);
        return;
    }
    inquiry->own = list;
    inquiry->drop = bucket_list_free;
    inquiry->answer = answer_inquiry;
    sl_inquiry_expect(inquiry);
    if (sl_lane_inspect(call->service->lane, request, list->reset, &visitor, &field, &why)) {
        list->failed = true; /* the request was checked: memory is out */
        sl_inquiry_came(inquiry);
    }
    sl_inquiry_answer(inquiry, call, 0, response);
}

static void audit_reset(const struct sl_service *service, const struct sl_http_request *request,
                        const struct sluice_request *of)
{
    sl_audit(service, request, "reset of the buckets of key %.*s (%.*s)%s%.*s", (int)of->key_len, of->key,
             of->key_type ? (int)of->key_type_len : 7, of->key_type ? of->key_type : "api_key",
             of->scope ? ", scope " : "", (int)of->scope_len, of->scope ? of->scope : "");
}

void sl_handle_buckets(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_service *service = call->service;
    struct sl_request_buffer buffer;
    struct sluice_request checked;
    struct bucket_query q;
    struct bucket_list *list;
    const char *field = "", *why = "";
    char detail[256];

    if (read_query(call->query, &q, response))
        return;
    if (sl_request_check(sl_service_policy(service), &q.request, &checked, &buffer, &field, &why)) {
        snprintf(detail, sizeof detail, "`%s`: %s.", field, why);
        refuse(response, detail, field);
        return;
    }
    list = bucket_list_new(request->method == SL_HTTP_DELETE);
    if (list && list->reset)
        audit_reset(service, request, &checked);
    if (!list)
        sl_problem(response, 500, "Out of memory.", NULL);
    else if (service->lane)
        look_everywhere(call, &checked, list, response);
    else
        look_here(service->shared->limiter, &checked, list, response);
}
