/* Taking charges back: never makes room that time alone would not have made, and gives back all where nothing idled. */
#include "model.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define T0 UINT64_C(1754006400000000)
#define SEC SL_SECOND_US

static uint64_t seed;

static bool refund(struct bucket *b, const struct sl_decision *charge, uint64_t now_us)
{
    return sl_refund(&b->shape, b->state, charge, now_us, &b->state);
}

static int64_t remaining(struct bucket *b, uint64_t now_us)
{
    struct sl_decision d = bucket_look(b, now_us, 0);

    return bucket_numbers(b, &d).remaining;
}

/* One token a second, room for one. P charges at 0 and is rolled back at 1.6, after Q has used the token of 1.5: the
 * second that P held was refilled while the bucket was whole, so there is nothing to give back to R. */
static void refund_does_not_mint(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "1/s", 1);
    struct sl_decision p;

    (void)state;
    p = bucket_charge(&b, T0, 1);
    assert_true(bucket_charge(&b, T0 + 1500000, 1).allowed);
    assert_false(refund(&b, &p, T0 + 1600000));
    assert_false(bucket_charge(&b, T0 + 1600000, 1).allowed);
    assert_true(bucket_charge(&b, T0 + 2500000, 1).allowed);
}

static void refund_of_the_last_charge_is_exact(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        struct bucket b = {.shape = world_some_shape(&seed)};
        uint64_t t_us = T0 + world_below(&seed, SL_DAY_US), later_us;
        struct sl_decision first, second, look;

        if (b.shape.algorithm == SL_SLIDING_WINDOW_LOG)
            continue;
        bucket_charge(&b, t_us, 1 + (uint32_t)world_below(&seed, b.shape.limit));
        first = bucket_look(&b, t_us, 0);
        second = bucket_charge(&b, t_us, 1 + (uint32_t)world_below(&seed, b.shape.limit));
        later_us = t_us + world_below(&seed, 2 * b.shape.period_us);
        assert_int_equal(refund(&b, &second, later_us), second.allowed);
        look = bucket_look(&b, t_us, 0);
        assert_memory_equal(&look.before, &first.before, sizeof look.before);
    }
}

/* With the clock standing still nothing can idle: whatever the order, what stays is what was kept. */
static void refunds_at_one_instant_are_exact_in_any_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5000; i++) {
        struct bucket b = {.shape = world_some_shape(&seed)};
        uint64_t t_us = T0 + world_below(&seed, SL_DAY_US), kept = 0;
        struct sl_decision charges[8];
        unsigned n = 0;

        if (b.shape.algorithm == SL_SLIDING_WINDOW_LOG)
            continue;
        while (n < 8) {
            charges[n] = bucket_charge(&b, t_us, 1 + (uint32_t)world_below(&seed, b.shape.limit / 4 + 1));
            if (charges[n++].allowed && world_below(&seed, 2)) {
                kept += charges[n - 1].cost;
                charges[n - 1].allowed = false; /* not to be refunded */
            }
        }
        for (unsigned k = 0; k < 8; k++)
            assert_int_equal(refund(&b, &charges[(k * 5 + i) % 8], t_us), charges[(k * 5 + i) % 8].allowed);
        assert_int_equal(remaining(&b, t_us), b.shape.limit - (int64_t)kept);
    }
}

/* Charges, some of them rolled back later, in random order and at random times. What was kept must be something one
 * bucket would have admitted had the others never been: then no window holds more than capacity + rate * length. */
static void random_roll_backs_never_admit_more(void **state)
{
    static struct model m;
    unsigned n_refunds = 0;

    (void)state;
    for (unsigned i = 0; i < 8000; i++) {
        struct bucket b = {.shape = world_some_shape(&seed)};
        uint64_t now_us = T0 + world_below(&seed, SL_DAY_US), step_us = b.shape.period_us / b.shape.count + 1;
        struct sl_decision charges[64];
        bool doomed[64], refunded[64] = {false};
        struct sl_numbers unused;
        unsigned n = 0;

        if (b.shape.algorithm == SL_SLIDING_WINDOW_LOG)
            continue;
        while (n < 64) {
            unsigned k = (unsigned)world_below(&seed, 64);

            charges[n] =
                bucket_charge(&b, now_us, 1 + (uint32_t)world_below(&seed, world_below(&seed, 3) ? 2 : b.shape.limit));
            doomed[n++] = world_below(&seed, 2);
            now_us += world_below(&seed, 2) ? world_below(&seed, 2 * step_us) : 0;
            if (k < n && doomed[k] && !refunded[k]) {
                n_refunds += refund(&b, &charges[k], now_us);
                refunded[k] = true;
            }
        }
        model_init(&m, &b.shape);
        for (unsigned k = 0; k < 64; k++)
            if (charges[k].allowed && !refunded[k])
                assert_true(model_decide(&m, charges[k].now_us, charges[k].cost, &unused));
    }
    assert_true(n_refunds > 1000);
}

static void window_gives_back_only_while_it_lasts(void **state)
{
    struct bucket b = bucket_of(SL_FIXED_WINDOW, "10/m", 0);
    struct sl_decision first = bucket_charge(&b, T0, 4), second = bucket_charge(&b, T0, 3);

    (void)state;
    assert_true(second.allowed && refund(&b, &first, T0 + 59 * SEC));
    assert_int_equal(remaining(&b, T0 + 59 * SEC), 7);
    bucket_charge(&b, T0 + 60 * SEC, 2);
    assert_false(refund(&b, &second, T0 + 60 * SEC));
    assert_int_equal(remaining(&b, T0 + 60 * SEC), 8);
    /* also when nobody has been there since */
    b.state = second.before;
    assert_false(refund(&b, &second, T0 + 60 * SEC));
}

