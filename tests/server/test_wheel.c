/* The timing wheel: never early, at most a tick late, however deadlines are moved. */
#include "server/wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define N 500

struct item {
    struct sl_wheel_node node; /* first */
    unsigned fired;
};

static struct sl_wheel wheel;
static struct item items[N];
static uint64_t now_ms;
static uint32_t random_state;

static uint32_t next_random(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static void on_expired(struct sl_wheel_node *node)
{
    struct item *item = (struct item *)node;

    assert_true(node->deadline_ms <= now_ms);
    assert_true(now_ms - node->deadline_ms <= 2 * SL_WHEEL_TICK_MS);
    item->fired++;
    /* Some begin anew at once, also in the past. */
    if (next_random(4) == 0)
        sl_wheel_set(&wheel, node, now_ms + next_random(3) * 100000);
    else
        node->deadline_ms = UINT64_MAX;
}

static void deadlines_fire_on_time(void **state)
{
    (void)state;
    random_state = 7;
    now_ms = 1000003;
    memset(items, 0, sizeof items);
    sl_wheel_init(&wheel, now_ms);
    for (int i = 0; i < N; i++)
        sl_wheel_set(&wheel, &items[i].node, now_ms + next_random(200000));
    for (int step = 0; step < 40000; step++) {
        struct item *item = &items[next_random(N)];

        now_ms += next_random(2 * SL_WHEEL_TICK_MS) / 2;
        switch (next_random(3)) {
        case 0:
            sl_wheel_set(&wheel, &item->node, now_ms + next_random(120000));
            break;
        case 1:
            if (next_random(10) == 0) {
                sl_wheel_remove(&item->node);
                item->node.deadline_ms = UINT64_MAX;
            }
            break;
        default:
            break;
        }
        sl_wheel_advance(&wheel, now_ms, on_expired);
        for (int i = 0; i < N; i += 97)
            assert_true(items[i].node.deadline_ms >= now_ms - 2 * SL_WHEEL_TICK_MS);
    }
    unsigned fired = 0;

    for (int i = 0; i < N; i++)
        fired += items[i].fired;
    assert_true(fired > N);
}

static unsigned n_late;

static void on_late(struct sl_wheel_node *node)
{
    (void)node;
    n_late++;
}

static void a_long_sleep_fires_everything_once(void **state)
{
    (void)state;
    now_ms = 5000;
    memset(items, 0, sizeof items);
    sl_wheel_init(&wheel, now_ms);
    for (int i = 0; i < N; i++)
        sl_wheel_set(&wheel, &items[i].node, now_ms + (uint64_t)i * 1000);
    sl_wheel_advance(&wheel, now_ms + 10000000, on_late);
    assert_int_equal(n_late, N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_fire_on_time),
        cmocka_unit_test(a_long_sleep_fires_everything_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
