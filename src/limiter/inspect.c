/* The buckets of one key: every limit that could meet it, under every endpoint that could be meant. */
#include "limiter/snapshot.h"

#include "base/err.h"
#include "policy/override.h"

#include <string.h>

/* One walk over the buckets of a request. */
struct walk {
    struct sl_limiter *limiter;
    const struct sl_policy *policy;
    struct sluice_request request; /* checked */
    char tier[SLUICE_NAME_MAX];    /* of the request, when it stands elsewhere */
    struct sl_resolution resolution;
    uint64_t now_us;
    bool any_endpoint; /* the request names no scope */
    bool reset;        /* forget what belongs to the key, instead of telling */
    bool (*elsewhere)(void *ctx, const struct sl_bucket_place *place); /* takes buckets of the store; may be NULL */
    void (*fn)(void *ctx, const struct sl_bucket_info *info);
    void *ctx;
    size_t n;
};

static bool is_text(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && memcmp(name, text, len) == 0;
}

static bool could_meet(const struct walk *w, const struct sl_limit *limit)
{
    const struct sluice_request *r = &w->request;
    const char *key_type = r->key_type ? r->key_type : "api_key";
    size_t key_type_len = r->key_type ? r->key_type_len : strlen(key_type);

    if (limit->mode == SL_MODE_OFF)
        return false;
    if (limit->key && !is_text(limit->key, r->key, r->key_len))
        return false;
    if (limit->key_type && !is_text(limit->key_type, key_type, key_type_len))
        return false;
    return !limit->endpoint || w->any_endpoint || strcmp(limit->endpoint, w->resolution.endpoint) == 0;
}

/* A bucket that others share is not the key's to reset. */
static bool belongs_to_key(const struct sl_limit *limit)
{
    return limit->per & (SL_PER_KEY | SL_PER_ADDRESS);
}

static void visit_bucket(struct walk *w, const struct sl_limit *limit, unsigned rate_idx, const char *endpoint)
{
    const struct sl_shape *shape = &limit->shapes[rate_idx];
    struct sl_bucket_info info = {.limit = limit, .endpoint = endpoint, .rate_idx = rate_idx};
    struct sl_decision peek;
    struct sl_hash128 fp;

    if (!sl_policy_bucket(w->policy, limit, rate_idx, &w->request, endpoint, w->resolution.tier, &fp))
        return;
    if (limit->shared && w->elsewhere) {
        struct sl_bucket_place place = {
            .limit = limit, .endpoint = endpoint, .rate_idx = rate_idx, .fp = fp, .request = &w->request};

        w->n += w->elsewhere(w->ctx, &place);
        return;
    }
    if (w->reset) {
        w->n += sl_table_reset(w->limiter->table, fp);
        return;
    }
    sl_table_look(w->limiter->table, fp, shape, w->now_us, 0, &peek);
    sl_decision_numbers(shape, &peek, &info.numbers);
    if (info.numbers.reset_after_ms == 0)
        return;
    w->fn(w->ctx, &info);
    w->n++;
}

static void visit_rates(struct walk *w, const struct sl_limit *limit, const char *endpoint)
{
    for (unsigned rate_idx = 0; rate_idx < limit->n_rates; rate_idx++)
        visit_bucket(w, limit, rate_idx, endpoint);
}

static void visit_limit(struct walk *w, const struct sl_limit *limit)
{
    if (!could_meet(w, limit) || (w->reset && !belongs_to_key(limit)))
        return;
    limit = sl_policy_limit_for(w->policy, &w->request, limit);
    if (!(limit->per & SL_PER_ENDPOINT)) {
        visit_rates(w, limit, "");
        return;
    }
    if (!w->any_endpoint || limit->endpoint) {
        visit_rates(w, limit, limit->endpoint ? limit->endpoint : w->resolution.endpoint);
        return;
    }
    visit_rates(w, limit, ""); /* scopes of no endpoint */
    for (size_t i = 0; i < sl_policy_n_endpoints(w->policy); i++)
        visit_rates(w, limit, sl_policy_endpoint_name(w->policy, i));
}

static size_t walk_under(struct walk *w, const struct sl_policy *policy, const struct sluice_request *request)
{
    struct sl_request_buffer buffer;

    w->policy = policy;
    if (sl_check_request(policy, request, &w->request, &buffer, NULL, NULL) == 0) {
        w->any_endpoint = !request->scope;
        w->now_us = sl_table_now(w->limiter->table);
        sl_find_key_tier(w->limiter, policy, &w->request, w->tier);
        sl_policy_resolve(policy, &w->request, &w->resolution);
        for (size_t i = 0; i < sl_policy_n_limits(policy); i++)
            visit_limit(w, sl_policy_limit(policy, i));
        if (sl_policy_ceiling(policy))
            visit_limit(w, sl_policy_ceiling(policy));
    }
    return w->n;
}

static size_t walk(struct walk *w, const struct sluice_request *request)
{
    struct sl_policy *policy = sl_limiter_policy(w->limiter);
    size_t n = walk_under(w, policy, request);

    sl_policy_unref(policy);
    return n;
}

size_t sl_limiter_inspect(struct sl_limiter *limiter, const struct sluice_request *request,
                          void (*fn)(void *ctx, const struct sl_bucket_info *info), void *ctx)
{
    struct walk w = {.limiter = limiter, .fn = fn, .ctx = ctx};

    return walk(&w, request);
}

size_t sl_limiter_reset(struct sl_limiter *limiter, const struct sluice_request *request)
{
    struct walk w = {.limiter = limiter, .reset = true};

    return walk(&w, request);
}

size_t sl_limiter_walk(struct sl_limiter *limiter, const struct sl_policy *policy, const struct sluice_request *request,
                       bool reset, void (*fn)(void *ctx, const struct sl_bucket_info *info),
                       bool (*elsewhere)(void *ctx, const struct sl_bucket_place *place), void *ctx)
{
    struct walk w = {.limiter = limiter, .reset = reset, .fn = fn, .elsewhere = elsewhere, .ctx = ctx};

    return walk_under(&w, policy, request);
}
