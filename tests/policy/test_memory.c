/* Memory that runs out at every single point of a load, and policies large enough that a list would show. */
#include "support.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- an allocator that fails once ------------------------------------------------------------------------------- */

struct failing {
    size_t calls, fail_at; /* the call that fails; 0: none */
    long live;
};

static void *failing_realloc(void *ctx, void *p, size_t size)
{
    struct failing *f = ctx;

    if (size == 0) {
        f->live -= p != NULL;
        free(p);
        return NULL;
    }
    if (++f->calls == f->fail_at)
        return NULL;
    f->live += p == NULL;
    return realloc(p, size);
}

static const char everything[] = "version: 1\n"
                                 "defaults: {on_store_failure: local, warn_at: 80%}\n"
                                 "identity: {order: [api_key, user, address], headers: {user: X-U}, trusted_headers: "
                                 "[user], trusted_proxies: [10.0.0.0/8]}\n"
                                 "tiers: {default: free, anonymous: anon, keys: {k1: pro, k2: free}}\n"
                                 "endpoints: {e: {match: [\"a*\", b], cost: 2}, f: {match: [\"*z\"]}}\n"
                                 "limits:\n"
                                 "  - {name: a, tier: pro, endpoint: e, rates: [10/s, {rate: 9/m, burst: 3}], labels: "
                                 "{x: \"1*\"}, per: [key, label.y]}\n"
                                 "  - {name: b, key: 192.0.2.1, key_type: address, rate: unlimited, layer: l}\n"
                                 "  - {name: c, rate: 5/s, regions: {eu: 50%, us: 50%}, note: n}\n"
                                 "  - {name: d, rate: 9999/s, per: [], layer: m, coordination: split, split: 256}\n"
                                 "ceiling: {rate: 100/s}\n"
                                 "dedicated: [{keys: [w], store: \"redis://h\"}]\n";

/* Loads with the n-th allocation failing; true when the load still succeeded. */
static bool load_failing_at(const char *text, bool has_store, size_t n, size_t *ret_calls)
{
    struct failing f = {.fail_at = n};
    struct sl_policy_options options = {
        .secret = test_secret, .alloc = {failing_realloc, &f}, .has_store = has_store, .region = "none-of-these"};
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    int rc;

    sl_diags_init(&diags, options.alloc);
    rc = sl_policy_parse(text, strlen(text), "p.yaml", &options, &policy, &diags);
    if (rc != 0) {
        assert_int_equal(rc, SL_ENOMEM);
        assert_null(policy);
    }
    sl_policy_unref(policy);
    sl_diags_fini(&diags);
    assert_int_equal(f.live, 0);
    *ret_calls = f.calls;
    return rc == 0;
}

static void every_failing_allocation_is_a_clean_error(void **state)
{
    (void)state;
    for (int store = 0; store < 2; store++) {
        size_t calls, all, failed = 0;

        assert_true(load_failing_at(everything, store, 0, &all));
        assert_true(all > 5);
        for (size_t n = 1; n <= all; n++)
            failed += !load_failing_at(everything, store, n, &calls);
        assert_true(failed > 5); /* those that did not fail the load lost a warning */
    }
}

/* A document with errors: the findings that memory allows, and never a policy. */
static void failing_allocations_among_errors_keep_the_load_wrong(void **state)
{
    static const char text[] = "version: 1\nlimits: [{name: a, rate: x}, {nme: b, rate: 1/s}]\n";

    (void)state;
    for (size_t n = 1; n < 40; n++) {
        struct failing f = {.fail_at = n};
        struct sl_policy_options options = {.alloc = {failing_realloc, &f}};
        struct sl_policy *policy = NULL;
        struct sl_diags diags;
        int rc;

        sl_diags_init(&diags, options.alloc);
        rc = sl_policy_parse(text, strlen(text), "p.yaml", &options, &policy, &diags);
        assert_true(rc == SL_ENOMEM || (rc == SL_EPOLICY && diags.n_errors > 0));
        assert_null(policy);
        sl_diags_fini(&diags);
        assert_int_equal(f.live, 0);
    }
}

static void failing_allocations_while_files_are_read(void **state)
{
    char path[] = "/tmp/sluice-memory-XXXXXX", text[300];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    snprintf(text, sizeof text, "version: 1\nlimits: []\ntiers: {keys_file: \"%s\"}\n", path);
    assert_int_equal(write(fd, "k,free\nl,pro\n", 13), 13);
    close(fd);
    for (size_t n = 0, all = 1; n <= all; n++) {
        size_t calls;
        bool ok = load_failing_at(text, false, n, &calls);

        if (n == 0) {
            assert_true(ok);
            all = calls;
        }
    }
    unlink(path);
}

