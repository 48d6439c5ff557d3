/* show, explain and diff: what they say, and that explanations agree with decisions. */
#include "support.h"

#include "model.h"
#include "policy/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLICY                                                                            \
    "version: 1\n"                                                                        \
    "defaults: {on_store_failure: local}\n"                                               \
    "tiers: {default: free, keys: {k1: pro}}\n"                                           \
    "endpoints: {search: {match: [\"GET /s*\"], cost: 5}, get: {match: [\"GET *\"]}}\n"   \
    "ceiling: {rate: 50/s, burst: 60}\n"                                                  \
    "limits:\n"                                                                           \
    "  - {name: all, rate: 100/s}\n"                                                      \
    "  - {name: pro, tier: pro, rate: 10/s, burst: 20, warn_at: 80%, note: hello}\n"      \
    "  - {name: search, endpoint: search, rates: [5/s, 90/m], algorithm: fixed_window}\n" \
    "  - {name: next, tier: pro, endpoint: search, rate: 1/s, mode: dry_run}\n"           \
    "  - {name: gone, key: k1, rate: 1/s, mode: off}\n"                                   \
    "  - {name: edge, layer: edge, per: [address], rate: unlimited}\n"

static json_t *at(json_t *value, const char *path)
{
    char step[64];

    while (value && *path) {
        size_t len = strcspn(path, ".");

        snprintf(step, sizeof step, "%.*s", (int)len, path);
        value = json_is_array(value) ? json_array_get(value, strtoul(step, NULL, 10)) : json_object_get(value, step);
        path += len + (path[len] == '.');
    }
    return value;
}

static void is_text(json_t *root, const char *path, const char *text)
{
    json_t *value = at(root, path);

    if (!json_is_string(value) || strcmp(json_string_value(value), text) != 0) {
        json_dumpf(root, stderr, JSON_INDENT(1));
        fail_msg("%s is not %s", path, text);
    }
}

static void contains_text(json_t *root, const char *path, const char *part)
{
    const char *text = json_string_value(at(root, path));

    if (!text || !strstr(text, part)) {
        json_dumpf(root, stderr, JSON_INDENT(1));
        fail_msg("%s does not contain %s", path, part);
    }
}

/* Prints through `print` into a string; free it. */
static char *printed(void (*print)(void *ctx, FILE *out), void *ctx)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    print(ctx, out);
    fclose(out);
    assert_true(len > 0 && text[len - 1] == '\n');
    return text;
}

static void show_tells_what_is_written_and_what_holds(void **state)
{
    struct sl_policy *policy = must_load(POLICY);
    json_t *show = sl_policy_show_json(policy);

    (void)state;
    is_text(show, "limits.0.name", "all");
    is_text(show, "limits.0.rates.0", "100/s");
    is_text(show, "limits.0.effective.0", "50/s burst 60");
    assert_true(json_is_true(at(show, "limits.0.capped")));
    is_text(show, "limits.1.effective.0", "10/s burst 20");
    assert_true(json_is_false(at(show, "limits.1.capped")));
    is_text(show, "limits.1.match.tier", "pro");
    is_text(show, "limits.1.warn_at", "80%");
    is_text(show, "limits.1.note", "hello");
    is_text(show, "limits.2.effective.1", "60/m"); /* the ceiling's burst */
    is_text(show, "limits.4.mode", "off");
    is_text(show, "limits.5.per.0", "address");
    is_text(show, "limits.5.effective.0", "unlimited");
    is_text(show, "ceiling", "50/s burst 60");
    is_text(show, "layers.1", "edge");
    is_text(show, "endpoints.0.match.0", "GET /s*");
    is_text(show, "tiers.default", "free");
    assert_int_equal(json_integer_value(at(show, "tiers.keys")), 1);
    is_text(show, "identity.order.0.header", "x-api-key");
    is_text(show, "hash", sl_policy_hash(policy));
    json_decref(show);
    sl_policy_unref(policy);
}

