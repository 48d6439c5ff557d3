/* Sliding logs against a plain list, and their arena. */
#include "kit.h"

#include "core/log.h"

#include <stdlib.h>

#define HITS_MAX 4096

/* What a log is: hits in order. Nothing is ever merged or dropped but what has expired. */
struct plain {
    uint64_t t_us[HITS_MAX];
    uint32_t cost[HITS_MAX];
    unsigned n;
};

static void plain_charge(struct plain *p, const struct sl_shape *shape, uint64_t now_us, uint32_t cost, bool spend,
                         struct sl_decision *ret_decision)
{
    uint64_t sum = 0, freed = 0;
    unsigned kept = 0;

    for (unsigned i = 0; i < p->n; i++) {
        if (!sl_log_in_force(shape, p->t_us[i], now_us) || p->cost[i] == 0)
            continue;
        p->t_us[kept] = p->t_us[i];
        p->cost[kept++] = p->cost[i];
        sum += p->cost[kept - 1];
    }
    p->n = kept;
    sl_log_decide(shape, sum, kept ? p->t_us[kept - 1] : 0, now_us, cost, ret_decision);
    if (!ret_decision->allowed && !ret_decision->never) {
        for (unsigned i = 0; i < p->n; i++) {
            if (sl_log_fit(shape, ret_decision, &freed, p->t_us[i], p->cost[i]))
                break;
        }
    }
    if (spend && ret_decision->changed) {
        assert_true(p->n < HITS_MAX);
        p->t_us[p->n] = now_us;
        p->cost[p->n++] = cost;
    }
}

static void plain_refund(struct plain *p, uint64_t t_us, uint32_t cost)
{
    for (unsigned i = p->n; i-- > 0 && cost > 0;) {
        if (p->t_us[i] == t_us) {
            uint32_t some = cost < p->cost[i] ? cost : p->cost[i];

            p->cost[i] -= some;
            cost -= some;
        }
    }
}

static void assert_same_verdict(const struct sl_shape *shape, const struct sl_decision *x, const struct sl_decision *y)
{
    struct sl_numbers a, b;

    sl_decision_numbers(shape, x, &a);
    sl_decision_numbers(shape, y, &b);
    assert_int_equal(x->allowed, y->allowed);
    assert_int_equal(x->never, y->never);
    assert_int_equal(a.remaining, b.remaining);
    assert_int_equal(a.retry_after_ms, b.retry_after_ms);
    assert_int_equal(a.reset_after_ms, b.reset_after_ms);
    assert_int_equal(a.next_token_ms, b.next_token_ms);
}

static void a_log_is_a_list_of_hits(void **state)
{
    static const char *const rates[] = {"1/s", "7/3333ms", "100/m", "1000/s", "3000/h"};

    (void)state;
    for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct sl_shape shape = kit_shape(SL_SLIDING_WINDOW_LOG, rates[r], 0);
        uint64_t now_us = T0, seed = r;
        struct sl_table *t = kit_open(NULL, 1000, 10000, &now_us);
        struct plain *plain = calloc(1, sizeof *plain);
        struct sl_decision got, want, last = {0};

        for (unsigned n = 0; n < 20000; n++) {
            uint32_t cost = kit_random(&seed) % 4 ? 1 : (uint32_t)(kit_random(&seed) % (shape.limit + 2));
            unsigned what = (unsigned)(kit_random(&seed) % 16);

            now_us += kit_random(&seed) % (2 * shape.period_us / shape.limit) * (kit_random(&seed) % 64 ? 1 : 40);
            if (kit_random(&seed) % 500 == 0)
                now_us += shape.period_us + kit_random(&seed) % 2;
            if (what == 0 && last.allowed) {
                sl_table_refund(t, kit_key(1, 1), &shape, &last);
                plain_refund(plain, last.now_us, last.cost);
                last.allowed = false;
                continue;
            }
            plain_charge(plain, &shape, now_us, cost, what > 3, &want);
            if (what > 3)
                sl_table_charge(t, kit_key(1, 1), &shape, now_us, cost, &got);
            else
                sl_table_look(t, kit_key(1, 1), &shape, now_us, cost, &got);
            assert_same_verdict(&shape, &got, &want);
            if (what > 3)
                last = got;
        }
        assert_int_equal(kit_stats(t).log_folded, 0);
        sl_table_reset(t, kit_key(1, 1));
        assert_int_equal(kit_stats(t).log_used, 0);
        free(plain);
        sl_table_close(&t);
    }
}

