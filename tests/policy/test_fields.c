/* Every field of a policy: what is right, what is wrong, where the finding points and what it says. In the wrong ones
 * `@` marks the place that the one error must name; it is taken out before loading. */
#include "support.h"

#include "policy/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wrong {
    const char
        *text; /* a whole document, or what stands in the braces of a limit when it begins with a comma or brace */
    const char *field; /* the path the finding must carry */
    const char *part;  /* of the message */
};

#define LIMITS "version: 1\nlimits: [{name: a, rate: 1/s}]\n"

static const struct wrong wrong_documents[] = {
    {"@limits: []\n", "version", "missing"},
    {"version: @2\nlimits: []\n", "version", "version 1 only"},
    {"version: @one\nlimits: []\n", "version", "whole number"},
    {"version: @\"1\"\nlimits: []\n", "version", "remove the quotes"},
    {"@version: 1\n", "limits", "missing"},
    {"version: 1\nlimits: @{}\n", "limits", "expected a list"},
    {"version: 1\nlimits:@\n", "limits", "expected a list"},
    {"version: 1\nlimits: [@a]\n", "limits[0]", "expected a limit"},
    {LIMITS "@limitz: []\n", "limitz", "did you mean `limits`?"},
    {LIMITS "@frobnicate: 1\n", "frobnicate", "unknown field of a policy"},
    {LIMITS "unmatched: @maybe\n", "unmatched", "`allow`, `deny`"},
    {LIMITS "unmatched: @denny\n", "unmatched", "did you mean `deny`?"},
    /* defaults */
    {LIMITS "defaults: @[]\n", "defaults", "a mapping of fields"},
    {LIMITS "defaults: {name: @x}\n", "defaults.name", "cannot be defaulted"},
    {LIMITS "defaults: {@algoritm: token_bucket}\n", "defaults.algoritm", "did you mean `algorithm`?"},
    {LIMITS "defaults: {on_store_failure: @close}\n", "defaults.on_store_failure", "did you mean `closed`?"},
    /* identity */
    {LIMITS "identity: @x\n", "identity", "expected `identity`"},
    {LIMITS "identity: {@ordre: [user]}\n", "identity.ordre", "did you mean `order`?"},
    {LIMITS "identity: {order: @user}\n", "identity.order", "expected a list"},
    {LIMITS "identity: {order: @[]}\n", "identity.order", "the list is empty"},
    {LIMITS "identity: {order: [user, @user]}\n", "identity.order[1]", "twice"},
    {LIMITS "identity: {order: [user, @tenant]}\n", "identity.order[1]", "no header is known for key type `tenant`"},
    {LIMITS "identity: {headers: @[a]}\n", "identity.headers", "expected a mapping"},
    {LIMITS "identity: {headers: {user: @\"X User\"}}\n", "identity.headers.user", "not a header's name"},
    {LIMITS "identity: {headers: {address: @X-Real-IP}}\n", "identity.headers.address", "an address comes from"},
    {LIMITS "identity: {trusted_headers: [@usr]}\n", "identity.trusted_headers[0]", "did you mean `user`?"},
    {LIMITS "identity: {trusted_proxies: @10.0.0.0/8}\n", "identity.trusted_proxies", "expected a list"},
    {LIMITS "identity: {trusted_proxies: [127.0.0.1, @10.0.0.1/8]}\n", "identity.trusted_proxies[1]", ""},
    {LIMITS "identity: {trusted_proxies: [@localhost]}\n", "identity.trusted_proxies[0]", ""},
    {LIMITS "identity: {trusted_proxies: [@10.0.0.0/33]}\n", "identity.trusted_proxies[0]", ""},
    {LIMITS "identity: {forwarded: @\"a b\"}\n", "identity.forwarded", "not a header's name"},
    {LIMITS "identity: {ipv6_prefix: @0}\n", "identity.ipv6_prefix", "at least 1"},
    {LIMITS "identity: {ipv6_prefix: @129}\n", "identity.ipv6_prefix", "at most 128"},
    /* http */
    {LIMITS "http: {headers: @clasic}\n", "http.headers", "did you mean `classic`?"},
    {LIMITS "http: {errors: @json}\n", "http.errors", "`default`, `problem`"},
    {LIMITS "http: {closed_status: @200}\n", "http.closed_status", "at least 400"},
    {LIMITS "http: {closed_status: @600}\n", "http.closed_status", "at most 599"},
    {LIMITS "http: {@header: x}\n", "http.header", "did you mean `headers`?"},
    /* tiers */
    {LIMITS "tiers: {default: @[a]}\n", "tiers.default", "a single value"},
    {LIMITS "tiers: {default: @\"\"}\n", "tiers.default", "missing"},
    {LIMITS "tiers: {default: @null}\n", "tiers.default", "missing"},
    {LIMITS "tiers: {unknown: @allow}\n", "tiers.unknown", "`default`, `anonymous`, `deny`"},
    {LIMITS "tiers: {keys: @[a]}\n", "tiers.keys", "expected a mapping"},
    {LIMITS "tiers: {keys: {k: @{}}}\n", "tiers.keys.k", "a single value"},
    {LIMITS "tiers: {keys: {k: @\"a\\u0007\"}}\n", "tiers.keys.k", "control characters"},
    {LIMITS "tiers: {keys: {@\"a\\u0000b\": free}}\n", "tiers.keys.a?b", "control characters"},
    {LIMITS "tiers: {keys_store: @yes}\n", "tiers.keys_store", "`false`, `true`"},
    {LIMITS "tiers: {keys_file: @/nonexistent/tiers.csv}\n", "tiers.keys_file", "No such file"},
    {LIMITS "tiers: {@keyz: {}}\n", "tiers.keyz", "did you mean `keys`?"},
    /* endpoints */
    {LIMITS "endpoints: @[a]\n", "endpoints", "expected a mapping"},
    {LIMITS "endpoints: {e: @x}\n", "endpoints.e", "expected an endpoint"},
    {LIMITS "endpoints: {e: @{cost: 1}}\n", "endpoints.e.match", "missing"},
    {LIMITS "endpoints: {e: {match: @x}}\n", "endpoints.e.match", "expected a list"},
    {LIMITS "endpoints: {e: {match: @[]}}\n", "endpoints.e.match", "empty"},
    {LIMITS "endpoints: {e: {match: [a, @a]}}\n", "endpoints.e.match[1]", "twice"},
    {LIMITS "endpoints: {e: {match: [@\"a\\nb\"]}}\n", "endpoints.e.match[0]", "control characters"},
    {LIMITS "endpoints: {e: {match: [a], cost: @-1}}\n", "endpoints.e.cost", "whole number"},
    {LIMITS "endpoints: {e: {match: [a], cost: @1000000001}}\n", "endpoints.e.cost", "at most 1000000000"},
    {LIMITS "endpoints: {e: {@matches: [a], match: [b]}}\n", "endpoints.e.matches", "did you mean `match`?"},
    /* ceiling */
    {LIMITS "ceiling: @100/s\n", "ceiling", "expected `ceiling`"},
    {LIMITS "ceiling: @{burst: 5}\n", "ceiling.rate", "missing"},
    {LIMITS "ceiling: {rate: @unlimited}\n", "ceiling.rate", "a ceiling is a number"},
    {LIMITS "ceiling: {rate: @0/s}\n", "ceiling.rate", "blocked"},
    {LIMITS "ceiling: {rate: 10/s, burst: @0}\n", "ceiling.burst", "at least 1"},
    {LIMITS "ceiling: {rate: 1/366d, burst: @1000}\n", "ceiling.burst", "100 years"},
    /* dedicated */
    {LIMITS "dedicated: @{}\n", "dedicated", "expected a list"},
    {LIMITS "dedicated: [@{keys: [a]}]\n", "dedicated[0].store", "missing"},
    {LIMITS "dedicated: [{keys: [a], store: @\"http://x\"}]\n", "dedicated[0].store", "redis://"},
    {LIMITS "dedicated: [{keys: [a], store: @\"redis://\"}]\n", "dedicated[0].store", "redis://"},
    {LIMITS "dedicated: [{keys: @[], store: \"redis://h\"}]\n", "dedicated[0].keys", "empty"},
    {LIMITS "dedicated: [{keys: [a], store: \"redis://h\"}, {keys: [b, @a], store: \"redis://i\"}]\n",
     "dedicated[1].keys[1]", "already"},
};

