/* A table that is full, or is flooded: who loses what, and what it costs. */
#include "kit.h"

#include <stdlib.h>
#include <unistd.h>

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(SLUICE_TSAN) || HAS_FEATURE(address_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* One thread makes all of this: ThreadSanitizer has nothing to see here and takes a hundred times as long. */
#ifdef SLUICE_TSAN
#define SHARE 10u
#else
#define SHARE 1u
#endif

#define DRAINED 300u
#define TOKEN_US UINT64_C(600000) /* of 100/m */

static void bytes_a_key_at_ten_million_keys(void **state)
{
    struct sl_region_plan plan;

    (void)state;
    sl_plan_make(&plan, 10000000, 10000000, (struct sl_secret){1, 2}, T0);
    assert_true(plan.bytes <= 48 * UINT64_C(10000000)); /* with room for as many log hits */
    sl_plan_make(&plan, 10000000, 0, (struct sl_secret){1, 2}, T0);
    assert_true(plan.bytes <= 35 * UINT64_C(10000000));
    sl_plan_make(&plan, SL_TABLE_KEYS_MAX, SL_TABLE_LOG_ENTRIES_MAX, (struct sl_secret){1, 2}, T0);
    assert_true(plan.n_groups <= UINT32_MAX);
    assert_true(plan.n_chunks < SL_VALUE_MASK);
}

/* As many live keys as were asked for: all have a place, but for a few in a million. */
static void the_keys_that_were_asked_for_fit(void **state)
{
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "10/d", 0);
    uint64_t now_us = T0, n = 300000 / SHARE;
    struct sl_table *t = kit_open(NULL, n, 0, &now_us);
    struct sl_table_stats stats;

    (void)state;
    for (uint64_t key = 0; key < n; key++)
        assert_true(kit_charge(t, kit_key(1, key), &shape, 1));
    stats = kit_stats(t);
    print_message("%llu keys, %.1f bytes each, %llu evicted\n", (unsigned long long)n, (double)stats.bytes / (double)n,
                  (unsigned long long)stats.evictions);
    assert_true(stats.evictions <= 6);
    assert_int_equal(stats.live, n - stats.evictions);
    sl_table_close(&t);
}

/* 300 customers have spent all they had; then a flood of random keys, with and without honest others among them, into a
 * table far too small for it. Nobody gets tokens back that way, and nobody is turned away. */
static void flood(bool honest)
{
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "100/m", 0);
    uint64_t now_us = T0, flooded = 1000000 / SHARE;
    struct sl_table *t = kit_open(NULL, 10000, 0, &now_us);
    struct sl_table_stats stats;

    for (unsigned key = 0; key < DRAINED; key++)
        assert_true(kit_charge(t, kit_key(1, key), &shape, 100));
    for (uint64_t i = 0; i < flooded; i++) {
        now_us += 30; /* 20,000 keys a token */
        assert_true(kit_charge(t, kit_key(2, i), &shape, 1));
        if (honest && i % 10 == 0)
            assert_true(kit_charge(t, kit_key(3, i / 10 % 3000), &shape, 1));
    }
    for (unsigned key = 0; key < DRAINED; key++) {
        uint64_t fair = (now_us - T0) / TOKEN_US;

        assert_in_range(kit_remaining(t, kit_key(1, key), &shape), fair, fair + 1);
    }
    stats = kit_stats(t);
    assert_true(stats.evictions > flooded / 2);
    print_message("%llu evictions, %llu us forgiven each\n", (unsigned long long)stats.evictions,
                  (unsigned long long)(stats.forgiven_us / stats.evictions));
    assert_true(stats.forgiven_us / stats.evictions < TOKEN_US);
    sl_table_close(&t);
}

static void a_flood_of_random_keys_washes_no_debt_away(void **state)
{
    (void)state;
    flood(false);
    flood(true);
}

static void b106_a_full_table_admits_new_keys_and_keeps_the_old(void **state)
{
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "100/m", 0), slow = kit_shape(SL_TOKEN_BUCKET, "100/h", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);
    unsigned lost = 0;

    (void)state;
    for (unsigned key = 0; key < 300; key++)
        assert_true(kit_charge(t, kit_key(1, key), &slow, 100));
    for (unsigned key = 0; key < 5000; key++)
        assert_true(kit_charge(t, kit_key(2, key), &shape, 1 + key % 50));
    for (unsigned key = 0; key < 1000; key++)
        assert_true(kit_charge(t, kit_key(3, key), &shape, 1));
    for (unsigned key = 0; key < 300; key++)
        lost += kit_remaining(t, kit_key(1, key), &slow) > 0;
    assert_int_equal(lost, 0);
    assert_true(kit_stats(t).evictions >= 300 + 5000 + 1000 - kit_stats(t).slots);
    sl_table_close(&t);
}

static uint64_t resident_bytes(void)
{
    char text[200], *second;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    second = strchr(text, ' ');
    assert_non_null(second);
    return (uint64_t)strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Ten times as many keys as the table was made for. The memory is what was stated at the start, and once time has
 * passed nothing is live any more, without anybody having swept. */
static void b104_entries_need_no_removing(void **state)
{
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "1/m", 0);
    uint64_t now_us = T0, before = resident_bytes();
    struct sl_table *t = kit_open(NULL, 100000 / SHARE, 0, &now_us);
    struct sl_table_stats stats;

    (void)state;
    for (uint64_t key = 0; key < 1000000 / SHARE; key++)
        assert_true(kit_charge(t, kit_key(1, key), &shape, 1));
    stats = kit_stats(t);
    if (!SANITIZED) /* whose own memory would be counted */
        assert_true(resident_bytes() - before <= stats.bytes + (UINT64_C(4) << 20));
    assert_true(stats.live > stats.slots * 99 / 100);
    now_us += 61 * SL_SECOND_US;
    assert_int_equal(kit_stats(t).live, 0);
    for (uint64_t key = 0; key < 100000 / SHARE; key++)
        assert_true(kit_charge(t, kit_key(2, key), &shape, 1));
    assert_true(kit_stats(t).evictions - stats.evictions <= 6);
    sl_table_close(&t);
}

static void a_scan_in_steps_counts_what_a_whole_one_does(void **state)
{
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "1/m", 0);
    uint64_t now_us = T0, live = 0;
    struct sl_table *t = kit_open(NULL, 5000, 0, &now_us);

    (void)state;
    for (uint64_t key = 0; key < 3000; key++)
        assert_true(kit_charge(t, kit_key(1, key), &shape, 1));
    for (uint64_t i = 0; i <= kit_stats(t).slots / 100; i++)
        live = sl_table_scan(t, 100);
    assert_int_equal(live, 3000);
    assert_int_equal(sl_table_scan(t, UINT64_MAX), 3000);
    now_us += 61 * SL_SECOND_US;
    assert_int_equal(sl_table_scan(t, 0), 3000); /* as of the last scan */
    assert_true(sl_table_scan(t, 1000) < 3000);
    assert_int_equal(sl_table_scan(t, UINT64_MAX), 0);
    sl_table_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_a_key_at_ten_million_keys),
        cmocka_unit_test(the_keys_that_were_asked_for_fit),
        cmocka_unit_test(a_flood_of_random_keys_washes_no_debt_away),
        cmocka_unit_test(b106_a_full_table_admits_new_keys_and_keeps_the_old),
        cmocka_unit_test(b104_entries_need_no_removing),
        cmocka_unit_test(a_scan_in_steps_counts_what_a_whole_one_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
