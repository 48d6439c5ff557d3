/* Policies that mean harm, or that nobody looked at: every one is refused with its place, or loads as it is meant, in memory that is in proportion. */
#include "support.h"

#include "base/err.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD "version: 1\ndefaults: {on_store_failure: local}\n"
#define LIMIT "  - {name: a, rate: 1/s}\n"

/* ---- an allocator that counts */

struct counting {
    size_t live, most;
};

static void *counting_realloc(void *ctx, void *p, size_t size)
{
    struct counting *c = ctx;
    void *grown = NULL;

    c->live -= p ? malloc_usable_size(p) : 0;
    if (size)
        grown = realloc(p, size);
    else
        free(p);
    c->live += grown ? malloc_usable_size(grown) : 0;
    c->most = c->live > c->most ? c->live : c->most;
    return grown;
}

static struct loaded load_counting(const char *text, size_t len, struct counting *counting)
{
    struct sl_policy_options options = {
        .secret = test_secret, .alloc = {counting_realloc, counting}, .any_region = true};
    struct loaded loaded = {.policy = NULL};

    sl_diags_init(&loaded.diags, options.alloc);
    loaded.rc = sl_policy_parse(text, len, "p.yaml", &options, &loaded.policy, &loaded.diags);
    return loaded;
}

/* `head`, then `line` n times with a number in it; to be freed. */
static char *repeat(const char *head, const char *line, unsigned n, size_t *ret_len)
{
    size_t room = strlen(head) + (strlen(line) + 24) * n + 1, len = strlen(head);
    char *text = malloc(room);

    assert_non_null(text);
    memcpy(text, head, len);
    for (unsigned i = 0; i < n; i++) {
        const char *mark = strchr(line, '@');

        len += (size_t)sprintf(text + len, mark ? "%.*s%u%s" : "%.*s", mark ? (int)(mark - line) : (int)strlen(line),
                               line, i, mark ? mark + 1 : "");
    }
    *ret_len = len;
    return text;
}

/* ---- many */

static void a_hundred_thousand_limits_load_and_resolve(void **state)
{
    static struct counting counting;
    const unsigned n = 100000;
    size_t len;
    char *text = malloc(100 + 64 * (size_t)n), key[32];
    struct loaded loaded;

    (void)state;
    assert_non_null(text);
    len = (size_t)sprintf(text, HEAD "limits:\n");
    for (unsigned i = 0; i < n; i++)
        len += (size_t)sprintf(text + len, "  - {name: k%u, key: acct_%u, rate: %u/s}\n", i, i, i + 1);
    loaded = load_counting(text, len, &counting);
    free(text);
    expect_no_findings(&loaded);
    assert_int_equal(sl_policy_n_limits(loaded.policy), n);
    for (unsigned i = 0; i < n; i += 997) {
        struct sluice_request request;

        snprintf(key, sizeof key, "acct_%u", i);
        request = request_of(key, "any");
        assert_int_equal(resolve(loaded.policy, &request)->items[0].shape->count, i + 1);
    }
    assert_true(counting.live < 2500u * n); /* what stays, a limit */
    assert_true(counting.most < 3500u * n); /* while it is loaded */
    unload(&loaded);
    assert_int_equal(counting.live, 0);
}