/* Fields of a limit, in its braces in line 4 of a document that has an endpoint `e`. */
static const struct wrong wrong_limits[] = {
    {"@{rate: 1/s}", "limits[0].name", "missing: a limit needs `name`"},
    {"{name:@ , rate: 1/s}", "limits[0].name", "missing"},
    {"{name: @Upper, rate: 1/s}", "limits[0].name", "not a name"},
    {"{name: @a b, rate: 1/s}", "limits[0].name", "not a name"},
    {"{name: @aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, rate: 1/s}", "limits[0].name",
     "longer than 63"},
    {"@{name: a}", "limits[0].rate", "needs `rate` or `rates`"},
    {"{name: a, @ratee: 1/s}", "limits[0].ratee", "did you mean `rate`?"}, /* and no rate: two errors */
    {"{name: a, rate: @100}", "limits[0].rate", "COUNT/PERIOD"},
    {"{name: a, rate: @0/s}", "limits[0].rate", "`blocked`"},
    {"{name: a, rate: @1.5/s}", "limits[0].rate", ""},
    {"{name: a, rate: @0.9/s}", "limits[0].rate", ""},
    {"{name: a, rate: @-1/s}", "limits[0].rate", ""},
    {"{name: a, rate: @1/w}", "limits[0].rate", ""},
    {"{name: a, rate: @1/0s}", "limits[0].rate", ""},
    {"{name: a, rate: @1/367d}", "limits[0].rate", "366 d"},
    {"{name: a, rate: @1000000001/s}", "limits[0].rate", "1000000000"},
    {"{name: a, rate: @[1/s]}", "limits[0].rate", "a single value"},
    {"{name: a, rate: @unlimitd}", "limits[0].rate", ""},
    {"{name: a, rate: 1/s, burst: @0}", "limits[0].burst", "at least 1"},
    {"{name: a, rate: 1/s, burst: @0.5}", "limits[0].burst", "whole number"},
    {"{name: a, rate: 1/s, burst: @1e3}", "limits[0].burst", "whole number"},
    {"{name: a, rate: 1/s, burst: @1000000001}", "limits[0].burst", "at most 1000000000"},
    {"{name: a, rate: 1/s, burst: @99999999999999999999999999}", "limits[0].burst", "at most"},
    {"{name: a, rate: 1/s, burst: @\"5\"}", "limits[0].burst", "remove the quotes"},
    {"{name: a, rate: 1/366d, burst: @200}", "limits[0].burst", "100 years"},
    {"{name: a, rate: 1/s, burst: @5, algorithm: fixed_window}", "limits[0].burst", "has no burst"},
    {"{name: a, rate: unlimited, burst: @5}", "limits[0].burst", "unlimited has no burst"},
    {"{name: a, rate: blocked, burst: @5}", "limits[0].burst", "blocked has no burst"},
    {"{name: a, rate: 1/s, rates: @[2/s]}", "limits[0].rates", "exclude each other"},
    {"{name: a, rates: @1/s}", "limits[0].rates", "expected a list"},
    {"{name: a, rates: @[]}", "limits[0].rates", "1 to 8"},
    {"{name: a, rates: @[1/s, 2/s, 3/s, 4/s, 5/s, 6/s, 7/s, 8/s, 9/s]}", "limits[0].rates", "1 to 8"},
    {"{name: a, rates: [1/s, @unlimited]}", "limits[0].rates[1]", "numbers only"},
    {"{name: a, rates: [1/s, @x]}", "limits[0].rates[1]", ""},
    {"{name: a, rates: [@{burst: 5}]}", "limits[0].rates[0].rate", "missing"},
    {"{name: a, rates: [{rate: 1/s, burst: @0}]}", "limits[0].rates[0].burst", "at least 1"},
    {"{name: a, rates: [{rate: 1/s, @bust: 5}]}", "limits[0].rates[0].bust", "did you mean `burst`?"},
    {"{name: a, rates: [1/s], burst: @5}", "limits[0].burst", "beside `rates`"},
    {"{name: a, rates: @[{rate: 1/s, burst: 5}], algorithm: sliding_window_log}", "limits[0].rates", "has no burst"},
    {"{name: a, rate: @100001/s, algorithm: sliding_window_log}", "limits[0].rate", ""},
    {"{name: a, rate: 1/s, algorithm: @token_buckets}", "limits[0].algorithm", "did you mean `token_bucket`?"},
    {"{name: a, rate: 1/s, algorithm: @gcra}", "limits[0].algorithm", "`leaky_bucket`"},
    {"{name: a, rate: 1/s, key: @[a]}", "limits[0].key", "a single value"},
    {"{name: a, rate: 1/s, key:@ }", "limits[0].key", "missing"},
    {"{name: a, rate: 1/s, key: @nobody, key_type: address}", "limits[0].key", "not an IP address"},
    {"{name: a, rate: 1/s, endpoint: @f}", "limits[0].endpoint", "no endpoint is called `f`"},
    {"{name: a, rate: 1/s, endpoint: @serch}", "limits[0].endpoint", "did you mean `search`?"},
    {"{name: a, rate: 1/s, tier: @{}}", "limits[0].tier", "a single value"},
    {"{name: a, rate: 1/s, key_type: @\"\"}", "limits[0].key_type", "missing"},
    {"{name: a, rate: 1/s, labels: @[a]}", "limits[0].labels", "expected a mapping"},
    {"{name: a, rate: 1/s, labels: @{}}", "limits[0].labels", "1 to 16"},
    {"{name: a, rate: 1/s, labels: {region: @[x]}}", "limits[0].labels.region", "a single value"},
    {"{name: a, rate: 1/s, layer: @Edge}", "limits[0].layer", "not a name"},
    {"{name: a, rate: 1/s, per: @key}", "limits[0].per", "expected a list"},
    {"{name: a, rate: 1/s, per: [key, @keys]}", "limits[0].per[1]", "did you mean `key`?"},
    {"{name: a, rate: 1/s, per: [key, @key]}", "limits[0].per[1]", "twice"},
    {"{name: a, rate: 1/s, per: [label.x, @label.x]}", "limits[0].per[1]", "twice"},
    {"{name: a, rate: 1/s, per: [@label.]}", "limits[0].per[0]", "label.NAME"},
    {"{name: a, rate: 1/s, cost: @-1}", "limits[0].cost", "whole number"},
    {"{name: a, rate: 1/s, cost: @1000000001}", "limits[0].cost", "at most"},
    {"{name: a, rate: 1/s, mode: @dry-run}", "limits[0].mode", "did you mean `dry_run`?"},
    {"{name: a, rate: 1/s, coordination: @global}", "limits[0].coordination", "`leased`"},
    {"{name: a, rate: 1/s, coordination: @leased, algorithm: leaky_bucket}", "limits[0].coordination",
     "token_bucket and fixed_window only"},
    {"{name: a, rate: 1/s, coordination: @synced, algorithm: sliding_window_counter}", "limits[0].coordination",
     "token_bucket and fixed_window only"},
    {"{name: a, rate: 1/s, lease: @5}", "limits[0].lease", "expected a lease"},
    {"{name: a, rate: 9/s, lease: {block: @0}}", "limits[0].lease.block", "at least 1"},
    {"{name: a, rate: 9/s, lease: @{block: 10}}", "limits[0].lease", "more than the limit ever holds, 9"},
    {"{name: a, rate: 9/s, lease: {ttl: @1}}", "limits[0].lease.ttl", "unit"},
    {"{name: a, rate: 9/s, lease: {ttl: @5ms}}", "limits[0].lease.ttl", "10ms"},
    {"{name: a, rate: 9/s, lease: {@blok: 1}}", "limits[0].lease.blok", "did you mean `block`?"},
    {"{name: a, rate: 1/s, split: @1}", "limits[0].split", "at least 2"},
    {"{name: a, rate: 1/s, split: @257}", "limits[0].split", "at most 256"},
    {"{name: a, rate: 39/s, coordination: split, split: @4}", "limits[0].split", "less than 10 times the largest cost"},
    {"{name: a, rate: 39/s, coordination: @split}", "limits[0].coordination", "less than 10 times"},
    {"{name: a, endpoint: e, rate: 199/s, coordination: split, split: @4}", "limits[0].split", "largest cost, 5"},
    {"{name: a, rate: 2799/s, coordination: split, split: @4}", "limits[0].split", "largest cost, 70"},
    {"{name: a, rate: 1/s, sync: {interval: @99ms}}", "limits[0].sync.interval", "100ms ... 1s"},
    {"{name: a, rate: 1/s, sync: {interval: @1001ms}}", "limits[0].sync.interval", "100ms ... 1s"},
    {"{name: a, rate: 1/s, local_factor: @0.99}", "limits[0].local_factor", "per_instance"},
    {"{name: a, rate: 1/s, local_factor: @1e1}", "limits[0].local_factor", "per_instance"},
    {"{name: a, rate: 1/s, local_factor: @per-instance}", "limits[0].local_factor", "per_instance"},
    {"{name: a, rate: 1/s, on_store_failure: @fail_open}", "limits[0].on_store_failure", "`open`"},
    {"{name: a, rate: 1/s, warn_at: @80}", "limits[0].warn_at", "`80%`"},
    {"{name: a, rate: 1/s, warn_at: @0.8}", "limits[0].warn_at", "`80%`"},
    {"{name: a, rate: 1/s, warn_at: @0%}", "limits[0].warn_at", "1% ... 100%"},
    {"{name: a, rate: 1/s, warn_at: @101%}", "limits[0].warn_at", "1% ... 100%"},
    {"{name: a, rate: 1/s, regions: @[eu]}", "limits[0].regions", "expected a mapping"},
    {"{name: a, rate: 1/s, regions: {eu: @50}}", "limits[0].regions.eu", "60%"},
    {"{name: a, rate: 1/s, regions: {@EU: 50%}}", "limits[0].regions.EU", "is not a name"},
    {"{name: a, rate: 1/s, regions: {@\"\": 50%}}", "limits[0].regions.", "missing"},
    {"{name: a, rate: 1/s, regions: {eu: @0%}}", "limits[0].regions.eu", "above 0 %"},
    {"{name: a, rate: 1/s, regions: {eu: @100.1%}}", "limits[0].regions.eu", "up to 100 %"},
    {"{name: a, rate: 1/s, regions: @{eu: 60%, us: 40.0001%}}", "limits[0].regions", "sum to 100.0001 %"},
    {"{name: a, rate: 1/s, note: @\"a\\u0001\"}", "limits[0].note", "control characters"},
};

