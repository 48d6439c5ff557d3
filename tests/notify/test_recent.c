/* What was told of lately, in virtual time, and among threads. */
#include "notify/recent.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#define HOUR UINT64_C(3600000000)
#define T0 (100 * HOUR)
#define THREADS 4
#define BUCKETS 5000u

static int set_up(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();

    return sl_recent_new(&alloc, (struct sl_recent **)state);
}

static int tear_down(void **state)
{
    sl_recent_free(*state);
    return 0;
}

static struct sl_hash128 bucket(uint64_t n)
{
    return (struct sl_hash128){.a = n * UINT64_C(0x9E3779B97F4A7C15), .b = n};
}

static void once_in_a_window(void **state)
{
    struct sl_recent *r = *state;

    assert_true(sl_recent_claim(r, bucket(1), T0, T0 + HOUR));
    assert_false(sl_recent_claim(r, bucket(1), T0, T0 + HOUR));
    assert_false(sl_recent_claim(r, bucket(1), T0 + HOUR - 1, T0 + 2 * HOUR));
    assert_true(sl_recent_claim(r, bucket(2), T0, T0 + HOUR));
    assert_true(sl_recent_claim(r, bucket(1), T0 + HOUR, T0 + 2 * HOUR));
    assert_false(sl_recent_claim(r, bucket(1), T0 + HOUR, T0 + 2 * HOUR));
}

static void it_may_end_earlier_or_later(void **state)
{
    struct sl_recent *r = *state;

    sl_recent_claim(r, bucket(1), T0, T0 + HOUR);
    sl_recent_set(r, bucket(1), T0 + 10);
    assert_false(sl_recent_claim(r, bucket(1), T0 + 9, T0 + HOUR));
    assert_true(sl_recent_claim(r, bucket(1), T0 + 10, T0 + HOUR));
    sl_recent_set(r, bucket(1), T0 + 2 * HOUR);
    assert_false(sl_recent_claim(r, bucket(1), T0 + HOUR, T0 + 3 * HOUR));
    sl_recent_set(r, bucket(7), T0 + HOUR); /* nobody has claimed it: nothing */
    assert_true(sl_recent_claim(r, bucket(7), T0, T0 + HOUR));
}

/* In one set there are eight places: the ninth takes that of the one that ends first. */
static void the_one_that_ends_first_makes_room(void **state)
{
    struct sl_recent *r = *state;

    for (uint64_t i = 0; i < 8; i++)
        assert_true(sl_recent_claim(r, (struct sl_hash128){.a = 5, .b = i}, T0, T0 + HOUR + (i + 3) % 8));
    assert_true(sl_recent_claim(r, (struct sl_hash128){.a = 5, .b = 8}, T0, T0 + 2 * HOUR));
    for (uint64_t i = 0; i < 9; i++) {
        if (i != 5) /* whose window was the shortest */
            assert_false(sl_recent_claim(r, (struct sl_hash128){.a = 5, .b = i}, T0, T0 + HOUR));
    }
    assert_true(sl_recent_claim(r, (struct sl_hash128){.a = 5, .b = 5}, T0, T0 + HOUR));
}

struct racer {
    pthread_t thread;
    struct sl_recent *recent;
    atomic_uint *won;
};

static void *race(void *ctx)
{
    struct racer *racer = ctx;

    for (unsigned i = 0; i < BUCKETS; i++) {
        if (sl_recent_claim(racer->recent, bucket(i), T0, T0 + HOUR))
            atomic_fetch_add(&racer->won[i], 1);
    }
    return NULL;
}

static void among_threads_one_wins(void **state)
{
    static atomic_uint won[BUCKETS];
    struct racer racers[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){.recent = *state, .won = won};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(racers[i].thread, NULL);
    for (unsigned i = 0; i < BUCKETS; i++)
        assert_int_equal(won[i], 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(once_in_a_window),
        TEST(it_may_end_earlier_or_later),
        TEST(the_one_that_ends_first_makes_room),
        TEST(among_threads_one_wins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
