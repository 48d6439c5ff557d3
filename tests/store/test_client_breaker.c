/* The breaker and the waits between dials: rules, faults, and a random walk beside a plain model. */
#include "store/backoff.h"
#include "store/breaker.h"
#include "store/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000)
#define START (UINT64_C(5000) * MS)
#define MIDDLE_PROBE UINT64_C(100000) /* the random number that makes a wait of exactly 500 ms */

static uint64_t seed = 20260101;

static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* One call that passes and ends at once. */
static void call(struct sl_breaker *b, uint64_t now, enum sl_breaker_result result)
{
    uint32_t generation;

    assert_int_equal(sl_breaker_ask(b, now, now + 10 * MS, MIDDLE_PROBE, &generation), SL_BREAKER_PASS);
    sl_breaker_report(b, now, generation, result, MIDDLE_PROBE);
}

static void open_it(struct sl_breaker *b, uint64_t now)
{
    sl_breaker_init(b);
    for (int i = 0; i < 5; i++)
        call(b, now, SL_BREAKER_TIMED_OUT);
    assert_int_equal(b->state, SL_BREAKER_OPEN);
}

static void test_opens_at_half_of_twenty(void **state)
{
    struct sl_breaker b;

    (void)state;
    sl_breaker_init(&b);
    for (int i = 0; i < 19; i++)
        call(&b, START + (uint64_t)i * MS, i % 2 ? SL_BREAKER_SLOW : SL_BREAKER_GOOD);
    assert_int_equal(b.state, SL_BREAKER_CLOSED); /* 19 calls are too few to tell */
    call(&b, START + 20 * MS, SL_BREAKER_FAILED);
    assert_int_equal(b.state, SL_BREAKER_OPEN); /* 10 of 20 */
    sl_breaker_init(&b);
    for (int i = 0; i < 500; i++)
        call(&b, START + (uint64_t)i, i % 2 && i != 19 ? SL_BREAKER_FAILED : SL_BREAKER_GOOD);
    for (int i = 0; i < 11; i++)
        call(&b, START + 600, SL_BREAKER_GOOD);
    assert_int_equal(b.state, SL_BREAKER_CLOSED);
}

static void test_forgets_after_a_second(void **state)
{
    struct sl_breaker b;

    (void)state;
    sl_breaker_init(&b);
    for (int i = 0; i < 19; i++)
        call(&b, START, SL_BREAKER_FAILED);
    call(&b, START + 1000 * MS, SL_BREAKER_FAILED);
    assert_int_equal(b.state, SL_BREAKER_CLOSED);
    sl_breaker_init(&b);
    for (int i = 0; i < 19; i++)
        call(&b, START, SL_BREAKER_FAILED);
    call(&b, START + 899 * MS, SL_BREAKER_FAILED);
    assert_int_equal(b.state, SL_BREAKER_OPEN);
}

static void test_opens_at_five_timeouts_in_a_row(void **state)
{
    struct sl_breaker b;

    (void)state;
    sl_breaker_init(&b);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            call(&b, START + (uint64_t)round * 3000 * MS + (uint64_t)i * 600 * MS, SL_BREAKER_TIMED_OUT);
        call(&b, START + (uint64_t)round * 3000 * MS + 2500 * MS, SL_BREAKER_GOOD);
    }
    assert_int_equal(b.state, SL_BREAKER_CLOSED);
    for (int i = 0; i < 5; i++) /* far apart, so that only the row counts */
        call(&b, START + 60000 * MS + (uint64_t)i * 5000 * MS, SL_BREAKER_TIMED_OUT);
    assert_int_equal(b.state, SL_BREAKER_OPEN);
}