/* Takes the `@` out of text and finds its place. */
static void unmark(const char *text, char *buf, size_t size, unsigned *line, unsigned *column)
{
    const char *mark = strchr(text, '@');

    assert_non_null(mark);
    assert_true(strlen(text) < size);
    *line = *column = 1;
    for (const char *c = text; c < mark; c++) {
        *column = *c == '\n' ? 1 : *column + 1;
        *line += *c == '\n';
    }
    snprintf(buf, size, "%.*s%s", (int)(mark - text), text, mark + 1);
}

static void check_wrong(const struct wrong *wrong, const char *document, size_t n_errors)
{
    char text[1000];
    unsigned line, column;
    struct loaded loaded;

    unmark(document, text, sizeof text, &line, &column);
    loaded = load_text(text);
    expect_error(&loaded, line, column, wrong->field, wrong->part);
    if (loaded.diags.n_errors != n_errors)
        sl_diags_print(&loaded.diags, stderr);
    assert_int_equal(loaded.diags.n_errors, n_errors);
    for (size_t i = 0; i < loaded.diags.n; i++)
        assert_string_equal(loaded.diags.list[i].file, "p.yaml");
    unload(&loaded);
}

static void wrong_documents_name_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_documents / sizeof *wrong_documents; i++)
        check_wrong(&wrong_documents[i], wrong_documents[i].text, 1);
}

