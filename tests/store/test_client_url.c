/* The address of a store: every form, every mistake, and no secret in any text. */
#include "base/err.h"
#include "store/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sl_store_url url;
static char why[512];

static void good(const char *text)
{
    int err = sl_store_url_parse(text, &url, why, sizeof why);

    if (err)
        fail_msg("%s: %s", text, why);
}

/* The address is refused, with this in the sentence. */
static void bad(const char *text, const char *expected)
{
    assert_int_equal(sl_store_url_parse(text, &url, why, sizeof why), SL_EINVALID);
    if (!strstr(why, expected))
        fail_msg("`%s`: \"%s\" does not say \"%s\"", text, why, expected);
    assert_null(strstr(why, "s3cret"));
    assert_null(memmem(&url.login, sizeof url.login, "s3cret", 6));
}

static void test_forms(void **state)
{
    char text[512];

    (void)state;
    good("memory:");
    assert_int_equal(url.kind, SL_STORE_MEMORY);
    good("redis://db.example:7000/3");
    assert_int_equal(url.kind, SL_STORE_SINGLE);
    assert_string_equal(url.endpoints[0].host, "db.example");
    assert_int_equal(url.endpoints[0].port, 7000);
    assert_int_equal(url.db, 3);
    assert_false(url.tls);
    good("rediss://h");
    assert_true(url.tls);
    assert_int_equal(url.endpoints[0].port, 6379);
    good("redis://h/");
    good("redis+unix://u:s3cret@/run/a%20b.sock?db=7");
    assert_true(url.endpoints[0].is_unix);
    assert_string_equal(url.endpoints[0].host, "/run/a b.sock");
    assert_int_equal(url.db, 7);
    assert_string_equal(url.login.user, "u");
    assert_string_equal(sl_store_url_text(&url, text, sizeof text), "redis+unix:///run/a b.sock?db=7");
    good("redis+sentinel://:s3cret@h1,h2:1,[::1]:5/my%2Fmaster/2");
    assert_int_equal(url.kind, SL_STORE_SENTINEL);
    assert_int_equal(url.n_endpoints, 3);
    assert_int_equal(url.endpoints[0].port, 26379);
    assert_string_equal(url.endpoints[2].host, "::1");
    assert_string_equal(url.master, "my/master");
    assert_int_equal(url.db, 2);
    assert_string_equal(sl_store_url_text(&url, text, sizeof text),
                        "redis+sentinel://h1:26379,h2:1,[::1]:5/my/master/2");
    good("redis+cluster://h1,h2,h3");
    assert_int_equal(url.kind, SL_STORE_CLUSTER);
    assert_int_equal(url.n_endpoints, 3);
    good("rediss://h?ca=/etc/ca.pem&cert=c&key=k&verify=no&password_file=/run/p");
    assert_true(url.insecure);
    assert_string_equal(url.ca, "/etc/ca.pem");
    assert_string_equal(url.password_file, "/run/p");
    sl_store_url_fini(&url);
}

static void test_ipv6(void **state)
{
    char text[SL_ENDPOINT_TEXT_MAX];

    (void)state;
    good("redis://[2001:db8::7]:6380");
    assert_string_equal(url.endpoints[0].host, "2001:db8::7");
    assert_string_equal(sl_endpoint_text(&url.endpoints[0], text), "[2001:db8::7]:6380");
    good("redis://[::1]");
    assert_int_equal(url.endpoints[0].port, 6379);
    bad("redis://2001:db8::7", "brackets");
    bad("redis://[::1", "closing ]");
    bad("redis://[::1]6379", "only :port");
}

/* B125: a password with characters that mean something in a URL was cut at the #, sent undecoded, or had + turned
 * into a space. */
static void test_b125_password_with_url_characters(void **state)
{
    (void)state;
    good("redis://u:p%40s%3As%2Fw%23d%25%3F%26%2B%3D@h:1/0");
    assert_string_equal(url.login.password, "p@s:s/w#d%?&+=");
    assert_int_equal(url.login.password_len, 14);
    good("redis://u:p+a=s=@h");
    assert_string_equal(url.login.password, "p+a=s="); /* + stays + */
    good("redis://u:a%253Db@h");
    assert_string_equal(url.login.password, "a%3Db"); /* decoded once */
    good("redis://u:a%00b@h");
    assert_int_equal(url.login.password_len, 3);
    assert_memory_equal(url.login.password, "a\0b", 3);
    good("redis://u@h");
    assert_true(url.login.has_user);
    assert_false(url.login.has_password);
    good("redis://:p@h");
    assert_false(url.login.has_user);
    assert_true(url.login.has_password);
    bad("redis://u:s3cret#x@h", "%23");
    bad("redis://u:s3cret@x@h", "%40");
    bad("redis://u:s3cret%zz@h", "password, character 17");
    bad("redis://u:s3cret%4@h", "two hex digits");
    bad("redis://u:s3cret\r\n@h", "control characters");
    bad("redis://u:s3cret@h:port", "port");
}

