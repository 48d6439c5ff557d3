/* The client against real servers: TCP, UNIX sockets, TLS, users, databases, restarts and everything a server says no
 * with. */
#include "rig.h"
#include "base/err.h"
#include "store/codec.h"
#include "store/script.h"

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

static struct rig rig;
static struct server server;

static const char *unix_address(const struct server *s, const char *user, const char *rest)
{
    static char text[256];

    snprintf(text, sizeof text, "redis+unix://%s%s/socket%s", user, s->folder, rest);
    return text;
}

static const char *tcp_address(const char *scheme, const char *user_and_host, int port, const char *rest)
{
    static char text[1024];

    snprintf(text, sizeof text, "%s://%s:%d%s", scheme, user_and_host, port, rest);
    return text;
}

static void open_at(const char *address)
{
    rig_init(&rig, address);
    rig_open(&rig);
}

static bool told_disconnected(void *ctx)
{
    (void)ctx;
    return rig.disconnected > 0;
}

static bool told_connected(void *ctx)
{
    (void)ctx;
    return rig.connected > 0;
}

/* ---- B112 */

static void test_b112_noscript_is_no_error(void **state)
{
    struct answer answer;

    (void)state;
    server_start(&server, NULL);
    open_at(unix_address(&server, "", ""));
    assert_int_equal(rig_count(&rig, "k").integer, 1); /* never loaded before */
    assert_int_equal(rig_count(&rig, "k").integer, 2);
    server_cli(&server, WORDS("SCRIPT", "FLUSH"));
    answer = rig_count(&rig, "k");
    assert_int_equal(answer.result, SL_RESULT_OK);
    assert_int_equal(answer.integer, 3); /* and not counted twice */
    assert_int_equal(rig_total(&rig, SL_RESULT_NOSCRIPT), 2);
    server_kill(&server);
    server_launch(&server);
    server_wait(&server);
    rig_until_ok(&rig, "k");
    assert_int_equal(rig_count(&rig, "k").integer, 2);
    rig_close(&rig);
    server_remove(&server);
}

/* Hundreds of calls are on their way when the script is gone: each is counted once. */
static void test_b112_noscript_in_a_pipeline(void **state)
{
    enum { CALLS = 500 };
    static struct answer answers[CALLS];
    bool seen[CALLS + 1] = {false};

    (void)state;
    server_start(&server, NULL);
    open_at(unix_address(&server, "", ""));
    for (int i = 0; i < CALLS; i++)
        rig_count_later(&rig, "k", &answers[i]);
    for (int i = 0; i < CALLS; i++) {
        assert_true(rig_wait(&rig, &answers[i].done));
        assert_int_equal(answers[i].result, SL_RESULT_OK);
        assert_in_range(answers[i].integer, 1, CALLS);
        assert_false(seen[answers[i].integer]);
        seen[answers[i].integer] = true;
    }
    rig_close(&rig);
    server_remove(&server);
}

/* ---- B125, B135, B126 */

static void user_works(const char *login, const char *rest)
{
    open_at(unix_address(&server, login, rest));
    rig_until_ok(&rig, "k");
    assert_int_equal(rig_total(&rig, SL_RESULT_WRONGPASS), 0);
    rig_close(&rig);
}

static void test_b125_users_and_passwords(void **state)
{
    (void)state;
    server_start(&server, NULL);
    server_cli(&server, WORDS("ACL", "SETUSER", "odd", "on", ">p@s:s/w#d%?&+=", "~*", "&*", "+@all"));
    server_cli(&server, WORDS("ACL", "SETUSER", "literal", "on", ">a%3Db=", "~*", "&*", "+@all"));
    server_cli(&server, WORDS("ACL", "SETUSER", "open", "on", "nopass", "~*", "&*", "+@all"));
    server_cli(&server, WORDS("ACL", "SETUSER", "least", "on", ">x", "~*", "+evalsha", "+script|load", "+incr"));
    server_cli(&server, WORDS("ACL", "SETUSER", "default", "on", ">default pass", "~*", "&*", "+@all"));
    user_works("odd:p%40s%3As%2Fw%23d%25%3F%26%2B%3D@", "");
    user_works("literal:a%253Db=@", "");
    user_works("open@", "");
    user_works("open:whatever@", "");
    user_works("least:x@", ""); /* may neither ask for commands nor anything else */
    user_works(":default%20pass@", "");
    rig_init(&rig, unix_address(&server, "odd:wr0ng@", ""));
    rig_open(&rig);
    assert_true(rig_wait_until(&rig, told_disconnected, NULL));
    /* B135: the cause is counted and told, once, and without the secret. */
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_WRONGPASS);
    assert_int_equal(rig.cause, SL_RESULT_WRONGPASS);
    rig_run_ms(&rig, 300);
    assert_int_equal(rig.disconnected, 1);
    assert_non_null(strstr(rig.said, "AUTH was refused: WRONGPASS"));
    assert_null(strstr(rig.said, "wr0ng"));
    assert_true(rig_total(&rig, SL_RESULT_WRONGPASS) > 0);
    rig_close(&rig);
    rig_init(&rig, unix_address(&server, "", ""));
    rig_open(&rig);
    assert_true(rig_wait_until(&rig, told_disconnected, NULL));
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_NOAUTH);
    rig_close(&rig);
    server_remove(&server);
}

