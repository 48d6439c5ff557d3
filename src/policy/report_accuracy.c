#include "policy/report_accuracy.h"

#include "policy/report_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_PERCENT 2u /* of the limit, for the blocks of all instances together */

/* ---- accuracy --------------------------------------------------------------------------------------------------- */

static void exact(struct sl_accuracy *a, const char *also)
{
    a->kind = SL_ACCURACY_EXACT;
    a->formula = "exact";
    a->tokens = 0;
    snprintf(a->also, sizeof a->also, "%s", also);
}

static void local_accuracy(const struct sl_item *item, unsigned n, struct sl_accuracy *a)
{
    char rate[SL_RATE_LINE_MAX];

    sl_shape_line(item->shape, rate);
    a->kind = SL_ACCURACY_OVER;
    a->formula = "(instances - 1) x limit";
    a->tokens = (uint64_t)(n - 1) * item->shape->limit;
    snprintf(a->numbers, sizeof a->numbers, "(%u - 1) x %" PRIu32, n, item->shape->limit);
    snprintf(a->also, sizeof a->also, "each instance has all of it, also in the long run: %u x %s", n, rate);
}

/* What 2 % of the limit leave to one instance. */
static uint64_t fair_block(const struct sl_shape *shape, unsigned n)
{
    return (uint64_t)shape->limit * BLOCK_PERCENT / 100 / n;
}

static void leased_accuracy(const struct sl_item *item, unsigned n, struct sl_accuracy *a)
{
    const struct sl_limit_shared *shared = item->limit->shared;
    uint64_t block = shared->lease_block ? shared->lease_block : fair_block(item->shape, n);

    if (block < 1)
        block = 1;
    a->kind = SL_ACCURACY_OVER;
    a->tokens = n * block;
    if (shared->lease_block) {
        a->formula = "instances x block";
        snprintf(a->numbers, sizeof a->numbers, "%u x %" PRIu64, n, block);
    } else {
        a->formula = "instances x max(1, floor(2 % x limit / instances))";
        snprintf(a->numbers, sizeof a->numbers, "%u x max(1, floor(2 %% x %" PRIu32 " / %u))", n, item->shape->limit,
                 n);
    }
    snprintf(a->also, sizeof a->also,
             "the long-run rate never; for %" PRIu64 " ms (ttl) after the number of instances changed, blocks of the "
             "old size count too",
             shared->lease_ttl_us / SL_MS_US);
}

/* The two parts that are tried may have cost - 1 left each, and the others all that is theirs. */
static void split_accuracy(const struct sl_item *item, struct sl_accuracy *a)
{
    uint32_t limit = item->shape->limit, cost = item->cost ? item->cost : 1;
    unsigned parts = item->limit->shared->n_parts;

    a->kind = SL_ACCURACY_EARLY;
    a->formula = "limit - 2 x floor(limit / parts) + 2 x (cost - 1)";
    a->tokens = limit - 2 * (uint64_t)(limit / parts) + 2 * (uint64_t)(cost - 1);
    if (a->tokens > limit)
        a->tokens = limit;
    snprintf(a->numbers, sizeof a->numbers, "%" PRIu32 " - 2 x floor(%" PRIu32 " / %u) + 2 x (%" PRIu32 " - 1)", limit,
             limit, parts, cost);
    snprintf(a->also, sizeof a->also,
             "at worst: requests take turns, which keeps the parts level; never over; a cost above %" PRIu32
             " fits in no part",
             limit / parts + (limit % parts != 0));
}