static void sliding_counter_gives_back_from_the_window_before(void **state)
{
    struct bucket b = bucket_of(SL_SLIDING_WINDOW_COUNTER, "100/m", 0);
    struct sl_decision first = bucket_charge(&b, T0, 40);

    (void)state;
    bucket_charge(&b, T0, 20);
    bucket_charge(&b, T0 + 90 * SEC, 10);
    assert_int_equal(remaining(&b, T0 + 90 * SEC), 60); /* 60 * 0.5 + 10 */
    assert_true(refund(&b, &first, T0 + 90 * SEC));
    assert_int_equal(remaining(&b, T0 + 90 * SEC), 80); /* 20 * 0.5 + 10 */
    bucket_charge(&b, T0 + 120 * SEC, 1);
    assert_false(refund(&b, &first, T0 + 120 * SEC));
}

static void what_was_not_charged_is_not_given_back(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/s", 10);
    struct sl_decision peek = bucket_charge(&b, T0, 0), charge = bucket_charge(&b, T0, 10);
    struct sl_decision rejected = bucket_charge(&b, T0, 1);

    (void)state;
    assert_false(refund(&b, &peek, T0));
    assert_false(refund(&b, &rejected, T0));
    assert_int_equal(remaining(&b, T0), 0);
    /* Another shape has been here since: its debt is not this charge's. */
    b.shape = world_shape(SL_TOKEN_BUCKET, "7/s", 10);
    assert_false(refund(&b, &charge, T0));
    /* And a bucket that is whole has nothing to give. */
    b.shape = world_shape(SL_TOKEN_BUCKET, "10/s", 10);
    b.state = (struct sl_state){0};
    assert_false(refund(&b, &charge, T0));
    b.state.lo = (uint64_t)b.shape.version << SL_STATE_VERSION_SHIFT | (T0 - 1);
    assert_false(refund(&b, &charge, T0));
}

/* Never below empty, whoever wrote the state. */
static void less_than_the_cost_becomes_none(void **state)
{
    struct bucket b = bucket_of(SL_FIXED_WINDOW, "10/m", 0);
    struct sl_decision charge = bucket_charge(&b, T0, 5);

    (void)state;
    b.state.hi = 3;
    assert_true(refund(&b, &charge, T0));
    assert_int_equal(b.state.hi, 0);

    b = bucket_of(SL_TOKEN_BUCKET, "10/s", 10);
    charge = bucket_charge(&b, T0, 5);
    b.state.lo -= 400 * SL_MS_US; /* owes one token where five were charged */
    assert_true(refund(&b, &charge, T0));
    assert_int_equal(remaining(&b, T0), 10);
    assert_true(sl_state_whole_us(b.state) <= T0);
}

static void tables_own_bits_do_not_hide_what_the_charge_wrote(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/s", 10);
    struct sl_decision charge = bucket_charge(&b, T0, 5);

    (void)state;
    b.state.lo |= SL_STATE_LOG;
    assert_true(refund(&b, &charge, T0 + SEC)); /* by the rule for buckets there would be nothing left to give */
    assert_memory_equal(&b.state, &charge.before, sizeof b.state);
}

static void any_bits_may_be_refunded_into(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50000; i++) {
        struct bucket b = {.shape = world_some_shape(&seed)};
        uint64_t now_us = T0 + world_below(&seed, SL_DAY_US);
        struct sl_decision charge, d;
        struct sl_state old;

        if (b.shape.algorithm == SL_SLIDING_WINDOW_LOG)
            continue;
        charge = bucket_charge(&b, now_us, 1 + (uint32_t)world_below(&seed, b.shape.limit));
        b.state = (struct sl_state){.lo = world_random(&seed) >> world_below(&seed, 20), .hi = world_random(&seed)};
        if (world_below(&seed, 2))
            b.state.lo = charge.after.lo;
        old = b.state;
        if (refund(&b, &charge, now_us + world_below(&seed, SEC)) &&
            memcmp(&b.state, &charge.before, sizeof old) != 0) {
            assert_true(sl_state_whole_us(b.state) <= sl_state_whole_us(old));
            if (sl_algorithm_is_bucket((enum sl_algorithm)b.shape.algorithm))
                assert_true((uint32_t)b.state.hi < b.shape.n);
        }
        d = bucket_look(&b, now_us, 1);
        assert_true(bucket_numbers(&b, &d).remaining <= b.shape.limit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refund_does_not_mint),
        cmocka_unit_test(refund_of_the_last_charge_is_exact),
        cmocka_unit_test(refunds_at_one_instant_are_exact_in_any_order),
        cmocka_unit_test(random_roll_backs_never_admit_more),
        cmocka_unit_test(window_gives_back_only_while_it_lasts),
        cmocka_unit_test(sliding_counter_gives_back_from_the_window_before),
        cmocka_unit_test(what_was_not_charged_is_not_given_back),
        cmocka_unit_test(less_than_the_cost_becomes_none),
        cmocka_unit_test(tables_own_bits_do_not_hide_what_the_charge_wrote),
        cmocka_unit_test(any_bits_may_be_refunded_into),
    };

    seed = world_seed();
    return cmocka_run_group_tests_name("core refund", tests, NULL, NULL);
}