/* B126: after a lost connection the keys appeared in database 0. */
static void test_b126_database_after_a_reconnect(void **state)
{
    struct answer answer;

    (void)state;
    server_start(&server, WORDS("--requirepass", "pw"));
    open_at(unix_address(&server, ":pw@", "?db=5"));
    assert_int_equal(rig_count(&rig, "k").integer, 1);
    for (int i = 2; i < 6; i++) {
        server_cli(&server,
                   WORDS("-a", "pw", "--no-auth-warning", "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"));
        rig_run_ms(&rig, 20);
        answer = rig_count(&rig, "k");
        assert_int_equal(answer.result, SL_RESULT_OK);
        assert_int_equal(answer.integer, i);
    }
    assert_true(rig.disconnected > 0);
    rig_close(&rig);
    open_at(unix_address(&server, ":pw@", ""));
    assert_int_equal(rig_command(&rig, NULL, WORDS("DBSIZE")).integer, 0);
    rig_close(&rig);
    open_at(unix_address(&server, ":pw@", "?db=16")); /* there are 16, from 0 */
    assert_true(rig_wait_until(&rig, told_disconnected, NULL));
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_ERROR);
    assert_non_null(strstr(rig.said, "SELECT was refused"));
    assert_int_equal(rig.connected, 0);
    rig_close(&rig);
    server_remove(&server);
}

/* ---- B130 */

static void loss_is_noticed(const char *host)
{
    open_at(tcp_address("redis", host, server.port, ""));
    rig_until_ok(&rig, "k");
    server_kill(&server);
    assert_true(rig_wait_until(&rig, told_disconnected, NULL));
    server_launch(&server);
    server_wait(&server);
    rig_until_ok(&rig, "k");
    rig_close(&rig);
}

static void test_b130_loss_is_noticed_on_every_kind_of_address(void **state)
{
    (void)state;
    server_start(&server, NULL);
    loss_is_noticed("127.0.0.1");
    loss_is_noticed("localhost");
    if (access("/proc/net/if_inet6", R_OK) == 0)
        loss_is_noticed("[::1]");
    server_remove(&server);
}

static void test_addresses_where_nobody_is(void **state)
{
    struct answer answer;

    (void)state;
    open_at(tcp_address("redis", "127.0.0.1", free_port(), ""));
    assert_true(rig_wait_until(&rig, told_disconnected, NULL));
    answer = rig_count(&rig, "k");
    assert_int_equal(answer.result, SL_RESULT_UNREACHABLE);
    assert_non_null(strstr(rig.said, "connection refused"));
    rig_close(&rig);
    open_at("redis://no-such-host.invalid:1");
    assert_true(rig_wait_until(&rig, told_disconnected, NULL));
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_UNREACHABLE);
    rig_close(&rig);
    open_at("redis+unix:///nowhere/at/all");
    assert_true(rig_wait_until(&rig, told_disconnected, NULL));
    rig_close(&rig);
}

/* ---- B128 with a real server: killed and started at whatever moment, under load */

static void test_b128_kill_and_start_under_load(void **state)
{
    enum { CALLS = 64, CYCLES = 40 };
    static struct answer answers[CALLS];
    unsigned good = 0, total = 0;

    (void)state;
    server_start(&server, WORDS("--requirepass", "pw"));
    rig_init(&rig, unix_address(&server, ":pw@", "?db=2"));
    rig.config.timeout_us = 50000;
    rig.config.backoff_base_us = 1000;
    rig.config.backoff_cap_us = 5000;
    rig_open(&rig);
    for (unsigned cycle = 0; cycle < CYCLES; cycle++) {
        for (unsigned round = 0; round < 10; round++) {
            for (int i = 0; i < CALLS; i++)
                rig_count_later(&rig, "k", &answers[i]);
            if (round == 2)
                server_kill(&server);
            else if (round == 3)
                server_launch(&server);
            rig_run_ms(&rig, cycle % 4);
            for (int i = 0; i < CALLS; i++) {
                assert_true(rig_wait(&rig, &answers[i].done));
                assert_int_equal(answers[i].times, 1);
                good += answers[i].result == SL_RESULT_OK;
                total++;
            }
        }
        server_wait(&server);
        rig_until_ok(&rig, "k");
    }
    assert_true(good > total / 10);
    rig_close(&rig);
    server_remove(&server);
}

