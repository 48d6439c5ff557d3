/* The table one call at a time: what each function promises, with a clock that the test moves. */
#include "kit.h"

#include "core/log.h"
#include "table/find.h"

static const enum sl_algorithm all[] = {SL_TOKEN_BUCKET, SL_LEAKY_BUCKET, SL_FIXED_WINDOW, SL_SLIDING_WINDOW_LOG,
                                        SL_SLIDING_WINDOW_COUNTER};
#define EACH_ALGORITHM(a) for (unsigned a = 0; a < sizeof all / sizeof *all; a++)

static void a_bucket_admits_its_limit_and_no_more(void **state)
{
    (void)state;
    EACH_ALGORITHM(a)
    {
        uint64_t now_us = T0;
        struct sl_table *t = kit_open(NULL, 1000, 1000, &now_us);
        struct sl_shape shape = kit_shape(all[a], "10/m", 0);

        for (unsigned i = 0; i < 10; i++) {
            assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 10 - i);
            assert_true(kit_charge(t, kit_key(1, 1), &shape, 1));
            now_us += 10;
        }
        assert_false(kit_charge(t, kit_key(1, 1), &shape, 1));
        assert_true(kit_charge(t, kit_key(1, 2), &shape, 10));
        assert_int_equal(kit_count_slots(t, kit_key(1, 1), false), 1);
        assert_int_equal(kit_stats(t).live, 2);
        now_us += 2 * 60 * SL_SECOND_US;
        assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 10);
        assert_int_equal(kit_stats(t).live, 0);
        sl_table_close(&t);
    }
}

static void peeks_and_rejections_write_nothing(void **state)
{
    (void)state;
    EACH_ALGORITHM(a)
    {
        uint64_t now_us = T0;
        struct sl_table *t = kit_open(NULL, 1000, 1000, &now_us);
        struct sl_shape shape = kit_shape(all[a], "10/m", 0);
        struct sl_decision d;

        sl_table_charge(t, kit_key(1, 1), &shape, now_us, 0, &d);
        assert_true(d.allowed);
        sl_table_charge(t, kit_key(1, 1), &shape, now_us, 11, &d);
        assert_true(!d.allowed && d.never);
        sl_table_look(t, kit_key(1, 1), &shape, now_us, 3, &d);
        assert_true(d.allowed && d.changed);
        assert_int_equal(kit_count_slots(t, kit_key(1, 1), false), 0);
        assert_true(kit_charge(t, kit_key(1, 1), &shape, 8));
        sl_table_charge(t, kit_key(1, 1), &shape, now_us, 3, &d);
        assert_true(!d.allowed && !d.never && !d.changed);
        sl_table_look(t, kit_key(1, 1), &shape, now_us, 2, &d);
        assert_true(d.allowed);
        assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 2);
        sl_table_close(&t);
    }
}

static void reset_makes_whole(void **state)
{
    (void)state;
    EACH_ALGORITHM(a)
    {
        uint64_t now_us = T0;
        struct sl_table *t = kit_open(NULL, 1000, 1000, &now_us);
        struct sl_shape shape = kit_shape(all[a], "10/m", 0);

        assert_false(sl_table_reset(t, kit_key(1, 1)));
        for (unsigned i = 0; i < 10; i++, now_us++)
            assert_true(kit_charge(t, kit_key(1, 1), &shape, 1));
        assert_true(sl_table_reset(t, kit_key(1, 1)));
        assert_false(sl_table_reset(t, kit_key(1, 1)));
        assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 10);
        assert_true(kit_charge(t, kit_key(1, 1), &shape, 10));
        assert_int_equal(kit_stats(t).log_used, 0);
        assert_int_equal(kit_count_slots(t, kit_key(1, 1), false), 1);
        sl_table_close(&t);
    }
}

