/* Warnings: what is odd but not wrong. And that nothing is said of what is neither. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#define HEAD "version: 1\ndefaults: {on_store_failure: local}\n"

static void one_warning(const char *text, unsigned line, unsigned column, const char *field, const char *part)
{
    struct loaded loaded = load_text(text);

    expect_warning(&loaded, line, column, field, part);
    if (loaded.diags.n != 1)
        sl_diags_print(&loaded.diags, stderr);
    assert_int_equal(loaded.diags.n, 1);
    unload(&loaded);
}

static void silent(const char *text)
{
    struct loaded loaded = load_text(text);

    expect_no_findings(&loaded);
    unload(&loaded);
}

static void a_limit_without_a_failure_mode_is_named(void **state)
{
    (void)state;
    one_warning("version: 1\nlimits: [{name: a, rate: 1/s}]\n", 2, 10, "limits[0].on_store_failure", "limit `a`");
    silent("version: 1\nlimits: [{name: a, rate: 1/s, on_store_failure: open}]\n");
    silent(HEAD "limits: [{name: a, rate: 1/s}]\n");
    silent("version: 1\nlimits: [{name: a, rate: 1/s, coordination: local}, {name: b, layer: b, rate: blocked},\n"
           "  {name: c, layer: c, rate: unlimited}, {name: d, layer: d, rate: 1/s, mode: off}]\n");
}

static void many_limits_without_a_failure_mode_are_summed_up(void **state)
{
    char text[4000] = "version: 1\nlimits:\n";
    struct loaded loaded;

    (void)state;
    for (int i = 0; i < 25; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "  - {name: l%d, tier: t%d, rate: 1/s}\n", i, i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s", "tiers: {keys: {");
    for (int i = 0; i < 25; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%sk%d: t%d", i ? ", " : "", i, i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s", "}}\n");
    loaded = load_text(text);
    assert_int_equal(loaded.diags.n_warnings, 11);
    expect_warning(&loaded, 0, 0, "limits", "15 more limits");
    unload(&loaded);
}

static void fields_that_need_a_store_say_so(void **state)
{
    static const char *const fields[] = {"coordination: shared", "coordination: synced", "lease: {ttl: 1s}",
                                         "local_factor: 3"};
    static const char *const names[] = {"coordination", "coordination", "lease", "local_factor"};
    char text[300], field[60];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof text, HEAD "limits: [{name: a, rate: 9/s, %s}]\n", fields[i]);
        snprintf(field, sizeof field, "limits[0].%s", names[i]);
        one_warning(text, 3, (unsigned)(33 + strlen(names[i])), field, "needs a shared store");
        snprintf(text, sizeof text, HEAD "limits: [{name: a, rate: 9/s, %s}]\n", fields[i]);
        struct loaded loaded = load_with_store(text);
        expect_no_findings(&loaded);
        unload(&loaded);
    }
    silent(HEAD
           "limits: [{name: a, rate: 9/s, coordination: auto}, {name: b, layer: b, rate: 9/s, coordination: local}]\n");
    one_warning(
        "version: 1\ndefaults: {on_store_failure: local, coordination: leased}\nlimits: [{name: a, rate: 9/s}]\n", 2,
        51, "defaults.coordination", "`leased` needs a shared store"); /* once, not for every limit */
    one_warning(HEAD "limits: [{name: a, rate: 9/s}]\ntiers: {keys_store: true}\n", 4, 21, "tiers.keys_store",
                "needs a shared store");
    one_warning(HEAD "limits: [{name: a, rate: 9/s}]\ndedicated: [{keys: [k], store: \"redis://h\"}]\n", 4, 12,
                "dedicated", "needs a shared store");
}

static void idle_fields_say_so(void **state)
{
    struct loaded loaded =
        load_with_store(HEAD "limits: [{name: a, rate: 9/s, coordination: local, lease: {block: 1}, split: 2,"
                             " sync: {interval: 1s}}]\n");

    (void)state;
    expect_warning(&loaded, 3, 59, "limits[0].lease", "coordination is `local`");
    expect_warning(&loaded, 3, 78, "limits[0].split", "not `split`");
    expect_warning(&loaded, 3, 87, "limits[0].sync", "not `synced`");
    assert_int_equal(loaded.diags.n, 3);
    unload(&loaded);
}

/* What only matters where there is a store is not warned about without one. */
static void one_warning_with_store(const char *limit, const char *field, const char *part)
{
    char text[400];
    struct loaded loaded;

    snprintf(text, sizeof text, HEAD "limits: [{name: a, rate: 90/s, coordination: local}, {name: b, layer: b, %s}]\n",
             limit);
    loaded = load_with_store(text);
    expect_warning(&loaded, 0, 0, field, part);
    assert_int_equal(loaded.diags.n, 1);
    unload(&loaded);
    loaded = load_text(text);
    assert_false(has_finding(&loaded.diags, SL_DIAG_WARNING, 0, 0, field, part));
    unload(&loaded);
}