/* B136: it stayed open until a restart, and afterwards a single error counted as a trip. */
static void test_b136_breaker_closes_again(void **state)
{
    struct sl_breaker b;
    uint32_t generation;

    (void)state;
    open_it(&b, START);
    assert_int_equal(sl_breaker_wait_us(&b, START), 500 * MS);
    assert_int_equal(sl_breaker_ask(&b, START + 499 * MS, START + 510 * MS, 0, &generation), SL_BREAKER_REFUSE);
    assert_int_equal(sl_breaker_ask(&b, START + 500 * MS, START + 510 * MS, 0, &generation), SL_BREAKER_PROBE);
    assert_int_equal(b.state, SL_BREAKER_HALF_OPEN);
    assert_true(sl_breaker_report(&b, START + 501 * MS, generation, SL_BREAKER_GOOD, 0));
    assert_int_equal(b.state, SL_BREAKER_CLOSED);
    assert_int_equal(b.timeouts, 0);
    call(&b, START + 502 * MS, SL_BREAKER_TIMED_OUT);
    for (int i = 0; i < 19; i++)
        call(&b, START + 503 * MS, SL_BREAKER_GOOD);
    assert_int_equal(b.state, SL_BREAKER_CLOSED);
}

/* B138: at the instant of half-open 1,000 calls hit the store that was just coming back. */
static void test_b138_half_open_lets_one_through(void **state)
{
    struct sl_breaker b;
    uint32_t generation;
    int passed = 0;

    (void)state;
    open_it(&b, START);
    for (int i = 0; i < 1000; i++)
        passed += sl_breaker_ask(&b, START + 600 * MS, START + 610 * MS, 0, &generation) != SL_BREAKER_REFUSE;
    assert_int_equal(passed, 1);
}

static void test_a_silent_probe_does_not_wedge(void **state)
{
    struct sl_breaker b;
    uint32_t lost, generation;

    (void)state;
    open_it(&b, START);
    assert_int_equal(sl_breaker_ask(&b, START + 600 * MS, START + 610 * MS, 0, &lost), SL_BREAKER_PROBE);
    assert_int_equal(sl_breaker_ask(&b, START + 610 * MS, START + 620 * MS, 0, &generation), SL_BREAKER_REFUSE);
    /* Its own deadline is past: open again from then on, the shortest wait, and the next probe. */
    assert_int_equal(sl_breaker_ask(&b, START + 611 * MS, START + 621 * MS, 0, &generation), SL_BREAKER_REFUSE);
    assert_int_equal(b.state, SL_BREAKER_OPEN);
    assert_int_equal(sl_breaker_ask(&b, START + 1010 * MS, START + 1020 * MS, 0, &generation), SL_BREAKER_PROBE);
    assert_false(sl_breaker_report(&b, START + 1011 * MS, lost, SL_BREAKER_GOOD, 0)); /* too late for this generation */
    assert_int_equal(b.state, SL_BREAKER_HALF_OPEN);
    sl_breaker_report(&b, START + 1012 * MS, generation, SL_BREAKER_GOOD, 0);
    assert_int_equal(b.state, SL_BREAKER_CLOSED);
}

static void test_only_a_good_probe_closes(void **state)
{
    static const enum sl_breaker_result bad[] = {SL_BREAKER_SLOW, SL_BREAKER_FAILED, SL_BREAKER_TIMED_OUT,
                                                 SL_BREAKER_UNKNOWN};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sl_breaker b;
        uint32_t generation;

        open_it(&b, START);
        assert_int_equal(sl_breaker_ask(&b, START + 600 * MS, START + 610 * MS, 0, &generation), SL_BREAKER_PROBE);
        sl_breaker_report(&b, START + 605 * MS, generation, bad[i], 0);
        assert_int_equal(b.state, SL_BREAKER_OPEN);
        assert_int_equal(sl_breaker_wait_us(&b, START + 605 * MS), 400 * MS);
    }
}

static void test_results_of_an_earlier_generation_change_nothing(void **state)
{
    struct sl_breaker b, before;
    uint32_t old, generation;

    (void)state;
    sl_breaker_init(&b);
    assert_int_equal(sl_breaker_ask(&b, START, START + 10 * MS, 0, &old), SL_BREAKER_PASS);
    for (int i = 0; i < 5; i++)
        call(&b, START, SL_BREAKER_TIMED_OUT);
    before = b;
    assert_false(sl_breaker_report(&b, START + MS, old, SL_BREAKER_GOOD, 0));
    assert_memory_equal(&b, &before, sizeof b);
    assert_int_equal(sl_breaker_ask(&b, START + 700 * MS, START + 710 * MS, 0, &generation), SL_BREAKER_PROBE);
    sl_breaker_report(&b, START + 701 * MS, generation, SL_BREAKER_GOOD, 0);
    for (int i = 0; i < 100; i++)
        assert_false(sl_breaker_report(&b, START + 702 * MS, old, SL_BREAKER_TIMED_OUT, 0));
    assert_int_equal(b.state, SL_BREAKER_CLOSED);
}

