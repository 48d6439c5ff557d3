/* Sentinels: finding the master, following a failover, and Sentinels that are dead, wrong or behind the times. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SENTINELS 3

static struct rig rig;
static struct server master, replica, sentinels[SENTINELS];
static char address[256];

/* A Sentinel is redis-server with its own kind of file, which it rewrites. */
static void start_sentinel(struct server *s, int master_port)
{
    static char config[SENTINELS][128];
    unsigned i = (unsigned)(s - sentinels);
    FILE *file;

    *s = (struct server){.folder = "/tmp/sluice-client-XXXXXX", .port = free_port()};
    assert_non_null(mkdtemp(s->folder));
    snprintf(config[i], sizeof config[i], "%s/sentinel.conf", s->folder);
    file = fopen(config[i], "w");
    assert_non_null(file);
    fprintf(file,
            "port %d\nbind 127.0.0.1\nunixsocket %s/socket\ndir %s\nlogfile log\n"
            "sentinel monitor main 127.0.0.1 %d 2\nsentinel down-after-milliseconds main 400\n"
            "sentinel failover-timeout main 3000\n",
            s->port, s->folder, s->folder, master_port);
    assert_int_equal(fclose(file), 0);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        execlp("redis-server", "redis-server", config[i], "--sentinel", (char *)NULL);
        _exit(127);
    }
    server_wait(s);
}

static void start_all(void)
{
    char port[8];

    server_start(&master, WORDS("--repl-diskless-sync-delay", "0"));
    server_start(&replica, WORDS("--repl-diskless-sync-delay", "0"));
    snprintf(port, sizeof port, "%d", master.port);
    server_cli(&replica, WORDS("REPLICAOF", "127.0.0.1", port));
    for (int i = 0; i < SENTINELS; i++)
        start_sentinel(&sentinels[i], master.port);
    snprintf(address, sizeof address, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/main", sentinels[0].port,
             sentinels[1].port, sentinels[2].port);
}

static void stop_all(void)
{
    for (int i = 0; i < SENTINELS; i++)
        server_remove(&sentinels[i]);
    server_remove(&replica);
    server_remove(&master);
}

/* All know each other and the replica: only then a failover can be agreed on. */
static bool are_agreed(void)
{
    for (int i = 0; i < SENTINELS; i++) {
        char command[256];

        snprintf(command, sizeof command,
                 "redis-cli -s %s/socket SENTINEL master main | tr '\\n' ' ' | grep -q "
                 "'num-slaves 1 num-other-sentinels 2 ' && redis-cli -s %s/socket SENTINEL replicas main | "
                 "tr '\\n' ' ' | grep -q 'master-link-status ok '",
                 sentinels[i].folder, sentinels[i].folder);
        if (system(command) != 0)
            return false;
    }
    return true;
}

static void wait_for_agreement(void)
{
    for (int i = 0; i < 300; i++) {
        if (are_agreed())
            return;
        rig_run_ms(&rig, 100);
    }
    fail_msg("the Sentinels do not find each other");
}

static bool failed_over(void *ctx)
{
    (void)ctx;
    return rig.failovers > 0;
}

static void test_failover(void **state)
{
    struct answer before, after;

    (void)state;
    start_all();
    rig_init(&rig, address);
    rig_open(&rig);
    before = rig_count(&rig, "k"); /* waits for the master to be found */
    assert_int_equal(before.result, SL_RESULT_OK);
    wait_for_agreement();
    /* A Sentinel that is gone, and one that stands still, are no obstacle: two of three can agree. */
    server_signal(&master, SIGSTOP);
    assert_true(rig_wait_until(&rig, failed_over, NULL));
    rig_until_ok(&rig, "k");
    after = rig_command(&rig, "k", WORDS("INFO", "server"));
    assert_int_equal(after.result, SL_RESULT_OK);
    assert_int_equal(rig.failovers, 1);
    assert_non_null(strstr(rig.said, "main: the master is 127.0.0.1:"));
    /* The old one comes back, thinks it is a master, and is made a replica: nobody goes back to it. */
    server_signal(&master, SIGCONT);
    for (int i = 0; i < 50; i++) {
        rig_run_ms(&rig, 20);
        assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_OK);
    }
    assert_int_equal(rig.failovers, 1);
    rig_close(&rig);
    stop_all();
}

static void test_dead_and_wrong_sentinels_are_passed_over(void **state)
{
    char text[512], dead[64];

    (void)state;
    start_all();
    snprintf(dead, sizeof dead, "127.0.0.1:%d", free_port());
    server_signal(&sentinels[1], SIGSTOP); /* accepts, and never answers */
    /* Nobody there; no Sentinel at all (says so with an error); one that stands still; a good one. */
    snprintf(text, sizeof text, "redis+sentinel://%s,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/main", dead, replica.port,
             sentinels[1].port, sentinels[2].port);
    for (int i = 0; i < 4; i++) { /* it begins with any of them */
        rig_init(&rig, text);
        rig.config.timeout_us = 10000000;
        rig_open(&rig);
        assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_OK);
        rig_close(&rig);
    }
    server_signal(&sentinels[1], SIGCONT);
    stop_all();
}

static bool told_lost(void *ctx)
{
    (void)ctx;
    return strstr(rig.said, "no Sentinel names the master") != NULL;
}

static bool told_found(void *ctx)
{
    (void)ctx;
    return strstr(rig.said, "known again") != NULL;
}

/* Nobody knows a master of that name: no call goes anywhere, and none waits for long. Then somebody does. */
static void test_ignorant_sentinels(void **state)
{
    char port[8];

    (void)state;
    start_all();
    snprintf(address, sizeof address, "redis+sentinel://127.0.0.1:%d/other", sentinels[0].port);
    rig_init(&rig, address);
    rig_open(&rig);
    assert_true(rig_wait_until(&rig, told_lost, NULL));
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_UNREACHABLE);
    snprintf(port, sizeof port, "%d", master.port);
    server_cli(&sentinels[0], WORDS("SENTINEL", "MONITOR", "other", "127.0.0.1", port, "2"));
    assert_true(rig_wait_until(&rig, told_found, NULL));
    rig_until_ok(&rig, "k");
    rig_close(&rig);
    stop_all();
}

/* A Sentinel that missed a failover names a server that is a replica by now. It says so in the greeting, and the next
 * Sentinel is asked. */
static void test_a_sentinel_behind_the_times(void **state)
{
    char port[8];
    bool misled = false;

    (void)state;
    start_all();
    snprintf(port, sizeof port, "%d", replica.port);
    server_cli(&sentinels[0], WORDS("SENTINEL", "MONITOR", "late", "127.0.0.1", port, "3"));
    snprintf(port, sizeof port, "%d", master.port);
    server_cli(&sentinels[1], WORDS("SENTINEL", "MONITOR", "late", "127.0.0.1", port, "3"));
    snprintf(address, sizeof address, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/late", sentinels[0].port,
             sentinels[1].port);
    for (int i = 0; i < 60 && !misled; i++) { /* it begins with either */
        rig_init(&rig, address);
        rig_open(&rig);
        rig_until_ok(&rig, "k");
        misled = strstr(rig.said, "the server is not a master") != NULL;
        rig_close(&rig);
    }
    assert_true(misled);
    stop_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failover),
        cmocka_unit_test(test_dead_and_wrong_sentinels_are_passed_over),
        cmocka_unit_test(test_ignorant_sentinels),
        cmocka_unit_test(test_a_sentinel_behind_the_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
