/* tiers.h, sentence by sentence, at any instant; then by many threads at once. */
#include "fleet/tiers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define START_US UINT64_C(1700000000000000)
#define SECOND UINT64_C(1000000)

static struct sl_tiers *tiers;
static uint64_t now_us;

static void open_tiers(size_t entries)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_tiers_config config = {.alloc = &alloc, .entries = entries};

    assert_int_equal(sl_tiers_new(&config, &tiers), 0);
    now_us = START_US;
}

static int close_tiers(void **state)
{
    (void)state;
    sl_tiers_free(tiers);
    tiers = NULL;
    return 0;
}

/* The tier known of the key, "" when none is. */
static const char *tier_of(const char *key)
{
    static struct sl_tier_name name;

    if (!sl_tiers_find(tiers, key, strlen(key), now_us, &name))
        return "";
    name.text[name.len] = '\0';
    return name.text;
}

/* Whatever waits is looked up: every key has this tier; NULL: none. Returns how many there were. */
static unsigned answer_all(const char *tier)
{
    struct sl_tiers_look *look;
    unsigned n = 0;

    while ((look = sl_tiers_look(tiers, now_us))) {
        for (unsigned i = 0; i < sl_tiers_look_n(look); i++, n++)
            sl_tiers_learn(look, i, tier, tier ? strlen(tier) : 0, tier ? SL_TIERS_HIT : SL_TIERS_MISS);
        sl_tiers_look_end(look, now_us);
    }
    return n;
}

/* None of them is answered. */
static unsigned fail_all(void)
{
    struct sl_tiers_look *look;
    unsigned n = 0;

    while ((look = sl_tiers_look(tiers, now_us))) {
        n += sl_tiers_look_n(look);
        sl_tiers_look_end(look, now_us);
    }
    return n;
}

static struct sl_tiers_stats stats(void)
{
    struct sl_tiers_stats s;

    sl_tiers_stats(tiers, &s);
    return s;
}

static void test_a_key_is_looked_up_once(void **state)
{
    struct sl_tiers_look *look;
    const char *key;
    size_t len;

    (void)state;
    open_tiers(0);
    assert_false(sl_tiers_waiting(tiers));
    for (unsigned i = 0; i < 5; i++)
        assert_string_equal(tier_of("acme"), "");
    assert_true(sl_tiers_waiting(tiers));
    look = sl_tiers_look(tiers, now_us);
    assert_non_null(look);
    assert_int_equal(sl_tiers_look_n(look), 1);
    key = sl_tiers_look_key(look, 0, &len);
    assert_int_equal(len, 4);
    assert_memory_equal(key, "acme", 4);
    assert_string_equal(tier_of("acme"), ""); /* nor while it is on its way */
    assert_false(sl_tiers_waiting(tiers));
    sl_tiers_learn(look, 0, "gold", 4, SL_TIERS_HIT);
    sl_tiers_look_end(look, now_us);
    assert_string_equal(tier_of("acme"), "gold");
    assert_false(sl_tiers_waiting(tiers));
    assert_int_equal(stats().lookups[SL_TIERS_HIT], 1);
    assert_int_equal(stats().entries, 1);
}

static void test_a_miss_is_known_too(void **state)
{
    (void)state;
    open_tiers(0);
    assert_string_equal(tier_of("nobody"), "");
    assert_int_equal(answer_all(NULL), 1);
    now_us += 44 * SECOND;
    assert_string_equal(tier_of("nobody"), "");
    assert_false(sl_tiers_waiting(tiers));
    now_us += 14 * SECOND;
    assert_string_equal(tier_of("nobody"), "");
    assert_int_equal(answer_all("gold"), 1);
    assert_string_equal(tier_of("nobody"), "gold");
    assert_int_equal(stats().lookups[SL_TIERS_MISS], 1);
}

/* A key in use is looked up before its time is over, and is never without its tier meanwhile. */
static void test_a_key_in_use_is_never_without_its_tier(void **state)
{
    unsigned lookups = 0;

    (void)state;
    open_tiers(0);
    tier_of("acme");
    answer_all("gold");
    for (unsigned s = 0; s < 600; s++) {
        now_us += SECOND;
        assert_string_equal(tier_of("acme"), "gold");
        if (sl_tiers_waiting(tiers)) {
            assert_string_equal(tier_of("acme"), "gold");
            lookups += answer_all("gold");
        }
    }
    assert_in_range(lookups, 600 / 58, 600 / 45);
}