static void test_probes_are_spread(void **state)
{
    uint64_t least = UINT64_MAX, most = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        struct sl_breaker b;
        uint32_t generation;
        uint64_t wait;

        sl_breaker_init(&b);
        for (int j = 0; j < 5; j++) {
            sl_breaker_ask(&b, START, START, 0, &generation);
            sl_breaker_report(&b, START, generation, SL_BREAKER_TIMED_OUT, rnd());
        }
        wait = sl_breaker_wait_us(&b, START);
        least = wait < least ? wait : least;
        most = wait > most ? wait : most;
    }
    assert_in_range(least, 400 * MS, 402 * MS);
    assert_in_range(most, 598 * MS, 600 * MS);
}

/* ---- the model: every result with its part of time, and nothing clever */

#define HISTORY 4000

struct model {
    enum sl_breaker_state state;
    unsigned generation, timeouts, n;
    uint64_t next_probe, probe_deadline;
    struct {
        uint64_t part;
        bool bad;
    } history[HISTORY];
};

static void model_open(struct model *m, uint64_t from, uint64_t random)
{
    m->state = SL_BREAKER_OPEN;
    m->generation++;
    m->next_probe = from + 400 * MS + random % (200 * MS + 1);
}

static enum sl_breaker_answer model_ask(struct model *m, uint64_t now, uint64_t deadline, uint64_t random)
{
    if (m->state == SL_BREAKER_HALF_OPEN && now > m->probe_deadline)
        model_open(m, m->probe_deadline, random);
    if (m->state == SL_BREAKER_CLOSED)
        return SL_BREAKER_PASS;
    if (m->state == SL_BREAKER_HALF_OPEN || now < m->next_probe)
        return SL_BREAKER_REFUSE;
    m->state = SL_BREAKER_HALF_OPEN;
    m->generation++;
    m->probe_deadline = deadline;
    return SL_BREAKER_PROBE;
}

static void model_report(struct model *m, uint64_t now, unsigned generation, enum sl_breaker_result result,
                         uint64_t random)
{
    unsigned calls = 0, bad = 0;

    if (generation != m->generation || m->state == SL_BREAKER_OPEN)
        return;
    if (m->state == SL_BREAKER_HALF_OPEN && result != SL_BREAKER_GOOD) {
        model_open(m, now, random);
        return;
    }
    if (m->state == SL_BREAKER_HALF_OPEN) {
        *m = (struct model){.state = SL_BREAKER_CLOSED, .generation = m->generation + 1};
        return;
    }
    if (result == SL_BREAKER_UNKNOWN)
        return;
    assert_true(m->n < HISTORY);
    m->history[m->n].part = now / (100 * MS);
    m->history[m->n++].bad = result != SL_BREAKER_GOOD;
    m->timeouts = result == SL_BREAKER_TIMED_OUT ? m->timeouts + 1 : 0;
    for (unsigned i = 0; i < m->n; i++) {
        if (m->history[i].part + 10 > now / (100 * MS)) {
            calls++;
            bad += m->history[i].bad;
        }
    }
    if (m->timeouts >= 5 || (calls >= 20 && 2 * bad >= calls))
        model_open(m, now, random);
}

