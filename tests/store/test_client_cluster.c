/* A Cluster of six: every slot, resharding under load, a master that stands still and one that is killed. */
#include "rig.h"
#include "store/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NODES 6

static struct rig rig;
static struct server nodes[NODES];
static char addresses[NODES][24], url[256];

static int start_cluster(void **state)
{
    const char *create[NODES + 8] = {"redis-cli", "--cluster", "create"};

    (void)state;
    for (int i = 0; i < NODES; i++) {
        server_start(&nodes[i], WORDS("--cluster-enabled", "yes", "--cluster-node-timeout", "1500",
                                      "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"));
        snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%d", nodes[i].port);
        create[3 + i] = addresses[i];
    }
    create[3 + NODES] = "--cluster-replicas";
    create[4 + NODES] = "1";
    create[5 + NODES] = "--cluster-yes";
    run_program(create);
    snprintf(url, sizeof url, "redis+cluster://%s,%s,%s", addresses[0], addresses[1], addresses[2]);
    return 0;
}

static int stop_cluster(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        server_remove(&nodes[i]);
    return 0;
}

/* It sees all slots served, nobody failing, and it has a replica, or its master, in step. */
static bool is_well(const struct server *server)
{
    char command[512];

    snprintf(command, sizeof command,
             "cd %s && redis-cli -s socket CLUSTER INFO >info && redis-cli -s socket INFO replication >>info && "
             "redis-cli -s socket CLUSTER NODES >nodes && grep -q cluster_state:ok info && "
             "grep -q cluster_slots_ok:16384 info && grep -Eq 'connected_slaves:[1-9]|link_status:up' info && "
             "! grep -q fail nodes",
             server->folder);
    return system(command) == 0;
}

static void wait_for_cluster(void)
{
    for (int i = 0; i < 300; i++) {
        int bad = 0;

        for (int j = 0; j < NODES && !bad; j++)
            bad += nodes[j].pid && !is_well(&nodes[j]);
        if (!bad)
            return;
        rig_run_ms(&rig, 100);
    }
    fail_msg("the cluster does not come together");
}

/* The node whose port serves `slot`, as the cluster says. */
static struct server *owner_of(unsigned slot)
{
    char command[512], line[64] = "";
    FILE *pipe;

    for (int i = 0; i < NODES; i++) {
        if (!nodes[i].pid)
            continue;
        snprintf(command, sizeof command,
                 "redis-cli -s %s/socket CLUSTER NODES | awk -v s=%u '/master/ && !/fail/ "
                 "{ for (i = 9; i <= NF; i++) { split($i, r, \"-\"); if (r[2] == \"\") r[2] = r[1]; "
                 "if (r[1] + 0 <= s && s <= r[2] + 0 && $i !~ /\\[/) { split($2, a, /[:@]/); print a[2] } } }'",
                 nodes[i].folder, slot);
        pipe = popen(command, "r");
        assert_non_null(pipe);
        if (fgets(line, sizeof line, pipe))
            i = NODES;
        pclose(pipe);
    }
    for (int i = 0; i < NODES; i++) {
        if (nodes[i].port == strtol(line, NULL, 10))
            return &nodes[i];
    }
    fail_msg("nobody owns slot %u", slot);
    return NULL;
}

static void node_id(const struct server *server, char id[static 48])
{
    char command[128];
    FILE *pipe;

    snprintf(command, sizeof command, "redis-cli -s %s/socket CLUSTER MYID", server->folder);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(id, 48, pipe));
    pclose(pipe);
    id[strcspn(id, "\n")] = '\0';
}

