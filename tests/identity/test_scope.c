/* Scopes of HTTP requests: one endpoint, one spelling. */
#include "identity/scope.h"

#include "base/err.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static char out[4096];

/* The scope of a request, or "refused". */
static const char *scope(const char *method, const char *target)
{
    size_t len;
    int error = sl_scope_from_http(method, strlen(method), target, strlen(target), out, sizeof out - 1, &len);

    if (error) {
        assert_int_equal(error, SL_EINVALID);
        return "refused";
    }
    out[len] = '\0';
    return out;
}

static void paths_lose_query_and_fragment(void **state)
{
    (void)state;
    assert_string_equal(scope("GET", "/v1/orders?x=1"), "GET /v1/orders");
    assert_string_equal(scope("GET", "/v1/orders#a?b"), "GET /v1/orders");
    assert_string_equal(scope("POST", "/"), "POST /");
    assert_string_equal(scope("POST", ""), "POST /");
    assert_string_equal(scope("GET", "?x=/y"), "GET /");
}

static void escapes_have_one_spelling(void **state)
{
    (void)state;
    assert_string_equal(scope("GET", "/v1/%73earch"), "GET /v1/search");
    assert_string_equal(scope("GET", "/%41%5a%61%7A%30%39%2d%2E%5f%7e"), "GET /AZaz09-._~");
    assert_string_equal(scope("GET", "/a%2fb%3a"), "GET /a%2Fb%3A");
    assert_string_equal(scope("GET", "/a b\xc3\xa9"), "GET /a%20b%C3%A9");
    assert_string_equal(scope("GET", "/%25%37%33"), "GET /%2573");
}

static void slashes_and_dots_are_merged(void **state)
{
    static const char *const pairs[][2] = {
        {"//v1//search", "/v1/search"},
        {"/a/./b", "/a/b"},
        {"/a/../b", "/b"},
        {"/a/b/..", "/a/"},
        {"/a/b/.", "/a/b/"},
        {"/..", "/"},
        {"/../../x", "/x"},
        {"/%2e%2E/x", "/x"},
        {"/a/b//../c", "/a/c"},
        {"/.../..a/.b", "/.../..a/.b"},
        {"/./", "/"},
        {"/a/%2e", "/a/"},
        {"//", "/"},
        {"/a//", "/a/"},
        {"/a/..//..//b/", "/b/"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_string_equal(scope("GET", pairs[i][0]) + 4, pairs[i][1]);
}

static void absolute_forms_lose_their_authority(void **state)
{
    (void)state;
    assert_string_equal(scope("GET", "http://example.test/x"), "GET /x");
    assert_string_equal(scope("GET", "https://u@h:1?q"), "GET /");
    assert_string_equal(scope("OPTIONS", "*"), "OPTIONS *");
    assert_string_equal(scope("CONNECT", "example.test:80"), "CONNECT example.test:80");
    assert_string_equal(scope("GET", "example.test:80"), "refused");
    assert_string_equal(scope("GET", "://x"), "refused");
    assert_string_equal(scope("GET", "a/b"), "refused");
}

static void bad_targets_and_methods_are_refused(void **state)
{
    size_t len;

    (void)state;
    assert_string_equal(scope("GET", "/%00"), "refused");
    assert_string_equal(scope("GET", "/%0"), "refused");
    assert_string_equal(scope("GET", "/%"), "refused");
    assert_string_equal(scope("GET", "/%zz"), "refused");
    assert_string_equal(scope("GET", "/a\nb"), "refused");
    assert_string_equal(scope("GET", "/a?b\x7f"), "refused");
    assert_string_equal(scope("G ET", "/"), "refused");
    assert_string_equal(scope("", "/"), "refused");
    assert_string_equal(scope("GET\xff", "/"), "refused");
    assert_int_equal(sl_scope_from_http("GET", 3, "/\0", 2, out, sizeof out, &len), SL_EINVALID);
    assert_int_equal(sl_scope_from_http("G\0T", 3, "/", 1, out, sizeof out, &len), SL_EINVALID);
}

static void a_small_buffer_is_an_error_and_is_never_overrun(void **state)
{
    static const char target[] = "/a/%20b//../c/..\xff/d";
    char small[64];
    size_t whole, len;

    (void)state;
    whole = strlen(scope("GET", target));
    for (size_t size = 0; size < sizeof small; size++) {
        int error;

        memset(small, 'z', sizeof small);
        error = sl_scope_from_http("GET", 3, target, sizeof target - 1, small, size, &len);
        assert_true(error == 0 || error == SL_ENOMEM);
        for (size_t i = size; i < sizeof small; i++)
            assert_int_equal(small[i], 'z');
        if (error == 0)
            assert_int_equal(len, whole);
        if (size >= sizeof target + 16)
            assert_int_equal(error, 0);
    }
}

/* Normalising twice is normalising once, and nothing of what was merged is left. */
static void random_paths_are_normal_after_one_pass(void **state)
{
    static const char *const pieces[] = {"/", "//", ".", "..", "a", "%2e", "%2F", "%7e", "b", " ", "%25", "\x80"};

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char target[200] = "/", once[400], *path;
        unsigned n = random_below(20);
        size_t len = 1;

        while (n-- > 0)
            len += (size_t)snprintf(target + len, sizeof target - len, "%s", pieces[random_below(12)]);
        snprintf(once, sizeof once, "%s", scope("GET", target));
        path = once + 4;
        assert_string_equal(scope("GET", path), once);
        assert_true(path[0] == '/');
        assert_null(strstr(path, "//"));
        assert_null(strstr(path, "/./"));
        assert_null(strstr(path, "/../"));
        assert_null(strstr(path, "%2e"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_lose_query_and_fragment),
        cmocka_unit_test(escapes_have_one_spelling),
        cmocka_unit_test(slashes_and_dots_are_merged),
        cmocka_unit_test(absolute_forms_lose_their_authority),
        cmocka_unit_test(bad_targets_and_methods_are_refused),
        cmocka_unit_test(a_small_buffer_is_an_error_and_is_never_overrun),
        cmocka_unit_test(random_paths_are_normal_after_one_pass),
    };

    random_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
