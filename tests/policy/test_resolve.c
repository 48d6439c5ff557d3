/* Resolution by example: precedence, layers, tiers, costs, dry runs, ceiling, buckets. */
#include "support.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

static const char *winner_in(const struct sl_policy *policy, const char *layer, const struct sluice_request *request)
{
    const struct sl_resolution *r = resolve(policy, request);

    for (size_t i = 0; i < sl_policy_n_layers(policy); i++)
        if (!strcmp(sl_policy_layer_name(policy, i), layer))
            return r->winners[i] ? r->winners[i]->name : "";
    return "no such layer";
}

static const char *winner(const struct sl_policy *policy, const char *key, const char *key_type, const char *scope,
                          const char *tier)
{
    struct sluice_request request = request_of(key, scope);

    request.key_type = key_type;
    request.key_type_len = key_type ? strlen(key_type) : 0;
    request.tier = tier;
    request.tier_len = tier ? strlen(tier) : 0;
    return winner_in(policy, "default", &request);
}

static void the_more_specific_limit_wins(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\n"
                  "endpoints: {e: {match: [\"e*\"]}}\n"
                  "limits:\n"
                  "  - {name: all, rate: 1/s}\n"
                  "  - {name: type, key_type: user, rate: 1/s}\n"
                  "  - {name: tier, tier: t, rate: 1/s}\n"
                  "  - {name: endpoint, endpoint: e, rate: 1/s}\n"
                  "  - {name: key, key: k, rate: 1/s}\n"
                  "  - {name: tier-type, tier: t, key_type: user, rate: 1/s}\n"
                  "  - {name: endpoint-type, endpoint: e, key_type: user, rate: 1/s}\n"
                  "  - {name: endpoint-tier-type, endpoint: e, tier: t, key_type: user, rate: 1/s}\n"
                  "  - {name: key-type, key: k2, key_type: user, rate: 1/s}\n");

    (void)state;
    assert_string_equal(winner(policy, "x", NULL, NULL, NULL), "all");
    assert_string_equal(winner(policy, "x", "user", NULL, NULL), "type");
    assert_string_equal(winner(policy, "x", NULL, NULL, "t"), "tier");
    assert_string_equal(winner(policy, "x", NULL, "e1", "t"), "endpoint"); /* ranks above tier */
    assert_string_equal(winner(policy, "k", NULL, "e1", "t"), "key");      /* ranks above endpoint */
    assert_string_equal(winner(policy, "k", "user", NULL, "t"),
                        "tier-type"); /* two fields beat one, whatever the rank */
    assert_string_equal(winner(policy, "k", "user", "e1", "u"), "endpoint-type");
    assert_string_equal(winner(policy, "k", "user", "e1", "t"), "endpoint-tier-type");
    assert_string_equal(winner(policy, "k2", "user", "e1", "u"), "key-type");
    assert_string_equal(winner(policy, "k2", NULL, "f", "u"), "all");
    assert_string_equal(winner(policy, "x", "device", "f", "u"), "all");
    sl_policy_unref(policy);
}

static void label(struct sluice_label *l, const char *name, const char *value)
{
    *l = (struct sluice_label){name, strlen(name), value, strlen(value)};
}

static void labels_count_one_each_and_ties_go_to_the_earlier(void **state)
{
    struct sl_policy *policy = must_load("version: 1\n"
                                         "limits:\n"
                                         "  - {name: glob, labels: {a: \"x*\"}, rate: 1/s}\n"
                                         "  - {name: exact, labels: {a: xy}, rate: 1/s}\n"
                                         "  - {name: other, labels: {b: \"*\"}, rate: 1/s}\n"
                                         "  - {name: two, labels: {b: \"*\", c: z}, rate: 1/s}\n"
                                         "  - {name: tier, tier: t, rate: 1/s}\n"
                                         "  - {name: exact-first, layer: l, labels: {a: xy}, rate: 1/s}\n"
                                         "  - {name: glob-later, layer: l, labels: {a: \"x*\"}, rate: 1/s}\n");
    struct sluice_label labels[3];
    struct sluice_request request = request_of("k", NULL);

    (void)state;
    request.labels = labels;
    label(&labels[0], "a", "xy");
    label(&labels[1], "b", "");
    label(&labels[2], "c", "z");
    request.n_labels = 1;
    assert_string_equal(winner_in(policy, "default", &request), "glob"); /* as specific, earlier in the file */
    assert_string_equal(winner_in(policy, "l", &request), "exact-first");
    label(&labels[0], "a", "xz");
    assert_string_equal(winner_in(policy, "l", &request), "glob-later");
    label(&labels[0], "a", "z");
    assert_string_equal(winner_in(policy, "default", &request), "");
    request.n_labels = 2;
    assert_string_equal(winner_in(policy, "default", &request), "other");
    request.n_labels = 3;
    assert_string_equal(winner_in(policy, "default", &request), "two");
    request.tier = "t";
    request.tier_len = 1;
    request.n_labels = 2;
    assert_string_equal(winner_in(policy, "default", &request), "tier"); /* ranks above labels */
    sl_policy_unref(policy);
}

