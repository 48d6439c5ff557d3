#include "fleet/internal.h"

#include <string.h>

/* Odd constants: sums with them never meet the fingerprint of another bucket but by chance in 2^128. */
#define FILTER_A UINT64_C(0x9E3779B97F4A7C15)
#define DEGRADED_A UINT64_C(0xC2B2AE3D27D4EB4F)
#define SPLIT_A UINT64_C(0xD6E8FEB86659FD93)
#define SPLIT_B UINT64_C(0xA0761D6478BD642F)

#define AHEAD_MAX_US UINT64_C(900000) /* below SL_STALE_MAX_US, which the store tolerates beyond a full debt */
#define LEASE_PERCENT 2u

struct sl_hash128 sl_filter_name(struct sl_hash128 fp)
{
    fp.a += FILTER_A;
    return fp;
}

struct sl_hash128 sl_degraded_name(struct sl_hash128 fp)
{
    fp.a += DEGRADED_A;
    return fp;
}

/* A bucket of count per the shape's period, or with the largest burst that is legal for so slow a rate. */
static void make_shape(const struct sl_shape *like, enum sl_algorithm algorithm, uint32_t count, uint32_t burst,
                       struct sl_shape *ret_shape)
{
    struct sl_rate rate = {.kind = SL_RATE_LIMITED, .count = count, .period_us = like->period_us};
    const char *why;

    if (!sl_algorithm_is_bucket(algorithm))
        burst = 0;
    if (sl_shape_init(ret_shape, algorithm, &rate, burst, &why) == 0)
        return;
    burst = (uint32_t)(SL_LIFE_MAX_US / like->period_us * count);
    (void)sl_shape_init(ret_shape, algorithm, &rate, burst, &why);
}

static uint32_t divided(uint32_t x, unsigned n)
{
    uint32_t share = x / (n ? n : 1);

    return share ? share : 1;
}

const struct sl_shape *sl_filter_shape(const struct sl_item *item, unsigned instances, struct sl_shape *scratch)
{
    const struct sl_limit_shared *shared = item->limit->shared;

    if (!shared->per_instance)
        return &shared->filters[item->rate_idx];
    make_shape(item->shape, SL_TOKEN_BUCKET, divided(item->shape->count, instances),
               divided(item->shape->limit, instances), scratch);
    return scratch;
}

void sl_degraded_shape(const struct sl_shape *shape, unsigned n, struct sl_shape *ret_shape)
{
    make_shape(shape, (enum sl_algorithm)shape->algorithm, divided(shape->count, n), divided(shape->limit, n),
               ret_shape);
}

/* What 2 % of the burst leave to one of the instances. */
static uint32_t default_block(const struct sl_shape *shape, unsigned instances)
{
    return (uint32_t)((uint64_t)shape->limit * LEASE_PERCENT / 100 / (instances ? instances : 1));
}

/* What the limit lets through in an interval. */
static uint32_t interval_block(const struct sl_shape *shape, uint64_t interval_us)
{
    unsigned __int128 tokens = (unsigned __int128)shape->count * interval_us / shape->period_us;

    return tokens > shape->limit ? shape->limit : (uint32_t)tokens;
}

bool sl_lease_terms_of(const struct sl_limit *limit, const struct sl_shape *shape, unsigned instances,
                       struct sl_lease_terms *ret_terms)
{
    const struct sl_limit_shared *shared = limit->shared;
    uint64_t ahead = shape->algorithm == SL_TOKEN_BUCKET ? shape->cap_us / 100 * LEASE_PERCENT : 0;
    struct sl_lease_terms terms = {.ttl_us = shared->lease_ttl_us};

    terms.ahead_us = ahead < AHEAD_MAX_US ? ahead : AHEAD_MAX_US;
    terms.block = default_block(shape, instances);
    switch (shared->coordination) {
    case SL_COORD_LEASED:
        if (shared->lease_block)
            terms.block = (uint32_t)shared->lease_block;
        break;
    case SL_COORD_SYNCED:
        terms.interval_us = shared->sync_interval_us;
        terms.block = interval_block(shape, shared->sync_interval_us);
        terms.first = divided(terms.block, instances);
        break;
    case SL_COORD_AUTO:
        if (terms.block < 2)
            return false;
        terms.automatic = true;
        break;
    default:
        return false;
    }
    if (terms.block < 1)
        terms.block = 1;
    *ret_terms = terms;
    return true;
}

void sl_part_split(struct sl_part *part, const struct sl_item *whole, struct sl_hash128 owner, unsigned at)
{
    part->split_at = (uint8_t)at;
    part->item = *whole;
    part->item.shape = &whole->limit->shared->parts[whole->rate_idx][at];
    part->item.fp.a += SPLIT_A * (at + 1);
    /* Another owner is another slot. The difference of name and owner, which tells buckets of one owner apart, stays. */
    part->owner.a = owner.a + SPLIT_A * (at + 1);
    part->owner.b = owner.b + SPLIT_B * (at + 1);
}

void sl_part_tell(struct sl_part *part, const struct sl_item *whole, enum sluice_source source)
{
    const struct sl_limit_shared *shared = whole->limit->shared;
    struct sl_telling *telling = &part->telling;

    telling->source = (uint8_t)source;
    telling->how = SL_TOLD_DECISION;
    if (!shared || !shared->n_parts)
        return;
    sl_decision_numbers(part->item.shape, &part->decision, &telling->numbers);
    telling->how = SL_TOLD_NUMBERS;
    telling->numbers.limit = whole->shape->limit;
    telling->numbers.remaining *= shared->n_parts;
    if (telling->numbers.remaining > telling->numbers.limit)
        telling->numbers.remaining = telling->numbers.limit;
}

void sl_part_add_leased(struct sl_part *part, uint32_t unspent)
{
    struct sl_numbers *numbers = &part->telling.numbers;

    sl_decision_numbers(part->item.shape, &part->decision, numbers);
    part->telling.how = SL_TOLD_NUMBERS;
    numbers->remaining += unspent;
    if (numbers->remaining > numbers->limit)
        numbers->remaining = numbers->limit;
}

void sl_decision_unspend(struct sl_decision *d)
{
    if (!d->allowed)
        return;
    d->after = d->before;
    d->cost = 0;
    d->changed = false;
}