static void synced_accuracy(const struct sl_item *item, unsigned n, struct sl_accuracy *a)
{
    const struct sl_shape *shape = item->shape;
    uint64_t interval_us = item->limit->shared->sync_interval_us;
    unsigned __int128 tokens = (unsigned __int128)shape->count * interval_us / shape->period_us;
    uint64_t share = tokens > shape->limit ? shape->limit : tokens < 1 ? 1 : (uint64_t)tokens;
    uint64_t first = share / n ? share / n : 1;

    a->kind = SL_ACCURACY_OVER;
    a->formula = "share + (instances - 1) + first x joining, share = max(1, floor(COUNT x interval / PERIOD)), "
                 "first = max(1, floor(share / instances))";
    a->tokens = share + (n - 1);
    snprintf(a->numbers, sizeof a->numbers, "%" PRIu64 " + (%u - 1) + %" PRIu64 " x joining", share, n, first);
    snprintf(a->also, sizeof a->also,
             "the long-run rate never; shares are settled every %" PRIu64 " ms, and an instance that joins begins with "
             "an even one: up to %" PRIu64 " more each, which are not in the %" PRIu64,
             interval_us / SL_MS_US, first, a->tokens);
}

static void auto_accuracy(const struct sl_item *item, unsigned n, struct sl_accuracy *a)
{
    uint64_t block = fair_block(item->shape, n);

    if (block < 2) {
        exact(a, "");
        snprintf(a->also, sizeof a->also,
                 "always asked of the store: a block, floor(2 %% x %" PRIu32 " / %u) = %" PRIu64
                 ", would be less than 2",
                 item->shape->limit, n, block);
        return;
    }
    a->kind = SL_ACCURACY_OVER;
    a->formula = "instances x floor(2 % x limit / instances)";
    a->tokens = n * block;
    snprintf(a->numbers, sizeof a->numbers, "%u x floor(2 %% x %" PRIu32 " / %u)", n, item->shape->limit, n);
    snprintf(a->also, sizeof a->also,
             "only while it is hot, else exact; the long-run rate never; for %" PRIu64
             " ms (ttl) after the number of instances changed, blocks of the old size count too",
             item->limit->shared->lease_ttl_us / SL_MS_US);
}

void sl_accuracy_of(const struct sl_policy *policy, const struct sl_item *item, unsigned instances,
                    struct sl_accuracy *ret_accuracy)
{
    const struct sl_limit *limit = item->limit;

    *ret_accuracy = (struct sl_accuracy){.numbers = ""};
    if (!policy->has_store) {
        exact(ret_accuracy, "on the memory store this instance decides alone");
        return;
    }
    switch (limit->shared ? limit->shared->coordination : SL_COORD_LOCAL) {
    case SL_COORD_LOCAL:
        local_accuracy(item, instances, ret_accuracy);
        break;
    case SL_COORD_SHARED:
        exact(ret_accuracy, "");
        if (limit->coordination == SL_COORD_AUTO)
            snprintf(ret_accuracy->also, sizeof ret_accuracy->also, "always asked of the store: a %s cannot be leased",
                     sl_algorithm_name(limit->algorithm));
        break;
    case SL_COORD_LEASED:
        leased_accuracy(item, instances, ret_accuracy);
        break;
    case SL_COORD_SPLIT:
        split_accuracy(item, ret_accuracy);
        break;
    case SL_COORD_SYNCED:
        synced_accuracy(item, instances, ret_accuracy);
        break;
    case SL_COORD_AUTO:
        auto_accuracy(item, instances, ret_accuracy);
        break;
    }
}

json_t *sl_accuracy_json(const struct sl_accuracy *accuracy)
{
    static const char *const kinds[] = {
        [SL_ACCURACY_EXACT] = "exact", [SL_ACCURACY_OVER] = "over", [SL_ACCURACY_EARLY] = "early"};
    json_t *object = json_object();

    json_object_set_new(object, "kind", json_string(kinds[accuracy->kind]));
    json_object_set_new(object, "formula", json_string(accuracy->formula));
    if (accuracy->numbers[0])
        json_object_set_new(object, "numbers", json_string(accuracy->numbers));
    json_object_set_new(object, "tokens", json_integer((json_int_t)accuracy->tokens));
    if (accuracy->also[0])
        json_object_set_new(object, "also", json_string(accuracy->also));
    return object;
}

