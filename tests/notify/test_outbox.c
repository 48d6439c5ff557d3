/* Queue, retries and their bounds, in virtual time. */
#include "notify/outbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)
#define T0 (1000 * SECOND)

static struct sl_outbox box;
static struct sl_message *message;

static int set_up(void **state)
{
    static const struct sl_message_source source = {.instance = "test"};

    (void)state;
    box = (struct sl_outbox){0};
    message = sl_message_test(&source, 0);
    return message ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    sl_outbox_fini(&box);
    assert_int_equal(box.n, 0);
    assert_int_equal(message->refs, 1); /* the outbox has given all of its own back */
    sl_message_unref(message);
    return 0;
}

static enum sl_fate end(struct sl_delivery *delivery, unsigned status, uint64_t now_us)
{
    assert_non_null(delivery);
    return sl_outbox_done(&box, delivery, &(struct sl_attempt){.status = status}, now_us, 0);
}

static void it_is_full_at_its_bound(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SL_OUTBOX_MAX; i++)
        assert_true(sl_outbox_put(&box, message, T0));
    assert_false(sl_outbox_put(&box, message, T0));
    assert_int_equal(end(sl_outbox_next(&box, T0), 200, T0), SL_FATE_DELIVERED);
    assert_true(sl_outbox_put(&box, message, T0));
    assert_false(sl_outbox_put(&box, message, T0));
}

/* A flood of warnings while an alarm is raised: the alarm is let in. */
static void some_places_are_not_for_warnings(void **state)
{
    (void)state;
    message->kind = SL_NOTICE_LIMIT_WARNING;
    for (unsigned i = 0; i < SL_OUTBOX_MAX - SL_OUTBOX_RESERVED; i++)
        assert_true(sl_outbox_put(&box, message, T0));
    assert_false(sl_outbox_put(&box, message, T0));
    message->kind = SL_NOTICE_ALARM;
    for (unsigned i = 0; i < SL_OUTBOX_RESERVED; i++)
        assert_true(sl_outbox_put(&box, message, T0));
    assert_false(sl_outbox_put(&box, message, T0));
}

static void so_many_are_under_way_at_once(void **state)
{
    struct sl_delivery *flying[SL_OUTBOX_FLYING];

    (void)state;
    for (unsigned i = 0; i < SL_OUTBOX_FLYING + 1; i++)
        sl_outbox_put(&box, message, T0);
    for (unsigned i = 0; i < SL_OUTBOX_FLYING; i++) {
        flying[i] = sl_outbox_next(&box, T0);
        assert_int_equal(flying[i]->number, i); /* in order */
    }
    assert_null(sl_outbox_next(&box, T0));
    assert_int_equal(sl_outbox_due_us(&box), UINT64_MAX);
    end(flying[2], 204, T0);
    assert_int_equal(sl_outbox_due_us(&box), T0);
    assert_int_equal(sl_outbox_next(&box, T0)->number, SL_OUTBOX_FLYING);
}

static void what_becomes_of_an_answer(void **state)
{
    static const struct {
        unsigned status;
        enum sl_fate fate;
    } rows[] = {{200, SL_FATE_DELIVERED}, {202, SL_FATE_DELIVERED}, {299, SL_FATE_DELIVERED}, {0, SL_FATE_RETRIED},
                {408, SL_FATE_RETRIED},   {429, SL_FATE_RETRIED},   {500, SL_FATE_RETRIED},   {503, SL_FATE_RETRIED},
                {599, SL_FATE_RETRIED},   {301, SL_FATE_FAILED},    {307, SL_FATE_FAILED},    {400, SL_FATE_FAILED},
                {401, SL_FATE_FAILED},    {404, SL_FATE_FAILED},    {410, SL_FATE_FAILED},    {600, SL_FATE_FAILED}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sl_outbox_put(&box, message, T0);
        assert_int_equal(end(sl_outbox_next(&box, T0), rows[i].status, T0), rows[i].fate);
        sl_outbox_fini(&box);
    }
}

/* Waits are drawn from [1 s, 3 x the last], at most 5 minutes: here always the longest. */
static void waits_grow_up_to_a_bound(void **state)
{
    uint64_t now = T0, last = SL_OUTBOX_WAIT_US;

    (void)state;
    sl_outbox_put(&box, message, now);
    for (unsigned i = 0; i < 9; i++) {
        struct sl_delivery *delivery = sl_outbox_next(&box, now);
        uint64_t most = 3 * last > SL_OUTBOX_WAIT_MAX_US ? SL_OUTBOX_WAIT_MAX_US : 3 * last;
        uint64_t span = most - SL_OUTBOX_WAIT_US;

        assert_non_null(delivery);
        assert_int_equal(sl_outbox_done(&box, delivery, &(struct sl_attempt){.status = 503}, now, span),
                         SL_FATE_RETRIED);
        assert_int_equal(sl_outbox_due_us(&box) - now, most);
        assert_null(sl_outbox_next(&box, now + most - 1));
        last = most;
        now += most;
    }
    assert_int_equal(last, SL_OUTBOX_WAIT_MAX_US);
}