static void findings_beyond_the_list_are_only_counted(void **state)
{
    static const struct {
        const char *head, *line;
        unsigned line_number;
        size_t errors; /* a line */
    } cases[] = {
        {HEAD "limits:\n" LIMIT, "k@: 1\n", 5, 1},
        {HEAD "limits:\n" LIMIT "endpoints:\n", "  e@: {match: [\"\"], cost: -1, frob: 1}\n", 6, 3},
        {HEAD "limits:\n" LIMIT "tiers:\n  keys:\n", "    k: t@\n", 8, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct counting counting = {0};
        const unsigned n = 60000;
        size_t len;
        char *text = repeat(cases[i].head, cases[i].line, n, &len);
        struct loaded loaded = load_counting(text, len, &counting);

        assert_int_equal(loaded.rc, SL_EPOLICY);
        assert_null(loaded.policy);
        assert_int_equal(loaded.diags.n, SL_DIAGS_MAX);
        assert_true(loaded.diags.n_errors >= cases[i].errors * n - 1);
        assert_int_equal(loaded.diags.n_dropped, loaded.diags.n_errors + loaded.diags.n_warnings - SL_DIAGS_MAX);
        assert_int_equal(loaded.diags.list[0].line, cases[i].line_number);
        unload(&loaded);
        assert_int_equal(counting.live, 0);
        free(text);
    }
}

/* Errors go before warnings when the list is full. */
static void an_error_is_said_after_a_thousand_warnings(void **state)
{
    char *text = malloc(100000);
    struct loaded loaded;
    size_t len;

    (void)state;
    assert_non_null(text);
    len = (size_t)sprintf(text, "version: 1\nlimits:\n");
    for (unsigned i = 0; i < 1000; i++)
        len +=
            (size_t)sprintf(text + len, "  - {name: x%u, key: k%u, rate: 1/s, split: 4, coordination: split}\n", i, i);
    len += (size_t)sprintf(text + len, "  - {name: last, frob: 1, rate: 1/s}\n");
    loaded = load_bytes(text, len);
    assert_int_equal(loaded.rc, SL_EPOLICY);
    expect_error(&loaded, 1003, 18, "limits[1000].frob", "unknown field");
    unload(&loaded);
    free(text);
}

/* ---- bytes */

static void nothing_in_abundance(void **state)
{
    static const struct {
        const char *part;
        unsigned line, column; /* of an error; 0: it loads */
        const char *field;
    } cases[] = {{" \n", 0, 0, ""},  {"\n", 0, 0, ""},    {"#\n", 0, 0, ""},
                 {"\r\n", 0, 0, ""}, {"x:\n", 6, 1, "x"}, {"-\n", 5, 1, ""}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t len;
        char *text = repeat(HEAD "limits:\n" LIMIT, cases[i].part, 200000, &len);
        struct loaded loaded = load_bytes(text, len);

        if (cases[i].line)
            expect_error(&loaded, cases[i].line, cases[i].column, cases[i].field, "");
        else
            expect_no_findings(&loaded);
        unload(&loaded);
        free(text);
    }
}

static void byte_order_marks_and_line_ends(void **state)
{
    static const char *const good[] = {"\xef\xbb\xbf" HEAD "limits:\n" LIMIT,
                                       "version: 1\r\nlimits:\r\n  - {name: a, rate: 1/s, on_store_failure: local}\r\n",
                                       "version: 1\rlimits:\r  - {name: a, rate: 1/s, on_store_failure: local}\r"};
    struct loaded loaded;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        loaded = load_text(good[i]);
        expect_no_findings(&loaded);
        assert_string_equal(sl_policy_limit(loaded.policy, 0)->name, "a");
        unload(&loaded);
    }
    loaded = load_bytes("\xff\xfev\0e\0r\0", 8); /* UTF-16 */
    expect_error(&loaded, 1, 1, "", "UTF-8");
    unload(&loaded);
    loaded = load_text(HEAD "\xef\xbb\xbflimits: []\n");
    assert_int_equal(loaded.rc, SL_EPOLICY);
    unload(&loaded);
    loaded = load_bytes(HEAD "limits: []\n# \0\n", sizeof HEAD "limits: []\n# \0\n" - 1);
    expect_error(&loaded, 4, 3, "", "control character");
    unload(&loaded);
}

/* ---- YAML that multiplies, or means something else than it says */