/* 10,000 keys of a large limit, one hit each: nothing but their slots. Then a few more each. */
static void b108_memory_grows_with_hits_and_not_with_the_limit(void **state)
{
    struct sl_shape shape = kit_shape(SL_SLIDING_WINDOW_LOG, "100000/m", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 10000, 100000, &now_us);

    (void)state;
    for (unsigned hit = 1; hit <= 7; hit++) {
        struct sl_table_stats stats;

        for (unsigned key = 0; key < 10000; key++, now_us++)
            assert_true(kit_charge(t, kit_key(1, key), &shape, 1));
        stats = kit_stats(t);
        assert_true(stats.bytes < 10000000);
        /* One hit is the state itself, two are a chunk, three to seven two chunks. */
        assert_int_equal(stats.log_used, (hit == 1 ? 0 : hit == 2 ? 10000 : 20000) * SL_MORE_ENTRIES);
        assert_int_equal(stats.log_folded, 0);
    }
    sl_table_close(&t);
}

static void hits_of_one_microsecond_are_one_entry(void **state)
{
    struct sl_shape shape = kit_shape(SL_SLIDING_WINDOW_LOG, "1000/s", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 1000, &now_us);

    (void)state;
    for (unsigned tick = 0; tick < 10; tick++, now_us++) {
        for (unsigned i = 0; i < 100; i++)
            assert_true(kit_charge(t, kit_key(1, 1), &shape, 1));
    }
    assert_false(kit_charge(t, kit_key(1, 1), &shape, 1));
    assert_int_equal(kit_stats(t).log_used, 3 * 5); /* ten entries: 2 and 5 and 3 */
    sl_table_close(&t);
}

/* No room: hits fall into the newest entry. They leave later than they should, so never more is admitted. */
static void an_exhausted_arena_is_stricter_and_counted(void **state)
{
    struct sl_shape shape = kit_shape(SL_SLIDING_WINDOW_LOG, "50/s", 0);
    uint64_t now_us = T0, seed = 3;
    struct sl_table *t = kit_open(NULL, 1000, 25, &now_us);
    uint64_t admitted_us[3][20000];
    unsigned n[3] = {0, 0, 0};
    struct sl_table_stats stats;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        unsigned key = (unsigned)(kit_random(&seed) % 3);

        now_us += kit_random(&seed) % 9000;
        if (!kit_charge(t, kit_key(1, key), &shape, 1))
            continue;
        admitted_us[key][n[key]++] = now_us;
        if (n[key] > 50)
            assert_true(now_us - admitted_us[key][n[key] - 51] >= SL_SECOND_US);
    }
    stats = kit_stats(t);
    assert_true(stats.log_folded > 0);
    assert_true(stats.log_used <= stats.log_entries);
    for (unsigned key = 0; key < 3; key++)
        assert_true(n[key] > 50 * 4);
    sl_table_close(&t);
}

static void a_table_without_room_for_logs_still_limits(void **state)
{
    struct sl_shape shape = kit_shape(SL_SLIDING_WINDOW_LOG, "10/s", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);

    (void)state;
    for (unsigned i = 0; i < 10; i++, now_us++)
        assert_true(kit_charge(t, kit_key(1, 1), &shape, 1));
    assert_false(kit_charge(t, kit_key(1, 1), &shape, 1));
    now_us += SL_SECOND_US;
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 10);
    sl_table_close(&t);
}

/* Slots of dead logs are given to other keys, and the chunks go back to the arena: a chunk can be lost only by a
 * kill. */