static void it_is_given_up_when_it_is_old(void **state)
{
    uint64_t now = T0, last = SL_OUTBOX_WAIT_US;
    enum sl_fate fate = SL_FATE_RETRIED;
    unsigned tries = 0;

    (void)state;
    sl_outbox_put(&box, message, now);
    while (fate == SL_FATE_RETRIED) {
        struct sl_delivery *delivery = sl_outbox_next(&box, now);

        assert_non_null(delivery);
        tries++;
        last = 3 * last > SL_OUTBOX_WAIT_MAX_US ? SL_OUTBOX_WAIT_MAX_US : 3 * last;
        fate = sl_outbox_done(&box, delivery, &(struct sl_attempt){0}, now, last - SL_OUTBOX_WAIT_US);
        now = fate == SL_FATE_RETRIED ? sl_outbox_due_us(&box) : now;
        assert_true(now - T0 <= SL_OUTBOX_AGE_US);
    }
    assert_int_equal(fate, SL_FATE_FAILED);
    assert_true(tries > 10 && tries < SL_OUTBOX_TRIES);
    assert_int_equal(box.n, 0);
}

static void it_is_given_up_after_so_many_tries(void **state)
{
    uint64_t now = T0;

    (void)state;
    sl_outbox_put(&box, message, now);
    for (unsigned i = 1; i < SL_OUTBOX_TRIES; i++, now += SECOND) /* the shortest waits */
        assert_int_equal(end(sl_outbox_next(&box, now), 500, now), SL_FATE_RETRIED);
    assert_int_equal(end(sl_outbox_next(&box, now), 500, now), SL_FATE_FAILED);
}

static void one_that_waits_keeps_nobody_else(void **state)
{
    (void)state;
    sl_outbox_put(&box, message, T0);
    end(sl_outbox_next(&box, T0), 500, T0);
    sl_outbox_put(&box, message, T0);
    assert_int_equal(sl_outbox_next(&box, T0)->number, 1);
}

static void a_receiver_that_asks_for_silence_gets_it(void **state)
{
    struct sl_attempt busy = {.status = 429, .retry_after_us = 60 * SECOND};

    (void)state;
    sl_outbox_put(&box, message, T0);
    sl_outbox_put(&box, message, T0);
    assert_int_equal(sl_outbox_done(&box, sl_outbox_next(&box, T0), &busy, T0, 0), SL_FATE_RETRIED);
    assert_null(sl_outbox_next(&box, T0 + 60 * SECOND - 1)); /* the other one too */
    assert_int_equal(sl_outbox_due_us(&box), T0 + 60 * SECOND);
    assert_int_equal(sl_outbox_next(&box, T0 + 60 * SECOND)->number, 0);
}

static void silence_has_bounds(void **state)
{
    struct sl_attempt busy = {.status = 503, .retry_after_us = UINT64_MAX};

    (void)state;
    sl_outbox_put(&box, message, T0);
    sl_outbox_done(&box, sl_outbox_next(&box, T0), &busy, T0, 0);
    assert_int_equal(sl_outbox_due_us(&box), T0 + SL_OUTBOX_ASKED_MAX_US);
    sl_outbox_fini(&box);
    box = (struct sl_outbox){0};
    busy.retry_after_us = 1; /* not sooner than it would be tried anyway */
    sl_outbox_put(&box, message, T0);
    sl_outbox_done(&box, sl_outbox_next(&box, T0), &busy, T0, 0);
    assert_int_equal(sl_outbox_due_us(&box), T0 + SL_OUTBOX_WAIT_US);
}

static void at_the_end_nothing_waits(void **state)
{
    struct sl_attempt busy = {.status = 429, .retry_after_us = 60 * SECOND};

    (void)state;
    sl_outbox_put(&box, message, T0);
    sl_outbox_done(&box, sl_outbox_next(&box, T0), &busy, T0, 0);
    assert_null(sl_outbox_next(&box, T0));
    sl_outbox_hurry(&box);
    assert_int_equal(sl_outbox_due_us(&box), 0);
    assert_int_equal(end(sl_outbox_next(&box, T0), 503, T0), SL_FATE_FAILED); /* its last chance */
    assert_int_equal(box.n, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(it_is_full_at_its_bound),
        TEST(some_places_are_not_for_warnings),
        TEST(so_many_are_under_way_at_once),
        TEST(what_becomes_of_an_answer),
        TEST(waits_grow_up_to_a_bound),
        TEST(it_is_given_up_when_it_is_old),
        TEST(it_is_given_up_after_so_many_tries),
        TEST(one_that_waits_keeps_nobody_else),
        TEST(a_receiver_that_asks_for_silence_gets_it),
        TEST(silence_has_bounds),
        TEST(at_the_end_nothing_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