static void b102_anchors_merge_keys_and_tags(void **state)
{
    static const struct {
        const char *text;
        unsigned line, column;
        const char *field, *part;
    } cases[] = {
        {HEAD "limits:\n  - &a {name: a, rate: 1/s}\n  - {<<: *a, name: b}\n", 5, 10, "", "aliases"},
        {HEAD "limits:\n  - {<<: {rate: 1/s}, name: b}\n", 4, 6, "limits[0].<<", "unknown field"},
        {HEAD "limits: !!python/object/apply:os.system [id]\n", 3, 0, "", "tags"},
        {HEAD "limits:\n  - {name: !!binary YQ==, rate: 1/s}\n", 4, 0, "", "tags"},
        {HEAD "limits:\n  - {? {name: a} : 1}\n", 4, 0, "", "a key must be"},
    };
    struct loaded loaded = load_text(HEAD "limits:\n  - &unused {name: a, rate: 1/s}\n");

    (void)state;
    expect_no_findings(&loaded); /* an anchor alone multiplies nothing */
    unload(&loaded);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loaded = load_text(cases[i].text);
        assert_int_equal(loaded.rc, SL_EPOLICY);
        if (cases[i].column)
            expect_error(&loaded, cases[i].line, cases[i].column, cases[i].field, cases[i].part);
        assert_int_equal(loaded.diags.list[0].line, cases[i].line);
        assert_non_null(strstr(loaded.diags.list[0].message, cases[i].part));
        unload(&loaded);
    }
}

static void b102_ten_thousand_levels(void **state)
{
    static const char *const opening[] = {" [\n", " {a:\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        size_t len;
        char *text = repeat(HEAD "limits:\n", opening[i], 10000, &len);
        struct loaded loaded = load_bytes(text, len);

        assert_int_equal(loaded.rc, SL_EPOLICY);
        assert_non_null(strstr(loaded.diags.list[0].message, "nested deeper than 32"));
        unload(&loaded);
        free(text);
    }
}

static void b102_duplicate_keys_at_every_level(void **state)
{
    static const struct {
        const char *text, *field;
        unsigned line;
    } cases[] = {
        {HEAD "limits:\n" LIMIT "limits:\n" LIMIT, "limits", 5},
        {"version: 1\ndefaults:\n  cost: 1\n  cost: 2\nlimits:\n" LIMIT, "defaults.cost", 4},
        {HEAD "limits:\n  - name: a\n    rate: 1/s\n    rate: 2/s\n", "limits[0].rate", 6},
        {HEAD "limits:\n  - name: a\n    rate: 1/s\n    labels:\n      x: a\n      x: b\n", "limits[0].labels.x", 8},
        {HEAD "limits:\n  - name: a\n    rate: 1/s\n    regions:\n      eu: 50%\n      eu: 40%\n",
         "limits[0].regions.eu", 8},
        {HEAD "limits:\n  - name: a\n    rates:\n      - rate: 1/s\n        rate: 2/s\n", "limits[0].rates[0].rate", 7},
        {HEAD "limits:\n  - name: a\n    rate: 1/s\n    lease:\n      block: 1\n      block: 2\n",
         "limits[0].lease.block", 8},
        {HEAD "limits:\n" LIMIT "tiers:\n  keys:\n    k: a\n    k: b\n", "tiers.keys.k", 8},
        {HEAD "limits:\n" LIMIT "endpoints:\n  e: {match: [a]}\n  e: {match: [b]}\n", "endpoints.e", 7},
        {HEAD "limits:\n" LIMIT "endpoints:\n  e:\n    match: [a]\n    match: [b]\n", "endpoints.e.match", 8},
        {HEAD "limits:\n" LIMIT "identity:\n  headers:\n    user: X-A\n    user: X-B\n", "identity.headers.user", 8},
        {HEAD "limits:\n" LIMIT "http:\n  errors: default\n  errors: problem\n", "http.errors", 7},
        {HEAD "limits:\n" LIMIT "ceiling:\n  rate: 1/s\n  rate: 2/s\n", "ceiling.rate", 7},
        {HEAD "limits:\n" LIMIT "\"limits\": []\n", "limits", 5}, /* another spelling of the same */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded loaded = load_text(cases[i].text);

        if (!has_finding(&loaded.diags, SL_DIAG_ERROR, 0, 0, cases[i].field, "stands first in line"))
            fail_msg("%s: no error about %s", cases[i].text, cases[i].field);
        for (size_t k = 0; k < loaded.diags.n; k++)
            if (strstr(loaded.diags.list[k].message, "stands first"))
                assert_int_equal(loaded.diags.list[k].line, cases[i].line);
        unload(&loaded);
    }
}

