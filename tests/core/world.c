#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sl_shape world_shape(enum sl_algorithm algorithm, const char *text, uint32_t burst)
{
    struct sl_rate rate;
    struct sl_shape shape = {0};
    const char *why = NULL;

    if (sl_rate_parse(text, strlen(text), &rate, &why) || sl_shape_init(&shape, algorithm, &rate, burst, &why))
        fail_msg("%s burst %u: %s", text, burst, why);
    return shape;
}

struct bucket bucket_of(enum sl_algorithm algorithm, const char *rate, uint32_t burst)
{
    return (struct bucket){.shape = world_shape(algorithm, rate, burst)};
}

void bucket_fini(struct bucket *b)
{
    free(b->entries);
    b->entries = NULL;
    b->n_entries = b->n_dead = b->room = 0;
}

static void log_append(struct bucket *b, uint64_t t_us, uint32_t cost)
{
    if (b->n_entries == b->room) {
        b->room = b->room ? 2 * b->room : 16;
        b->entries = realloc(b->entries, b->room * sizeof *b->entries);
        assert_non_null(b->entries);
    }
    b->entries[b->n_entries++] = (struct entry){.t_us = t_us, .cost = cost};
}

static struct sl_decision log_look(struct bucket *b, uint64_t now_us, uint32_t cost)
{
    struct sl_decision d;
    uint64_t sum = 0, freed = 0, newest_us = 0;

    while (b->n_dead < b->n_entries && !sl_log_in_force(&b->shape, b->entries[b->n_dead].t_us, now_us))
        b->n_dead++;
    for (size_t i = b->n_dead; i < b->n_entries; i++) {
        sum += b->entries[i].cost;
        newest_us = b->entries[i].t_us;
    }
    sl_log_decide(&b->shape, sum, newest_us, now_us, cost, &d);
    if (!d.allowed && !d.never) {
        size_t i = b->n_dead;

        while (!sl_log_fit(&b->shape, &d, &freed, b->entries[i].t_us, b->entries[i].cost))
            assert_true(++i < b->n_entries);
    }
    return d;
}

struct sl_decision bucket_look(struct bucket *b, uint64_t now_us, uint32_t cost)
{
    struct sl_decision d;

    if (b->shape.algorithm == SL_SLIDING_WINDOW_LOG)
        return log_look(b, now_us, cost);
    sl_decide(&b->shape, b->state, now_us, cost, &d);
    return d;
}

struct sl_decision bucket_charge(struct bucket *b, uint64_t now_us, uint32_t cost)
{
    struct sl_decision d = bucket_look(b, now_us, cost);

    if (d.changed && b->shape.algorithm == SL_SLIDING_WINDOW_LOG)
        log_append(b, now_us, cost);
    else if (d.changed)
        b->state = d.after;
    return d;
}

struct sl_numbers bucket_numbers(const struct bucket *b, const struct sl_decision *d)
{
    struct sl_numbers n;

    sl_decision_numbers(&b->shape, d, &n);
    assert_int_equal(n.remaining, sl_decision_remaining(&b->shape, d));
    return n;
}

/* True when x is the one to report rather than y, which is earlier in the file. */
static bool reports_before(bool allowed, const struct sl_numbers *x, const struct sl_numbers *y)
{
    if (allowed)
        return x->remaining * y->limit < y->remaining * x->limit;
    if (y->retry_after_ms < 0)
        return false;
    return x->retry_after_ms < 0 || x->retry_after_ms > y->retry_after_ms;
}

struct verdict limit_decide(struct limit *l, uint64_t t_us, uint32_t cost)
{
    struct verdict v = {.allowed = true};
    bool first = true;

    if (t_us > l->latest_us)
        l->latest_us = t_us;
    for (size_t i = 0; i < l->n_buckets; i++)
        v.allowed &= bucket_look(&l->buckets[i], l->latest_us, cost).allowed;
    for (size_t i = 0; i < l->n_buckets; i++) {
        struct bucket *b = &l->buckets[i];
        struct sl_decision d = (v.allowed ? bucket_charge : bucket_look)(b, l->latest_us, cost);
        struct sl_numbers n = bucket_numbers(b, &d);

        if (d.allowed != v.allowed)
            continue;
        if (first || reports_before(v.allowed, &n, &v.numbers))
            v.numbers = n;
        first = false;
    }
    return v;
}

void limit_fini(struct limit *l)
{
    for (size_t i = 0; i < l->n_buckets; i++)
        bucket_fini(&l->buckets[i]);
}

uint64_t world_seed(void)
{
    const char *text = getenv("SLUICE_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL) * 1000003 + (uint64_t)clock();

    printf("SLUICE_SEED=%llu\n", (unsigned long long)seed);
    return seed ? seed : 1;
}

uint64_t world_random(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return *seed * UINT64_C(2685821657736338717);
}

uint64_t world_below(uint64_t *seed, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)world_random(seed) * bound) >> 64);
}

static uint32_t some_count(uint64_t *seed)
{
    static const uint32_t special[] = {1, 2, 3, 7, 10, 60, 97, 1000, 1000003, 999999937, SL_COUNT_MAX};
    uint32_t magnitude = 1;

    if (world_below(seed, 3) == 0)
        return special[world_below(seed, sizeof special / sizeof *special)];
    for (uint64_t digits = world_below(seed, 10); digits; digits--)
        magnitude *= 10;
    return 1 + (uint32_t)world_below(seed, magnitude);
}

static uint64_t some_period_us(uint64_t *seed)
{
    static const uint64_t special[] = {SL_PERIOD_MIN_US,    SL_SECOND_US,     60 * SL_SECOND_US,
                                       3600 * SL_SECOND_US, SL_DAY_US,        3333 * SL_MS_US,
                                       7 * SL_DAY_US,       SL_PERIOD_MAX_US, 86399 * SL_SECOND_US};
    uint64_t magnitude = 1;

    if (world_below(seed, 2))
        return special[world_below(seed, sizeof special / sizeof *special)];
    for (uint64_t digits = world_below(seed, 11); digits; digits--)
        magnitude *= 10;
    return (1 + world_below(seed, magnitude)) * SL_MS_US;
}

struct sl_shape world_some_shape(uint64_t *seed)
{
    for (;;) {
        enum sl_algorithm algorithm = (enum sl_algorithm)world_below(seed, SL_ALGORITHMS);
        struct sl_rate rate = {.count = some_count(seed), .period_us = some_period_us(seed)};
        uint32_t burst = sl_algorithm_is_bucket(algorithm) && world_below(seed, 2) ? some_count(seed) : 0;
        struct sl_shape shape;
        const char *why;

        if (sl_shape_init(&shape, algorithm, &rate, burst, &why) == 0)
            return shape;
    }
}

uint64_t world_some_time(uint64_t *seed)
{
    switch (world_below(seed, 4)) {
    case 0:
        return world_below(seed, 1000);
    case 1:
        return world_below(seed, SL_TIME_MAX_US - 3 * SL_LIFE_MAX_US);
    case 2:
        return UINT64_C(1754006400000000) + world_below(seed, 2);
    default:
        return UINT64_C(1700000000000000) + world_below(seed, SL_LIFE_MAX_US / 4);
    }
}
