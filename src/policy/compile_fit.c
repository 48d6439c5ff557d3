/* One limit with the rates that it shall have: shapes under the ceiling and of the region, and whether its coordination can
 * honour them. Of the file's limits and of their variants for keys with overrides alike. */
#include "policy/compiled.h"

#include <stdarg.h>
#include <stdio.h>

static bool fails(struct sl_fault *fault, enum sl_limit_field field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fails(struct sl_fault *fault, enum sl_limit_field field, const char *format, ...)
{
    va_list args;

    fault->field = field;
    va_start(args, format);
    vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    return false;
}

/* ---- rates ------------------------------------------------------------------------------------------------------ */

static bool store_log_too_long(const struct sl_policy *policy, const struct sl_limit *limit, const struct sl_rate *rate)
{
    return policy->has_store && limit->algorithm == SL_SLIDING_WINDOW_LOG && limit->coordination != SL_COORD_LOCAL &&
           rate->count > SL_LOG_COUNT_MAX_STORE;
}

/* A share of a shape is always one. */
static void share_shape(uint32_t share_ppm, struct sl_shape *shape)
{
    bool bucket = sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm);
    struct sl_rate_draft rate = {
        .rate = {.kind = SL_RATE_LIMITED, .count = shape->count, .period_us = shape->period_us},
        .burst = bucket ? shape->limit : 0};
    const char *why;

    sl_rate_share(share_ppm, bucket, &rate);
    (void)sl_shape_init(shape, (enum sl_algorithm)shape->algorithm, &rate.rate, rate.burst, &why);
}

/* A rate as written must be right by itself, whatever ceiling and region make of it. */
bool sl_limit_add_rate(const struct sl_policy *policy, struct sl_limit *limit, const struct sl_rate_draft *written,
                       struct sl_fault *ret_fault)
{
    struct sl_rate_draft rate = *written;
    enum sl_limit_field field = rate.burst ? SL_LF_BURST : SL_LF_RATE;
    struct sl_shape *shape = &limit->shapes[limit->n_rates];
    const char *why;

    if (sl_shape_init(shape, limit->algorithm, &rate.rate, rate.burst, &why) != 0)
        return fails(ret_fault, field, "%s", why);
    if (store_log_too_long(policy, limit, &rate.rate))
        return fails(
            ret_fault, field,
            "a sliding_window_log in the store keeps at most %u entries: lower COUNT, or use coordination: local",
            SL_LOG_COUNT_MAX_STORE);
    if (sl_rate_cap(policy, limit, &rate)) {
        limit->capped = true;
        if (sl_shape_init(shape, limit->algorithm, &rate.rate, rate.burst, &why) != 0)
            return fails(ret_fault, field, "under the ceiling: %s", why);
    }
    if (limit->region)
        share_shape(limit->region->share_ppm, shape);
    limit->n_rates++;
    return true;
}

void sl_limit_take_ceiling(const struct sl_policy *policy, struct sl_limit *limit)
{
    if (!policy->has_ceiling || !(limit->per & SL_PER_KEY))
        return;
    limit->capped = true;
    limit->algorithm = SL_TOKEN_BUCKET;
    limit->shapes[0] = policy->ceiling.shapes[0];
    if (limit->region)
        share_shape(limit->region->share_ppm, &limit->shapes[0]);
    limit->n_rates = 1;
}

/* ---- coordination ----------------------------------------------------------------------------------------------- */

static uint32_t largest_cost(const struct sl_policy *policy, const struct sl_limit *limit, uint32_t endpoint_id)
{
    const struct sl_endpoints *e = &policy->endpoints;
    int64_t most = 1;

    if (limit->cost >= 0)
        return (uint32_t)limit->cost;
    if (limit->endpoint)
        return e->list[endpoint_id].cost >= 0 ? (uint32_t)e->list[endpoint_id].cost : 1;
    for (uint32_t i = 1; i <= e->n; i++)
        if (e->list[i].cost > most)
            most = e->list[i].cost;
    return (uint32_t)most;
}

