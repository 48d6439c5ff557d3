#include "core/shape.h"

#include "base/err.h"
#include "core/limits.h"

#include <string.h>

typedef unsigned __int128 u128;

static const char *const names[SL_ALGORITHMS] = {
    [SL_TOKEN_BUCKET] = "token_bucket",
    [SL_LEAKY_BUCKET] = "leaky_bucket",
    [SL_FIXED_WINDOW] = "fixed_window",
    [SL_SLIDING_WINDOW_LOG] = "sliding_window_log",
    [SL_SLIDING_WINDOW_COUNTER] = "sliding_window_counter",
};

const char *sl_algorithm_name(enum sl_algorithm algorithm)
{
    return (unsigned)algorithm < SL_ALGORITHMS ? names[algorithm] : "unknown";
}

int sl_algorithm_parse(const char *text, size_t len, enum sl_algorithm *ret_algorithm)
{
    for (unsigned i = 0; i < SL_ALGORITHMS; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0) {
            *ret_algorithm = (enum sl_algorithm)i;
            return 0;
        }
    }
    return SL_ENOTFOUND;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;

        a = b;
        b = r;
    }
    return a;
}

/* The finalizer of splitmix64: every input bit reaches the six that are kept. */
static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) + UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

/* What a state means depends on the whole shape for buckets (the fraction on n, the cap on burst), but only on the
 * period for windows: their counts stand when COUNT alone changes. */
static uint8_t version_of(const struct sl_shape *s)
{
    uint64_t h = mix(s->algorithm, s->period_us);

    if (sl_algorithm_is_bucket((enum sl_algorithm)s->algorithm))
        h = mix(mix(mix(mix(s->algorithm, s->n), s->token_us), s->token_frac), s->limit);
    return h >> 58;
}

static int init_bucket(struct sl_shape *s, uint32_t burst, const char **ret_why)
{
    uint64_t g = gcd(s->count, s->period_us);
    uint64_t token = s->period_us / g; /* in units of 1/n us */
    u128 cap;

    s->limit = burst ? burst : s->count;
    s->n = (uint32_t)(s->count / g);
    s->token_us = token / s->n;
    s->token_frac = (uint32_t)(token % s->n);
    cap = (u128)s->limit * token; /* < 2^30 * 2^45 */
    if (cap > (u128)SL_LIFE_MAX_US * s->n) {
        *ret_why = "burst is too large for this rate: refilling it (burst * PERIOD / COUNT) may take at most 100 years";
        return SL_EINVALID;
    }
    s->cap_us = (uint64_t)(cap / s->n);
    s->cap_frac = (uint32_t)(cap % s->n);
    return 0;
}

static const char *range_error(enum sl_algorithm algorithm, const struct sl_rate *rate, uint32_t burst)
{
    if ((unsigned)algorithm >= SL_ALGORITHMS)
        return "unknown algorithm";
    if (rate->kind != SL_RATE_LIMITED)
        return "`unlimited` and `blocked` have no shape: they keep no state";
    if (rate->count < 1 || rate->count > SL_COUNT_MAX)
        return "COUNT must be 1 ... 1000000000";
    if (rate->period_us < SL_PERIOD_MIN_US || rate->period_us > SL_PERIOD_MAX_US)
        return "PERIOD must be 1 ms ... 366 d";
    if (burst > SL_COUNT_MAX)
        return "burst must be 1 ... 1000000000";
    if (burst && !sl_algorithm_is_bucket(algorithm))
        return "burst belongs to token_bucket and leaky_bucket: a window holds COUNT";
    if (algorithm == SL_SLIDING_WINDOW_LOG && rate->count > SL_LOG_COUNT_MAX_LOCAL)
        return "sliding_window_log keeps every admitted request: COUNT must be at most 100000";
    return NULL;
}

int sl_shape_init(struct sl_shape *ret_shape, enum sl_algorithm algorithm, const struct sl_rate *rate, uint32_t burst,
                  const char **ret_why)
{
    struct sl_shape s = {.algorithm = (uint8_t)algorithm};
    const char *why = range_error(algorithm, rate, burst);

    if (why) {
        *ret_why = why;
        return SL_EINVALID;
    }
    s.limit = s.count = rate->count;
    s.period_us = rate->period_us;
    if (sl_algorithm_is_bucket(algorithm) && init_bucket(&s, burst, ret_why))
        return SL_EINVALID;
    s.version = version_of(&s);
    *ret_shape = s;
    return 0;
}

bool sl_shape_equal(const struct sl_shape *x, const struct sl_shape *y)
{
    if (x->algorithm != y->algorithm || x->limit != y->limit)
        return false;
    if (sl_algorithm_is_bucket((enum sl_algorithm)x->algorithm))
        return x->n == y->n && x->token_us == y->token_us && x->token_frac == y->token_frac;
    return x->period_us == y->period_us;
}