/* ---- B118: behind one address the master became a replica; the connections answered READONLY for ever */

static void test_b118_readonly_redials(void **state)
{
    struct server other;
    char link[96], target[128], port[8];
    unsigned before;

    (void)state;
    server_start(&server, NULL);
    server_start(&other, NULL);
    snprintf(link, sizeof link, "%s/address", server.folder);
    snprintf(target, sizeof target, "%s/socket", server.folder);
    assert_int_equal(symlink(target, link), 0);
    snprintf(target, sizeof target, "redis+unix://%s", link);
    open_at(target);
    assert_int_equal(rig_count(&rig, "k").integer, 1);
    before = rig.connected;
    snprintf(port, sizeof port, "%d", other.port);
    server_cli(&server, WORDS("REPLICAOF", "127.0.0.1", port));
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_READONLY);
    rig_run_ms(&rig, 100);
    assert_int_equal(unlink(link), 0);
    snprintf(target, sizeof target, "%s/socket", other.folder);
    assert_int_equal(symlink(target, link), 0);
    rig_until_ok(&rig, "k");
    assert_true(rig.connected > before);
    server_cli(&other, WORDS("GET", "k"));
    unlink(link);
    rig_close(&rig);
    server_remove(&other);
    server_remove(&server);
}

/* ---- B124, BUSY */

static void test_b124_memory_full(void **state)
{
    (void)state;
    server_start(&server, NULL);
    open_at(unix_address(&server, "", ""));
    rig_until_ok(&rig, "k");
    server_cli(&server, WORDS("CONFIG", "SET", "maxmemory", "1"));
    for (int i = 0; i < 50; i++)
        assert_int_equal(rig_count(&rig, "new").result, SL_RESULT_OOM);
    assert_int_equal(rig_total(&rig, SL_RESULT_OOM), 50);
    assert_int_equal(rig.opened, 0); /* it answers: that is no reason to stop asking */
    server_cli(&server, WORDS("CONFIG", "SET", "maxmemory", "0"));
    assert_int_equal(rig_count(&rig, "new").result, SL_RESULT_OK);
    rig_close(&rig);
    server_remove(&server);
}

static void test_busy_with_a_script(void **state)
{
    struct rig spinner;
    struct answer spin = {.done = false};
    const struct sl_word words[] = {SL_WORD("EVAL"), SL_WORD("while true do end"), SL_WORD("0")};

    (void)state;
    server_start(&server, WORDS("--busy-reply-threshold", "20"));
    rig_init(&spinner, unix_address(&server, "", ""));
    rig_open(&spinner);
    rig_until_ok(&spinner, "x");
    open_at(unix_address(&server, "", ""));
    rig_until_ok(&rig, "k");
    assert_int_equal(sl_client_command(spinner.client, words, 3, NULL, 60000000, rig_done, &spin), SL_RESULT_OK);
    rig_run_ms(&spinner, 100);
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_BUSY);
    server_cli(&server, WORDS("SCRIPT", "KILL"));
    assert_true(rig_wait(&spinner, &spin.done));
    assert_int_equal(spin.result, SL_RESULT_ERROR);
    rig_until_ok(&rig, "k");
    rig_close(&spinner);
    rig_close(&rig);
    server_remove(&server);
}

/* ---- a server that stands still */

static void test_stopped_server_opens_the_breaker_and_comes_back(void **state)
{
    unsigned timeouts = 0;

    (void)state;
    server_start(&server, NULL);
    rig_init(&rig, unix_address(&server, "", ""));
    rig.config.timeout_us = 50000;
    rig_open(&rig);
    rig_until_ok(&rig, "k");
    server_signal(&server, SIGSTOP);
    while (!rig.opened) {
        enum sl_result result = rig_count(&rig, "k").result;

        assert_true(result == SL_RESULT_TIMEOUT);
        timeouts++;
    }
    assert_int_equal(timeouts, SL_BREAKER_TIMEOUTS);
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_BREAKER); /* at once, with no wait */
    server_signal(&server, SIGCONT);
    rig_until_ok(&rig, "k");
    assert_true(rig.closed >= 1);
    rig_close(&rig);
    server_remove(&server);
}