static void the_longest_literal_text_gives_the_endpoint(void **state)
{
    struct sl_policy *policy = must_load("version: 1\n"
                                         "endpoints:\n"
                                         "  any: {match: [\"*\"]}\n"
                                         "  get: {match: [\"GET *\"]}\n"
                                         "  search: {match: [\"GET /v1/search*\", \"api:search\"]}\n"
                                         "  v1: {match: [\"GET /v1/*\"]}\n"
                                         "  suffix: {match: [\"*/v1/search/deep/er\"]}\n"
                                         "  same: {match: [\"GET /v1/searc?*\"]}\n"
                                         "  exact: {match: [\"GET /v1/search\"]}\n"
                                         "  orders: {match: [\"GET /v1/orders/*/items\"]}\n"
                                         "limits: []\n");
    static const struct {
        const char *scope, *endpoint;
    } cases[] = {
        {"", "any"},
        {"POST /", "any"},
        {"GET /", "get"},
        {"GET /v1/x", "v1"},
        {"GET /v1/search", "search"}, /* as long as `exact`, and earlier */
        {"GET /v1/search/a/b", "search"},
        {"GET /v1/search/deep/er", "suffix"},
        {"GET /v1/searcx", "same"},
        {"api:search", "search"},
        {"api:searchx", "any"},
        {"GET /v1/orders/5/items", "orders"},
        {"GET /v1/orders/5/6/items", "orders"}, /* a star takes slashes too */
        {"GET /v1/orders/items", "v1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sluice_request request = request_of("k", cases[i].scope);

        assert_string_equal(resolve(policy, &request)->endpoint, cases[i].endpoint);
    }
    sl_policy_unref(policy);
}

/* A scope belongs to one endpoint, but a layer knows only the endpoints its limits name: one that is defined for
 * another layer takes no scope away from a limit here. */
static void layers_choose_among_the_endpoints_they_name(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\n"
                  "endpoints: {css: {match: [\"*.css\"], cost: 3}, blog: {match: [\"GET /blog/*\"], cost: 7},"
                  " docs: {match: [\"GET /blog/d*\"]}}\n"
                  "limits:\n"
                  "  - {name: all, rate: 1/s}\n"
                  "  - {name: blog, endpoint: blog, rate: 1/s}\n"
                  "  - {name: css, layer: backend, endpoint: css, per: [endpoint], rate: 1/s}\n"
                  "  - {name: blog2, layer: both, endpoint: blog, rate: 1/s}\n"
                  "  - {name: css2, layer: both, endpoint: css, rate: 1/s}\n"
                  "  - {name: css3, layer: dry, endpoint: css, rate: 1/s}\n"
                  "  - {name: docs3, layer: dry, endpoint: docs, rate: 1/s, mode: dry_run}\n");
    struct sluice_request request = request_of("k", "GET /blog/x.css"), docs = request_of("k", "GET /blog/d.css");
    struct sl_resolution *r;

    (void)state;
    assert_string_equal(winner_in(policy, "default", &request), "blog");
    assert_string_equal(winner_in(policy, "backend", &request), "css");
    assert_string_equal(winner_in(policy, "both", &request), "blog2"); /* longer literal text */
    assert_string_equal(winner_in(policy, "dry", &request), "css3");
    r = resolve(policy, &request);
    assert_string_equal(r->endpoint, "blog");
    assert_int_equal(r->items[0].cost, 7); /* one cost a request: that of the endpoint it belongs to */
    assert_int_equal(r->items[1].cost, 7);
    assert_int_equal(r->n_dry, 0);
    r = resolve(policy, &docs);
    assert_string_equal(r->endpoint, "docs");
    assert_string_equal(r->winners[0]->name, "blog");
    assert_string_equal(r->winners[3]->name, "css3"); /* the dry run must not take it away */
    assert_int_equal(r->n_dry, 1);
    assert_string_equal(r->dry[0].limit->name, "docs3");
    sl_policy_unref(policy);
}

