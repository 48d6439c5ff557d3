/* Time order within a window, against a plain model that looks at every event. */
#include "replay/reorder.h"

#include "base/err.h"
#include "replay/event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define S UINT64_C(1000000)
#define N 3000

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % n;
}

/* What came out: the events by number, each with the time it is decided at and whether it was late. */
struct given {
    size_t n;
    size_t index[N];
    uint64_t t_us[N];
    bool late[N];
};

/* Events are told apart by their address in this array. */
static char names[N];

static struct sl_event *event(size_t i)
{
    return (struct sl_event *)(void *)&names[i];
}

static void note(struct given *given, const void *got, uint64_t t_us, bool late)
{
    given->index[given->n] = (size_t)((const char *)got - names);
    given->t_us[given->n] = t_us;
    given->late[given->n++] = late;
}

static void run(uint64_t window_us, const uint64_t *times, size_t n, struct given *given)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_reorder *r;
    struct sl_event *got;
    uint64_t t_us;
    bool late;

    given->n = 0;
    assert_int_equal(sl_reorder_new(&alloc, window_us, &r), 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sl_reorder_push(r, times[i], event(i)), 0);
        while (sl_reorder_pop(r, &got, &t_us, &late))
            note(given, got, t_us, late);
        assert_int_equal(sl_reorder_waiting(r), i + 1 - given->n);
    }
    while (sl_reorder_pop_early(r, &got, &t_us))
        note(given, got, t_us, false);
    assert_int_equal(given->n, n);
    sl_reorder_free(r);
}

/* The rule itself: wait with everything; after each arrival give out, oldest and first come first, what is at least a
 * window older than the latest. */
static void model(uint64_t window_us, const uint64_t *times, size_t n, struct given *given)
{
    static bool gone[N];
    uint64_t newest = 0, latest = 0;

    memset(gone, 0, sizeof gone);
    given->n = 0;
    for (size_t i = 0; i <= n; i++) {
        uint64_t start;

        if (i < n && times[i] > newest)
            newest = times[i];
        start = newest > window_us ? newest - window_us : 0;
        if (i < n && times[i] < start) {
            latest = times[i] > latest ? times[i] : latest;
            note(given, &names[i], latest, true);
            gone[i] = true;
        }
        for (;;) {
            size_t best = n;

            for (size_t j = 0; j < n && j <= i; j++) {
                if (!gone[j] && (i == n || times[j] <= start) && (best == n || times[j] < times[best]))
                    best = j;
            }
            if (best == n)
                break;
            gone[best] = true;
            latest = times[best];
            note(given, &names[best], latest, false);
        }
    }
}

static void agree(uint64_t window_us, const uint64_t *times, size_t n)
{
    static struct given got, want;

    run(window_us, times, n, &got);
    model(window_us, times, n, &want);
    for (size_t i = 0; i < n; i++) {
        if (got.index[i] != want.index[i] || got.t_us[i] != want.t_us[i] || got.late[i] != want.late[i])
            fail_msg("window %" PRIu64 ", place %zu: got %zu at %" PRIu64 ", right is %zu at %" PRIu64, window_us, i,
                     got.index[i], got.t_us[i], want.index[i], want.t_us[i]);
    }
}

static void b186_sixty_seconds_of_disorder_are_put_in_order(void **state)
{
    uint64_t times[600];
    static struct given given;

    (void)state;
    for (size_t i = 0; i < 600; i++)
        times[i] = (1000 + i + (i % 3 == 0 ? 0 : i % 3 == 1 ? 30 : 60)) * S;
    run(60 * S, times, 600, &given);
    for (size_t i = 0; i < 600; i++) {
        assert_false(given.late[i]);
        assert_true(i == 0 || given.t_us[i] >= given.t_us[i - 1]);
        assert_int_equal(given.t_us[i], times[given.index[i]]);
    }
    agree(60 * S, times, 600);
}

static void b186_a_step_back_of_twenty_minutes_is_late_and_decided_now(void **state)
{
    uint64_t times[200];
    static struct given given;
    size_t late = 0;

    (void)state;
    for (size_t i = 0; i < 200; i++)
        times[i] = (10000 + i - (i >= 100 && i < 150 ? 1200 : 0)) * S;
    run(60 * S, times, 200, &given);
    for (size_t i = 0; i < 200; i++) {
        late += given.late[i];
        assert_true(i == 0 || given.t_us[i] >= given.t_us[i - 1]);
        if (given.late[i])
            assert_int_equal(given.t_us[i], 10039 * S);
    }
    assert_int_equal(late, 50);
    agree(60 * S, times, 200);
}

