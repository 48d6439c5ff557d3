/* What a second reading of the shared tier has found: each test is one mistake that was there. */
#include "../store/redis.h"
#include "fleet/internal.h"
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct redis server;
static struct fleet_kit kit;

static const char *address(const struct redis *r)
{
    static char text[160];

    snprintf(text, sizeof text, "redis+unix://%s", r->socket);
    return text;
}

static int start(void **state)
{
    (void)state;
    server = redis_start(NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(&server);
    return 0;
}

static void open_fleet(const char *yaml, unsigned n)
{
    fleet_open(&kit, address(&server), yaml, n, 0, true);
}

/* ---- order */

/* More requests on one bucket than one call holds: those that were asked first are charged first. */
static void test_calls_of_a_turn_are_sent_in_order(void **state)
{
    struct sluice_request request = fleet_request("k", NULL, 1);
    static struct decided decided[6000];

    (void)state;
    open_fleet("limits: [{name: a, rate: 100/h, burst: 100, coordination: shared, local_factor: 1000}]\n", 1);
    for (unsigned i = 0; i < 6000; i++)
        fleet_begin(&kit.instances[0], &request, &decided[i]);
    for (unsigned i = 0; i < 6000; i++) {
        fleet_finish(&kit, &decided[i]);
        assert_int_equal(decided[i].verdict.allowed, i < 100);
    }
    fleet_close(&kit);
}

/* ---- stores */

struct found {
    size_t n, unknown;
    int64_t remaining;
    bool done;
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_of_a_turn_are_sent_in_order),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