static void tiers_come_from_the_request_then_tables_then_settings(void **state)
{
    struct sl_policy *policy =
                         must_load("version: 1\n"
                                   "tiers: {default: free, anonymous: anon, keys: {k1: pro, \"192.0.2.1\": partner}}\n"
                                   "limits: [{name: a, tier: gold, rate: 1/s}]\n"),
                     *deny = must_load(
                         "version: 1\ntiers: {default: free, anonymous: anon, unknown: deny, keys: {k1: pro}}\n"
                         "limits: []\n"),
                     *anon = must_load(
                         "version: 1\ntiers: {default: free, anonymous: anon, unknown: anonymous, keys: {k1: pro}}\n"
                         "limits: []\n");
    struct sluice_request k1 = request_of("k1", NULL), k2 = request_of("k2", NULL), ip = request_of("192.0.2.9", NULL),
                          partner = request_of("192.0.2.1", NULL), named = k1, strange = k1;

    (void)state;
    ip.key_type = partner.key_type = "address";
    ip.key_type_len = partner.key_type_len = 7;
    named.tier = "gold";
    named.tier_len = 4;
    strange.tier = "platinum";
    strange.tier_len = 8;
    assert_string_equal(resolve(policy, &k1)->tier, "pro");
    assert_string_equal(resolve(policy, &k2)->tier, "free");
    assert_string_equal(resolve(policy, &ip)->tier, "anon");
    assert_string_equal(resolve(policy, &partner)->tier, "partner");
    assert_string_equal(resolve(policy, &named)->tier, "gold");
    assert_string_equal(resolve(policy, &strange)->tier, ""); /* one the policy does not know */
    assert_false(resolve(deny, &k1)->denied);
    assert_true(resolve(deny, &k2)->denied);
    assert_false(resolve(deny, &ip)->denied);
    assert_string_equal(resolve(deny, &ip)->tier, "anon");
    assert_string_equal(resolve(anon, &k2)->tier, "anon");
    sl_policy_unref(policy);
    sl_policy_unref(deny);
    sl_policy_unref(anon);
}

static void costs_come_from_the_request_then_limit_then_endpoint(void **state)
{
    struct sl_policy *policy = must_load("version: 1\n"
                                         "endpoints: {e: {match: [e], cost: 5}, z: {match: [z], cost: 0}}\n"
                                         "limits:\n"
                                         "  - {name: a, rate: 100/s}\n"
                                         "  - {name: b, layer: b, rate: 100/s, cost: 7}\n");
    struct sluice_request e = request_of("k", "e"), other = request_of("k", "x"), z = request_of("k", "z"), own = e;

    (void)state;
    own.cost = 3;
    assert_int_equal(resolve(policy, &e)->items[0].cost, 5);
    assert_int_equal(resolve(policy, &e)->items[1].cost, 7);
    assert_int_equal(resolve(policy, &other)->items[0].cost, 1);
    assert_int_equal(resolve(policy, &other)->items[1].cost, 7);
    assert_int_equal(resolve(policy, &z)->items[0].cost, 0);
    assert_int_equal(resolve(policy, &own)->items[0].cost, 3);
    assert_int_equal(resolve(policy, &own)->items[1].cost, 3);
    own.cost = 0;
    assert_int_equal(resolve(policy, &own)->items[1].cost, 0);
    sl_policy_unref(policy);
}