static void equal_times_keep_their_order(void **state)
{
    uint64_t times[300];
    static struct given given;

    (void)state;
    for (size_t i = 0; i < 300; i++)
        times[i] = (100 - i % 3) * S;
    run(60 * S, times, 300, &given);
    for (size_t i = 1; i < 300; i++)
        assert_true(given.t_us[i] > given.t_us[i - 1] || given.index[i] > given.index[i - 1]);
}

static void the_edge_of_the_window_is_inside(void **state)
{
    const uint64_t times[] = {100 * S, 160 * S, 100 * S, 160 * S + 1, 100 * S, 100 * S + 1};
    static struct given given;

    (void)state;
    run(60 * S, times, 6, &given);
    assert_int_equal(given.index[0], 0);
    assert_int_equal(given.index[1], 2);
    assert_false(given.late[1]);
    assert_int_equal(given.index[2], 4);
    assert_true(given.late[2]);
    assert_int_equal(given.index[3], 5);
    assert_false(given.late[3]);
    agree(60 * S, times, 6);
}

static void no_window_takes_events_as_they_come(void **state)
{
    const uint64_t times[] = {5, 3, 5, 9, 8, 10, 0};
    const uint64_t decided[] = {5, 5, 5, 9, 9, 10, 10};
    static struct given given;

    (void)state;
    run(0, times, 7, &given);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(given.index[i], i);
        assert_int_equal(given.t_us[i], decided[i]);
        assert_int_equal(given.late[i], times[i] < decided[i]);
    }
    agree(0, times, 7);
}

static void events_given_out_early_make_older_ones_late(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_reorder *r;
    struct sl_event *got;
    uint64_t t_us;
    bool late;

    (void)state;
    assert_int_equal(sl_reorder_new(&alloc, 60 * S, &r), 0);
    assert_int_equal(sl_reorder_push(r, 100 * S, event(0)), 0);
    assert_int_equal(sl_reorder_push(r, 105 * S, event(1)), 0);
    assert_true(sl_reorder_pop_early(r, &got, &t_us));
    assert_ptr_equal(got, event(0));
    assert_true(sl_reorder_pop_early(r, &got, &t_us));
    assert_int_equal(t_us, 105 * S);
    assert_int_equal(sl_reorder_push(r, 103 * S, event(2)), 0);
    assert_true(sl_reorder_pop(r, &got, &t_us, &late));
    assert_true(late);
    assert_int_equal(t_us, 105 * S);
    assert_int_equal(sl_reorder_push(r, 105 * S, event(3)), 0);
    assert_false(sl_reorder_pop(r, &got, &t_us, &late));
    assert_true(sl_reorder_pop_early(r, &got, &t_us));
    assert_ptr_equal(got, event(3));
    assert_false(sl_reorder_pop_early(r, &got, &t_us));
    sl_reorder_free(r);
    sl_reorder_free(NULL);
}

/* Whole and broken seconds, near order and none, standing still, leaps, and every size of window. */
static void random_arrivals_agree_with_the_model(void **state)
{
    static const uint64_t windows[] = {0, 1, S / 2, S, 3 * S, 60 * S, 7200 * S, 86400 * S};

    (void)state;
    for (int round = 0; round < 240; round++) {
        static uint64_t times[N];
        uint64_t window = windows[round % 8], unit = random_below(2) ? S : 1 + random_below(S),
                 now = random_below(1000);
        uint64_t jitter = 1 + random_below(2 * (window / unit) + 3);
        size_t n = 1 + random_below(400);

        for (size_t i = 0; i < n; i++) {
            now += random_below(4) ? 0 : random_below(1 + jitter / 4);
            if (random_below(100) == 0)
                now += random_below(8 * (window / unit) + 10);
            times[i] = (now + random_below(jitter)) * unit + (random_below(4) ? 0 : random_below(unit));
        }
        agree(window, times, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b186_sixty_seconds_of_disorder_are_put_in_order),
        cmocka_unit_test(b186_a_step_back_of_twenty_minutes_is_late_and_decided_now),
        cmocka_unit_test(equal_times_keep_their_order),
        cmocka_unit_test(the_edge_of_the_window_is_inside),
        cmocka_unit_test(no_window_takes_events_as_they_come),
        cmocka_unit_test(events_given_out_early_make_older_ones_late),
        cmocka_unit_test(random_arrivals_agree_with_the_model),
    };
    const char *given = getenv("SLUICE_SEED");

    random_state = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("SLUICE_SEED=%" PRIu64 "\n", random_state);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
