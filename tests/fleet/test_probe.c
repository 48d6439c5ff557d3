/* What a store tells of itself, and what an operator should know of it. */
#include "../store/rig.h"
#include "base/err.h"
#include "fleet/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct rig rig;
static struct server server;

struct found {
    bool done;
    unsigned times;
    struct sl_probe_result result;
};

static void on_found(void *owner, const struct sl_probe_result *result)
{
    struct found *found = owner;

    found->done = true;
    found->times++;
    found->result = *result;
}

static void open_socket(const char *path)
{
    char address[192];

    snprintf(address, sizeof address, "redis+unix://%s", path);
    rig_init(&rig, address);
}

static void set_up(const char *const *options)
{
    char path[96];

    server_start(&server, options);
    snprintf(path, sizeof path, "%s/socket", server.folder);
    open_socket(path);
    rig_open(&rig);
    rig_until_ok(&rig, "k");
}

static void tear_down(void)
{
    rig_close(&rig);
    server_remove(&server);
}

static int start(struct found *found)
{
    *found = (struct found){.done = false};
    return sl_probe_start(rig.client, &rig.net.net, &rig.alloc, "SLUICE.DECIDE", 0, on_found, found);
}

static struct sl_probe_result ask(void)
{
    struct found found;

    assert_int_equal(start(&found), 0);
    assert_false(found.done);
    assert_true(rig_wait(&rig, &found.done));
    return found.result;
}

static void test_a_server_tells_what_it_is(void **state)
{
    uint64_t now_us = (uint64_t)time(NULL) * 1000000;
    struct sl_probe_result result;

    (void)state;
    set_up(NULL);
    result = ask();
    assert_true(result.answered);
    assert_int_equal(result.result, SL_RESULT_OK);
    assert_true(result.version_known);
    assert_true(result.major >= 6);
    assert_true(result.eviction_known);
    assert_false(result.evicts);
    assert_string_equal(result.eviction, "noeviction");
    assert_true(result.module_known);
    assert_false(result.module);
    assert_true(result.time_known);
    assert_in_range(result.store_us, now_us - 60000000, now_us + 60000000);
    assert_true(result.answered_us >= result.asked_us);
    tear_down();
}

static void test_b124_it_evicts_when_it_has_a_limit_and_a_policy(void **state)
{
    struct sl_probe_result result;
    char text[512];
    bool serious = true;

    (void)state;
    set_up(WORDS("--maxmemory-policy", "volatile-ttl"));
    result = ask();
    assert_string_equal(result.eviction, "volatile-ttl");
    assert_false(result.evicts); /* it has no limit of memory */
    server_cli(&server, WORDS("CONFIG", "SET", "maxmemory", "100mb"));
    result = ask();
    assert_true(result.evicts);
    assert_true(sl_probe_finding(&result, 0, text, sizeof text, &serious));
    assert_non_null(strstr(text, "volatile-ttl"));
    assert_false(serious);
    assert_false(sl_probe_finding(&result, 1, text, sizeof text, &serious));
    tear_down();
}

static void test_what_is_refused_is_not_known(void **state)
{
    struct sl_probe_result result;
    char text[512];
    bool serious;

    (void)state;
    set_up(NULL);
    server_cli(&server, WORDS("ACL", "SETUSER", "default", "-config", "-info", "-command", "-time"));
    result = ask();
    assert_true(result.answered);
    assert_int_equal(result.result, SL_RESULT_NOPERM);
    assert_false(result.version_known || result.eviction_known || result.module_known || result.time_known);
    assert_false(sl_probe_finding(&result, 0, text, sizeof text, &serious));
    tear_down();
}

static void test_a_client_that_goes_answers_once(void **state)
{
    struct found found;

    (void)state;
    set_up(NULL);
    server_signal(&server, SIGSTOP);
    assert_int_equal(start(&found), 0);
    sl_client_free(rig.client);
    rig.client = NULL;
    assert_int_equal(found.times, 1);
    assert_false(found.result.answered);
    tear_down();
}