static void layers_stand_in_the_order_of_the_file(void **state)
{
    struct sl_policy *policy = must_load("version: 1\n"
                                         "limits:\n"
                                         "  - {name: edge, layer: edge, rates: [1/s, 2/s]}\n"
                                         "  - {name: main, rate: 3/s}\n"
                                         "  - {name: off, layer: quiet, rate: 3/s, mode: off}\n"
                                         "  - {name: free, layer: free, rate: unlimited}\n"
                                         "  - {name: shut, layer: shut, tier: bad, rate: blocked}\n");
    struct sluice_request request = request_of("k", NULL);
    struct sl_resolution *r = resolve(policy, &request);

    (void)state;
    assert_int_equal(r->n_items, 3);
    assert_string_equal(r->items[0].limit->name, "edge");
    assert_int_equal(r->items[0].rate_idx, 0);
    assert_int_equal(r->items[1].rate_idx, 1);
    assert_ptr_equal(r->items[1].shape, &r->items[1].limit->shapes[1]);
    assert_string_equal(r->items[2].limit->name, "main");
    assert_null(r->blocked);
    assert_string_equal(r->unlimited->name, "free");
    assert_false(r->unmatched);
    assert_null(r->winners[2]);
    assert_null(r->winners[7]);
    request.tier = "bad";
    request.tier_len = 3;
    r = resolve(policy, &request);
    assert_string_equal(r->blocked->name, "shut");
    assert_int_equal(r->n_items, 3); /* the others are still known, for what they would have said */
    sl_policy_unref(policy);
}

static void unmatched_requests_are_allowed_or_denied(void **state)
{
    struct sl_policy *allow = must_load("version: 1\nlimits: [{name: a, tier: t, rate: 1/s}]\n"),
                     *deny = must_load(
                         "version: 1\nunmatched: deny\nlimits: [{name: a, tier: t, rate: 1/s, mode: dry_run}]\n");
    struct sluice_request request = request_of("k", NULL);
    struct sl_resolution *r = resolve(allow, &request);

    (void)state;
    assert_true(r->unmatched && !r->denied && r->n_items == 0);
    request.tier = "t";
    request.tier_len = 1;
    assert_false(resolve(allow, &request)->unmatched);
    r = resolve(deny, &request); /* a dry-run limit is no match */
    assert_true(r->unmatched && r->denied && r->n_items == 0);
    assert_int_equal(r->n_dry, 1);
    sl_policy_unref(allow);
    sl_policy_unref(deny);
}

static void dry_run_limits_win_beside_the_verdict_only(void **state)
{
    struct sl_policy *policy = must_load("version: 1\n"
                                         "limits:\n"
                                         "  - {name: all, rate: 9/s}\n"
                                         "  - {name: dry-all-later, rate: 1/s, mode: dry_run}\n"
                                         "  - {name: dry-tier, tier: t, rates: [1/s, 2/s], mode: dry_run}\n"
                                         "  - {name: tier-u, tier: u, rate: 8/s}\n"
                                         "  - {name: dry-blocked, tier: b, rate: blocked, mode: dry_run}\n");
    struct sluice_request request = request_of("k", NULL);
    struct sl_resolution *r = resolve(policy, &request);

    (void)state;
    assert_int_equal(r->n_dry, 0); /* `all` is as specific and earlier */
    assert_string_equal(r->items[0].limit->name, "all");
    request.tier = "t";
    request.tier_len = 1;
    r = resolve(policy, &request);
    assert_string_equal(r->items[0].limit->name, "all");
    assert_int_equal(r->n_dry, 2);
    assert_string_equal(r->dry[1].limit->name, "dry-tier");
    request.tier = "u";
    assert_int_equal(resolve(policy, &request)->n_dry, 0);
    request.tier = "b";
    r = resolve(policy, &request);
    assert_int_equal(r->n_dry, 0);
    assert_string_equal(r->dry_blocked->name, "dry-blocked");
    assert_null(r->blocked);
    sl_policy_unref(policy);
}

static void a_limit_per_address_needs_one(void **state)
{
    struct sl_policy *policy = must_load("version: 1\n"
                                         "limits:\n"
                                         "  - {name: by-address, tier: t, per: [address], rate: 1/s}\n"
                                         "  - {name: all, rate: 1/s}\n");
    struct sluice_request request = request_of("k", NULL), ip = request_of("192.0.2.1", NULL);

    (void)state;
    request.tier = ip.tier = "t";
    request.tier_len = ip.tier_len = 1;
    assert_string_equal(winner_in(policy, "default", &request), "all");
    request.address = "192.0.2.1";
    request.address_len = 9;
    assert_string_equal(winner_in(policy, "default", &request), "by-address");
    ip.key_type = "address";
    ip.key_type_len = 7;
    assert_string_equal(winner_in(policy, "default", &ip), "by-address");
    /* the address of a key of type address is the key: the same bucket */
    struct sl_hash128 a = resolve(policy, &request)->items[0].fp, b = resolve(policy, &ip)->items[0].fp;
    assert_true(a.a == b.a && a.b == b.b);
    sl_policy_unref(policy);
}