static void wrong_limits_name_their_place(void **state)
{
    char document[800];

    (void)state;
    for (size_t i = 0; i < sizeof wrong_limits / sizeof *wrong_limits; i++) {
        snprintf(document, sizeof document,
                 "version: 1\nendpoints: {e: {match: [e], cost: 5}, search: {match: [s], cost: 70}}\nlimits:\n  - %s\n",
                 wrong_limits[i].text);
        check_wrong(&wrong_limits[i], document, 1);
    }
}

/* What a misspelt field was meant to be is not missing; what it was not meant to be still is. */
static void a_misspelt_field_is_one_finding(void **state)
{
    static const struct {
        const char *limit;
        size_t n_errors;
        const char *field;
    } rows[] = {
        {"{name: b, endpont: e, rate: 1/s}", 1, "limits[1].endpont"},
        {"{name: b, teir: t, rate: 1/s}", 1, "limits[1].teir"},
        {"{name: b, tier: t, rte: 1/s}", 1, "limits[1].rte"},
        {"{name: b, tier: t, rats: [1/s]}", 1, "limits[1].rats"},
        {"{nmae: b, tier: t, rate: 1/s}", 1, "limits[1].nmae"},
        {"{name: b, quux: t, rate: 1/s}", 1, "limits[1].quux"},
        {"{name: b, quux: t}", 1, "limits[1].quux"},
        {"{name: b, tier: t, rate: 1/s, coordinaton: leased, algorithm: leaky_bucket}", 1, "limits[1].coordinaton"},
        {"{name: b, tier: t, rate: 1/s, on_store_falure: open}", 1, "limits[1].on_store_falure"},
        {"{name: b, brust: 5}", 3, "limits[1].brust"},            /* and has no rate, and is as the first */
        {"{name: b, rate: 1/s, brust: 5}", 2, "limits[1].brust"}, /* and is as the first */
    };
    char text[400];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct loaded loaded;

        snprintf(text, sizeof text,
                 "version: 1\nendpoints: {e: {match: [e]}}\ntiers: {default: t}\nlimits:\n"
                 "  - {name: a, rate: 1/s, on_store_failure: open}\n  - %s\n",
                 rows[i].limit);
        loaded = load_text(text);
        expect_error(&loaded, 0, 0, rows[i].field, "unknown field");
        if (loaded.diags.n_errors != rows[i].n_errors)
            sl_diags_print(&loaded.diags, stderr);
        assert_int_equal(loaded.diags.n_errors, rows[i].n_errors);
        if (strstr(rows[i].limit, "on_store"))
            assert_int_equal(loaded.diags.n_warnings, 0);
        unload(&loaded);
    }
}