static void test_what_cannot_be_asked_is_said_at_once(void **state)
{
    struct found found = {.done = false};
    int err = 0;

    (void)state;
    open_socket("/tmp/sluice-probe-nobody-is-here");
    rig_open(&rig);
    for (unsigned i = 0; i < 6000 && err == 0; i++) { /* until the first dial has failed */
        rig_run_ms(&rig, 5);
        err = start(&found);
        if (err == 0)
            assert_true(rig_wait(&rig, &found.done));
    }
    assert_int_equal(err, SL_EBUSY);
    rig_run_ms(&rig, 20);
    assert_int_equal(found.times, 0);
    rig_close(&rig);
}

/* ---- servers we do not have */

static const char *info, *config, *command, *now;

static int speak(struct puppet *puppet, const char *said, char *reply, size_t size)
{
    const char *text = NULL;

    (void)puppet;
    if (strstr(said, "INFO\r\n$6\r\nserver"))
        text = info;
    else if (strstr(said, "CONFIG"))
        text = config;
    else if (strstr(said, "TIME"))
        text = now;
    else if (strstr(said, "SLUICE"))
        text = command;
    if (!text)
        return puppet_politely(said, reply, size);
    if (text == info)
        return snprintf(reply, size, "$%zu\r\n%s\r\n", strlen(text), text);
    return snprintf(reply, size, "%s", text);
}

static struct sl_probe_result ask_puppet(const char *says)
{
    struct puppet puppet = {.speak = speak};
    struct sl_probe_result result;
    char path[64];

    info = says;
    snprintf(path, sizeof path, "/tmp/sluice-probe-%d", (int)getpid());
    open_socket(path);
    puppet_start(&puppet, &rig, path);
    rig_open(&rig);
    result = ask();
    puppet_stop(&puppet);
    rig_close(&rig);
    return result;
}

static void test_versions(void **state)
{
    static const struct {
        const char *info, *version;
        bool known, valkey, too_old;
    } cases[] = {
        {"# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n", "6.2.14", true, false, false},
        {"# Server\r\nredis_version:6.0.16\r\n", "6.0.16", true, false, true},
        {"# Server\r\nredis_version:5.9\r\n", "5.9", true, false, true},
        {"# Server\r\nredis_version:10.0.0\r\n", "10.0.0", true, false, false},
        {"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n", "8.0.1", true, true,
         false},
        {"# Server\r\nredis_version:\r\n", "", false, false, false},
        {"# Server\r\nredis_version:abc\r\n", "abc", false, false, false},
        {"my_redis_version:6.0.1\r\n", "", false, false, false},
        {"", "", false, false, false},
    };

    (void)state;
    config = "*4\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n";
    now = "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n";
    command = "*1\r\n*-1\r\n";
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sl_probe_result result = ask_puppet(cases[i].info);
        char text[512];
        bool serious = false;

        assert_int_equal(result.version_known, cases[i].known);
        assert_string_equal(result.version, cases[i].version);
        assert_int_equal(result.valkey, cases[i].valkey);
        assert_int_equal(sl_probe_finding(&result, 0, text, sizeof text, &serious), cases[i].too_old);
        assert_int_equal(serious, cases[i].too_old);
        assert_true(result.time_known && result.store_us == UINT64_C(1700000000123456));
    }
}

/* Answers of the wrong kind leave things unknown. */
static void test_garbage_is_not_known(void **state)
{
    static const char *const garbage[] = {":7\r\n",
                                          "*0\r\n",
                                          "*2\r\n:1\r\n:2\r\n",
                                          "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
                                          "*2\r\n$2\r\n-1\r\n$1\r\nx\r\n",
                                          "*1\r\n$-1\r\n"};

    (void)state;
    for (unsigned i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        struct sl_probe_result result;

        config = now = command = garbage[i];
        result = ask_puppet("redis_version:7.0\r\n");
        assert_true(result.version_known);
        assert_false(result.time_known);
        assert_false(result.eviction_known);
        assert_false(result.module);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_tells_what_it_is),
        cmocka_unit_test(test_b124_it_evicts_when_it_has_a_limit_and_a_policy),
        cmocka_unit_test(test_what_is_refused_is_not_known),
        cmocka_unit_test(test_a_client_that_goes_answers_once),
        cmocka_unit_test(test_what_cannot_be_asked_is_said_at_once),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_garbage_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
