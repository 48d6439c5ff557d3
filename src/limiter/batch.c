/* Many requests at one reading of the clock.
 *
 * A decision on a cold key waits for two or three cache lines. In a batch those waits overlap: the requests of a chunk
 * are resolved and their tag lines asked for, then the slots found and their states asked for, and only then is one
 * after the other decided, in order, exactly as single requests at that instant would be.
 *
 * Requests of one batch often differ in their keys alone. Such a request takes over the resolution of an earlier one of
 * its chunk, the model, and puts its own key into the fingerprints. */
#include "limiter/snapshot.h"

#include "base/err.h"

#include <stddef.h>
#include <string.h>

#define CHUNK 16                      /* requests on their way at once: about what a core has line-fill buffers for */
#define POOL_ITEMS (2 * SL_ITEMS_MAX) /* room for the buckets of a chunk; one request always fits */

struct chunk {
    unsigned n;
    unsigned n_pooled;
    struct sl_consult consults[CHUNK];
    struct sl_item pool[POOL_ITEMS];
    const struct sluice_request *model; /* NULL: none yet */
    const struct sl_consult *model_consult;
    struct sl_hash128 model_hash;
};

static bool same_text(const char *x, size_t x_len, const char *y, size_t y_len)
{
    return x_len == y_len && (x == y || (x && y && memcmp(x, y, x_len) == 0));
}

/* True when nothing but the keys differs, and neither has labels. */
static bool differ_in_key_alone(const struct sluice_request *x, const struct sluice_request *y)
{
    return x->cost == y->cost && x->n_labels == 0 && y->n_labels == 0 &&
           same_text(x->scope, x->scope_len, y->scope, y->scope_len) &&
           same_text(x->key_type, x->key_type_len, y->key_type, y->key_type_len) &&
           same_text(x->tier, x->tier_len, y->tier, y->tier_len) &&
           same_text(x->address, x->address_len, y->address, y->address_len);
}

static void copy_model(struct chunk *chunk, struct sl_hash128 hash)
{
    const struct sl_consult *model = chunk->model_consult;
    struct sl_consult *consult = &chunk->consults[chunk->n];
    struct sl_item *items = chunk->pool + chunk->n_pooled;

    memcpy(consult, model, offsetof(struct sl_consult, bare[model->n_bare]));
    sl_consult_move(consult, items);
    for (unsigned i = 0; i < model->n_items + model->n_dry; i++)
        sl_item_rekey(&items[i], chunk->model_hash, hash);
    if (consult->shared) { /* a plain key has no store of its own, so the model's is right */
        consult->key_hash.a += hash.a - chunk->model_hash.a;
        consult->key_hash.b += hash.b - chunk->model_hash.b;
    }
}

/* Validates and resolves a request, and makes it the model if it can be one. The chunk may turn out not to have room. */
static int resolve_anew(const struct sl_limiter *limiter, const struct sl_policy *policy,
                        const struct sluice_request *request, struct chunk *chunk, const char **ret_field,
                        const char **ret_why)
{
    struct sl_consult *consult = &chunk->consults[chunk->n];
    struct sl_request_buffer buffer;
    struct sluice_request checked;
    struct sl_resolution resolution;
    struct sl_hash128 hash;
    char tier[SLUICE_NAME_MAX];
    int err = sl_check_request(policy, request, &checked, &buffer, ret_field, ret_why);

    if (err != 0)
        return err;
    sl_find_key_tier(limiter, policy, &checked, tier);
    sl_policy_resolve(policy, &checked, &resolution);
    sl_consult_make(&resolution, consult);
    consult->anonymous = sl_is_anonymous(&checked);
    if (chunk->n_pooled + consult->n_items + consult->n_dry > POOL_ITEMS)
        return 0;
    sl_consult_move(consult, chunk->pool + chunk->n_pooled);
    if (request->n_labels == 0 && sl_policy_plain_key(policy, request, &hash)) {
        chunk->model_hash = hash;
        chunk->model = request;
        chunk->model_consult = consult;
    }
    return 0;
}

/* Validates and resolves requests from the front until the chunk is full: chunk->n of them, at least one. On an error
 * that one is the bad request. */
static int fill_chunk(struct sl_limiter *limiter, const struct sl_policy *policy, const struct sluice_request *requests,
                      size_t n, struct chunk *chunk, const char **ret_field, const char **ret_why)
{
    chunk->n = chunk->n_pooled = 0;
    chunk->model = NULL;
    while (chunk->n < CHUNK && chunk->n < n) {
        const struct sluice_request *request = &requests[chunk->n];
        const struct sl_consult *consult = &chunk->consults[chunk->n];
        struct sl_hash128 hash;
        unsigned n_items;
        int err = 0;

        if (chunk->model && differ_in_key_alone(request, chunk->model) &&
            chunk->n_pooled + chunk->model_consult->n_items + chunk->model_consult->n_dry <= POOL_ITEMS &&
            sl_policy_plain_key(policy, request, &hash))
            copy_model(chunk, hash);
        else
            err = resolve_anew(limiter, policy, request, chunk, ret_field, ret_why);
        if (err != 0)
            return err;
        n_items = consult->n_items + consult->n_dry;
        if (chunk->n_pooled + n_items > POOL_ITEMS)
            break; /* it begins the next chunk */
        chunk->n_pooled += n_items;
        chunk->n++;
        sl_consult_prefetch(limiter->table, consult);
    }
    return 0;
}

