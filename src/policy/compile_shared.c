/* What the shared tier needs of limits: pre-filters, and the parts of those that are split. */
#include "policy/compiled.h"

#include <string.h>

#define FACTOR_ONE UINT64_C(1000000) /* factors are exact to the millionth, as they are read */
#define FACTOR_DEFAULT (2 * FACTOR_ONE)
#define LEASE_TTL_US SL_SECOND_US
#define SYNC_INTERVAL_US (250 * SL_MS_US)

static uint32_t times(uint32_t x, uint64_t millionths)
{
    uint64_t product = x * millionths / FACTOR_ONE;

    return product > SL_COUNT_MAX ? SL_COUNT_MAX : (uint32_t)product;
}

/* A token bucket of factor x the limit, rounded down. A rate that rounding slowed more than the burst may fill in more
 * than 100 years: then with the largest burst that fills in time, which is still the limit's or more, as its rate is. */
static void make_filter(const struct sl_shape *shape, uint64_t millionths, struct sl_shape *ret_filter)
{
    struct sl_rate rate = {
        .kind = SL_RATE_LIMITED, .count = times(shape->count, millionths), .period_us = shape->period_us};
    unsigned __int128 most = (unsigned __int128)SL_LIFE_MAX_US * rate.count / rate.period_us;
    uint32_t burst = times(shape->limit, millionths);
    const char *why;

    if (burst > most)
        burst = (uint32_t)most;
    (void)sl_shape_init(ret_filter, SL_TOKEN_BUCKET, &rate, burst, &why);
}

static enum sl_coordination effective(const struct sl_limit *limit)
{
    bool leasable = limit->algorithm == SL_TOKEN_BUCKET || limit->algorithm == SL_FIXED_WINDOW;

    return limit->coordination == SL_COORD_AUTO && !leasable ? SL_COORD_SHARED : limit->coordination;
}

static bool make_parts(struct sl_arena *arena, const struct sl_limit *limit, struct sl_limit_shared *shared)
{
    const char *why;

    shared->n_parts = sl_limit_n_parts(limit);
    for (unsigned i = 0; i < limit->n_rates; i++) {
        struct sl_shape *parts = sl_arena_calloc(arena, shared->n_parts, sizeof *parts);

        if (!parts)
            return false;
        for (unsigned at = 0; at < shared->n_parts; at++)
            (void)sl_shape_split(&limit->shapes[i], shared->n_parts, at, &parts[at], &why); /* checked with the limit */
        shared->parts[i] = parts;
    }
    return true;
}

bool sl_limit_share(struct sl_arena *arena, struct sl_limit *limit, struct sl_limit_shared *shared)
{
    double factor = limit->local_factor;

    shared->coordination = effective(limit);
    shared->per_instance = factor < 0;
    shared->lease_block = limit->lease_block;
    shared->lease_ttl_us = limit->lease_ttl_us ? limit->lease_ttl_us : LEASE_TTL_US;
    shared->sync_interval_us = limit->sync_interval_us ? limit->sync_interval_us : SYNC_INTERVAL_US;
    for (unsigned i = 0; !shared->per_instance && i < limit->n_rates; i++)
        make_filter(&limit->shapes[i], factor > 0 ? (uint64_t)(factor * (double)FACTOR_ONE + 0.5) : FACTOR_DEFAULT,
                    &shared->filters[i]);
    limit->shared = shared;
    return limit->coordination != SL_COORD_SPLIT || make_parts(arena, limit, shared);
}

void sl_compile_shared(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    struct sl_arena *arena = load->reader.arena;
    struct sl_limit_shared *shared;
    size_t n = policy->has_ceiling;
    bool good;

    if (!policy->has_store)
        return;
    for (size_t i = 0; i < policy->n_limits; i++)
        n += sl_limit_needs_store(&policy->limits[i]);
    shared = sl_arena_calloc(arena, n, sizeof *shared);
    good = shared != NULL;
    for (size_t i = 0; good && i < policy->n_limits; i++)
        if (sl_limit_needs_store(&policy->limits[i]))
            good = sl_limit_share(arena, &policy->limits[i], shared++);
    if (good && policy->has_ceiling)
        good = sl_limit_share(arena, &policy->ceiling, shared);
    load->reader.nomem |= !good;
}