/* The loop stands still for longer than the deadline while the store answers: the answer counts, not the clock. */
static void test_a_late_loop_reads_before_it_gives_up(void **state)
{
    struct answer answer;

    (void)state;
    server_start(&server, NULL);
    rig_init(&rig, unix_address(&server, "", ""));
    rig.config.timeout_us = 50000;
    rig_open(&rig);
    rig_until_ok(&rig, "k");
    for (int i = 0; i < 10; i++) {
        rig_count_later(&rig, "k", &answer);
        uv_run(&rig.loop, UV_RUN_NOWAIT); /* it is sent, and perhaps already answered */
        if (!answer.done) {
            server_cli(&server, WORDS("PING")); /* it came second, so the call is executed */
            usleep(100000);                     /* the loop stands still beyond the deadline */
        }
        assert_true(rig_wait(&rig, &answer.done));
        assert_int_equal(answer.result, SL_RESULT_OK);
    }
    rig_close(&rig);
    server_remove(&server);
}

/* ---- TLS */

static void make_certificates(const char *folder)
{
    char script[2048];

    snprintf(
        script, sizeof script,
        "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout ca.key -out "
        "ca.pem "
        "-subj /CN=ca && for n in server client; do "
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $n.key -out $n.csr -subj /CN=$n && "
        "printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > ext && "
        "openssl x509 -req -in $n.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $n.pem -extfile ext || "
        "exit 1; "
        "done",
        folder);
    run_program(WORDS("sh", "-c", script));
}

static void tls_is_refused(const char *address, const char *reason)
{
    open_at(address);
    assert_true(rig_wait_until(&rig, told_disconnected, NULL));
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_UNREACHABLE);
    if (!strstr(rig.said, reason))
        fail_msg("\"%s\" is not in:\n%s", reason, rig.said);
    assert_int_equal(rig.connected, 0);
    rig_close(&rig);
}

static void is_refused_at_once(const char *url, const char *text)
{
    char why[256];

    rig_init(&rig, url);
    assert_int_equal(sl_client_new(&rig.config, &rig.client, why, sizeof why), SL_EINVALID);
    assert_non_null(strstr(why, text));
    rig_close(&rig);
}

static void test_tls(void **state)
{
    static char folder[] = "/tmp/sluice-tls-XXXXXX", port[8], cert[64], key[64], ca[64], rest[512];
    int tls_port = free_port();

    (void)state;
    assert_non_null(mkdtemp(folder));
    make_certificates(folder);
    snprintf(cert, sizeof cert, "%s/server.pem", folder);
    snprintf(key, sizeof key, "%s/server.key", folder);
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    snprintf(port, sizeof port, "%d", tls_port);
    server_start(&server, WORDS("--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
                                "--tls-ca-cert-file", ca, "--tls-auth-clients", "yes", "--requirepass", "pw"));
    snprintf(rest, sizeof rest, "?ca=%s&cert=%s/client.pem&key=%s/client.key", ca, folder, folder);
    open_at(tcp_address("rediss", ":pw@localhost", tls_port, rest)); /* by name */
    for (int i = 1; i < 200; i++)
        assert_int_equal(rig_count(&rig, "k").integer, i);
    server_cli(&server, WORDS("-a", "pw", "--no-auth-warning", "CLIENT", "KILL", "TYPE", "normal"));
    rig_run_ms(&rig, 20);
    rig_until_ok(&rig, "k");
    rig_close(&rig);
    open_at(tcp_address("rediss", ":pw@127.0.0.1", tls_port, rest)); /* by address */
    rig_until_ok(&rig, "k");
    rig_close(&rig);
    if (access("/proc/net/if_inet6", R_OK) == 0) /* an address the certificate does not name */
        tls_is_refused(tcp_address("rediss", ":pw@[::1]", tls_port, rest), "IP address mismatch");
    snprintf(rest, sizeof rest, "?cert=%s/client.pem&key=%s/client.key", folder, folder);
    tls_is_refused(tcp_address("rediss", ":pw@localhost", tls_port, rest), "certificate is refused");
    snprintf(rest, sizeof rest, "?ca=%s", ca);
    open_at(tcp_address("rediss", ":pw@localhost", tls_port, rest)); /* no certificate of our own */
    assert_true(rig_wait_until(&rig, told_disconnected, NULL));
    rig_close(&rig);
    snprintf(rest, sizeof rest, "?ca=%s/none.pem", folder);
    is_refused_at_once(tcp_address("rediss", ":pw@localhost", tls_port, rest), "none.pem");
    snprintf(rest, sizeof rest, "?verify=no&cert=%s/client.pem&key=%s/client.key", folder, folder);
    open_at(tcp_address("rediss", ":pw@[::1]", tls_port, rest));
    rig_run_ms(&rig, 1);
    rig_close(&rig);
    open_at(tcp_address("rediss", ":pw@localhost", tls_port, rest));
    rig_until_ok(&rig, "k");
    rig_close(&rig);
    tls_is_refused(tcp_address("rediss", ":pw@localhost", server.port, rest),
                   "no connection within"); /* a port that does not speak it */
    server_remove(&server);
    run_program(WORDS("rm", "-r", folder));
}