static void settings_of_the_shared_tier_without_effect_are_named(void **state)
{
    struct loaded fine = load_with_store(HEAD "limits:\n"
                                              "  - {name: a, rate: 9/s, algorithm: fixed_window, local_factor: 2}\n"
                                              "  - {name: b, layer: b, rate: 9/s, local_factor: 1}\n"
                                              "  - {name: c, layer: c, rate: 9/s, coordination: leased, "
                                              "lease: {block: 2}}\n");

    (void)state;
    one_warning_with_store("rate: 90/s, lease: {block: 5}", "limits[1].lease", "`block` has no effect");
    one_warning_with_store("rate: 90/s, algorithm: fixed_window, local_factor: 1.5", "limits[1].local_factor",
                           "two windows' worth");
    expect_no_findings(&fine);
    unload(&fine);
}

static void limits_that_tie_name_each_other(void **state)
{
    (void)state;
    one_warning(
        HEAD "limits:\n  - {name: a, labels: {x: \"a*\"}, rate: 1/s}\n  - {name: b, labels: {x: \"*b\"}, rate: 1/s}\n",
        5, 5, "", "`b` is as specific as `a` (line 4)");
    one_warning(HEAD
                "limits:\n  - {name: a, labels: {x: \"1\"}, rate: 1/s}\n  - {name: b, labels: {y: \"1\"}, rate: 1/s}\n",
                5, 5, "", "`b` is as specific as `a` (line 4)");
    silent(HEAD
           "limits:\n  - {name: a, labels: {x: \"a*\"}, rate: 1/s}\n  - {name: b, labels: {x: \"b*\"}, rate: 1/s}\n");
    silent(HEAD "limits:\n  - {name: a, labels: {x: \"1\"}, rate: 1/s}\n  - {name: b, layer: l, labels: {y: \"1\"}, "
                "rate: 1/s}\n");
    silent(HEAD "limits:\n  - {name: a, labels: {x: \"1\"}, rate: 1/s}\n  - {name: b, labels: {x: \"1\", y: \"1\"}, "
                "rate: 1/s}\n");
}

static void limits_that_never_win_are_named(void **state)
{
    (void)state;
    one_warning(
        HEAD "limits:\n  - {name: a, labels: {x: \"*\"}, rate: 1/s}\n  - {name: b, labels: {x: \"b*\"}, rate: 1/s}\n",
        5, 5, "", "`b` never wins: `a` (line 4)");
    one_warning(HEAD "limits:\n  - {name: a, rate: 1/s}\n  - {name: b, rate: 1/s, mode: dry_run}\n", 5, 5, "",
                "dry-run limit `b` never wins: `a` (line 4)");
    silent(HEAD "limits:\n  - {name: b, rate: 1/s, mode: dry_run}\n  - {name: a, rate: 1/s}\n");
    silent(HEAD "limits:\n  - {name: a, rate: 1/s}\n  - {name: b, rate: 1/s, mode: off}\n");
    one_warning(HEAD "limits:\n  - {name: a, labels: {x: \"*\"}, per: [address], rate: 1/s}\n  - {name: b, labels: {x: "
                     "\"b*\"}, rate: 1/s}\n",
                5, 5, "", "where both match"); /* requests without an address are left to b */
    silent(HEAD
           "endpoints: {e: {match: [\"a*\"]}, f: {match: [\"a*\"]}}\nlimits: [{name: a, endpoint: f, rate: 1/s}]\n");
    one_warning(HEAD "endpoints: {e: {match: [\"a*\"]}, f: {match: [b, \"a*\"]}}\nlimits: [{name: a, rate: 1/s}]\n", 3,
                36, "", "endpoint `f` never gets `a*`: endpoint `e`");
}

static void tiers_nobody_has_are_named(void **state)
{
    (void)state;
    one_warning(HEAD
                "tiers: {default: free, keys: {k: enterprise}}\nlimits: [{name: a, tier: enterprize, rate: 1/s}]\n",
                4, 26, "limits[0].tier", "did you mean `enterprise`?");
    one_warning(HEAD "limits: [{name: a, tier: pro, rate: 1/s}]\n", 3, 26, "limits[0].tier",
                "only requests that name the tier");
    silent(HEAD "tiers: {default: free}\nlimits: [{name: a, tier: free, rate: 1/s}, {name: b, tier: x, rate: 1/s, "
                "mode: off}]\n");
    one_warning(HEAD "tiers: {keys: {k: free}}\nlimits: [{name: a, tier: free, rate: 1/s},\n  {name: b, key: k, tier: "
                     "pro, rate: 1/s},"
                     " {name: c, key: k, tier: free, rate: 1/s}]\n",
                5, 27, "limits[1].tier", "");
}