/* What changed in the store counts here within the minute; a tier that is gone too. */
static void test_a_change_is_seen_within_a_minute(void **state)
{
    unsigned s = 0;

    (void)state;
    open_tiers(0);
    tier_of("acme");
    answer_all("gold");
    for (; strcmp(tier_of("acme"), "silver") != 0; s++) {
        now_us += SECOND;
        answer_all("silver");
    }
    assert_in_range(s, 1, 60);
    for (s = 0; strcmp(tier_of("acme"), "") != 0; s++) {
        now_us += SECOND;
        answer_all(NULL);
    }
    assert_in_range(s, 1, 60);
}

/* Keys learned at once are not looked up at once again. */
static void test_keys_are_refreshed_at_times_of_their_own(void **state)
{
    unsigned most = 0;

    (void)state;
    open_tiers(0);
    for (unsigned i = 0; i < 600; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%u", i);
        tier_of(key);
    }
    answer_all("gold");
    for (unsigned s = 0; s < 60; s++) {
        unsigned n;

        now_us += SECOND;
        for (unsigned i = 0; i < 600; i++) {
            char key[16];

            snprintf(key, sizeof key, "k%u", i);
            tier_of(key);
        }
        n = answer_all("gold");
        most = n > most ? n : most;
    }
    assert_in_range(most, 20, 150);
}

/* An outage takes nobody's tier away for an hour, and asks once a second and key at most. */
static void test_an_outage_takes_no_tier_away(void **state)
{
    unsigned failed = 0;

    (void)state;
    open_tiers(0);
    tier_of("acme");
    answer_all("gold");
    for (unsigned s = 0; s < 3599; s++) {
        now_us += SECOND;
        assert_string_equal(tier_of("acme"), "gold");
        tier_of("acme");
        failed += fail_all();
    }
    assert_in_range(failed, 3000, 3599);
    assert_int_equal(stats().lookups[SL_TIERS_ERROR], failed);
    now_us += SECOND;
    assert_string_equal(tier_of("acme"), "");
    now_us += SECOND;
    tier_of("acme");
    answer_all("gold");
    assert_string_equal(tier_of("acme"), "gold");
}

/* A key of which nothing is known is not looked up at every request while look-ups fail. */
static void test_a_failed_lookup_is_repeated_after_a_second(void **state)
{
    (void)state;
    open_tiers(0);
    tier_of("acme");
    assert_int_equal(fail_all(), 1);
    now_us += SECOND - 1;
    tier_of("acme");
    assert_int_equal(fail_all(), 0);
    now_us += 1;
    tier_of("acme");
    assert_int_equal(answer_all("gold"), 1);
    assert_string_equal(tier_of("acme"), "gold");
}

/* Invented keys neither drive out those that have a tier and are in use, nor grow anything. */
static void test_a_flood_costs_those_who_pay_nothing(void **state)
{
    (void)state;
    open_tiers(64);
    for (unsigned i = 0; i < 8; i++) {
        char key[16];

        snprintf(key, sizeof key, "paid%u", i);
        tier_of(key);
    }
    answer_all("gold");
    for (unsigned i = 0; i < 100000; i++) {
        char key[16];

        snprintf(key, sizeof key, "flood%u", i);
        tier_of(key);
        if (i % 7 == 0)
            answer_all(NULL);
    }
    for (unsigned i = 0; i < 8; i++) {
        char key[16];

        snprintf(key, sizeof key, "paid%u", i);
        assert_string_equal(tier_of(key), "gold");
    }
    assert_in_range(stats().entries, 9, 64);
}

/* More keys with tiers than there is room for: those that are asked for now come in. */
static void test_tiers_make_room_for_tiers(void **state)
{
    (void)state;
    open_tiers(64);
    for (unsigned i = 0; i < 1000; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%u", i);
        now_us++;
        tier_of(key);
        answer_all("gold");
        assert_string_equal(tier_of(key), "gold");
    }
    assert_int_equal(stats().entries, 64);
}

static void test_look_ups_are_bounded(void **state)
{
    struct sl_tiers_look *looks[SL_TIERS_LOOKS_MAX];
    unsigned n = 0;

    (void)state;
    open_tiers(0);
    for (unsigned i = 0; i < 100000; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%u", i);
        tier_of(key);
    }
    for (unsigned i = 0; i < SL_TIERS_LOOKS_MAX; i++) {
        assert_true(sl_tiers_waiting(tiers));
        looks[i] = sl_tiers_look(tiers, now_us);
        assert_non_null(looks[i]);
        assert_in_range(sl_tiers_look_n(looks[i]), 1, SL_TIERS_LOOK_KEYS);
        n += sl_tiers_look_n(looks[i]);
    }
    assert_null(sl_tiers_look(tiers, now_us));
    assert_false(sl_tiers_waiting(tiers)); /* nobody need come before one of them is over */
    for (unsigned i = 0; i < SL_TIERS_LOOKS_MAX; i++)
        sl_tiers_look_end(looks[i], now_us);
    assert_true(sl_tiers_waiting(tiers));
    n += fail_all();
    assert_in_range(n, SL_TIERS_WANTS_MAX / 2, SL_TIERS_WANTS_MAX);
    assert_int_equal(stats().lookups[SL_TIERS_DROPPED], 100000 - n);
}