static void misspelt_defaults_and_documents_are_one_finding(void **state)
{
    struct loaded defaults = load_text("version: 1\ndefaults: {rat: 1/s}\nlimits: [{name: a}, {name: b, tier: t}]\n"),
                  document = load_text("version: 1\nlimts: [{name: a, rate: 1/s}]\n");

    (void)state;
    expect_error(&defaults, 2, 12, "defaults.rat", "did you mean `rate`?");
    assert_int_equal(defaults.diags.n_errors, 1);
    expect_error(&document, 2, 1, "limts", "did you mean `limits`?");
    assert_int_equal(document.diags.n_errors, 1);
    unload(&defaults);
    unload(&document);
}

static const char *const right_limits[] = {
    "{name: a, rate: 1/s}",
    "{name: 0._-z, rate: 1000000000/ms}",
    "{name: a, rate: \"5/15m\", burst: 1}",
    "{name: a, rate: 1/366d, burst: 99}",
    "{name: a, rate: 7/3333ms}",
    "{name: a, rate: unlimited}",
    "{name: a, rate: blocked}",
    "{name: a, rates: [1/s]}",
    "{name: a, rates: [10/s, {rate: 1000/h, burst: 1500}, {rate: 5/d}]}",
    "{name: a, rate: 100000/d, algorithm: sliding_window_log}",
    "{name: a, rate: 1/s, algorithm: leaky_bucket, burst: 10}",
    "{name: a, rate: 1/s, key: \"null\"}",
    "{name: a, rate: 1/s, key: 2001:DB8::1, key_type: address}",
    "{name: a, rate: 1/s, endpoint: e, tier: t, key_type: user, key: u}",
    "{name: a, rate: 1/s, labels: {region: \"eu-*\", \"odd name\": \"?\"}}",
    "{name: a, rate: 1/s, per: []}",
    "{name: a, rate: 1/s, per: [key, address, endpoint, scope, tier, label.x, label.y]}",
    "{name: a, rate: 1/s, cost: 0}",
    "{name: a, rate: 1/s, mode: off}",
    "{name: a, rate: 40/s, cost: 1, coordination: split}",
    "{name: a, rate: 200/s, endpoint: e, coordination: split, split: 4}",
    "{name: a, rate: 9/s, coordination: leased, lease: {block: 9, ttl: 1h}}",
    "{name: a, rate: 9/s, coordination: synced, sync: {interval: 1s}}",
    "{name: a, rate: 9/s, local_factor: 1}",
    "{name: a, rate: 9/s, local_factor: 1.5}",
    "{name: a, rate: 9/s, local_factor: per_instance}",
    "{name: a, rate: 9/s, warn_at: 100%}",
    "{name: a, rate: 9/s, regions: {eu: 60%, us: 40%}}",
    "{name: a, rate: 9/s, regions: {eu: 33.3333%, us: 66.6667%}}",
    "{name: a, rate: 9/s, note: \"why, in words: one\"}",
};