/* ---- ceiling ---------------------------------------------------------------------------------------------------- */

static void check_shape(const struct sl_policy *policy, size_t limit, bool capped, uint32_t count, uint64_t period_us,
                        uint32_t holds)
{
    const struct sl_limit *l = sl_policy_limit(policy, limit);

    assert_int_equal(l->capped, capped);
    assert_int_equal(l->shapes[0].count, count);
    assert_true(l->shapes[0].period_us == period_us);
    assert_int_equal(l->shapes[0].limit, holds);
}

static void the_ceiling_caps_rate_and_burst_of_limits_per_key(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\n"
                  "ceiling: {rate: 100/s, burst: 150}\n"
                  "limits:\n"
                  "  - {name: below, layer: a, tier: a, rate: 99/s, burst: 150}\n"
                  "  - {name: rate, layer: a, tier: b, rate: 101/s}\n"
                  "  - {name: burst, layer: a, tier: c, rate: 5/s, burst: 151}\n"
                  "  - {name: both, layer: a, tier: d, rate: 1000/s, burst: 9}\n"
                  "  - {name: shared, layer: a, tier: e, rate: 1000/s, per: []}\n"
                  "  - {name: window, layer: a, tier: f, rate: 1000/s, algorithm: fixed_window}\n"
                  "  - {name: window-m, layer: a, tier: g, rate: 9000/m, algorithm: sliding_window_log}\n"
                  "  - {name: window-ms, layer: a, tier: h, rate: 5/4ms, algorithm: sliding_window_counter}\n"
                  "  - {name: window-ok, layer: a, tier: i, rate: 150/m, algorithm: fixed_window}\n"
                  "  - {name: free, layer: a, tier: j, rate: unlimited}\n"
                  "  - {name: free-all, layer: a, tier: k, rate: unlimited, per: []}\n"
                  "  - {name: same, layer: a, tier: l, rate: 6000/m, burst: 150}\n");
    const struct sl_limit *free_limit = sl_policy_limit(policy, 9), *free_all = sl_policy_limit(policy, 10);

    (void)state;
    check_shape(policy, 0, false, 99, 1000000, 150);
    check_shape(policy, 1, true, 100, 1000000, 101); /* its own burst, which is its COUNT, stays */
    check_shape(policy, 2, true, 5, 1000000, 150);
    check_shape(policy, 3, true, 100, 1000000, 9);
    check_shape(policy, 4, false, 1000, 1000000, 1000);
    check_shape(policy, 5, true, 100, 1000000, 100);  /* floor(100/s x 1s) */
    check_shape(policy, 6, true, 150, 60000000, 150); /* the burst is smaller than 6000 */
    check_shape(policy, 7, true, 1, 4000, 1);         /* floor(0.4), at least 1 */
    check_shape(policy, 8, false, 150, 60000000, 150);
    check_shape(policy, 11, false, 6000, 60000000, 150);
    assert_int_equal(free_limit->kind, SL_RATE_UNLIMITED);
    check_shape(policy, 9, true, 100, 1000000, 150);
    assert_int_equal(free_all->n_rates, 0);
    assert_false(free_all->capped);
    sl_policy_unref(policy);
}