static void explain_tells_every_step(void **state)
{
    struct sl_policy *policy = must_load(POLICY);
    struct sluice_request request = request_of("k1", "GET /search");
    json_t *e = sl_policy_explain_json(policy, &request, 1);

    (void)state;
    is_text(e, "endpoint.name", "search");
    is_text(e, "endpoint.glob", "GET /s*");
    is_text(e, "endpoint.also.0.endpoint", "get");
    is_text(e, "endpoint.also.0.why", "less literal text");
    is_text(e, "tier.name", "pro");
    contains_text(e, "tier.from", "tiers.keys");
    is_text(e, "layers.0.winner", "search");
    is_text(e, "layers.0.dry_run", "next");
    is_text(e, "layers.0.candidates.0.limit", "next");
    is_text(e, "layers.0.candidates.0.result", "dry_run");
    is_text(e, "layers.0.candidates.1.limit", "gone");
    contains_text(e, "layers.0.candidates.1.why", "mode is off");
    is_text(e, "layers.0.candidates.2.result", "wins");
    is_text(e, "layers.0.candidates.3.limit", "pro");
    contains_text(e, "layers.0.candidates.3.why", "that one names `endpoint`");
    contains_text(e, "layers.0.candidates.4.why", "names 0 fields where `search` names 1");
    contains_text(e, "layers.1.candidates.0.why", "separates by address");
    assert_int_equal(json_array_size(at(e, "buckets")), 2);
    is_text(e, "buckets.1.written", "90/m");
    is_text(e, "buckets.1.effective", "60/m");
    is_text(e, "buckets.1.cut.0", "COUNT");
    assert_true(json_is_true(at(e, "buckets.1.capped")));
    assert_true(json_is_false(at(e, "buckets.0.capped")));
    assert_int_equal(json_array_size(at(e, "buckets.0.cut")), 0);
    assert_int_equal(json_integer_value(at(e, "buckets.0.cost")), 5);
    is_text(e, "buckets.0.cost_from", "the endpoint");
    contains_text(e, "buckets.0.coordination", "local and exact");
    contains_text(e, "buckets.0.on_store_failure", "local:");
    is_text(e, "dry_run.0.limit", "next");
    json_decref(e);
    sl_policy_unref(policy);
}