/* ---- script and module: the client finds out which is there */

static void test_module_is_found_and_missed(void **state)
{
    struct sl_shape shape;
    const struct sl_shape *shapes[] = {&shape};
    const struct sl_rate rate = {.kind = SL_RATE_LIMITED, .count = 10, .period_us = 60000000};
    const char *const with_module[] = {"--enable-module-command", "yes", "--loadmodule", SLUICE_REDIS_MODULE, NULL};
    const struct sl_word key = SL_WORD("t:{a}:b");
    uint32_t cost = 1;
    const char *why;
    uint8_t bytes[256];
    struct sl_ask ask;

    (void)state;
    assert_int_equal(sl_shape_init(&shape, SL_TOKEN_BUCKET, &rate, 10, &why), 0);
    sl_ask_start(&ask, bytes, sizeof bytes);
    assert_int_equal(sl_ask_group(&ask, shapes, 1), 0);
    assert_int_equal(sl_ask_request(&ask, &cost), 0);
    for (int with = 0; with < 2; with++) {
        struct sl_script_call call = {.keys = &key, .n_keys = 1, .ask = bytes, .ask_len = ask.len};

        server_start(&server, with ? with_module : NULL);
        rig_init(&rig, unix_address(&server, "", ""));
        rig.config.script = sl_script_text(&(size_t){0});
        rig.config.script_sha1 = sl_script_sha1();
        rig.config.module_command = "SLUICE.DECIDE";
        rig_open(&rig);
        for (int i = 0; i < 3; i++) {
            struct answer answer = {.done = false};

            assert_int_equal(sl_client_script(rig.client, &call, 0, rig_done, &answer), SL_RESULT_OK);
            assert_true(rig_wait(&rig, &answer.done));
            assert_int_equal(answer.result, SL_RESULT_OK);
        }
        assert_int_equal(rig_total(&rig, SL_RESULT_NOSCRIPT), with ? 0 : 1);
        assert_int_equal(strstr(rig.said, "has the module") != NULL, with);
        if (with) { /* taken away under a connection that has known it: the script goes on on the same values */
            struct answer answer = {.done = false};

            server_cli(&server, WORDS("MODULE", "UNLOAD", "sluice"));
            assert_int_equal(sl_client_script(rig.client, &call, 0, rig_done, &answer), SL_RESULT_OK);
            assert_true(rig_wait(&rig, &answer.done));
            assert_int_equal(answer.result, SL_RESULT_OK);
        }
        rig_close(&rig);
        server_remove(&server);
    }
}

static void test_is_ready_once_connected(void **state)
{
    (void)state;
    server_start(&server, NULL);
    open_at(unix_address(&server, "", ""));
    assert_false(sl_client_ready(rig.client));
    assert_true(rig_wait_until(&rig, told_connected, NULL));
    assert_true(sl_client_ready(rig.client));
    assert_int_equal(sl_client_group(rig.client, "abc", 3), 0);
    rig_close(&rig);
    server_remove(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b112_noscript_is_no_error),
        cmocka_unit_test(test_b112_noscript_in_a_pipeline),
        cmocka_unit_test(test_b125_users_and_passwords),
        cmocka_unit_test(test_b126_database_after_a_reconnect),
        cmocka_unit_test(test_b130_loss_is_noticed_on_every_kind_of_address),
        cmocka_unit_test(test_addresses_where_nobody_is),
        cmocka_unit_test(test_b128_kill_and_start_under_load),
        cmocka_unit_test(test_b118_readonly_redials),
        cmocka_unit_test(test_b124_memory_full),
        cmocka_unit_test(test_busy_with_a_script),
        cmocka_unit_test(test_stopped_server_opens_the_breaker_and_comes_back),
        cmocka_unit_test(test_a_late_loop_reads_before_it_gives_up),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_module_is_found_and_missed),
        cmocka_unit_test(test_is_ready_once_connected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
