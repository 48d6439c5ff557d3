/* The table one call at a time: what each function promises, with a clock that the test moves. */
#include "kit.h"

#include "core/log.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_admits_its_limit_and_no_more),
        cmocka_unit_test(peeks_and_rejections_write_nothing),
        cmocka_unit_test(reset_makes_whole),
        cmocka_unit_test(refund_of_the_last_charge_is_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