static void write_file(const char *path, const char *bytes, size_t len)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* B125: a password of its own field or file is taken as it is; a file's final newline is no part of it. */
static void test_b125_password_file(void **state)
{
    char path[] = "/tmp/sluice-url-XXXXXX", text[128];
    int fd = mkstemp(path);
    static char large[5000];

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    snprintf(text, sizeof text, "redis://u@h?password_file=%s", path);
    write_file(path, "p@s%3D+w#d\n", 11);
    good(text);
    assert_int_equal(sl_store_url_read_files(&url, why, sizeof why), 0);
    assert_string_equal(url.login.password, "p@s%3D+w#d");
    write_file(path, "a\n\r\n", 4); /* one newline only */
    assert_int_equal(sl_store_url_read_files(&url, why, sizeof why), 0);
    assert_int_equal(url.login.password_len, 2);
    write_file(path, "\n", 1);
    assert_int_equal(sl_store_url_read_files(&url, why, sizeof why), SL_EINVALID);
    assert_non_null(strstr(why, path));
    memset(large, 'x', sizeof large);
    write_file(path, large, sizeof large);
    assert_int_equal(sl_store_url_read_files(&url, why, sizeof why), SL_EINVALID);
    assert_non_null(strstr(why, "longer"));
    unlink(path);
    assert_int_equal(sl_store_url_read_files(&url, why, sizeof why), SL_EIO);
    assert_non_null(strstr(why, path));
}

static void test_mistakes_name_their_place(void **state)
{
    static char large[SL_URL_MAX + 10];

    (void)state;
    bad("", "scheme");
    bad("http://h", "scheme");
    bad("REDIS://h", "scheme");
    bad("redis:/h", "scheme");
    bad("memory:x", "character 8");
    bad("redis://", "host, character 9: it is empty");
    bad("redis://h:", "missing after the colon");
    bad("redis://h:0", "0 is no port");
    bad("redis://h:65536", "larger than 65535");
    bad("redis://h:99999999999999999999", "larger than 65535");
    bad("redis://h/x", "database, character 11: not a number");
    bad("redis://h/65536", "larger than");
    bad("redis://h/1/2", "not a number");
    bad("redis://h h", "no host name");
    bad("redis://h1,h2", "several hosts");
    bad("redis+cluster://h1,,h2", "character 20: it is empty");
    bad("redis+cluster://h1/1", "only database 0");
    bad("redis+cluster://h1?db=1", "only database 0");
    good("redis+cluster://h1/0");
    bad("redis+sentinel://h1,h2", "master's name is missing");
    bad("redis+sentinel://h1/", "master's name is missing");
    bad("redis+unix://", "path of the socket");
    bad("redis+unix:///", "path of the socket");
    bad("redis+unix://run/x", "redis+unix:///path");
    bad("redis://h?x=1", "no such option");
    bad("redis://h?db", "name=value");
    bad("redis://h?db=", "a number is missing");
    bad("redis://h?ca=/x", "needs rediss://");
    bad("redis://h?verify=no", "needs rediss://");
    bad("rediss://h?verify=maybe", "yes or no");
    bad("rediss://h?cert=/x", "belong together");
    bad("redis://h?sentinel_user=x", "needs redis+sentinel://");
    bad("redis://u:s3cret@h?password_file=/x", "a password and a password_file");
    bad("redis://h?password_file=", "empty");
    memset(large, 'h', sizeof large - 1);
    bad(large, "longer than");
    memcpy(large, "redis://", 8);
    large[600] = '\0';
    bad(large, "longer than 255");
}

static void test_no_text_shows_a_secret(void **state)
{
    char text[64];

    (void)state;
    good("rediss://user:s3cret@h:1/2?ca=/x");
    assert_string_equal(sl_store_url_text(&url, text, sizeof text), "rediss://h:1/2");
    assert_string_equal(sl_store_url_text(&url, text, 10), "rediss://");
    sl_store_url_fini(&url);
    assert_null(memmem(&url, sizeof url, "s3cret", 6));
}

static void test_a_store_of_its_own_is_not_the_memory(void **state)
{
    (void)state;
    assert_int_equal(sl_store_url_check("redis+sentinel://h/m", why, sizeof why), 0);
    assert_int_equal(sl_store_url_check("memory:", why, sizeof why), SL_EINVALID);
    assert_non_null(strstr(why, "memory:"));
    assert_int_equal(sl_store_url_check("redis://u:s3cret@h:x", why, sizeof why), SL_EINVALID);
    assert_null(strstr(why, "s3cret"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_b125_password_with_url_characters),
        cmocka_unit_test(test_b125_password_file),
        cmocka_unit_test(test_mistakes_name_their_place),
        cmocka_unit_test(test_no_text_shows_a_secret),
        cmocka_unit_test(test_a_store_of_its_own_is_not_the_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