static void odd_settings_are_named(void **state)
{
    (void)state;
    one_warning(HEAD "limits: []\n", 3, 9, "limits", "nothing is limited");
    one_warning(HEAD "limits: [{name: a, key_type: usr, rate: 1/s}]\n", 3, 30, "limits[0].key_type",
                "did you mean `user`?");
    silent(HEAD "limits: [{name: a, key_type: device, rate: 1/s}]\n");
    one_warning(HEAD "identity: {trusted_headers: [user]}\nlimits: [{name: a, rate: 1/s}]\n", 3, 29,
                "identity.trusted_headers", "names none");
    one_warning(HEAD "identity: {order: [api_key], headers: {user: X-User}}\nlimits: [{name: a, rate: 1/s}]\n", 3, 46,
                "identity.headers.user", "never read");
    one_warning(HEAD "tiers: {unknown: deny}\nlimits: [{name: a, rate: 1/s}]\n", 3, 18, "tiers.unknown",
                "rejects every request");
    one_warning(HEAD "tiers: {unknown: anonymous}\nlimits: [{name: a, rate: 1/s}]\n", 3, 18, "tiers.unknown",
                "has no effect");
    one_warning(HEAD "limits: [{name: a, cost: 6, rate: 5/s}]\n", 3, 26, "limits[0].cost", "never holds more than 5");
    one_warning(HEAD "endpoints: {e: {match: [e], cost: 6}}\nlimits: [{name: a, endpoint: e, rate: 5/s}]\n", 4, 30,
                "limits[0].endpoint", "a request costs 6");
    one_warning(HEAD "tiers: {keys: {\"2001:db8::1\": t}}\nlimits: [{name: a, rate: 1/s}]\n", 3, 16, "tiers.keys",
                "`2001:db8::/64`");
    one_warning(HEAD "limits: [{name: a, key: \"2001:db8::1\", rate: 1/s}]\n", 3, 25, "limits[0].key",
                "`2001:db8::/64`");
}

static void warnings_come_beside_errors(void **state)
{
    struct loaded loaded =
        load_text("version: 1\nlimits:\n  - {name: a, rate: 1/s}\n  - {name: b, layer: b, rate: x}\n");

    (void)state;
    assert_int_equal(loaded.diags.n_errors, 1);
    expect_warning(&loaded, 3, 5, "limits[0].on_store_failure", "");
    unload(&loaded);
}

static void the_example_loads_without_a_finding(void **state)
{
    struct loaded loaded = load_file(SLUICE_SOURCE_DIR "/deploy/policy.example.yaml");
    struct sluice_request login = request_of("someone", "POST /login"),
                          reads = request_of("someone", "GET /v1/public/x"), free_key = request_of("someone", "GET /"),
                          reports = request_of("acct_8812", "POST /v1/reports");
    struct sl_resolution *r;

    (void)state;
    expect_no_findings(&loaded);
    r = resolve(loaded.policy, &login);
    assert_int_equal(r->items[0].limit->on_store_failure, SL_FAIL_CLOSED);
    r = resolve(loaded.policy, &reads);
    assert_int_equal(r->items[0].limit->on_store_failure, SL_FAIL_OPEN);
    r = resolve(loaded.policy, &reports);
    assert_int_equal(r->n_items, 2);
    assert_int_equal(r->items[0].limit->on_store_failure, SL_FAIL_CLOSED);
    r = resolve(loaded.policy, &free_key);
    assert_string_equal(r->items[0].limit->name, "free");
    assert_int_equal(r->n_dry, 1);
    unload(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_without_a_failure_mode_is_named),
        cmocka_unit_test(many_limits_without_a_failure_mode_are_summed_up),
        cmocka_unit_test(fields_that_need_a_store_say_so),
        cmocka_unit_test(idle_fields_say_so),
        cmocka_unit_test(settings_of_the_shared_tier_without_effect_are_named),
        cmocka_unit_test(limits_that_tie_name_each_other),
        cmocka_unit_test(limits_that_never_win_are_named),
        cmocka_unit_test(tiers_nobody_has_are_named),
        cmocka_unit_test(odd_settings_are_named),
        cmocka_unit_test(warnings_come_beside_errors),
        cmocka_unit_test(the_example_loads_without_a_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