static void right_limits_load(void **state)
{
    char document[600];

    (void)state;
    for (size_t i = 0; i < sizeof right_limits / sizeof *right_limits; i++) {
        snprintf(document, sizeof document, "version: 1\nendpoints: {e: {match: [e], cost: 5}}\nlimits:\n  - %s\n",
                 right_limits[i]);
        sl_policy_unref(must_load(document));
    }
}

static void b10_a_count_no_integer_holds_is_a_load_error(void **state)
{
    struct loaded loaded = load_text("version: 1\nlimits:\n  - {name: a, rate: 98765432198765432198765/3600s}\n");

    (void)state;
    expect_error(&loaded, 3, 21, "limits[0].rate", "1000000000");
    assert_int_equal(loaded.diags.n, 1);
    unload(&loaded);
}

static void b08_a_period_beyond_the_range_is_a_load_error(void **state)
{
    struct loaded loaded = load_text("version: 1\nlimits:\n  - {name: a, rate: 1/1000000000s}\n");
    struct sl_policy *policy;

    (void)state;
    expect_error(&loaded, 3, 21, "limits[0].rate", "366 d");
    unload(&loaded);
    policy = must_load("version: 1\nlimits:\n  - {name: a, rate: 1/31622400s}\n"); /* 366 d, above 2^31 ms */
    assert_true(sl_policy_limit(policy, 0)->shapes[0].period_us == UINT64_C(31622400000000));
    sl_policy_unref(policy);
}

static void b11_b13_burst_defaults_to_the_count(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\nlimits:\n  - {name: a, rate: 5/d}\n  - {name: b, rate: 6/m, layer: b}\n"
                  "  - {name: c, rate: 1/10s, layer: c}\n");

    (void)state;
    assert_int_equal(sl_policy_limit(policy, 0)->shapes[0].limit, 5);
    assert_int_equal(sl_policy_limit(policy, 1)->shapes[0].limit, 6);
    assert_int_equal(sl_policy_limit(policy, 2)->shapes[0].limit, 1);
    sl_policy_unref(policy);
}

static void all_errors_come_in_one_pass_in_order(void **state)
{
    struct loaded loaded = load_text("version: 2\n"
                                     "identity: {ipv6_prefix: 0}\n"
                                     "limits:\n"
                                     "  - {name: a, rate: 0/s, mode: offf}\n"
                                     "  - {nme: b, rate: 1/s}\n"
                                     "  - {name: c, rate: 1/s, endpoint: none, warn_at: 3}\n"
                                     "  - {name: c, rate: 1/s, tier: x}\n");

    (void)state;
    expect_error(&loaded, 1, 10, "version", "");
    expect_error(&loaded, 2, 25, "identity.ipv6_prefix", "");
    expect_error(&loaded, 4, 21, "limits[0].rate", "");
    expect_error(&loaded, 4, 32, "limits[0].mode", "did you mean `off`?");
    expect_error(&loaded, 5, 6, "limits[1].nme", "did you mean `name`?");
    expect_error(&loaded, 6, 36, "limits[2].endpoint", "");
    expect_error(&loaded, 6, 51, "limits[2].warn_at", "");
    expect_error(&loaded, 7, 12, "limits[3].name", "taken by the limit in line 6");
    assert_int_equal(loaded.diags.n_errors, 8);
    for (size_t i = 1; i < loaded.diags.n; i++)
        assert_true(loaded.diags.list[i - 1].line <= loaded.diags.list[i].line);
    unload(&loaded);
}

static void findings_print_as_a_compiler_does(void **state)
{
    struct loaded loaded =
        load_text("version: 1\nlimits:\n  - {name: a, rate: 1/s, on_store_failure: local, ratee: 1/s}\n");
    char line[300];

    (void)state;
    sl_diag_format(&loaded.diags.list[0], line, sizeof line);
    assert_string_equal(line, "p.yaml:3:51: error: limits[0].ratee: unknown field of a limit; did you mean `rate`?");
    unload(&loaded);
}

static void findings_are_bounded_and_errors_outlive_warnings(void **state)
{
    struct sl_diags diags;

    (void)state;
    sl_diags_init(&diags, sl_alloc_system());
    for (unsigned i = 0; i < 300; i++)
        sl_diags_add(&diags, SL_DIAG_WARNING, "f", i, 1, "", "w%u", i);
    assert_int_equal(diags.n, SL_DIAGS_MAX);
    assert_int_equal(diags.n_dropped, 100);
    for (unsigned i = 0; i < 250; i++)
        sl_diags_add(&diags, SL_DIAG_ERROR, "f", 5, 1, "", "e%u", i);
    assert_int_equal(diags.n, SL_DIAGS_MAX);
    for (size_t i = 0; i < diags.n; i++)
        assert_int_equal(diags.list[i].severity, SL_DIAG_ERROR);
    assert_int_equal(diags.n_errors, 250);
    assert_int_equal(diags.n_warnings, 300);
    assert_int_equal(diags.n + diags.n_dropped, 550);
    sl_diags_fini(&diags);
}