static void refund_of_the_last_charge_is_exact(void **state)
{
    (void)state;
    EACH_ALGORITHM(a)
    {
        uint64_t now_us = T0;
        struct sl_table *t = kit_open(NULL, 1000, 1000, &now_us);
        struct sl_shape shape = kit_shape(all[a], "10/m", 0);
        struct sl_decision d;

        for (unsigned n = 0; n <= 9; n++) {
            sl_table_charge(t, kit_key(1, 1), &shape, now_us, 10 - n, &d);
            assert_true(d.allowed);
            now_us++;
            sl_table_refund(t, kit_key(1, 1), &shape, &d);
            assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 10 - n);
            assert_true(kit_charge(t, kit_key(1, 1), &shape, 1));
            now_us++;
        }
        assert_false(kit_charge(t, kit_key(1, 1), &shape, 1));
        sl_table_close(&t);
    }
}

/* Fingerprints that share both groups, so that sixteen of them fill all the places a key has. */
static struct sl_hash128 neighbour(uint64_t number)
{
    return (struct sl_hash128){.a = 0x1234567800000000 + number * 0x0140000000000001, .b = 0x8000000040000000};
}

/* A model of one key: core and one state, no table. */
struct model {
    struct sl_shape shape;
    struct sl_state state;
    struct sl_decision last;
};

static void assert_same_numbers(const struct sl_shape *shape, const struct sl_decision *x, const struct sl_decision *y)
{
    struct sl_numbers a, b;

    sl_decision_numbers(shape, x, &a);
    sl_decision_numbers(shape, y, &b);
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(x->allowed, y->allowed);
    assert_int_equal(x->never, y->never);
    assert_int_equal(x->changed, y->changed);
}

static void model_step(struct sl_table *t, struct sl_hash128 fp, struct model *m, uint64_t now_us, uint64_t *seed)
{
    uint32_t cost = (uint32_t)(kit_random(seed) % 8 ? kit_random(seed) % 3 : kit_random(seed) % (m->shape.limit + 2));
    struct sl_decision got, want;

    switch (kit_random(seed) % 16) {
    case 0:
        if (m->last.allowed && m->last.cost) {
            sl_table_refund(t, fp, &m->shape, &m->last);
            sl_refund(&m->shape, m->state, &m->last, now_us, &m->state);
            m->last.allowed = false;
        }
        break;
    case 1:
        if (kit_random(seed) % 8 == 0) {
            sl_table_reset(t, fp);
            m->state = (struct sl_state){0};
            m->last.allowed = false;
        }
        break;
    case 2:
    case 3:
        sl_table_look(t, fp, &m->shape, now_us, cost, &got);
        sl_decide(&m->shape, m->state, now_us, cost, &want);
        assert_same_numbers(&m->shape, &got, &want);
        break;
    default:
        sl_table_charge(t, fp, &m->shape, now_us, cost, &got);
        sl_decide(&m->shape, m->state, now_us, cost, &want);
        assert_same_numbers(&m->shape, &got, &want);
        if (want.changed)
            m->state = want.after;
        m->last = got;
    }
}

static void any_sequence_of_calls_is_what_core_says(void **state)
{
    static const char *const rates[] = {"1/s", "3/s", "7/3333ms", "999999937/d", "100/m", "97/h", "5/15m", "1/366d"};

    (void)state;
    for (uint64_t run = 0; run < 20; run++) {
        uint64_t now_us = T0, seed = run;
        struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);
        struct model models[14] = {0};

        for (unsigned i = 0; i < 14; i++) {
            enum sl_algorithm a = all[kit_random(&seed) % 5];

            models[i].shape =
                kit_shape(a == SL_SLIDING_WINDOW_LOG ? SL_TOKEN_BUCKET : a, rates[kit_random(&seed) % 8], 0);
        }
        for (unsigned n = 0; n < 5000; n++) {
            unsigned i = (unsigned)(kit_random(&seed) % 14);

            now_us += kit_random(&seed) % (2 * models[i].shape.period_us / (models[i].shape.count % 100 + 1) / 14 + 2);
            model_step(t, neighbour(i), &models[i], now_us, &seed);
        }
        assert_int_equal(kit_stats(t).evictions, 0);
        for (unsigned i = 0; i < 14; i++)
            assert_true(kit_count_slots(t, neighbour(i), false) <= 1);
        sl_table_close(&t);
    }
}