/* ---- numbers */

static void b10_numbers_that_no_integer_holds(void **state)
{
    static const struct {
        const char *limit, *field;
    } cases[] = {
        {"rate: 98765432198765432198765/h", "limits[0].rate"},
        {"rate: 18446744073709551617/s", "limits[0].rate"}, /* 2^64 + 1 */
        {"rate: 4294967297/s", "limits[0].rate"},           /* 2^32 + 1 */
        {"rate: 1/99999999999999999999d", "limits[0].rate"},
        {"rate: 1/367d", "limits[0].rate"},
        {"rate: -1/s", "limits[0].rate"},
        {"rate: 1e3/s", "limits[0].rate"},
        {"rate: 0x10/s", "limits[0].rate"},
        {"rate: .inf", "limits[0].rate"},
        {"rate: 1/s, burst: 18446744073709551617", "limits[0].burst"},
        {"rate: 1/s, burst: 1000000001", "limits[0].burst"},
        {"rate: 1/s, burst: 0", "limits[0].burst"},
        {"rate: 1/s, cost: -9223372036854775808", "limits[0].cost"},
        {"rate: 1/s, cost: 1000000001", "limits[0].cost"},
        {"rate: 1/s, warn_at: 99999999999999999999%", "limits[0].warn_at"},
        {"rate: 1/s, local_factor: 1e300", "limits[0].local_factor"},
        {"rate: 1/s, local_factor: .nan", "limits[0].local_factor"},
        {"rate: 1/s, split: 4294967300", "limits[0].split"},
        {"rate: 1/s, lease: {ttl: 99999999999999999999h}", "limits[0].lease.ttl"},
        {"rate: 1/s, regions: {eu: 99999999999999999999.5%}", "limits[0].regions.eu"},
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded loaded;

        snprintf(text, sizeof text, HEAD "limits:\n  - {name: a, %s}\n", cases[i].limit);
        loaded = load_text(text);
        assert_int_equal(loaded.rc, SL_EPOLICY);
        if (!has_finding(&loaded.diags, SL_DIAG_ERROR, 0, 0, cases[i].field, "") || loaded.diags.list[0].line != 4)
            fail_msg("%s: no error about %s in line 4", cases[i].limit, cases[i].field);
        unload(&loaded);
    }
}

/* ---- keys_file */

static char folder[64], policy_path[96], keys_path[96];