static void messages_are_always_text(void **state)
{
    struct sl_diags diags;

    (void)state;
    sl_diags_init(&diags, sl_alloc_system());
    sl_diags_add(&diags, SL_DIAG_ERROR, "f", 1, 1, "", "a\xffz \xc3\xa9 \x01 \xe2\x82");
    assert_string_equal(diags.list[0].message, "a?z \xc3\xa9 ? ??");
    sl_diags_fini(&diags);
}

static void defaults_apply_where_a_limit_is_silent(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\n"
                  "limits:\n"
                  "  - {name: a, layer: a}\n"
                  "  - {name: b, layer: b, rate: 7/m, algorithm: leaky_bucket, cost: 1}\n"
                  "  - {name: c, layer: c, rates: [3/s, 9/m]}\n"
                  "  - {name: d, layer: d, algorithm: fixed_window, per: [address], mode: off}\n"
                  "  - {name: e, layer: e, rate: unlimited}\n"
                  "defaults: {rate: 10/s, burst: 20, cost: 3, per: [], mode: dry_run, tier: t,\n"
                  "           on_store_failure: closed, warn_at: 50%, labels: {x: y}, note: n}\n");
    const struct sl_limit *a = sl_policy_limit(policy, 0), *b = sl_policy_limit(policy, 1),
                          *c = sl_policy_limit(policy, 2), *d = sl_policy_limit(policy, 3),
                          *e = sl_policy_limit(policy, 4);

    (void)state;
    assert_int_equal(a->shapes[0].count, 10);
    assert_int_equal(a->shapes[0].limit, 20);
    assert_int_equal(a->cost, 3);
    assert_int_equal(a->per, 0);
    assert_int_equal(a->mode, SL_MODE_DRY_RUN);
    assert_int_equal(a->on_store_failure, SL_FAIL_CLOSED);
    assert_true(a->on_store_failure_given);
    assert_int_equal(a->warn_at_percent, 50);
    assert_string_equal(a->tier, "t");
    assert_string_equal(a->labels[0].value, "y");
    assert_string_equal(a->note, "n");
    assert_int_equal(b->shapes[0].count, 7);
    assert_int_equal(b->shapes[0].limit, 20);
    assert_int_equal(b->algorithm, SL_LEAKY_BUCKET);
    assert_int_equal(b->cost, 1);
    assert_int_equal(c->n_rates, 2); /* rates replace the default rate and its burst */
    assert_int_equal(c->shapes[0].limit, 3);
    assert_int_equal(c->shapes[1].limit, 9);
    assert_int_equal(d->shapes[0].limit, 10); /* a window takes no burst, also not a default one */
    assert_int_equal(d->per, SL_PER_ADDRESS);
    assert_int_equal(d->mode, SL_MODE_OFF);
    assert_int_equal(e->kind, SL_RATE_UNLIMITED);
    assert_int_equal(e->n_rates, 0);
    sl_policy_unref(policy);
}

static void default_rates_yield_to_a_rate(void **state)
{
    struct sl_policy *policy = must_load("version: 1\ndefaults: {rates: [1/s, 5/m]}\n"
                                         "limits: [{name: a}, {name: b, layer: b, rate: 9/s}]\n");
    struct loaded both = load_text("version: 1\ndefaults: {rate: 1/s, rates: [1/s]}\nlimits: [{name: a}]\n");

    (void)state;
    assert_int_equal(sl_policy_limit(policy, 0)->n_rates, 2);
    assert_int_equal(sl_policy_limit(policy, 1)->n_rates, 1);
    assert_int_equal(sl_policy_limit(policy, 1)->shapes[0].count, 9);
    assert_int_equal(both.diags.n_errors, 1);
    expect_error(&both, 2, 30, "defaults.rates", "exclude each other");
    unload(&both);
    sl_policy_unref(policy);
}

static void an_error_in_defaults_is_told_once_where_it_stands(void **state)
{
    struct loaded loaded =
        load_text("version: 1\ndefaults: {coordination: leased, algorithm: leeky_bucket, rate: 1/x}\n"
                  "limits: [{name: a}, {name: b, layer: b}]\n");

    (void)state;
    expect_error(&loaded, 2, 45, "defaults.algorithm", "did you mean `leaky_bucket`?");
    expect_error(&loaded, 2, 65, "defaults.rate", "");
    assert_int_equal(loaded.diags.n_errors, 2);
    unload(&loaded);
}

static void layers_and_label_names_are_bounded(void **state)
{
    char text[8000] = "version: 1\nlimits:\n";
    struct loaded loaded;

    (void)state;
    for (int i = 0; i < 9; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "  - {name: l%d, layer: l%d, rate: 1/s}\n", i, i);
    loaded = load_text(text);
    expect_error(&loaded, 11, 23, "limits[8].layer", "at most 8");
    unload(&loaded);
    snprintf(text, sizeof text, "version: 1\nlimits:\n");
    for (int i = 0; i < 64; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "  - {name: l%d, labels: {n%d: x}, rate: 1/s}\n", i,
                 i);
    loaded = load_text(text);
    expect_error(&loaded, 66, 25, "limits[63].labels", "at most 63 different labels");
    unload(&loaded);
}