static void chunks_come_back(void **state)
{
    struct sl_shape log = kit_shape(SL_SLIDING_WINDOW_LOG, "20/s", 0), bucket = kit_shape(SL_TOKEN_BUCKET, "5/h", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 40000, &now_us);

    (void)state;
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < 18; i++, now_us++) {
            for (unsigned key = 0; key < 900; key++)
                assert_true(kit_charge(t, kit_key(round, key), &log, 1));
        }
        assert_true(kit_stats(t).log_used >= 900 * 18);
        now_us += SL_SECOND_US + 20;
    }
    for (unsigned key = 0; key < 50000; key++)
        kit_charge(t, kit_key(9, key), &bucket, 1);
    assert_int_equal(kit_stats(t).log_used, 0);
    assert_int_equal(kit_stats(t).log_folded, 0);
    sl_table_close(&t);
}

static void a_reload_with_another_period_keeps_the_hits(void **state)
{
    struct sl_shape minute = kit_shape(SL_SLIDING_WINDOW_LOG, "10/m", 0),
                    hour = kit_shape(SL_SLIDING_WINDOW_LOG, "10/h", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 100, &now_us);

    (void)state;
    assert_true(kit_charge(t, kit_key(1, 1), &minute, 4)); /* one hit */
    now_us += 1000;
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &hour), 6);
    assert_true(kit_charge(t, kit_key(1, 1), &hour, 1));
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &hour), 5);
    now_us += 1000;
    assert_true(kit_charge(t, kit_key(1, 1), &hour, 1)); /* a list by now */
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &minute), 4);
    now_us += 61 * SL_SECOND_US;
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &hour), 4);
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &minute), 10);
    sl_table_close(&t);
}

static void a_hit_from_the_future_is_healed(void **state)
{
    struct sl_shape shape = kit_shape(SL_SLIDING_WINDOW_LOG, "10/m", 0);

    (void)state;
    for (unsigned hits = 1; hits <= 3; hits++) {
        uint64_t now_us = T0;
        struct sl_table *t = kit_open(NULL, 1000, 100, &now_us);
        struct sl_decision d;

        /* Charged at times that the table's clock has not seen: no caller of ours does that. */
        for (unsigned i = 0; i < hits; i++)
            assert_true(kit_charge_at(t, kit_key(1, 1), &shape, T0 + 100 * SL_DAY_US + i, 2));
        now_us++;
        sl_table_charge(t, kit_key(1, 1), &shape, sl_table_now(t), 11 - 2 * hits, &d);
        assert_false(d.allowed);
        assert_true(kit_charge(t, kit_key(1, 1), &shape, 1));
        now_us += 61 * SL_SECOND_US;
        assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 10);
        sl_table_close(&t);
    }
}

/* Hits are dropped from the list by whoever sees that they have expired. Somebody whose reading is older must not count
 * them as gone at his time. */
static void a_late_reading_is_decided_no_earlier_than_hits_were_dropped(void **state)
{
    struct sl_shape shape = kit_shape(SL_SLIDING_WINDOW_LOG, "2/m", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 100, &now_us);
    struct sl_decision d;

    (void)state;
    assert_true(kit_charge(t, kit_key(1, 1), &shape, 1));
    now_us = T0 + SL_SECOND_US;
    assert_true(kit_charge(t, kit_key(1, 1), &shape, 1));
    now_us = T0 + 60 * SL_SECOND_US + 5;
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 1);
    sl_table_charge(t, kit_key(1, 1), &shape, T0 + 59 * SL_SECOND_US, 1, &d);
    assert_true(d.allowed);
    assert_int_equal(d.now_us, now_us);
    sl_table_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_is_a_list_of_hits),
        cmocka_unit_test(b108_memory_grows_with_hits_and_not_with_the_limit),
        cmocka_unit_test(hits_of_one_microsecond_are_one_entry),
        cmocka_unit_test(an_exhausted_arena_is_stricter_and_counted),
        cmocka_unit_test(a_table_without_room_for_logs_still_limits),
        cmocka_unit_test(chunks_come_back),
        cmocka_unit_test(a_reload_with_another_period_keeps_the_hits),
        cmocka_unit_test(a_hit_from_the_future_is_healed),
        cmocka_unit_test(a_late_reading_is_decided_no_earlier_than_hits_were_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