/* ---- pre-filter ------------------------------------------------------------------------------------------------- */

static uint32_t divided(uint32_t x, unsigned n)
{
    return x / n ? x / n : 1;
}

/* COUNT and limit divided by n, floor, at least 1; the burst as far as it is legal for so slow a rate. */
static uint32_t share_of(const struct sl_shape *shape, bool bucket, unsigned n, struct sl_rate *ret_rate)
{
    uint64_t most;
    uint32_t limit;

    *ret_rate =
        (struct sl_rate){.kind = SL_RATE_LIMITED, .count = divided(shape->count, n), .period_us = shape->period_us};
    most = SL_LIFE_MAX_US / shape->period_us * ret_rate->count;
    limit = bucket ? divided(shape->limit, n) : ret_rate->count;
    return limit > most ? (uint32_t)most : limit;
}

bool sl_pre_filter_line(const struct sl_item *item, unsigned instances, char buf[SL_FILTER_LINE_MAX])
{
    const struct sl_limit_shared *shared = item->limit->shared;
    char line[SL_RATE_LINE_MAX];
    struct sl_rate rate;

    if (!shared)
        return false;
    if (shared->per_instance) {
        uint32_t limit = share_of(item->shape, true, instances, &rate);

        sl_rate_line(&rate, limit, line);
        snprintf(buf, SL_FILTER_LINE_MAX, "%s in each instance (the limit / %u)", line, instances);
    } else {
        sl_shape_line(&shared->filters[item->rate_idx], line);
        snprintf(buf, SL_FILTER_LINE_MAX, "%s in each instance (the limit x %g)", line,
                 item->limit->local_factor > 0 ? item->limit->local_factor : 2);
    }
    return true;
}

/* ---- outages ---------------------------------------------------------------------------------------------------- */

static void local_outage(const struct sl_item *item, unsigned n, char buf[SL_SENTENCE_MAX])
{
    char share[SL_RATE_LINE_MAX], pace[SL_RATE_LINE_MAX];
    enum sl_coordination c = item->limit->shared->coordination;
    bool leases = c == SL_COORD_LEASED || c == SL_COORD_SYNCED || c == SL_COORD_AUTO;
    struct sl_rate rate;
    uint32_t limit = share_of(item->shape, sl_algorithm_is_bucket((enum sl_algorithm)item->shape->algorithm), n, &rate);

    sl_rate_line(&rate, limit, share);
    sl_rate_line(&rate, 0, pace);
    snprintf(buf, SL_SENTENCE_MAX,
             "local: %slimit / %u in each instance, at least 1: %s; an outage lets through at most one "
             "burst more, %u x %" PRIu32 " = %" PRIu64 ", and %u x %s while it lasts",
             leases ? "leased tokens, then " : "", n, share, n, limit, (uint64_t)n * limit, n, pace);
}

void sl_outage_line(const struct sl_policy *policy, const struct sl_item *item, unsigned instances,
                    char buf[SL_SENTENCE_MAX])
{
    const struct sl_limit *limit = item->limit;
    const char *word = sl_on_failure_words[limit->on_store_failure];
    char filter[SL_FILTER_LINE_MAX];

    if (!policy->has_store)
        snprintf(buf, SL_SENTENCE_MAX, "%s: no effect on the memory store, which does not fail", word);
    else if (!sl_pre_filter_line(item, instances, filter))
        snprintf(buf, SL_SENTENCE_MAX, "%s: no effect, the store is never asked", word);
    else if (limit->on_store_failure == SL_FAIL_LOCAL)
        local_outage(item, instances, buf);
    else if (limit->on_store_failure == SL_FAIL_OPEN)
        snprintf(buf, SL_SENTENCE_MAX, "open: allowed, as far as the pre-filter goes: %s", filter);
    else
        snprintf(buf, SL_SENTENCE_MAX,
                 "closed: rejected as store_unavailable, to come again when the store is tried next, in 1 s or more");
}