static void prefetch_states(const struct sl_limiter *limiter, const struct chunk *chunk)
{
    uint16_t elsewhere[POOL_ITEMS];
    unsigned n_elsewhere = 0;

    for (unsigned i = 0; i < chunk->n_pooled; i++) {
        elsewhere[n_elsewhere] = (uint16_t)i;
        n_elsewhere += !sl_table_prefetch_state(limiter->table, chunk->pool[i].fp);
    }
    for (unsigned i = 0; i < n_elsewhere; i++)
        sl_table_prefetch_second(limiter->table, chunk->pool[elsewhere[i]].fp);
}

/* Nothing may be charged before all requests are known to be good. The first chunk is validated as it is filled. */
static int validate_rest(const struct sl_policy *policy, const struct sluice_request *requests, size_t from, size_t n,
                         size_t *ret_bad, const char **ret_field, const char **ret_why)
{
    for (size_t i = from; i < n; i++) {
        struct sl_request_buffer buffer;
        struct sluice_request checked;
        int err = sl_check_request(policy, &requests[i], &checked, &buffer, ret_field, ret_why);

        if (err != 0) {
            *ret_bad = i;
            return err;
        }
    }
    return 0;
}

static int decide_all(struct sl_limiter *limiter, struct sl_snapshot *snapshot, unsigned slot,
                      const struct sluice_request *requests, size_t n, struct sluice_verdict *ret_verdicts,
                      struct sl_report *ret_reports, size_t *ret_bad, const char **ret_field, const char **ret_why)
{
    struct chunk chunk;
    uint64_t now_us = 0;

    for (size_t done = 0; done < n; done += chunk.n) {
        int err = fill_chunk(limiter, snapshot->policy, requests + done, n - done, &chunk, ret_field, ret_why);

        if (err != 0) {
            *ret_bad = done + chunk.n;
            return err;
        }
        if (done == 0) {
            err = validate_rest(snapshot->policy, requests, chunk.n, n, ret_bad, ret_field, ret_why);
            if (err != 0)
                return err;
        }
        prefetch_states(limiter, &chunk);
        if (done == 0) /* the states are on their way while the clock is read */
            now_us = sl_table_now(limiter->table);
        for (unsigned i = 0; i < chunk.n; i++)
            sl_consult_run(limiter, snapshot, slot, &chunk.consults[i], now_us, &ret_verdicts[done + i],
                           ret_reports ? &ret_reports[done + i] : NULL);
    }
    return 0;
}

static void tap_all(struct sl_limiter *limiter, unsigned slot, const struct sluice_request *requests, size_t n,
                    const struct sluice_verdict *verdicts)
{
    uint64_t left = limiter->pulses[slot].tap_left;

    if (left == 0 || left > n) { /* not in this batch, or never */
        limiter->pulses[slot].tap_left = left - n;
        return;
    }
    for (size_t i = 0; i < n; i++)
        sl_tap_request(limiter, slot, &requests[i], !verdicts[i].allowed);
}

int sl_limiter_check_batch(struct sl_limiter *limiter, const struct sluice_request *requests, size_t n,
                           struct sluice_verdict *ret_verdicts, struct sl_report *ret_reports, size_t *ret_bad,
                           const char **ret_field, const char **ret_why)
{
    void *snapshot;
    unsigned slot = sl_rcu_enter(&limiter->rcu, &snapshot);
    struct sl_pulse *pulse = &limiter->pulses[slot];
    uint64_t ticks = sl_pulse_ticks(pulse);
    size_t bad = 0;
    bool sampled = n > 0 && ticks / SL_SAMPLE != (ticks + n) / SL_SAMPLE;
    uint64_t started_ns = sampled ? sl_stopwatch_ns() : 0;
    int err = decide_all(limiter, snapshot, slot, requests, n, ret_verdicts, ret_reports, &bad, ret_field, ret_why);

    if (err != 0 && ret_bad)
        *ret_bad = bad;
    if (err == 0 && sampled)
        sl_pulse_record(pulse, (sl_stopwatch_ns() - started_ns) / n);
    if (err == 0)
        tap_all(limiter, slot, requests, n, ret_verdicts);
    sl_rcu_leave(&limiter->rcu, slot);
    return err;
}