static void what_is_unmatched_is_counted_against_the_ceiling(void **state)
{
    struct sl_policy *policy =
                         must_load("version: 1\nceiling: {rate: 100/s}\nlimits: [{name: a, tier: t, rate: 1/s}]\n"),
                     *deny = must_load("version: 1\nceiling: {rate: 100/s}\nunmatched: deny\nlimits: []\n"),
                     *none = must_load("version: 1\nlimits: []\n");
    struct sluice_request request = request_of("k", NULL), other = request_of("l", NULL);
    struct sl_resolution *r = resolve(policy, &request);
    struct sl_hash128 first = r->items[0].fp;

    (void)state;
    assert_true(r->unmatched && !r->denied);
    assert_int_equal(r->n_items, 1);
    assert_string_equal(r->items[0].limit->name, "");
    assert_ptr_equal(r->items[0].limit, sl_policy_ceiling(policy));
    assert_int_equal(r->items[0].shape->limit, 100);
    r = resolve(policy, &other);
    assert_true(r->items[0].fp.a != first.a);
    r = resolve(deny, &request);
    assert_true(r->denied && r->n_items == 0);
    assert_null(sl_policy_ceiling(none));
    sl_policy_unref(policy);
    sl_policy_unref(deny);
    sl_policy_unref(none);
}

/* ---- buckets ---------------------------------------------------------------------------------------------------- */

static struct sl_hash128 bucket(const struct sl_policy *policy, const struct sluice_request *request)
{
    return resolve(policy, request)->items[0].fp;
}

static bool same_bucket(const struct sl_policy *policy, struct sluice_request x, struct sluice_request y)
{
    struct sl_hash128 a = bucket(policy, &x), b = bucket(policy, &y);

    return a.a == b.a && a.b == b.b;
}

static void b66_parts_never_join_ambiguously(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\nlimits: [{name: a, rate: 1/s, per: [key, scope, label.x, label.y]}]\n");
    static const char *const parts[][2] = {{"a", "b:c"}, {"a:b", "c"}, {"1.2.3.1", "1/x"}, {"1.2.3.11", "/x"},
                                           {"a\\", "b"}, {"a", "\\b"}, {"a%", "3A"},       {"a%3A", ""},
                                           {"a", ""},    {"b:c", "a"}, {"aa", "b"},        {"a", "ab"}};
    struct sluice_label xs[2], ys[2];
    size_t n = sizeof parts / sizeof *parts;

    (void)state;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            assert_int_equal(
                same_bucket(policy, request_of(parts[i][0], parts[i][1]), request_of(parts[k][0], parts[k][1])),
                i == k);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            struct sluice_request p = request_of("k", "s"), q = p;

            label(&xs[0], "x", parts[i][0]);
            label(&xs[1], "y", parts[i][1]);
            label(&ys[0], "x", parts[k][0]);
            label(&ys[1], "y", parts[k][1]);
            p.labels = xs;
            q.labels = ys;
            p.n_labels = q.n_labels = 2;
            assert_int_equal(same_bucket(policy, p, q), i == k);
        }
    sl_policy_unref(policy);
}

static void b68_every_byte_of_a_long_key_counts(void **state)
{
    struct sl_policy *policy = must_load("version: 1\nlimits: [{name: a, rate: 1/s}]\n");
    char x[513], y[513];

    (void)state;
    memset(x, 'k', 512);
    x[512] = '\0';
    for (size_t at = 0; at < 512; at += 37) {
        memcpy(y, x, sizeof y);
        y[at] = 'l';
        assert_false(same_bucket(policy, request_of(x, NULL), request_of(y, NULL)));
    }
    sl_policy_unref(policy);
}

static void b69_a_user_named_like_an_address_is_another_key(void **state)
{
    struct sl_policy *policy = must_load("version: 1\nlimits: [{name: a, rate: 1/s}]\n");
    struct sluice_request user = request_of("192.0.2.7", NULL), address = user, other = user, api_key = user;

    (void)state;
    user.key_type = "user";
    user.key_type_len = 4;
    address.key_type = "address";
    address.key_type_len = 7;
    other.key_type = "device"; /* a type the policy does not know */
    other.key_type_len = 6;
    assert_false(same_bucket(policy, user, address));
    assert_false(same_bucket(policy, user, api_key));
    assert_false(same_bucket(policy, other, user));
    api_key.key_type = "api_key";
    api_key.key_type_len = 7;
    assert_true(same_bucket(policy, api_key, request_of("192.0.2.7", NULL))); /* the default type */
    sl_policy_unref(policy);
}