static void explain_tells_the_endpoint_of_a_layer(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\nendpoints: {css: {match: [\"*.css\"]}, blog: {match: [\"GET /blog/*\"]}}\n"
                  "limits:\n  - {name: css, endpoint: css, rate: 1/s}\n"
                  "  - {name: dry-blog, tier: t, endpoint: blog, rate: 1/s, mode: dry_run}\n"
                  "  - {name: dry-css, tier: u, endpoint: css, rate: 1/s, mode: dry_run}\n");
    struct sluice_request request = request_of("k", "GET /blog/x.css");
    json_t *e;

    (void)state;
    request.tier = "u";
    request.tier_len = 1;
    e = sl_policy_explain_json(policy, &request, 1);
    is_text(e, "endpoint.name", "blog");
    is_text(e, "layers.0.endpoint", "css");
    is_text(e, "layers.0.winner", "css");
    is_text(e, "layers.0.candidates.0.limit", "dry-css");
    contains_text(e, "layers.0.candidates.0.why", "belongs to endpoint `blog` here");
    json_decref(e);
    sl_policy_unref(policy);
}

static void explain_tells_how_it_ends(void **state)
{
    struct sl_policy *deny = must_load("version: 1\nunmatched: deny\nlimits: [{name: a, tier: t, rate: blocked}]\n"),
                     *allow = must_load("version: 1\nlimits: []\n"),
                     *ceiling = must_load("version: 1\nlimits: []\nceiling: {rate: 1/s}\n"),
                     *unknown = must_load("version: 1\nlimits: []\ntiers: {unknown: deny, keys: {k: t}}\n");
    struct sluice_request request = request_of("x", NULL), blocked = request;
    const struct {
        struct sl_policy *policy;
        struct sluice_request *request;
        const char *part;
    } cases[] = {{deny, &request, "unmatched is deny"},
                 {deny, &blocked, "blocked applies"},
                 {allow, &request, "allowed: no limit"},
                 {ceiling, &request, "against the ceiling"},
                 {unknown, &request, "unknown to the policy"}};

    (void)state;
    blocked.tier = "t";
    blocked.tier_len = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *e = sl_policy_explain_json(cases[i].policy, cases[i].request, 1);

        contains_text(e, "outcome", cases[i].part);
        json_decref(e);
    }
    sl_policy_unref(deny);
    sl_policy_unref(allow);
    sl_policy_unref(ceiling);
    sl_policy_unref(unknown);
}

/* The slow walk of explain and the tables must name the same winners. */
static void explanations_agree_with_decisions(void **state)
{
    static const char *const keys[] = {"k1", "k2", "other"}, *const scopes[] = {"", "a", "ab", "GET /a", "bca"},
                             *const tiers[] = {"free", "pro", "gold"};
    static char text[20000];
    struct model_policy model;

    (void)state;
    srand(5);
    for (int i = 0; i < 100; i++) {
        struct sl_policy *policy;

        model_random(&model);
        model_write(&model, text, sizeof text);
        policy = must_load(text);
        for (int k = 0; k < 10; k++) {
            struct sluice_request request = request_of(keys[rand() % 3], scopes[rand() % 5]);
            const struct sl_resolution *r;
            json_t *e;

            request.tier = tiers[rand() % 3];
            request.tier_len = strlen(request.tier);
            e = sl_policy_explain_json(policy, &request, 1);
            r = resolve(policy, &request);
            for (size_t layer = 0; layer < sl_policy_n_layers(policy); layer++) {
                const char *said = json_string_value(json_object_get(json_array_get(at(e, "layers"), layer), "winner"));

                assert_string_equal(said ? said : "", r->winners[layer] ? r->winners[layer]->name : "");
            }
            assert_int_equal(json_array_size(at(e, "buckets")), r->n_items);
            assert_int_equal(json_array_size(at(e, "dry_run")), r->n_dry);
            json_decref(e);
        }
        sl_policy_unref(policy);
    }
}

/* ---- diff ------------------------------------------------------------------------------------------------------- */

static json_t *diff_of(const char *from, const char *to)
{
    struct sl_policy *x = must_load(from), *y = must_load(to);
    json_t *diff = sl_policy_diff_json(x, y);

    assert_non_null(diff);
    sl_policy_unref(x);
    sl_policy_unref(y);
    return diff;
}

static void no_change(const char *from, const char *to)
{
    json_t *diff = diff_of(from, to);

    if (json_array_size(at(diff, "changes")))
        json_dumpf(diff, stderr, JSON_INDENT(1));
    assert_int_equal(json_array_size(at(diff, "changes")), 0);
    json_decref(diff);
}

static void one_change(const char *from, const char *to, const char *kind, const char *name)
{
    json_t *diff = diff_of(from, to);

    if (json_array_size(at(diff, "changes")) != 1)
        json_dumpf(diff, stderr, JSON_INDENT(1));
    assert_int_equal(json_array_size(at(diff, "changes")), 1);
    is_text(diff, "changes.0.kind", kind);
    if (name)
        is_text(diff, "changes.0.name", name);
    json_decref(diff);
}

#define V "version: 1\n"

static void what_means_the_same_is_no_change(void **state)
{
    (void)state;
    no_change(POLICY, POLICY);
    no_change(POLICY, "# a comment\n\n" POLICY);
    no_change(V "limits: [{name: a, rate: 60/m}]\n", V "limits:\n  - name: a\n    rate: \"60/1m\"\n");
    no_change(V "limits: [{name: a, tier: x, rate: 1/s}, {name: b, tier: y, rate: 1/s}]\n",
              V "limits: [{name: b, tier: y, rate: 1/s}, {name: a, tier: x, rate: 1/s}]\n");
    no_change(V "defaults: {cost: 2}\nlimits: [{name: a, rate: 1/s}]\n", V "limits: [{name: a, rate: 1/s, cost: 2}]\n");
    no_change(V "endpoints: {a: {match: [x]}, b: {match: [\"y*\"]}}\nlimits: []\n",
              V "endpoints: {b: {match: [\"y*\"]}, a: {match: [x]}}\nlimits: []\n");
    no_change(V "limits: [{name: a, labels: {x: \"1\"}, rate: 1/s}, {name: b, labels: {x: \"2\"}, rate: 1/s}]\n",
              V "limits: [{name: b, labels: {x: \"2\"}, rate: 1/s}, {name: a, labels: {x: \"1\"}, rate: 1/s}]\n");
}

static void every_kind_of_change_is_told(void **state)
{
    (void)state;
    one_change(V "limits: []\n", V "limits: [{name: a, rate: 1/s}]\nidentity: {ipv6_prefix: 64}\n", "limit_added", "a");
    one_change(V "limits: [{name: a, layer: x, rate: 1/s}, {name: b, layer: y, rate: 1/s}]\n",
               V "limits: [{name: b, layer: y, rate: 1/s}, {name: a, layer: x, rate: 1/s}]\n", "setting_changed",
               "layers");
    one_change(V "limits: [{name: a, rate: 1/s}]\n", V "limits: [{name: a, rate: 1/s}]\nunmatched: deny\n",
               "setting_changed", "unmatched");
    one_change(V "limits: [{name: a, rate: 1/s}]\n", V "limits: [{name: a, rate: 1/s}]\nhttp: {headers: x}\n",
               "setting_changed", "http");
    one_change(V "limits: [{name: a, rate: 1/s}]\n",
               V "limits: [{name: a, rate: 1/s}]\nidentity: {trusted_proxies: [10.0.0.0/8]}\n", "setting_changed",
               "identity");
    one_change(V "limits: [{name: a, rate: 1/s}]\n",
               V "limits: [{name: a, rate: 1/s}, {name: b, tier: t, rate: 1/s}]\n", "limit_added", "b");
    one_change(V "limits: [{name: a, rate: 1/s}, {name: b, tier: t, rate: 1/s}]\n",
               V "limits: [{name: a, rate: 1/s}]\n", "limit_removed", "b");
    one_change(V "limits: []\ntiers: {keys: {k: a, l: b}}\n", V "limits: []\ntiers: {keys: {k: a, l: c}}\n",
               "key_changed", "l");
    one_change(V "limits: []\ntiers: {keys: {k: a}}\n", V "limits: []\ntiers: {keys: {k: a, m: b}}\n", "key_changed",
               "m");
    one_change(V "limits: []\ntiers: {keys: {k: a, m: b}}\n", V "limits: []\ntiers: {keys: {k: a}}\n", "key_changed",
               "m");
    one_change(V "limits: []\n", V "limits: []\nendpoints: {e: {match: [x]}}\n", "endpoint_added", "e");
    one_change(V "limits: []\nendpoints: {e: {match: [x]}}\n", V "limits: []\n", "endpoint_removed", "e");
    one_change(V "limits: []\nendpoints: {e: {match: [x]}}\n", V "limits: []\nendpoints: {e: {match: [x], cost: 2}}\n",
               "endpoint_changed", "e");
    one_change(V "limits: []\nendpoints: {a: {match: [\"x*\"]}, b: {match: [\"*x\"]}}\n",
               V "limits: []\nendpoints: {b: {match: [\"*x\"]}, a: {match: [\"x*\"]}}\n", "endpoint_order_changed",
               "b, a");
    one_change(V "limits: [{name: a, labels: {x: \"1\"}, rate: 1/s}, {name: b, labels: {y: \"2\"}, rate: 1/s}]\n",
               V "limits: [{name: b, labels: {y: \"2\"}, rate: 1/s}, {name: a, labels: {x: \"1\"}, rate: 1/s}]\n",
               "order_changed", "b, a");
}

static void state_is(const char *from, const char *to, const char *part)
{
    char x[300], y[300];
    json_t *diff;

    snprintf(x, sizeof x, V "limits: [{name: a, %s}]\n", from);
    snprintf(y, sizeof y, V "limits: [{name: a, %s}]\n", to);
    diff = diff_of(x, y);
    is_text(diff, "changes.0.kind", "limit_changed");
    contains_text(diff, "changes.0.state", part);
    json_decref(diff);
}

static void what_happens_to_buckets_is_told(void **state)
{
    (void)state;
    state_is("rate: 5/s", "rate: 6/s", "keep their debt in time");
    state_is("rate: 5/s, algorithm: fixed_window", "rate: 6/s, algorithm: fixed_window", "keep their count");
    state_is("rate: 5/s", "rate: 5/s, algorithm: leaky_bucket", "begin full");
    state_is("rate: 5/s", "rate: 5/s, per: [key, endpoint]", "begin full");
    state_is("rate: 5/s, per: [label.x]", "rate: 5/s, per: [label.y]", "begin full");
    state_is("rate: 5/s", "rate: 5/s, mode: dry_run", "keep their state");
    state_is("rate: 5/s", "rate: 5/s, tier: t", "keep their state");
    state_is("rate: 5/s", "rate: blocked", "no state any more");
    state_is("rate: unlimited", "rate: 5/s", "begin full");
    state_is("rate: unlimited", "rate: blocked", "keeps no state");
    state_is("rate: 5/s", "rates: [5/s, 9/m]", "further rates begin full");
}

static void many_changed_keys_are_summed_up(void **state)
{
    static char from[10000] = V "limits: []\ntiers: {keys: {", to[10000] = V "limits: []\ntiers: {keys: {";
    json_t *diff;

    (void)state;
    for (int i = 0; i < 150; i++) {
        snprintf(from + strlen(from), sizeof from - strlen(from), "%sk%d: a", i ? ", " : "", i);
        snprintf(to + strlen(to), sizeof to - strlen(to), "%sk%d: b", i ? ", " : "", i);
    }
    snprintf(from + strlen(from), sizeof from - strlen(from), "%s", "}}\n");
    snprintf(to + strlen(to), sizeof to - strlen(to), "%s", "}}\n");
    diff = diff_of(from, to);
    assert_int_equal(json_array_size(at(diff, "changes")), 101);
    contains_text(diff, "changes.100.name", "50 more keys");
    json_decref(diff);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void print_show(void *ctx, FILE *out)
{
    sl_policy_show_text(ctx, out);
}

static void print_explain(void *ctx, FILE *out)
{
    struct sluice_request request = request_of("k1", "GET /search");

    sl_policy_explain_text(ctx, &request, 1, out);
}

static void print_diff(void *ctx, FILE *out)
{
    struct sl_policy **pair = ctx;

    sl_policy_diff_text(pair[0], pair[1], out);
}

static void has_parts(char *text, const char *const *parts)
{
    for (; *parts; parts++)
        if (!strstr(text, *parts))
            fail_msg("`%s` is not in:\n%s", *parts, text);
    free(text);
}

static void reports_print_for_people(void **state)
{
    static const char *const show[] = {"layer default",
                                       "(under the ceiling)",
                                       "[dry_run]",
                                       "matches everything",
                                       "fixed_window 5/s and 60/m per key",
                                       "warns at 80 %",
                                       NULL};
    static const char *const explain[] = {
        "endpoint  search (by `GET /s*`)", "not get", "wins", "dry run next", "tier      pro",
        "cost 5 (from the endpoint)",      NULL};
    static const char *const diff[] = {"~ limit changed: all",
                                       "rates: [100/s] -> [7/s]",
                                       "state: ",
                                       "- limit removed: pro",
                                       "~ setting changed: ceiling: 50/s burst 60 -> null",
                                       NULL};
    static const char *const none[] = {"no change", NULL};
    struct sl_policy *pair[2] = {
        must_load(POLICY), must_load(V "defaults: {on_store_failure: local}\nlimits: [{name: all, rate: 7/s}]\n")};

    (void)state;
    has_parts(printed(print_show, pair[0]), show);
    has_parts(printed(print_explain, pair[0]), explain);
    has_parts(printed(print_diff, pair), diff);
    sl_policy_unref(pair[1]);
    pair[1] = pair[0];
    has_parts(printed(print_diff, pair), none);
    sl_policy_unref(pair[0]);
}

static void passwords_of_stores_are_not_shown(void **state)
{
    struct sl_policy *from = must_load("version: 1\nlimits: []\ndedicated:\n"
                                       "  - {keys: [a], store: \"redis://me:p%40ss@h:1/2\"}\n"
                                       "  - {keys: [b], store: \"redis://h\"}\n"),
                     *to = must_load("version: 1\nlimits: []\ndedicated:\n"
                                     "  - {keys: [a], store: \"redis://me:other@h:1/2\"}\n"
                                     "  - {keys: [b], store: \"redis://h\"}\n");
    json_t *show = sl_policy_show_json(from), *diff = sl_policy_diff_json(from, to);

    (void)state;
    is_text(show, "dedicated.0.store", "redis://***@h:1/2");
    is_text(show, "dedicated.1.store", "redis://h");
    assert_int_equal(json_array_size(at(diff, "changes")), 1);
    is_text(diff, "changes.0.name", "the login of a dedicated store");
    json_decref(show);
    json_decref(diff);
    sl_policy_unref(from);
    sl_policy_unref(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passwords_of_stores_are_not_shown),
        cmocka_unit_test(show_tells_what_is_written_and_what_holds),
        cmocka_unit_test(explain_tells_every_step),
        cmocka_unit_test(explain_tells_the_endpoint_of_a_layer),
        cmocka_unit_test(explain_tells_how_it_ends),
        cmocka_unit_test(explanations_agree_with_decisions),
        cmocka_unit_test(what_means_the_same_is_no_change),
        cmocka_unit_test(every_kind_of_change_is_told),
        cmocka_unit_test(what_happens_to_buckets_is_told),
        cmocka_unit_test(many_changed_keys_are_summed_up),
        cmocka_unit_test(reports_print_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