/* The n shares of x sum to x. */
static uint32_t share(uint32_t x, unsigned n, unsigned at)
{
    return x / n + (at < x % n);
}

int sl_shape_split(const struct sl_shape *shape, unsigned n, unsigned at, struct sl_shape *ret_part,
                   const char **ret_why)
{
    bool bucket = sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm);
    struct sl_rate rate = {.kind = SL_RATE_LIMITED, .count = share(shape->count, n, at), .period_us = shape->period_us};

    return sl_shape_init(ret_part, (enum sl_algorithm)shape->algorithm, &rate, bucket ? share(shape->limit, n, at) : 0,
                         ret_why);
}

/* Parts differ where COUNT's remainder ends, and the limit's. */
static bool parts_are_legal(const struct sl_shape *shape, unsigned n, const char **ret_why)
{
    unsigned at[] = {0, shape->count % n, shape->limit % n, n - 1};
    struct sl_shape part;

    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        if (sl_shape_split(shape, n, at[i], &part, ret_why) != 0)
            return false;
    return true;
}

/* Can `shape` be split? `where` is what an error begins with. */
static bool check_split(const struct sl_policy *policy, const struct sl_limit *limit, const struct sl_shape *shape,
                        const char *where, struct sl_fault *fault)
{
    uint32_t cost = largest_cost(policy, limit, policy->written[limit->index].endpoint_id);
    unsigned n = sl_limit_n_parts(limit);
    const char *why;

    if (shape->limit < UINT64_C(10) * cost * n)
        return fails(fault, SL_LF_SPLIT,
                     "%s%u split in %u leaves less than 10 times the largest cost, %u: it would reject early; "
                     "use a larger burst, at most %u parts, or another coordination",
                     where, shape->limit, n, cost, shape->limit / (10 * (cost ? cost : 1)));
    if (shape->count < n || shape->limit < n)
        return fails(fault, SL_LF_SPLIT, "%sa %s of %u cannot be split in %u: every part needs at least 1", where,
                     shape->count < n ? "COUNT" : "burst", shape->count < n ? shape->count : shape->limit, n);
    if (!parts_are_legal(shape, n, &why))
        return fails(fault, SL_LF_SPLIT, "%ssplit in %u: %s", where, n, why);
    return true;
}

static bool check_shape(const struct sl_policy *policy, const struct sl_limit *limit, bool split,
                        const struct sl_shape *shape, const char *where, struct sl_fault *fault)
{
    if (split && limit->coordination == SL_COORD_SPLIT && !check_split(policy, limit, shape, where, fault))
        return false;
    if (limit->lease_block > shape->limit)
        return fails(fault, SL_LF_LEASE, "%sa block of %llu is more than the limit ever holds, %u", where,
                     (unsigned long long)limit->lease_block, shape->limit);
    return true;
}

bool sl_limit_fits(const struct sl_policy *policy, const struct sl_limit *limit, bool split, bool regions,
                   struct sl_fault *ret_fault)
{
    char where[SLUICE_NAME_MAX + 16];

    for (unsigned i = 0; i < limit->n_rates; i++) {
        struct sl_rate_draft rate = sl_limit_whole(policy, limit, i);
        struct sl_shape whole, shape;
        const char *why;

        (void)sl_shape_init(&whole, limit->algorithm, &rate.rate, rate.burst, &why);
        if (!check_shape(policy, limit, split, &whole, "", ret_fault))
            return false;
        for (unsigned k = 0; regions && k < limit->n_regions; k++) {
            shape = whole;
            share_shape(limit->regions[k].share_ppm, &shape);
            snprintf(where, sizeof where, "in region `%s`, ", limit->regions[k].name);
            if (!check_shape(policy, limit, split, &shape, where, ret_fault))
                return false;
        }
    }
    return true;
}