static void test_keys_are_bytes(void **state)
{
    struct sl_tier_name name;
    char longest[SLUICE_KEY_MAX];

    (void)state;
    open_tiers(0);
    memset(longest, 'x', sizeof longest);
    assert_false(sl_tiers_find(tiers, "a\0b", 3, now_us, &name));
    assert_false(sl_tiers_find(tiers, longest, sizeof longest, now_us, &name));
    assert_int_equal(answer_all("gold"), 2);
    assert_true(sl_tiers_find(tiers, "a\0b", 3, now_us, &name));
    assert_true(sl_tiers_find(tiers, longest, sizeof longest, now_us, &name));
    assert_false(sl_tiers_find(tiers, "a\0c", 3, now_us, &name));
    assert_false(sl_tiers_find(tiers, longest, sizeof longest - 1, now_us, &name));
}

/* ---- threads */

#define THREADS 4
#define ROUNDS 20000

static atomic_bool over;

/* A key's tier is its own number, or not known yet; never another's. */
static void *ask(void *ctx)
{
    unsigned seed = (unsigned)(uintptr_t)ctx;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sl_tier_name name;
        char key[16];
        int len = snprintf(key, sizeof key, "k%u", (seed = seed * 1103515245 + 12345) >> 16 & 511);

        if (!sl_tiers_find(tiers, key, (size_t)len, START_US + i * 10000, &name))
            continue;
        if (name.len != (size_t)len || memcmp(name.text, key, name.len) != 0)
            return "another key's tier";
    }
    return NULL;
}

static void *look_up(void *ctx)
{
    (void)ctx;
    for (uint64_t at_us = START_US; !atomic_load(&over); at_us += 1000) {
        struct sl_tiers_look *look = sl_tiers_look(tiers, at_us);

        for (unsigned i = 0; look && i < sl_tiers_look_n(look); i++) {
            size_t len;
            const char *key = sl_tiers_look_key(look, i, &len);

            if (i % 8 != 7) /* some fail */
                sl_tiers_learn(look, i, key, len, SL_TIERS_HIT);
        }
        if (look)
            sl_tiers_look_end(look, at_us);
    }
    return NULL;
}

static void test_threads_see_each_key_with_its_own_tier(void **state)
{
    pthread_t askers[THREADS], lookers[2];

    (void)state;
    open_tiers(256);
    atomic_store(&over, false);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&lookers[i], NULL, look_up, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&askers[i], NULL, ask, (void *)(uintptr_t)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *wrong;

        pthread_join(askers[i], &wrong);
        assert_null(wrong);
    }
    while (stats().lookups[SL_TIERS_HIT] == 0) /* on a busy machine askers may end before a looker begins */
        sched_yield();
    atomic_store(&over, true);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(lookers[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_key_is_looked_up_once, close_tiers),
        cmocka_unit_test_teardown(test_a_miss_is_known_too, close_tiers),
        cmocka_unit_test_teardown(test_a_key_in_use_is_never_without_its_tier, close_tiers),
        cmocka_unit_test_teardown(test_a_change_is_seen_within_a_minute, close_tiers),
        cmocka_unit_test_teardown(test_keys_are_refreshed_at_times_of_their_own, close_tiers),
        cmocka_unit_test_teardown(test_an_outage_takes_no_tier_away, close_tiers),
        cmocka_unit_test_teardown(test_a_failed_lookup_is_repeated_after_a_second, close_tiers),
        cmocka_unit_test_teardown(test_a_flood_costs_those_who_pay_nothing, close_tiers),
        cmocka_unit_test_teardown(test_tiers_make_room_for_tiers, close_tiers),
        cmocka_unit_test_teardown(test_look_ups_are_bounded, close_tiers),
        cmocka_unit_test_teardown(test_keys_are_bytes, close_tiers),
        cmocka_unit_test_teardown(test_threads_see_each_key_with_its_own_tier, close_tiers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