static int make_folder(void **state)
{
    FILE *f;

    (void)state;
    snprintf(folder, sizeof folder, "/tmp/sluice-hostile-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(policy_path, sizeof policy_path, "%s/p.yaml", folder);
    snprintf(keys_path, sizeof keys_path, "%s/keys.csv", folder);
    f = fopen(policy_path, "w");
    if (!f)
        return -1;
    fputs(HEAD "tiers: {default: t, keys_file: keys.csv}\nlimits:\n  - {name: a, tier: t, rate: 1/s}\n", f);
    return fclose(f);
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(policy_path);
    unlink(keys_path);
    return rmdir(folder);
}

static struct loaded load_keys(const char *text, size_t len, struct counting *counting)
{
    struct sl_policy_options options = {
        .secret = test_secret, .alloc = {counting_realloc, counting}, .any_region = true};
    struct loaded loaded = {.policy = NULL};
    FILE *f = fopen(keys_path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    fclose(f);
    sl_diags_init(&loaded.diags, options.alloc);
    loaded.rc = sl_policy_load(policy_path, &options, &loaded.policy, &loaded.diags);
    return loaded;
}

static const char *tier_of(const struct loaded *loaded, const char *key)
{
    struct sluice_request request = request_of(key, NULL);

    return resolve(loaded->policy, &request)->tier;
}

static void a_million_wrong_lines_of_keys(void **state)
{
    struct counting counting = {0};
    size_t len;
    char *text = repeat("ok,t\n", "no-tier\n", 1000000, &len);
    struct loaded loaded = load_keys(text, len, &counting);

    (void)state;
    assert_int_equal(loaded.rc, SL_EPOLICY);
    assert_int_equal(loaded.diags.n_errors, 1000000);
    expect_error(&loaded, 2, 8, "", "the tier is missing");
    assert_string_equal(loaded.diags.list[0].file, keys_path);
    unload(&loaded);
    free(text);
}

static void lines_of_keys_that_say_nothing_take_no_room(void **state)
{
    static const char *const nothing[] = {"\n", "\r\n", "#\n"};

    (void)state;
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        struct counting counting = {0};
        size_t len;
        char *text = repeat("", nothing[i], 2000000, &len);
        struct loaded loaded;

        loaded = load_keys(text, len, &counting);
        assert_int_equal(loaded.rc, 0);
        assert_true(counting.most < 3 * len + (1u << 20)); /* the text, with room to grow into */
        unload(&loaded);
        free(text);
    }
}

static void odd_bytes_among_keys(void **state)
{
    struct counting counting = {0};
    struct loaded loaded = load_keys("ok,t\na\0b,t\n\0\n", 13, &counting);
    char *text;
    size_t len;

    (void)state;
    expect_error(&loaded, 2, 4, "", "control characters");
    unload(&loaded);
    text = repeat("ok,t\n", "x", 1 << 20, &len); /* a line of 1 MiB */
    loaded = load_keys(text, len, &counting);
    expect_error(&loaded, 2, 1, "", "too long");
    unload(&loaded);
    free(text);
    loaded = load_keys("\xef\xbb\xbf"
                       "first,gold\r\nsecond,t\r\n",
                       25, &counting);
    assert_int_equal(loaded.rc, 0);
    assert_string_equal(tier_of(&loaded, "first"), "gold");
    assert_string_equal(tier_of(&loaded, "second"), "t");
    unload(&loaded);
    loaded = load_keys("\xff\xfe\x80,t\n", 6, &counting); /* keys are bytes */
    assert_int_equal(loaded.rc, 0);
    assert_string_equal(tier_of(&loaded, "\xff\xfe\x80"), "t");
    unload(&loaded);
}

static void keys_that_stand_twice(void **state)
{
    struct counting counting = {0};
    struct loaded loaded = load_keys("a,t\nb,t\na,t\n\"a\",t\n", 18, &counting);

    (void)state;
    assert_int_equal(loaded.rc, 0); /* it says the same */
    unload(&loaded);
    loaded = load_keys("a,t\nb,t\na,u\nb,t\n\"a\",v\n", 22, &counting);
    assert_int_equal(loaded.diags.n_errors, 2);
    expect_error(&loaded, 3, 1, "", "the key `a` has another tier in line 1");
    expect_error(&loaded, 5, 1, "", "the key `a` has another tier in line 1");
    assert_string_equal(loaded.diags.list[0].file, keys_path);
    unload(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_limits_load_and_resolve),
        cmocka_unit_test(findings_beyond_the_list_are_only_counted),
        cmocka_unit_test(an_error_is_said_after_a_thousand_warnings),
        cmocka_unit_test(nothing_in_abundance),
        cmocka_unit_test(byte_order_marks_and_line_ends),
        cmocka_unit_test(b102_anchors_merge_keys_and_tags),
        cmocka_unit_test(b102_ten_thousand_levels),
        cmocka_unit_test(b102_duplicate_keys_at_every_level),
        cmocka_unit_test(b10_numbers_that_no_integer_holds),
        cmocka_unit_test(a_million_wrong_lines_of_keys),
        cmocka_unit_test(lines_of_keys_that_say_nothing_take_no_room),
        cmocka_unit_test(odd_bytes_among_keys),
        cmocka_unit_test(keys_that_stand_twice),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