static void b74_one_limit_on_two_routes_is_one_bucket(void **state)
{
    struct sl_policy *one = must_load("version: 1\nlimits: [{name: a, rate: 10/s}]\n"),
                     *each = must_load("version: 1\nendpoints: {e: {match: [\"e*\"]}, f: {match: [f]}}\n"
                                       "limits: [{name: a, rate: 10/s, per: [key, endpoint]}]\n"),
                     *all = must_load("version: 1\nlimits: [{name: a, rate: 10/s, per: []}]\n");

    (void)state;
    assert_true(same_bucket(one, request_of("k", "e"), request_of("k", "f")));
    assert_false(same_bucket(one, request_of("k", "e"), request_of("l", "e")));
    assert_false(same_bucket(each, request_of("k", "e"), request_of("k", "f")));
    assert_true(same_bucket(each, request_of("k", "e1"), request_of("k", "e2")));
    assert_true(same_bucket(each, request_of("k", "x"), request_of("k", "y"))); /* no endpoint is a value, too */
    assert_true(same_bucket(all, request_of("k", "e"), request_of("l", "f")));
    sl_policy_unref(one);
    sl_policy_unref(each);
    sl_policy_unref(all);
}

static void an_absent_label_is_a_value_of_its_own(void **state)
{
    struct sl_policy *policy = must_load("version: 1\nlimits: [{name: a, rate: 1/s, per: [label.x]}]\n");
    struct sluice_label empty;
    struct sluice_request absent = request_of("k", NULL), present = absent;

    (void)state;
    label(&empty, "x", "");
    present.labels = &empty;
    present.n_labels = 1;
    assert_false(same_bucket(policy, absent, present));
    assert_true(same_bucket(policy, absent, request_of("l", NULL)));
    sl_policy_unref(policy);
}

static void tiers_the_policy_does_not_name_still_differ(void **state)
{
    struct sl_policy *policy = must_load("version: 1\nlimits: [{name: a, rate: 1/s, per: [tier]}]\n");
    struct sluice_request x = request_of("k", NULL), y = x;

    (void)state;
    x.tier = "gold";
    y.tier = "iron";
    x.tier_len = y.tier_len = 4;
    assert_false(same_bucket(policy, x, y));
    assert_false(same_bucket(policy, x, request_of("k", NULL)));
    sl_policy_unref(policy);
}