static void any_fingerprint_has_a_place(void **state)
{
    const uint64_t words[] = {0, 1, UINT32_MAX, (uint64_t)UINT32_MAX << 32, UINT64_MAX, UINT64_MAX - 1};
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "2/h", 0);
    uint64_t now_us = T0;

    (void)state;
    for (unsigned b = 0; b < 6; b++) {
        struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);

        for (unsigned a = 1; a < 6; a++) { /* 0 marks a slot never used, and is taken for 1 */
            struct sl_hash128 fp = {words[a], words[b]};

            sl_table_prefetch(t, fp);
            sl_table_prefetch_state(t, fp);
            assert_true(kit_charge(t, fp, &shape, 2));
            sl_table_prefetch_state(t, fp);
            assert_false(kit_charge(t, fp, &shape, 1));
        }
        assert_true(sl_table_reset(t, (struct sl_hash128){1, words[b]}));
        assert_true(kit_charge(t, (struct sl_hash128){0, words[b]}, &shape, 2));
        assert_false(kit_charge(t, (struct sl_hash128){0, words[b]}, &shape, 1));
        sl_table_close(&t);
    }
}

/* Sixteen live buckets in the places of a seventeenth: the one that will be whole soonest makes room, and nobody
 * else. */
static void the_bucket_that_is_whole_soonest_makes_room(void **state)
{
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "100/m", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);
    struct sl_table_stats stats;

    (void)state;
    for (unsigned i = 0; i < 16; i++)
        assert_true(kit_charge(t, neighbour(i), &shape, i == 11 ? 5 : 20 + i));
    assert_int_equal(kit_stats(t).evictions, 0);
    assert_true(kit_charge(t, neighbour(16), &shape, 1));
    stats = kit_stats(t);
    assert_int_equal(stats.evictions, 1);
    assert_int_equal(stats.forgiven_us, 5 * 600000);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(kit_remaining(t, neighbour(i), &shape), i == 11 ? 100 : 80 - i);
    sl_table_close(&t);
}

static void a_whole_bucket_makes_room_before_any_other(void **state)
{
    struct sl_shape slow = kit_shape(SL_TOKEN_BUCKET, "100/h", 0), quick = kit_shape(SL_TOKEN_BUCKET, "100/s", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);

    (void)state;
    for (unsigned i = 0; i < 16; i++)
        assert_true(kit_charge(t, neighbour(i), i == 5 ? &quick : &slow, 100));
    now_us += 1000001;
    assert_true(kit_charge(t, neighbour(16), &slow, 1));
    assert_int_equal(kit_stats(t).evictions, 0);
    assert_int_equal(kit_count_slots(t, neighbour(5), false), 0);
    sl_table_close(&t);
}

/* Fixed windows look alike: {end of the window, 3} is the state of many keys. A writer who read it, slept while the
 * slot was given to another key with the very same state, and writes then, must fail. */
static void a_stale_writer_does_not_know_the_slot_of_another_key(void **state)
{
    struct sl_shape shape = kit_shape(SL_FIXED_WINDOW, "100/h", 0);
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);
    struct sl_site site = sl_site_of(t, neighbour(0));
    struct sl_state before = {0}, now, *slot;

    (void)state;
    assert_true(kit_charge(t, neighbour(0), &shape, 3));
    slot = sl_find(&site, &before);
    for (unsigned i = 1; i < 40 && sl_load(&((struct sl_group *)site.group[0])->tags[0]) == neighbour(0).a; i++)
        assert_true(kit_charge(t, neighbour(i), &shape, 3));
    assert_true(kit_stats(t).evictions > 0);
    now = sl_state_load(slot);
    assert_int_equal(now.lo, before.lo);
    assert_int_equal(now.hi & ~SL_GEN_BITS, before.hi & ~SL_GEN_BITS);
    assert_false(sl_state_swap(slot, before, (struct sl_state){.lo = before.lo, .hi = before.hi + 1}));
    sl_table_close(&t);
}