static void doors_get_identity_and_http(void **state)
{
    struct sl_policy *
        policy =
           must_load("version: 1\nlimits: []\n"
                     "identity: {order: [tenant, address], headers: {tenant: X-Tenant}, trusted_headers: [tenant],\n"
                     "           trusted_proxies: [127.0.0.0/8, \"fd00::/8\"], forwarded: Forwarded, ipv6_prefix: 56}\n"
                     "http: {headers: draft, errors: problem, closed_status: 503}\n"),
       *plain = must_load(LIMITS);
    const struct sl_door *door = sl_policy_door(policy);

    (void)state;
    assert_int_equal(door->n_order, 2);
    assert_string_equal(door->order[0].key_type, "tenant");
    assert_string_equal(door->order[0].header, "x-tenant");
    assert_true(door->order[0].trusted_only);
    assert_null(door->order[1].header);
    assert_int_equal(door->n_trusted, 2);
    assert_int_equal(door->forwarded_kind, SL_FORWARDED_RFC7239);
    assert_int_equal(door->ipv6_prefix, 56);
    assert_int_equal(door->headers, SL_HEADERS_DRAFT);
    assert_true(door->problem_errors);
    assert_int_equal(door->closed_status, 503);
    door = sl_policy_door(plain);
    assert_int_equal(door->n_order, 3);
    assert_string_equal(door->order[0].header, "x-api-key");
    assert_false(door->order[0].trusted_only);
    assert_string_equal(door->order[1].header, "x-user-id");
    assert_true(door->order[1].trusted_only);
    assert_string_equal(door->forwarded_header, "x-forwarded-for");
    assert_int_equal(door->forwarded_kind, SL_FORWARDED_XFF);
    assert_int_equal(door->n_trusted, 0);
    assert_int_equal(door->ipv6_prefix, 64);
    assert_int_equal(door->closed_status, 429);
    sl_policy_unref(policy);
    sl_policy_unref(plain);
}

static void the_store_keeps_shorter_logs(void **state)
{
    struct loaded loaded =
        load_with_store("version: 1\nlimits: [{name: a, rate: 10001/h, algorithm: sliding_window_log}]\n");

    (void)state;
    expect_error(&loaded, 2, 26, "limits[0].rate", "at most 10000 entries");
    unload(&loaded);
    loaded = load_with_store(
        "version: 1\nlimits: [{name: a, rate: 10001/h, algorithm: sliding_window_log, coordination: local}]\n");
    assert_int_equal(loaded.rc, 0);
    unload(&loaded);
}

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static char *read_docs(void)
{
    FILE *f = fopen(SLUICE_SOURCE_DIR "/docs/policy.md", "rb");
    char *text = calloc(1, 1 << 20);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static void the_reference_has_every_row_of_every_table(void **state)
{
    static const struct sl_fields *const tables[] = {&sl_policy_fields, &sl_limit_fields,    &sl_identity_fields,
                                                     &sl_http_fields,   &sl_tiers_fields,    &sl_endpoint_fields,
                                                     &sl_rate_fields,   &sl_ceiling_fields,  &sl_lease_fields,
                                                     &sl_sync_fields,   &sl_dedicated_fields};
    char *docs = read_docs(), row[600];

    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (unsigned k = 0; k < tables[i]->n; k++) {
            const struct sl_field *field = &tables[i]->list[k];

            snprintf(row, sizeof row, "| `%s` | %s | %s | %s |\n", field->name, field->type, field->fallback,
                     field->sentence);
            if (!strstr(docs, row))
                fail_msg("docs/policy.md lacks this row: %s", row);
        }
    free(docs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_documents_name_their_place),
        cmocka_unit_test(wrong_limits_name_their_place),
        cmocka_unit_test(a_misspelt_field_is_one_finding),
        cmocka_unit_test(misspelt_defaults_and_documents_are_one_finding),
        cmocka_unit_test(right_limits_load),
        cmocka_unit_test(b10_a_count_no_integer_holds_is_a_load_error),
        cmocka_unit_test(b08_a_period_beyond_the_range_is_a_load_error),
        cmocka_unit_test(b11_b13_burst_defaults_to_the_count),
        cmocka_unit_test(all_errors_come_in_one_pass_in_order),
        cmocka_unit_test(findings_print_as_a_compiler_does),
        cmocka_unit_test(findings_are_bounded_and_errors_outlive_warnings),
        cmocka_unit_test(messages_are_always_text),
        cmocka_unit_test(defaults_apply_where_a_limit_is_silent),
        cmocka_unit_test(default_rates_yield_to_a_rate),
        cmocka_unit_test(an_error_in_defaults_is_told_once_where_it_stands),
        cmocka_unit_test(layers_and_label_names_are_bounded),
        cmocka_unit_test(doors_get_identity_and_http),
        cmocka_unit_test(the_store_keeps_shorter_logs),
        cmocka_unit_test(the_reference_has_every_row_of_every_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