static void b70_labels_of_one_request_are_matched_together(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\nlimits: [{name: a, labels: {a: \"1\", b: \"1\", c: \"1\"}, rate: 1/s}]\n");
    struct sluice_label labels[3];
    struct sluice_request request = request_of("k", NULL);

    (void)state;
    label(&labels[0], "c", "1");
    label(&labels[1], "a", "1");
    label(&labels[2], "b", "1");
    request.labels = labels;
    request.n_labels = 1;
    assert_true(resolve(policy, &request)->unmatched);
    request.labels = labels + 1;
    request.n_labels = 2;
    assert_true(resolve(policy, &request)->unmatched);
    request.labels = labels;
    request.n_labels = 3;
    assert_false(resolve(policy, &request)->unmatched);
    sl_policy_unref(policy);
}

/* Reloads keep buckets while name, algorithm and `per` stay; other processes with the same secret make the same. */
static void b100_buckets_are_the_same_after_a_reload(void **state)
{
    struct sl_policy *before = must_load(
                         "version: 1\nlimits: [{name: x, tier: t, rate: 1/s}, {name: a, rates: [5/s, 9/m]}]\n"),
                     *after =
                         must_load("version: 1\n# a comment\nendpoints: {e: {match: [e]}}\n"
                                   "tiers: {default: t2}\nlimits: [{name: a, tier: t2, rates: [7/s, 8/h], cost: 2}]\n"),
                     *renamed = must_load("version: 1\nlimits: [{name: b, rates: [5/s, 9/m]}]\n"),
                     *other =
                         must_load("version: 1\nlimits: [{name: a, rates: [5/s, 9/m], algorithm: leaky_bucket}]\n"),
                     *per = must_load("version: 1\nlimits: [{name: a, rates: [5/s, 9/m], per: [key, tier]}]\n");
    struct sluice_request request = request_of("k", NULL);
    struct sl_hash128 first = resolve(before, &request)->items[0].fp, second = resolve(before, &request)->items[1].fp;
    struct sl_hash128 x = resolve(after, &request)->items[0].fp, y = resolve(after, &request)->items[1].fp;

    (void)state;
    assert_true(first.a == x.a && first.b == x.b);
    assert_true(second.a == y.a && second.b == y.b);
    assert_true(first.a != second.a);
    assert_true(bucket(renamed, &request).a != first.a);
    assert_true(bucket(other, &request).a != first.a);
    assert_true(bucket(per, &request).a != first.a);
    sl_policy_unref(before);
    sl_policy_unref(after);
    sl_policy_unref(renamed);
    sl_policy_unref(other);
    sl_policy_unref(per);
}

static void inspection_names_the_bucket_that_resolution_charges(void **state)
{
    struct sl_policy *policy = must_load("version: 1\n"
                                         "tiers: {default: free}\n"
                                         "endpoints: {e: {match: [e]}, f: {match: [f]}}\n"
                                         "limits:\n"
                                         "  - {name: a, rates: [1/s, 2/m], per: [key, endpoint, tier]}\n"
                                         "  - {name: b, layer: b, per: [address], rate: 1/s}\n");
    struct sluice_request request = request_of("k", "f");
    struct sl_hash128 fp;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_true(sl_policy_bucket(policy, sl_policy_limit(policy, 0), i, &request, "f", "free", &fp));
        assert_true(resolve(policy, &request)->items[i].fp.a == fp.a);
    }
    assert_true(sl_policy_bucket(policy, sl_policy_limit(policy, 0), 0, &request, "e", "free", &fp));
    assert_true(resolve(policy, &request)->items[0].fp.a != fp.a);
    request.scope = "e";
    assert_true(resolve(policy, &request)->items[0].fp.a == fp.a);
    assert_false(sl_policy_bucket(policy, sl_policy_limit(policy, 1), 0, &request, "", "", &fp));
    request.address = "192.0.2.1";
    request.address_len = 9;
    assert_true(sl_policy_bucket(policy, sl_policy_limit(policy, 1), 0, &request, "", "", &fp));
    assert_true(resolve(policy, &request)->items[2].fp.a == fp.a);
    sl_policy_unref(policy);
}

static void address_limits_are_found_under_one_spelling(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\n"
                  "limits:\n"
                  "  - {name: net, key: \"2001:DB8:0:0:ffff::1\", key_type: address, rate: 1/s}\n"
                  "  - {name: all, rate: 1/s}\n");
    struct sluice_request request = request_of("2001:db8::5", NULL), checked;
    struct sl_request_buffer buffer;
    const char *field, *why;

    (void)state;
    request.key_type = "address";
    request.key_type_len = 7;
    assert_int_equal(sl_request_check(policy, &request, &checked, &buffer, &field, &why), 0);
    assert_string_equal(winner_in(policy, "default", &checked), "net");
    sl_policy_unref(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_more_specific_limit_wins),
        cmocka_unit_test(labels_count_one_each_and_ties_go_to_the_earlier),
        cmocka_unit_test(the_longest_literal_text_gives_the_endpoint),
        cmocka_unit_test(layers_choose_among_the_endpoints_they_name),
        cmocka_unit_test(tiers_come_from_the_request_then_tables_then_settings),
        cmocka_unit_test(costs_come_from_the_request_then_limit_then_endpoint),
        cmocka_unit_test(layers_stand_in_the_order_of_the_file),
        cmocka_unit_test(unmatched_requests_are_allowed_or_denied),
        cmocka_unit_test(dry_run_limits_win_beside_the_verdict_only),
        cmocka_unit_test(a_limit_per_address_needs_one),
        cmocka_unit_test(the_ceiling_caps_rate_and_burst_of_limits_per_key),
        cmocka_unit_test(what_is_unmatched_is_counted_against_the_ceiling),
        cmocka_unit_test(b66_parts_never_join_ambiguously),
        cmocka_unit_test(b68_every_byte_of_a_long_key_counts),
        cmocka_unit_test(b69_a_user_named_like_an_address_is_another_key),
        cmocka_unit_test(b70_labels_of_one_request_are_matched_together),
        cmocka_unit_test(b74_one_limit_on_two_routes_is_one_bucket),
        cmocka_unit_test(an_absent_label_is_a_value_of_its_own),
        cmocka_unit_test(tiers_the_policy_does_not_name_still_differ),
        cmocka_unit_test(b100_buckets_are_the_same_after_a_reload),
        cmocka_unit_test(inspection_names_the_bucket_that_resolution_charges),
        cmocka_unit_test(address_limits_are_found_under_one_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
