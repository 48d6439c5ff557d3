/* A shape: one rate of one limit, with its algorithm, prepared for deciding.
 *
 * All arithmetic below the public names is exact, in whole ticks of 1 us plus a numerator over `n`: with
 * COUNT/PERIOD in lowest terms n/p (p in us), one token is p/n us = token_us + token_frac/n. Because SPEC bounds
 * burst*PERIOD/COUNT to 100 years, every sum of such mixed numbers fits two 64-bit words; no 128-bit integer is
 * needed on the hot path. Immutable after sl_shape_init; any thread. */
#ifndef SL_CORE_SHAPE_H
#define SL_CORE_SHAPE_H

#include "core/rate.h"

#include <stdbool.h>
#include <stdint.h>

enum sl_algorithm {
    SL_TOKEN_BUCKET,
    SL_LEAKY_BUCKET,
    SL_FIXED_WINDOW,
    SL_SLIDING_WINDOW_LOG,
    SL_SLIDING_WINDOW_COUNTER,
    SL_ALGORITHMS, /* how many there are */
};

struct sl_shape {
    uint8_t algorithm; /* enum sl_algorithm */
    uint8_t version;   /* 6 bits of a hash of the shape; a state word carries it (see core/state.h) */
    uint32_t limit;    /* what the verdict reports: burst for buckets, COUNT for windows */
    uint32_t count;    /* COUNT as written */
    /* n, token and cap are of buckets only */
    uint32_t n;          /* denominator: COUNT / gcd(COUNT, PERIOD) */
    uint32_t token_frac; /* one token = token_us + token_frac / n microseconds; token_frac < n */
    uint32_t cap_frac;   /* the full debt burst * token = cap_us + cap_frac / n */
    uint64_t period_us;  /* PERIOD as written */
    uint64_t token_us;
    uint64_t cap_us;
};

/* Prepares a shape. `burst` is 0 for the default (COUNT); windows take none. Returns 0, or SL_EINVALID with
 * *ret_why (what is out of range, and the range) and nothing written. `rate` must be SL_RATE_LIMITED. */
int sl_shape_init(struct sl_shape *ret_shape, enum sl_algorithm algorithm, const struct sl_rate *rate, uint32_t burst,
                  const char **ret_why);

/* True when both decide alike: same algorithm, rate in lowest terms, limit. */
bool sl_shape_equal(const struct sl_shape *x, const struct sl_shape *y);

/* "token_bucket" ...; never NULL. */
const char *sl_algorithm_name(enum sl_algorithm algorithm);

/* Returns 0 and the algorithm, or SL_ENOTFOUND. */
int sl_algorithm_parse(const char *text, size_t len, enum sl_algorithm *ret_algorithm);

static inline bool sl_algorithm_is_bucket(enum sl_algorithm a)
{
    return a == SL_TOKEN_BUCKET || a == SL_LEAKY_BUCKET;
}

#endif
