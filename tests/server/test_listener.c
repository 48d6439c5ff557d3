/* Addresses to listen on: what is understood, what is refused and how it is said, and unix paths (B182). */
#include "server/listener.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sl_listener e;
static char why[256], folder[] = "/tmp/sluice-endpoint-XXXXXX", text[256];

static int open_endpoint(const char *address)
{
    int err = sl_listener_parse(address, &e, why, sizeof why);

    return err ? err : sl_listener_bind(&e, 0640, why, sizeof why);
}

static void texts_are_checked(void **state)
{
    static const char *const bad[] = {"",         "127.0.0.1",    "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536",
                                      "::1:8080", "[::1]",        "[::1:8080",  "1.2.3.4.5:80",   "127.0.0.1:-1",
                                      "unix:",    "unix:relative"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (sl_listener_parse(bad[i], &e, why, sizeof why) == 0)
            fail_msg("`%s` is taken", bad[i]);
        assert_non_null(strstr(why, "is no address to listen on: "));
    }
    assert_int_equal(sl_listener_parse("127.0.0.1:80", &e, why, sizeof why), 0);
    assert_true(e.loopback);
    assert_int_equal(sl_listener_parse("[::1]:80", &e, why, sizeof why), 0);
    assert_true(e.loopback);
    assert_int_equal(sl_listener_parse(":80", &e, why, sizeof why), 0);
    assert_false(e.loopback);
    assert_int_equal(sl_listener_parse("*:80", &e, why, sizeof why), 0);
}

static void a_free_port_is_found_and_shared_among_loops_only(void **state)
{
    char taken[140];
    struct sl_listener other;
    int first, second;

    (void)state;
    assert_int_equal(open_endpoint("127.0.0.1:0"), 0);
    assert_null(strstr(e.text, ":0"));
    first = sl_listener_socket(&e, why, sizeof why);
    second = sl_listener_socket(&e, why, sizeof why);
    assert_true(first >= 0 && second >= 0 && first != second);
    snprintf(taken, sizeof taken, "%s", e.text);
    assert_int_equal(sl_listener_parse(taken, &other, why, sizeof why), 0);
    assert_int_not_equal(sl_listener_bind(&other, 0, why, sizeof why), 0);
    snprintf(text, sizeof text, "cannot listen on %s: the address is in use", taken);
    assert_string_equal(why, text);
    sl_listener_fini(&other);
    close(first);
    close(second);
    sl_listener_fini(&e);
}

/* A process that listens on the path and is killed. */
static void leave_stale_socket(const char *address)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(open_endpoint(address) == 0 ? 0 : 1); /* without sl_listener_fini, as after kill -9 */
    int status = 1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void b182_a_stale_unix_path_is_taken_over(void **state)
{
    struct stat st;
    char address[128];
    const char *path = address + 5;
    struct sl_listener second;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(address, sizeof address, "unix:%s/s", folder);
    leave_stale_socket(address);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(open_endpoint(address), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    /* One in use is left alone, and still works. */
    assert_int_equal(sl_listener_parse(address, &second, why, sizeof why), 0);
    assert_int_not_equal(sl_listener_bind(&second, 0600, why, sizeof why), 0);
    assert_non_null(strstr(why, "another process listens there"));
    sl_listener_fini(&second);
    assert_int_equal(stat(path, &st), 0);
    sl_listener_fini(&e);
    assert_int_not_equal(stat(path, &st), 0);
    /* A file is never removed. */
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_not_equal(open_endpoint(address), 0);
    assert_non_null(strstr(why, "is no socket"));
    sl_listener_fini(&e);
    assert_int_equal(stat(path, &st), 0);
    unlink(path);
    rmdir(folder);
}

static void b182_a_path_over_107_bytes_is_refused(void **state)
{
    (void)state;
    snprintf(text, sizeof text, "unix:/tmp/%0103d", 0);
    assert_int_not_equal(sl_listener_parse(text, &e, why, sizeof why), 0);
    assert_non_null(strstr(why, "107 bytes"));
    snprintf(text, sizeof text, "unix:/tmp/%0102d", 0);
    assert_int_equal(sl_listener_parse(text, &e, why, sizeof why), 0);
}

/* Somebody else's socket that has taken the place of ours is not removed. */
static void only_our_own_path_is_removed(void **state)
{
    char address[128];
    struct sl_listener other;
    struct stat st;

    (void)state;
    snprintf(folder, sizeof folder, "/tmp/sluice-endpoint-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(address, sizeof address, "unix:%s/s", folder);
    assert_int_equal(open_endpoint(address), 0);
    unlink(address + 5);
    assert_int_equal(sl_listener_parse(address, &other, why, sizeof why), 0);
    assert_int_equal(sl_listener_bind(&other, 0600, why, sizeof why), 0);
    sl_listener_fini(&e);
    assert_int_equal(stat(address + 5, &st), 0);
    sl_listener_fini(&other);
    assert_int_not_equal(stat(address + 5, &st), 0);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_checked),
        cmocka_unit_test(a_free_port_is_found_and_shared_among_loops_only),
        cmocka_unit_test(b182_a_stale_unix_path_is_taken_over),
        cmocka_unit_test(b182_a_path_over_107_bytes_is_refused),
        cmocka_unit_test(only_our_own_path_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
