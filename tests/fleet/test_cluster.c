/* Decisions whose buckets lie in several slots of a Cluster: all or nothing, with what was charged in vain given back. */
#include "../store/rig.h"
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define MASTERS 3

static struct server nodes[MASTERS];
static char addresses[MASTERS][24], url[256];
static struct fleet_kit kit;

static int start_cluster(void **state)
{
    const char *create[MASTERS + 6] = {"redis-cli", "--cluster", "create"};

    (void)state;
    for (int i = 0; i < MASTERS; i++) {
        server_start(&nodes[i], WORDS("--cluster-enabled", "yes"));
        snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%d", nodes[i].port);
        create[3 + i] = addresses[i];
    }
    create[3 + MASTERS] = "--cluster-yes";
    run_program(create);
    snprintf(url, sizeof url, "redis+cluster://%s", addresses[0]);
    return 0;
}

static int stop_cluster(void **state)
{
    (void)state;
    for (int i = 0; i < MASTERS; i++)
        server_remove(&nodes[i]);
    return 0;
}

static bool knows_all_shards(void *ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < kit.n; i++)
        if (fleet_check(&kit.instances[i], "warm", "warm", 0).source != SLUICE_SHARED)
            return false;
    return true;
}

static void open_fleet(const char *yaml, unsigned n)
{
    fleet_open(&kit, url, yaml, n, 0, true);
    assert_true(fleet_wait(&kit, knows_all_shards, NULL));
}

#define MINE "  - {name: mine, rate: 50/366d, algorithm: fixed_window, coordination: shared, local_factor: 1000}\n"
#define ALL                                                                                                  \
    "  - {name: all, layer: backend, per: [], rate: 40/366d, algorithm: fixed_window, coordination: shared," \
    " local_factor: 1000}\n"

static bool whole_again(void *ctx)
{
    return fleet_check(&kit.instances[0], ctx, NULL, 0).remaining == 50;
}

static void test_charges_in_other_slots_are_given_back(void **state)
{
    (void)state;
    open_fleet("limits:\n" MINE ALL, 1);
    assert_int_equal(fleet_admitted(&kit.instances[0], "a", NULL, 40), 40);
    for (unsigned i = 0; i < 30; i++) { /* each key pays in a slot of its own before `all` refuses */
        char key[16];

        snprintf(key, sizeof key, "late%u", i);
        assert_false(fleet_check(&kit.instances[0], key, NULL, 1).allowed);
    }
    fleet_reload(&kit, "limits:\n" MINE);
    for (unsigned i = 0; i < 30; i++) {
        char key[16];

        snprintf(key, sizeof key, "late%u", i);
        assert_true(fleet_wait(&kit, whole_again, key));
    }
    assert_int_equal(fleet_check(&kit.instances[0], "a", NULL, 0).remaining, 10);
    fleet_close(&kit);
}

static void test_no_limit_is_exceeded_from_several_instances(void **state)
{
    static struct decided decided[3][200];
    unsigned allowed = 0, of[5] = {0};

    (void)state;
    open_fleet("limits:\n  - {name: mine, rate: 9/366d, algorithm: fixed_window, coordination: shared,"
               " local_factor: 1000}\n" ALL,
               3);
    for (unsigned n = 0; n < 200; n++)
        for (unsigned i = 0; i < 3; i++) {
            char key[16];
            struct sluice_request request;

            snprintf(key, sizeof key, "k%u", n % 5);
            request = fleet_request(key, NULL, 1);
            fleet_begin(&kit.instances[i], &request, &decided[i][n]);
            if (n % 7 == 6)
                fleet_turn(&kit);
        }
    for (unsigned n = 0; n < 200; n++)
        for (unsigned i = 0; i < 3; i++) {
            fleet_finish(&kit, &decided[i][n]);
            allowed += decided[i][n].verdict.allowed;
            of[n % 5] += decided[i][n].verdict.allowed;
        }
    assert_in_range(allowed, 1, 40);
    for (unsigned k = 0; k < 5; k++)
        assert_in_range(of[k], 0, 9);
    /* When everything in vain is given back, what is left is there to the token. */
    for (unsigned round = 0; round < 600 && allowed < 40; round++) {
        char key[16];

        snprintf(key, sizeof key, "more%u", round);
        allowed += fleet_check(&kit.instances[round % 3], key, NULL, 1).allowed;
        fleet_run_ms(&kit, 5);
    }
    assert_int_equal(allowed, 40);
    fleet_close(&kit);
}

/* Of 64 parts every master has two, whatever the secret. */
static void test_split_parts_lie_on_several_masters(void **state)
{
    unsigned allowed = 0, with_keys = 0;

    (void)state;
    for (unsigned i = 0; i < MASTERS; i++)
        server_cli(&nodes[i], WORDS("FLUSHALL"));
    open_fleet(
        "limits:\n  - {name: s, per: [], rate: 706/366d, algorithm: fixed_window, coordination: split, split: 64,"
        " local_factor: 1000}\n",
        2);
    for (unsigned i = 0; i < 4000; i++)
        allowed += fleet_check(&kit.instances[i % 2], "k", NULL, 1).allowed;
    assert_int_equal(allowed, 706);
    for (unsigned i = 0; i < MASTERS; i++) {
        char command[256];

        snprintf(command, sizeof command, "test $(redis-cli -p %d DBSIZE | tr -dc 0-9) -ge 2", nodes[i].port);
        with_keys += system(command) == 0;
    }
    assert_int_equal(with_keys, MASTERS);
    fleet_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_charges_in_other_slots_are_given_back),
        cmocka_unit_test(test_no_limit_is_exceeded_from_several_instances),
        cmocka_unit_test(test_split_parts_lie_on_several_masters),
    };

    return cmocka_run_group_tests(tests, start_cluster, stop_cluster);
}