/* The reader of a new time gives away K's whole slot; then the reader of an old time makes K anew. K owed at that old
 * time, so K must not start before the new one. */
static void a_key_that_lost_its_slot_starts_no_earlier_than_that(void **state)
{
    struct sl_shape quick = kit_shape(SL_TOKEN_BUCKET, "10/s", 0), slow = kit_shape(SL_TOKEN_BUCKET, "100/h", 0);
    uint64_t now_us = T0, late_us;
    struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);
    struct sl_decision d;

    (void)state;
    assert_true(kit_charge(t, neighbour(0), &quick, 10));
    for (unsigned i = 1; i < 16; i++)
        assert_true(kit_charge(t, neighbour(i), &slow, 100));
    late_us = sl_table_now(t) + 500000; /* half of it is owed still */
    now_us += 1000001;
    assert_true(kit_charge(t, neighbour(16), &slow, 1)); /* takes the slot, for the bucket is whole */
    assert_int_equal(kit_count_slots(t, neighbour(0), false), 0);
    sl_table_charge(t, neighbour(0), &quick, late_us, 10, &d);
    assert_true(d.allowed);
    assert_int_equal(d.now_us, now_us);
    assert_false(kit_charge(t, neighbour(0), &quick, 1));
    sl_table_close(&t);
}

/* A thread that slept for hours between reading the clock and deciding. */
static void a_very_late_reading_is_read_again(void **state)
{
    (void)state;
    EACH_ALGORITHM(a)
    {
        uint64_t now_us = T0 - T0 % 3600000000 + 10, late_us;
        struct sl_table *t = kit_open(NULL, 1000, 100, &now_us);
        struct sl_shape shape = kit_shape(all[a], "10/h", 0);

        late_us = sl_table_now(t);
        now_us += 7200 * SL_SECOND_US;
        assert_true(kit_charge(t, kit_key(1, 1), &shape, 10));
        assert_false(kit_charge_at(t, kit_key(1, 1), &shape, late_us, 1));
        assert_false(kit_charge(t, kit_key(1, 1), &shape, 1));
        sl_table_close(&t);
    }
}

static void events_are_brought_into_order(void **state)
{
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);

    (void)state;
    assert_int_equal(sl_table_clamp(t, T0 + 5), T0 + 5);
    assert_int_equal(sl_table_clamp(t, T0 + 3), T0 + 5);
    assert_int_equal(sl_table_clamp(t, T0 + 5), T0 + 5);
    assert_int_equal(kit_stats(t).negative_elapsed, 2); /* the second event, and this very reading of a clock at T0 */
    now_us = T0 + 9;
    assert_int_equal(sl_table_now(t), T0 + 9);
    now_us = T0 - 3600 * SL_SECOND_US;
    assert_int_equal(sl_table_now(t), T0 + 9);
    assert_int_equal(sl_table_clamp(t, UINT64_MAX), SL_TIME_MAX_US);
    assert_int_equal(sl_table_now(t), SL_TIME_MAX_US);
    sl_table_close(&t);
}

static void the_system_clock_goes_on(void **state)
{
    struct sl_table *t = kit_open(NULL, 1000, 0, NULL);
    uint64_t before_us = sl_table_now(t), wall_us = sl_clock_system().wall_us(NULL);

    (void)state;
    assert_in_range(before_us, wall_us - 60 * SL_SECOND_US, wall_us + 60 * SL_SECOND_US);
    while (sl_table_now(t) == before_us) {
    }
    assert_int_equal(sl_table_clamp(t, before_us + 10 * SL_SECOND_US), before_us + 10 * SL_SECOND_US);
    assert_int_equal(sl_table_now(t), before_us + 10 * SL_SECOND_US); /* it waits for the clock to get there */
    sl_table_close(&t);
}