/* B115: every key of a call has the same tag, so no call is ever across slots. */
static void test_b115_a_thousand_keys(void **state)
{
    static struct answer answers[1000];
    char key[32];

    (void)state;
    rig_init(&rig, url);
    rig_open(&rig);
    wait_for_cluster();
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < 1000; i++) {
            snprintf(key, sizeof key, "r:{%d}:x", i);
            rig_count_later(&rig, key, &answers[i]);
        }
        for (int i = 0; i < 1000; i++) {
            assert_true(rig_wait(&rig, &answers[i].done));
            assert_int_equal(answers[i].result, SL_RESULT_OK);
            assert_int_equal(answers[i].integer, round);
        }
    }
    assert_int_equal(rig_total(&rig, SL_RESULT_CROSSSLOT), 0);
    assert_int_equal(rig_total(&rig, SL_RESULT_MOVED), 0); /* the map was right from the start */
    assert_true(sl_client_ready(rig.client));
    assert_int_equal(sl_client_group(rig.client, "r:{1}:x", 7), sl_slot_of("1", 1));
    rig_close(&rig);
}

/* ---- load: keeps calls open on many keys, and counts what was said for each */

#define LOAD_KEYS 64

struct load {
    struct answer answers[LOAD_KEYS];
    char keys[LOAD_KEYS][24];
    int64_t counted[LOAD_KEYS]; /* the store's last count */
    uint64_t sent[LOAD_KEYS], ok[LOAD_KEYS], other[LOAD_KEYS];
    enum sl_result bad[LOAD_KEYS]; /* the last that was not well */
};

static struct load load;

static void start_load(void)
{
    memset(&load, 0, sizeof load);
    for (int i = 0; i < LOAD_KEYS; i++) {
        snprintf(load.keys[i], sizeof load.keys[i], "load:{%d}", i);
        load.answers[i].done = true;
        load.answers[i].result = SL_RESULT_CLOSED; /* none yet */
    }
}

/* One turn of the load: whoever is answered calls again. Returns how many were not answered well. */
static unsigned turn_load(bool again)
{
    unsigned failed = 0;

    for (int i = 0; i < LOAD_KEYS; i++) {
        struct answer *answer = &load.answers[i];

        if (!answer->done)
            continue;
        if (answer->times) {
            assert_int_equal(answer->times, 1);
            load.ok[i] += answer->result == SL_RESULT_OK;
            load.other[i] += answer->result != SL_RESULT_OK;
            failed += answer->result != SL_RESULT_OK;
            if (answer->result != SL_RESULT_OK)
                load.bad[i] = answer->result;
            if (answer->result == SL_RESULT_OK) {
                assert_true(answer->integer > load.counted[i]); /* never back, never twice the same */
                load.counted[i] = answer->integer;
            }
            answer->times = 0;
        }
        if (again) {
            rig_count_later(&rig, load.keys[i], answer);
            load.sent[i]++;
        }
    }
    return failed;
}

static void finish_load(void)
{
    for (int i = 0; i < LOAD_KEYS; i++)
        assert_true(rig_wait(&rig, &load.answers[i].done));
    turn_load(false);
}

/* B120 (ASK, MOVED): slots move under load, key by key. Nothing fails, and every call counts once. */
static void test_b120_resharding_under_load(void **state)
{
    struct server *from, *to;
    char from_id[48], to_id[48], command[2048];
    FILE *mover;

    (void)state;
    rig_init(&rig, url);
    rig_open(&rig);
    wait_for_cluster();
    start_load();
    turn_load(true);
    rig_run_ms(&rig, 50);
    from = owner_of(sl_slot_of("0", 1));
    to = owner_of((sl_slot_of("0", 1) + SL_SLOTS / 2) % SL_SLOTS);
    assert_ptr_not_equal(from, to);
    node_id(from, from_id);
    node_id(to, to_id);
    snprintf(
        command, sizeof command,
        "redis-cli --cluster reshard 127.0.0.1:%d --cluster-from %s --cluster-to %s --cluster-slots 600 --cluster-yes "
        "--cluster-pipeline 1 >/dev/null 2>&1",
        from->port, from_id, to_id);
    mover = popen(command, "r");
    assert_non_null(mover);
    for (bool moving = true; moving;) {
        char c;
        fd_set set;

        turn_load(true);
        rig_run_ms(&rig, 1);
        FD_ZERO(&set);
        FD_SET(fileno(mover), &set);
        if (select(fileno(mover) + 1, &set, NULL, NULL, &(struct timeval){.tv_sec = 0}) > 0)
            moving = fread(&c, 1, 1, mover) == 1;
    }
    assert_int_equal(pclose(mover), 0);
    finish_load();
    for (int i = 0; i < LOAD_KEYS; i++) {
        assert_int_equal(load.other[i], 0);
        assert_int_equal(load.ok[i], load.sent[i]);
        assert_int_equal(load.counted[i], load.sent[i]);
    }
    rig_close(&rig);
}

