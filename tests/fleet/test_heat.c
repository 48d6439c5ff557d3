/* heat.h, sentence by sentence. */
#include "fleet/heat.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#define START_US UINT64_C(1800000000000000)

static struct sl_heat *new_heat(void)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_heat *heat;

    assert_int_equal(sl_heat_new(&alloc, &heat), 0);
    return heat;
}

static struct sl_hash128 some_fp(uint64_t *seed)
{
    return (struct sl_hash128){.a = world_random(seed), .b = world_random(seed)};
}

static void a_lone_bucket_is_counted_exactly(void **state)
{
    struct sl_heat *heat = new_heat();
    struct sl_hash128 fp = {1, 2};
    uint32_t last = 0;

    (void)state;
    /* 1,000 a second, evenly, for a second: by then a whole window and part of one are known. */
    for (unsigned i = 0; i < 1000; i++)
        last = sl_heat_add(heat, fp, START_US + i * 1000);
    assert_in_range(last, 995, 1005);
    /* Then 100 a second for a second. */
    for (unsigned i = 0; i < 100; i++)
        last = sl_heat_add(heat, fp, START_US + 1000000 + i * 10000);
    assert_in_range(last, 95, 105);
    sl_heat_free(heat);
}

static void after_a_pause_it_begins_anew(void **state)
{
    struct sl_heat *heat = new_heat();
    struct sl_hash128 fp = {1, 2};

    (void)state;
    for (unsigned i = 0; i < 10000; i++)
        sl_heat_add(heat, fp, START_US);
    assert_true(sl_heat_add(heat, fp, START_US + SL_HEAT_WINDOW_US) >= 40000);
    /* One decision, in a window of which nothing else is known. */
    assert_int_equal(sl_heat_add(heat, fp, START_US + 3 * SL_HEAT_WINDOW_US), 4);
    assert_int_equal(sl_heat_add(heat, fp, START_US + 5 * SL_HEAT_WINDOW_US), 4);
    sl_heat_free(heat);
}

/* 20,000 buckets in a window, a few of them hot. */
static void estimates_are_never_below_the_truth_and_cold_ones_stay_cold(void **state)
{
    enum { KEYS = 20000, HOT = 16 };
    struct sl_heat *heat = new_heat();
    struct sl_hash128 *fps = malloc(KEYS * sizeof *fps);
    uint64_t seed = world_seed();
    unsigned over = 0;

    (void)state;
    assert_non_null(fps);
    for (unsigned i = 0; i < KEYS; i++)
        fps[i] = some_fp(&seed);
    for (unsigned i = 0; i < KEYS; i++) {
        sl_heat_add(heat, fps[i], START_US);
        for (unsigned k = 0; i < HOT && k < 1000 + i; k++)
            sl_heat_add(heat, fps[i], START_US);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        uint32_t truth = 4 * (i < HOT ? 1001 + i : 1);
        uint32_t estimate = sl_heat_add(heat, fps[i], START_US + SL_HEAT_WINDOW_US);

        assert_true(estimate >= truth);
        over += i >= HOT && estimate >= 256; /* taken for hot */
    }
    assert_true(over < KEYS / 1000);
    sl_heat_free(heat);
    free(fps);
}

/* Buckets that are parts of one, and derived names, share one half of the fingerprint. */
static void half_a_fingerprint_is_not_enough_to_collide(void **state)
{
    struct sl_heat *heat = new_heat();
    unsigned over = 0;

    (void)state;
    for (uint64_t i = 0; i < 200; i++)
        for (unsigned k = 0; k < 100; k++)
            sl_heat_add(heat, (struct sl_hash128){i * UINT64_C(0xD6E8FEB86659FD93), 7}, START_US);
    for (uint64_t i = 0; i < 200; i++)
        over += sl_heat_add(heat, (struct sl_hash128){i * UINT64_C(0xD6E8FEB86659FD93), 7},
                            START_US + SL_HEAT_WINDOW_US) > 500; /* 400, and this one */
    assert_true(over < 10);
    sl_heat_free(heat);
}

static void counts_saturate(void **state)
{
    struct sl_heat *heat = new_heat();
    struct sl_hash128 fp = {3, 4};
    uint32_t last = 0;

    (void)state;
    for (unsigned i = 0; i < (1u << 20) + 10; i++)
        last = sl_heat_add(heat, fp, START_US);
    assert_int_equal(last, 4 * ((1u << 20) - 1));
    assert_int_equal(sl_heat_add(heat, fp, START_US), last);
    sl_heat_free(heat);
}

static void *hammer(void *arg)
{
    for (unsigned i = 0; i < 20000; i++)
        sl_heat_add(arg, (struct sl_hash128){i % 10, 5}, START_US + i / 100);
    return NULL;
}

static void threads_count_together(void **state)
{
    struct sl_heat *heat = new_heat();
    pthread_t threads[8];
    uint32_t estimate;

    (void)state;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, heat), 0);
    for (unsigned i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    estimate = sl_heat_add(heat, (struct sl_hash128){3, 5}, START_US + SL_HEAT_WINDOW_US);
    assert_in_range(estimate, 4 * 2000, 4 * 16001); /* one thread's at least, no more than all */
    sl_heat_free(heat);
}

static void *no_memory(void *ctx, void *p, size_t size)
{
    (void)ctx;
    (void)p;
    (void)size;
    return NULL;
}

static void out_of_memory_is_told(void **state)
{
    struct sl_alloc alloc = {.realloc = no_memory};
    struct sl_heat *heat = NULL;

    (void)state;
    assert_true(sl_heat_new(&alloc, &heat) < 0);
    assert_null(heat);
    sl_heat_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_bucket_is_counted_exactly),
        cmocka_unit_test(after_a_pause_it_begins_anew),
        cmocka_unit_test(estimates_are_never_below_the_truth_and_cold_ones_stay_cold),
        cmocka_unit_test(half_a_fingerprint_is_not_enough_to_collide),
        cmocka_unit_test(counts_saturate),
        cmocka_unit_test(threads_count_together),
        cmocka_unit_test(out_of_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