static void test_random_walk_beside_the_model(void **state)
{
    enum { OPEN_CALLS = 64 };
    static struct model m;
    unsigned visits[3] = {0};

    (void)state;
    for (int walk = 0; walk < 300; walk++) {
        struct sl_breaker b;
        struct {
            uint32_t generation;
            unsigned model_generation;
        } calls[OPEN_CALLS];
        unsigned n = 0, badness = (unsigned)(rnd() % 100);
        uint64_t now = START + rnd() % 1000000;

        memset(&m, 0, sizeof m);
        sl_breaker_init(&b);
        for (int step = 0; step < 2000; step++) {
            uint64_t random = rnd();

            now += rnd() % 20 == 0 ? rnd() % (700 * MS) : rnd() % (20 * MS);
            if (step % 300 == 0)
                badness = (unsigned)(rnd() % 100);
            if (n < OPEN_CALLS && rnd() % 2) {
                uint64_t deadline = now + rnd() % (30 * MS);
                enum sl_breaker_answer answer = sl_breaker_ask(&b, now, deadline, random, &calls[n].generation);

                assert_int_equal(answer, model_ask(&m, now, deadline, random));
                calls[n].model_generation = m.generation;
                n += answer != SL_BREAKER_REFUSE;
            } else if (n) {
                unsigned i = (unsigned)(rnd() % n);
                enum sl_breaker_result result =
                    rnd() % 100 >= badness ? SL_BREAKER_GOOD : (enum sl_breaker_result)(SL_BREAKER_SLOW + rnd() % 4);

                sl_breaker_report(&b, now, calls[i].generation, result, random);
                model_report(&m, now, calls[i].model_generation, result, random);
                calls[i] = calls[--n];
            }
            assert_int_equal(b.state, m.state);
            visits[b.state]++;
        }
    }
    assert_true(visits[0] > 10000 && visits[1] > 1000 && visits[2] > 10000); /* the walk has been everywhere */
}

/* B140: 20 daemons of 16 connections dialled in lockstep at 0, 50, 100 ms, ... Here: in whatever second after the
 * first, no 100 ms hold more than a fifth of its dials. */
static void test_b140_dials_are_spread(void **state)
{
    enum { CONNECTIONS = 320, PARTS = 300 };
    static unsigned dials[PARTS];

    (void)state;
    for (int i = 0; i < CONNECTIONS; i++) {
        struct sl_backoff backoff = {.base_us = SL_CLIENT_BACKOFF_BASE_US, .cap_us = SL_CLIENT_BACKOFF_CAP_US};

        for (uint64_t t = 0; t < 100 * MS * PARTS; t += sl_backoff_next_us(&backoff, rnd()))
            dials[t / (100 * MS)]++;
    }
    for (int second = 10; second + 10 <= PARTS; second++) {
        unsigned most = 0, total = 0;

        for (int i = second; i < second + 10; i++) {
            most = dials[i] > most ? dials[i] : most;
            total += dials[i];
        }
        assert_true(total > CONNECTIONS / 3); /* nobody has given up */
        assert_true(most * 5 <= total);
    }
}

static void test_waits_grow_to_the_cap_and_start_anew(void **state)
{
    struct sl_backoff backoff = {.base_us = 20 * MS, .cap_us = 1000 * MS};
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t wait = sl_backoff_next_us(&backoff, UINT64_MAX / 7 * (uint64_t)i);
        uint64_t most = last ? 3 * last : 60 * MS;

        assert_in_range(wait, 20 * MS, most < 1000 * MS ? most : 1000 * MS);
        last = wait;
    }
    sl_backoff_reset(&backoff);
    assert_true(sl_backoff_next_us(&backoff, UINT64_MAX) <= 60 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_at_half_of_twenty),
        cmocka_unit_test(test_forgets_after_a_second),
        cmocka_unit_test(test_opens_at_five_timeouts_in_a_row),
        cmocka_unit_test(test_b136_breaker_closes_again),
        cmocka_unit_test(test_b138_half_open_lets_one_through),
        cmocka_unit_test(test_a_silent_probe_does_not_wedge),
        cmocka_unit_test(test_only_a_good_probe_closes),
        cmocka_unit_test(test_results_of_an_earlier_generation_change_nothing),
        cmocka_unit_test(test_probes_are_spread),
        cmocka_unit_test(test_random_walk_beside_the_model),
        cmocka_unit_test(test_b140_dials_are_spread),
        cmocka_unit_test(test_waits_grow_to_the_cap_and_start_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