/* A slot in the middle of its move, held there: ASK is followed with ASKING, and the map stays as it is. */
static void test_b120_ask_does_not_change_the_map(void **state)
{
    struct server *from, *to;
    unsigned slot = sl_slot_of("asked", 5);
    char from_id[48], to_id[48], text[8];
    uint64_t moved;

    (void)state;
    rig_init(&rig, url);
    rig_open(&rig);
    wait_for_cluster();
    snprintf(text, sizeof text, "%u", slot);
    from = owner_of(slot);
    to = owner_of((slot + SL_SLOTS / 2) % SL_SLOTS);
    node_id(from, from_id);
    node_id(to, to_id);
    rig_until_ok(&rig, "other");
    server_cli(to, WORDS("CLUSTER", "SETSLOT", text, "IMPORTING", from_id));
    server_cli(from, WORDS("CLUSTER", "SETSLOT", text, "MIGRATING", to_id));
    moved = rig_total(&rig, SL_RESULT_MOVED);
    for (int i = 1; i <= 20; i++) {
        struct answer answer = rig_count(&rig, "asked");

        assert_int_equal(answer.result, SL_RESULT_OK);
        assert_int_equal(answer.integer, i);
    }
    assert_int_equal(rig_total(&rig, SL_RESULT_ASK), 20); /* asked anew each time */
    assert_int_equal(rig_total(&rig, SL_RESULT_MOVED), moved);
    server_cli(to, WORDS("CLUSTER", "SETSLOT", text, "NODE", to_id));
    server_cli(from, WORDS("CLUSTER", "SETSLOT", text, "NODE", to_id));
    assert_int_equal(rig_count(&rig, "asked").integer, 21);
    assert_int_equal(rig_count(&rig, "asked").integer, 22);
    assert_int_equal(rig_total(&rig, SL_RESULT_MOVED), moved + 1); /* once: the map has it now */
    rig_close(&rig);
}

/* Two keys of one slot, one here, one there. */
static void test_tryagain(void **state)
{
    struct server *from, *to;
    unsigned slot = sl_slot_of("pair", 4);
    char from_id[48], to_id[48], text[8], port[8];
    const struct sl_word keys[] = {SL_WORD("{pair}:1"), SL_WORD("{pair}:2")};
    struct sl_script_call call = {.keys = keys, .n_keys = 2, .ask = "", .ask_len = 0};
    struct answer answer = {.done = false};

    (void)state;
    rig_init(&rig, url);
    rig_open(&rig);
    wait_for_cluster();
    snprintf(text, sizeof text, "%u", slot);
    from = owner_of(slot);
    to = owner_of((slot + SL_SLOTS / 2) % SL_SLOTS);
    node_id(from, from_id);
    node_id(to, to_id);
    assert_int_equal(rig_count(&rig, "{pair}:1").result, SL_RESULT_OK);
    assert_int_equal(rig_count(&rig, "{pair}:2").result, SL_RESULT_OK);
    server_cli(to, WORDS("CLUSTER", "SETSLOT", text, "IMPORTING", from_id));
    server_cli(from, WORDS("CLUSTER", "SETSLOT", text, "MIGRATING", to_id));
    snprintf(port, sizeof port, "%d", to->port);
    server_cli(from, WORDS("MIGRATE", "127.0.0.1", port, "{pair}:2", "0", "5000"));
    assert_int_equal(sl_client_script(rig.client, &call, 60000000, rig_done, &answer), SL_RESULT_OK);
    rig_run_ms(&rig, 30);
    assert_false(answer.done); /* neither server has both */
    assert_true(rig_total(&rig, SL_RESULT_TRYAGAIN) > 0);
    server_cli(from, WORDS("MIGRATE", "127.0.0.1", port, "{pair}:1", "0", "5000"));
    assert_true(rig_wait(&rig, &answer.done));
    assert_int_equal(answer.result, SL_RESULT_OK);
    assert_int_equal(answer.integer, 2);
    server_cli(to, WORDS("CLUSTER", "SETSLOT", text, "NODE", to_id));
    server_cli(from, WORDS("CLUSTER", "SETSLOT", text, "NODE", to_id));
    rig_close(&rig);
}