/* The limit is changed while buckets are in debt: SPEC section 8. */
static void a_reload_keeps_what_was_spent(void **state)
{
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);
    struct sl_shape old = kit_shape(SL_TOKEN_BUCKET, "100/m", 0), new = kit_shape(SL_TOKEN_BUCKET, "50/m", 0);
    struct sl_shape count = kit_shape(SL_FIXED_WINDOW, "100/h", 0), less = kit_shape(SL_FIXED_WINDOW, "40/h", 0);

    (void)state;
    assert_true(kit_charge(t, kit_key(1, 1), &old, 90)); /* owes 54 s */
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &new), 5);
    assert_false(kit_charge(t, kit_key(1, 1), &new, 6));
    assert_true(kit_charge(t, kit_key(1, 1), &new, 5));
    assert_true(kit_charge(t, kit_key(1, 2), &count, 30));
    assert_int_equal(kit_remaining(t, kit_key(1, 2), &less), 10);
    assert_int_equal(kit_remaining(t, kit_key(1, 2), &count), 70);
    sl_table_close(&t);
}

static void b41_windows_of_any_length_rotate(void **state)
{
    static const struct {
        const char *rate;
        uint64_t period_us;
    } windows[] = {{"10/1s", 1000000}, {"10/10s", 10000000}, {"10/60s", 60000000}, {"10/1h", 3600000000}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t now_us = T0 + 123456;
        struct sl_table *t = kit_open(NULL, 1000, 0, &now_us);
        struct sl_shape shape = kit_shape(SL_FIXED_WINDOW, windows[i].rate, 0);

        for (unsigned n = 0; n < 10; n++)
            assert_true(kit_charge(t, kit_key(1, 1), &shape, 1));
        assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 0);
        now_us += 2 * windows[i].period_us;
        assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 10);
        now_us = now_us / windows[i].period_us * windows[i].period_us + windows[i].period_us - 1;
        assert_true(kit_charge(t, kit_key(1, 1), &shape, 10));
        assert_false(kit_charge(t, kit_key(1, 1), &shape, 1));
        now_us++;
        assert_true(kit_charge(t, kit_key(1, 1), &shape, 10));
        sl_table_close(&t);
    }
}

/* Two limits with one fingerprint cannot be; a damaged region can look like it. */
static void a_log_under_a_bucket_of_the_same_tag_does_no_harm(void **state)
{
    uint64_t now_us = T0;
    struct sl_table *t = kit_open(NULL, 1000, 100, &now_us);
    struct sl_shape log = kit_shape(SL_SLIDING_WINDOW_LOG, "10/m", 0), bucket = kit_shape(SL_TOKEN_BUCKET, "10/m", 0);

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 3; i++, now_us++)
            assert_true(kit_charge(t, kit_key(1, 1), &log, 1));
        assert_true(kit_charge(t, kit_key(1, 1), &bucket, 1));
    }
    sl_table_reset(t, kit_key(1, 1));
    assert_int_equal(kit_stats(t).log_used, 0);
    sl_table_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_admits_its_limit_and_no_more),
        cmocka_unit_test(peeks_and_rejections_write_nothing),
        cmocka_unit_test(reset_makes_whole),
        cmocka_unit_test(refund_of_the_last_charge_is_exact),
        cmocka_unit_test(any_sequence_of_calls_is_what_core_says),
        cmocka_unit_test(any_fingerprint_has_a_place),
        cmocka_unit_test(the_bucket_that_is_whole_soonest_makes_room),
        cmocka_unit_test(a_whole_bucket_makes_room_before_any_other),
        cmocka_unit_test(a_stale_writer_does_not_know_the_slot_of_another_key),
        cmocka_unit_test(a_key_that_lost_its_slot_starts_no_earlier_than_that),
        cmocka_unit_test(a_very_late_reading_is_read_again),
        cmocka_unit_test(events_are_brought_into_order),
        cmocka_unit_test(the_system_clock_goes_on),
        cmocka_unit_test(a_reload_keeps_what_was_spent),
        cmocka_unit_test(b41_windows_of_any_length_rotate),
        cmocka_unit_test(a_log_under_a_bucket_of_the_same_tag_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