/* ---- large policies --------------------------------------------------------------------------------------------- */

static char *large_policy(unsigned n_keys, unsigned n_endpoints)
{
    size_t size = 200 + 80 * (size_t)(n_keys + 2 * n_endpoints), len;
    char *text = malloc(size);

    assert_non_null(text);
    len = (size_t)sprintf(text, "version: 1\ndefaults: {on_store_failure: local}\nendpoints:\n");
    for (unsigned i = 0; i < n_endpoints; i++)
        len += (size_t)sprintf(text + len, "  e%u: {match: [\"GET /v1/r%u/*\"]}\n", i, i);
    len += (size_t)sprintf(text + len, "limits:\n");
    for (unsigned i = 0; i < n_keys; i++)
        len += (size_t)sprintf(text + len, "  - {name: k%u, key: acct_%u, rate: %u/s}\n", i, i, i + 1);
    for (unsigned i = 0; i < n_endpoints; i++)
        len += (size_t)sprintf(text + len, "  - {name: e%u, endpoint: e%u, rate: %u/m}\n", i, i, i + 1);
    assert_true(len < size);
    return text;
}

static void ten_thousand_limits_load_and_resolve(void **state)
{
    char *text = large_policy(9900, 100), key[32], scope[32];
    struct loaded loaded = load_text(text);

    (void)state;
    free(text);
    expect_no_findings(&loaded);
    assert_int_equal(sl_policy_n_limits(loaded.policy), 10000);
    for (unsigned i = 0; i < 9900; i += 7) {
        struct sluice_request request;

        snprintf(key, sizeof key, "acct_%u", i);
        snprintf(scope, sizeof scope, "GET /v1/r%u/x", i % 100);
        request = request_of(key, scope);
        assert_int_equal(resolve(loaded.policy, &request)->items[0].shape->count, i + 1);
        request = request_of("somebody", scope);
        assert_int_equal(resolve(loaded.policy, &request)->items[0].shape->count, i % 100 + 1);
        request = request_of("somebody", "GET /v2");
        assert_true(resolve(loaded.policy, &request)->unmatched);
    }
    unload(&loaded);
}

static void ten_thousand_limits_by_label_load_and_resolve(void **state)
{
    size_t size = 1 << 20, len;
    char *text = malloc(size), value[32];
    struct loaded loaded;

    (void)state;
    assert_non_null(text);
    len = (size_t)sprintf(text, "version: 1\ndefaults: {on_store_failure: local}\nlimits:\n");
    for (unsigned i = 0; i < 10000; i++)
        len += (size_t)sprintf(text + len, "  - {name: l%u, labels: {tenant: t%u}, rate: %u/s}\n", i, i, i + 1);
    assert_true(len < size);
    loaded = load_text(text);
    free(text);
    expect_no_findings(&loaded);
    for (unsigned i = 0; i < 10000; i += 77) {
        struct sluice_request request = request_of("k", NULL);
        struct sluice_label label = {"tenant", 6, value, 0};

        label.value_len = (size_t)snprintf(value, sizeof value, "t%u", i);
        request.labels = &label;
        request.n_labels = 1;
        assert_int_equal(resolve(loaded.policy, &request)->items[0].shape->count, i + 1);
    }
    unload(&loaded);
}

static void too_many_limits_are_refused(void **state)
{
    size_t n = 100001, len;
    char *text = malloc(4 * n + 100);
    struct loaded loaded;

    (void)state;
    assert_non_null(text);
    len = (size_t)sprintf(text, "version: 1\nlimits:\n");
    for (size_t i = 0; i < n; i++)
        len += (size_t)sprintf(text + len, "- a\n");
    loaded = load_bytes(text, len);
    free(text);
    assert_int_equal(loaded.diags.n_errors, 1);
    expect_error(&loaded, 3, 1, "limits", "at most 100000 limits");
    unload(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_allocation_is_a_clean_error),
        cmocka_unit_test(failing_allocations_among_errors_keep_the_load_wrong),
        cmocka_unit_test(failing_allocations_while_files_are_read),
        cmocka_unit_test(ten_thousand_limits_load_and_resolve),
        cmocka_unit_test(ten_thousand_limits_by_label_load_and_resolve),
        cmocka_unit_test(too_many_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