/* B120: the master of some slots stands still or dies. Its replica takes over; other slots never notice. */
static void master_goes(bool killed)
{
    struct server *victim;
    bool victims[LOAD_KEYS];
    unsigned n_victims = 0;
    uint64_t end;

    rig_init(&rig, url);
    rig.config.timeout_us = 2000000;
    rig.config.slow_us = 2000000; /* a busy machine is no reason for a breaker here */
    rig_open(&rig);
    wait_for_cluster();
    start_load();
    for (int i = 0; i < 20; i++) {
        turn_load(true);
        rig_run_ms(&rig, 2);
    }
    finish_load();
    victim = owner_of(sl_slot_of("3", 1));
    for (int i = 0; i < LOAD_KEYS; i++) {
        victims[i] = owner_of(sl_slot_of(load.keys[i], strlen(load.keys[i]))) == victim;
        n_victims += victims[i];
    }
    assert_true(n_victims > 0 && n_victims < LOAD_KEYS);
    start_load();
    if (killed)
        server_kill(victim);
    else
        server_signal(victim, SIGSTOP);
    /* Until every key of its slots is served again. */
    end = uv_hrtime() + RIG_PATIENCE_MS * UINT64_C(1000000);
    /* What was counted before may be lost: a failover loses what was not yet replicated. */
    for (unsigned served = 0; served < n_victims;) {
        assert_true(uv_hrtime() < end);
        turn_load(true);
        rig_run_ms(&rig, 5);
        served = 0;
        for (int i = 0; i < LOAD_KEYS; i++)
            served += victims[i] && load.ok[i] > 0;
    }
    finish_load();
    for (int i = 0; i < LOAD_KEYS; i++) {
        if (!victims[i] && load.other[i])
            fail_msg("%s of another master: %s\n%s", load.keys[i], sl_result_name(load.bad[i]), rig.said);
    }
    assert_true(rig.failovers >= 1);
    for (int i = 0; i < LOAD_KEYS; i++) /* and it stays so */
        assert_int_equal(rig_count(&rig, load.keys[i]).result, SL_RESULT_OK);
    rig_close(&rig);
    if (killed) {
        server_launch(victim);
        server_wait(victim);
    } else {
        server_signal(victim, SIGCONT);
    }
}

static void test_b120_a_master_stands_still(void **state)
{
    (void)state;
    master_goes(false);
}

static void test_b120_a_master_is_killed(void **state)
{
    (void)state;
    master_goes(true);
}

static bool told_lost(void *ctx)
{
    (void)ctx;
    return strstr(rig.said, "no server of the cluster") != NULL;
}

static void test_a_server_that_is_no_cluster(void **state)
{
    struct server single;
    char address[64];

    (void)state;
    server_start(&single, NULL);
    snprintf(address, sizeof address, "redis+cluster://127.0.0.1:%d", single.port);
    rig_init(&rig, address);
    rig_open(&rig);
    assert_true(rig_wait_until(&rig, told_lost, NULL));
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_UNREACHABLE);
    rig_close(&rig);
    server_remove(&single);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b115_a_thousand_keys),
        cmocka_unit_test(test_b120_ask_does_not_change_the_map),
        cmocka_unit_test(test_tryagain),
        cmocka_unit_test(test_b120_resharding_under_load),
        cmocka_unit_test(test_b120_a_master_stands_still),
        cmocka_unit_test(test_b120_a_master_is_killed),
        cmocka_unit_test(test_a_server_that_is_no_cluster),
    };

    return cmocka_run_group_tests(tests, start_cluster, stop_cluster);
}
