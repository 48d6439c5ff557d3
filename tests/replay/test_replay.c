/* The engine from a log's bytes to the summary and the verdicts. */
#include "replay/replay.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG SLUICE_SOURCE_DIR "/tests/data/access-combined.log"
#define CASES SLUICE_SOURCE_DIR "/tests/data/replay/"

static char why[SL_REPLAY_WHY_MAX];
static char *verdicts; /* what the last run wrote, when asked */

static struct sl_policy *policy_of(const char *text)
{
    struct sl_policy_options options = {.secret = sl_replay_secret(), .alloc = sl_alloc_system()};
    struct sl_diags diags;
    struct sl_policy *policy = NULL;

    sl_diags_init(&diags, options.alloc);
    if (sl_policy_parse(text, strlen(text), "test.yaml", &options, &policy, &diags))
        sl_diags_print(&diags, stdout);
    sl_diags_fini(&diags);
    assert_non_null(policy);
    return policy;
}

static FILE *input_of(const char *text, size_t len)
{
    FILE *f = tmpfile();

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fflush(f), 0);
    assert_int_equal(lseek(fileno(f), 0, SEEK_SET), 0);
    return f;
}

/* Runs a log's text through; the caller frees the summary. */
static struct sl_replay_summary *run_bytes(struct sl_replay_options *options, const char *log, size_t len)
{
    static const char *const standard_input = "-";
    struct sl_replay_summary *summary = NULL;
    size_t verdicts_len;
    FILE *out = open_memstream(&verdicts, &verdicts_len);

    options->paths = &standard_input;
    options->n_paths = 1;
    options->input = input_of(log, len);
    options->verdicts = out;
    if (options->table_keys == SL_REPLAY_TABLE_KEYS)
        options->table_keys = 10000;
    if (sl_replay_run(options, &summary, why, sizeof why))
        fail_msg("%s", why);
    fclose(options->input);
    fclose(out);
    return summary;
}

static struct sl_replay_summary *run_text(struct sl_replay_options *options, const char *policy, const char *log)
{
    struct sl_replay_summary *summary;

    options->policy = policy_of(policy);
    summary = run_bytes(options, log, strlen(log));
    sl_policy_unref(options->policy);
    return summary;
}

static void done(struct sl_replay_summary *summary)
{
    sl_replay_summary_free(&summary);
    assert_null(summary);
    free(verdicts);
    verdicts = NULL;
}

/* The value of a member in the n-th verdict (from 0), as JSON text. */
static const char *verdict(unsigned n, const char *member)
{
    static char out[256];
    const char *line = verdicts, *end;
    json_t *root;
    char *text;

    for (; n > 0; n--)
        line = strchr(line, '\n') + 1;
    end = strchr(line, '\n');
    assert_non_null(end);
    root = json_loadb(line, (size_t)(end - line), 0, NULL);
    assert_non_null(root);
    assert_non_null(json_object_get(root, member));
    text = json_dumps(json_object_get(root, member), JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    snprintf(out, sizeof out, "%s", text);
    free(text);
    json_decref(root);
    return out;
}

/* "allowed" of every verdict as a string of y and n. */
static const char *answers(void)
{
    static char out[1000];
    size_t n = 0;

    for (const char *at = verdicts; (at = strstr(at, "\"allowed\":")); at += 10)
        out[n++] = at[10] == 't' ? 'y' : 'n';
    out[n] = '\0';
    return out;
}

static const struct sl_replay_limit *limit(const struct sl_replay_summary *s, const char *name)
{
    for (size_t i = 0; i < s->n_limits; i++) {
        if (strcmp(s->limits[i].name, name) == 0)
            return &s->limits[i];
    }
    fail_msg("no limit %s", name);
    return NULL;
}

/* ---- whole logs, against an exact model's answers ---------------------------------------------------------------- */

static char *read_text(const char *path, const char *head)
{
    char *text = calloc(1, 65536);
    FILE *f = fopen(path, "r");
    size_t n = strlen(head);

    assert_non_null(text);
    assert_non_null(f);
    snprintf(text, 65536, "%s", head);
    n += fread(text + n, 1, 65535 - n, f);
    fclose(f);
    assert_true(n < 65535);
    return text;
}

static void compare_limits(const struct sl_replay_summary *s, json_t *right)
{
    const char *name;
    json_t *counts;

    json_object_foreach(json_object_get(right, "limits"), name, counts)
    {
        assert_int_equal(limit(s, name)->count.allowed, json_integer_value(json_object_get(counts, "allowed")));
        assert_int_equal(limit(s, name)->count.rejected, json_integer_value(json_object_get(counts, "rejected")));
    }
}

static void compare_top(const struct sl_replay_summary *s, json_t *right)
{
    json_t *top = json_object_get(right, "top_rejected"), *pair;
    size_t i;

    json_array_foreach(top, i, pair)
    {
        assert_string_equal(s->top_rejected[i].key, json_string_value(json_array_get(pair, 0)));
        assert_int_equal(s->top_rejected[i].rejected, json_integer_value(json_array_get(pair, 1)));
        assert_string_equal(s->top_rejected[i].key_type, "address");
    }
    assert_true(i > 0);
}

/* One of the cases of tests/data/replay: a policy, and what an exact model says of the log under it. */
static void run_case(const char *name)
{
    static const char *const path = LOG;
    static const char head[] = "{\"version\":1,";
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;
    char file[256], *text, *expected;
    json_t *right;

    snprintf(file, sizeof file, CASES "%s.json", name);
    text = read_text(file, head);
    text[sizeof head - 1] = ' '; /* the object goes on */
    snprintf(file, sizeof file, CASES "%s.expected.json", name);
    expected = read_text(file, "");
    right = json_loads(expected, 0, NULL);
    assert_non_null(right);
    options.paths = &path;
    options.n_paths = 1;
    options.policy = policy_of(text);
    options.table_keys = 100000;
    if (sl_replay_run(&options, &s, why, sizeof why))
        fail_msg("%s", why);
    assert_int_equal(s->events, json_integer_value(json_object_get(right, "events")));
    assert_int_equal(s->allowed, json_integer_value(json_object_get(right, "allowed")));
    assert_int_equal(s->rejected, json_integer_value(json_object_get(right, "rejected")));
    assert_int_equal(s->malformed, json_integer_value(json_object_get(right, "malformed")));
    assert_int_equal(s->lines, s->events);
    assert_int_equal(s->late, 0);
    assert_int_equal(s->evictions, 0);
    compare_limits(s, right);
    compare_top(s, right);
    sl_replay_summary_free(&s);
    sl_policy_unref(options.policy);
    json_decref(right);
    free(text);
    free(expected);
}

static void a_real_log_is_decided_as_the_model_decides_it(void **state)
{
    (void)state;
    run_case("a1");
    run_case("a3");
}

/* ---- combined logs ----------------------------------------------------------------------------------------------- */

#define REQUEST " [05/May/2020:21:25:27 +0000] \"GET / HTTP/1.0\" 200 1 \"-\" \"-\"\n"

static void b184_the_client_of_a_list_is_that_of_live_traffic(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
    s = run_text(&options,
                 "version: 1\n"
                 "identity: {trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]}\n"
                 "limits: [{name: one, key_type: address, rate: 1/d}]\n",
                 "2001:db8::7, 198.51.100.9, 10.0.0.1 127.0.0.1 - -" REQUEST /* 198.51.100.9 */
                 "198.51.100.9 127.0.0.1 - -" REQUEST                        /* the same */
                 "198.51.100.9 192.0.2.77 - -" REQUEST                       /* the peer: not trusted */
                 "198.51.100.9 - -" REQUEST                                  /* the same as the first */
                 "unknown, 10.0.0.1 127.0.0.1 - -" REQUEST);                 /* 10.0.0.1: the last good hop */
    assert_int_equal(s->malformed, 0);
    assert_string_equal(answers(), "ynyny");
    assert_string_equal(verdict(0, "key"), "\"198.51.100.9\"");
    assert_string_equal(verdict(2, "key"), "\"192.0.2.77\"");
    assert_string_equal(verdict(4, "key"), "\"10.0.0.1\"");
    done(s);
}

static void addresses_are_grouped_and_opaque_clients_kept(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
    s = run_text(&options, "version: 1\nlimits: [{name: one, key_type: address, rate: 1/d}]\n",
                 "2001:db8:1:2::1 - -" REQUEST "2001:DB8:1:2::ffff - -" REQUEST "2001:db8:1:3::1 - -" REQUEST
                 "::ffff:192.0.2.1 - -" REQUEST "192.0.2.1 - -" REQUEST "crawler.example.test - -" REQUEST
                 "crawler.example.test - -" REQUEST "192.0.2.01 - -" REQUEST);
    assert_int_equal(s->malformed, 0);
    assert_string_equal(answers(), "ynyynyny");
    assert_string_equal(verdict(1, "key"), "\"2001:DB8:1:2::ffff\"");
    assert_string_equal(verdict(5, "key"), "\"crawler.example.test\"");
    assert_int_equal(s->n_top_rejected, 3);
    assert_string_equal(s->top_rejected[0].key, "192.0.2.1");
    assert_string_equal(s->top_rejected[1].key, "2001:db8:1:2::/64");
    done(s);
}

static void b186_parsed_and_skipped_make_all_lines(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    char log[20000] = "", *first;
    struct sl_replay_summary *s;

    (void)state;
    for (int i = 0; i < 120; i++) {
        int minute = i < 60 || i >= 100 ? 30 + i / 60 : 10; /* one step back of twenty minutes */

        sprintf(log + strlen(log), "10.0.0.%d - - [05/May/2020:21:%02d:%02d +0000] \"GET /%d HTTP/1.0\" 200 1\n%s",
                i % 7, minute, i % 60, i, i % 10 ? "" : "nonsense\n");
    }
    s = run_text(&options, "version: 1\nlimits: [{name: few, rate: 3/m}]\n", log);
    assert_int_equal(s->lines, 132);
    assert_int_equal(s->malformed, 12);
    assert_int_equal(s->events, 120);
    assert_int_equal(s->late, 40);
    assert_int_equal(s->allowed + s->rejected, 120);
    assert_int_equal(s->n_malformed_shown, 10);
    assert_int_equal(s->malformed_shown[0].line, 2);
    assert_string_equal(s->malformed_shown[0].path, "-");
    assert_non_null(strstr(s->malformed_shown[9].reason, "no time"));
    first = verdicts;
    sl_replay_summary_free(&s);
    s = run_text(&options, "version: 1\nlimits: [{name: few, rate: 3/m}]\n", log);
    assert_string_equal(first, verdicts); /* deterministic */
    free(first);
    done(s);
}

static void b188_odd_requests_never_end_the_run(void **state)
{
    static const char log[] =
        "10.0.0.1 - - [05/May/2020:21:25:27 +0000] \"\" 400 0 \"-\" \"-\"\r\n"
        "10.0.0.1 - - [05/May/2020:21:25:27 +0000] \"-\" 408 - \"-\" \"-\"\r\n"
        "10.0.0.1 - - [05/May/2020:21:25:27 +0000] \"\\x16\\x03\\x01\" 400 0 \"-\" \"-\"\n"
        "10.0.0.1 - - [05/May/2020:21:25:27 +0000] \"MGLNDD_192.0.2.1_80\" 400 0 \"-\" \"-\"\n"
        "10.0.0.1 - - [05/May/2020:21:25:27 +0000] \"GET /\0x HTTP/1.1\" 400 0 \"-\" \"-\"\n"
        "\n"
        "\0\0\0\n"
        "10.0.0.1 - - [05/May/2020:21:25:27 +0000] \"GET /\\x22\\\" HTTP/1.1\" 200 0 \"\\\"\" \"-\"\r\n"
        "10.0.0.1 - - [05/May/2020:21:25:27 +0000] \"GET /\xff\xc3\xa9 HTTP/1.1\" 200 0";
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
    options.policy = policy_of("version: 1\nlimits: [{name: few, rate: 3/m}]\n");
    s = run_bytes(&options, log, sizeof log - 1);
    sl_policy_unref(options.policy);
    assert_int_equal(s->lines, 9);
    assert_int_equal(s->malformed, 7);
    assert_int_equal(s->events, 2);
    assert_string_equal(s->malformed_shown[4].reason, "scope: must not hold NUL or control characters");
    assert_string_equal(verdict(0, "scope"), "\"GET /\\\\x22\\\\\\\"\"");
    assert_string_equal(verdict(1, "scope"), "\"GET /\\uFFFD\\u00E9\"");
    done(s);
}

static void b189_scopes_are_as_written_without_the_query(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
#define AS(request) "10.0.0.1 - - [05/May/2020:21:25:27 +0000] \"" request "\" 200 0 \"-\" \"-\"\n"
    s = run_text(&options, "version: 1\nlimits: [{name: few, rate: 3/m}]\n",
                 AS("GET /index.php?x=a b HTTP/1.1") AS("GET  /a b HTTP/1.1") AS("CONNECT example.test:80 HTTP/1.1")
                     AS("GET http://example.test/x HTTP/1.1") AS("GET /") AS("GET //a/../%7Eb HTTP/1.1"));
#undef AS
    assert_int_equal(s->malformed, 0);
    assert_string_equal(verdict(0, "scope"), "\"GET /index.php\"");
    assert_string_equal(verdict(1, "scope"), "\"GET /a b\"");
    assert_string_equal(verdict(2, "scope"), "\"CONNECT example.test:80\"");
    assert_string_equal(verdict(3, "scope"), "\"GET http://example.test/x\"");
    assert_string_equal(verdict(4, "scope"), "\"GET /\"");
    assert_string_equal(verdict(5, "scope"), "\"GET //a/../%7Eb\"");
    done(s);
}

static void b191_days_change_at_midnight_utc(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
#define AT(time) "10.0.0.1 - - [" time "] \"GET / HTTP/1.1\" 200 0 \"-\" \"-\"\n"
    s = run_text(&options, "version: 1\nlimits: [{name: daily, algorithm: fixed_window, rate: 1/d}]\n",
                 AT("31/Aug/2017:23:59:59.9 +0000") AT("01/Sep/2017:00:00:00.1 +0000") AT("01/Sep/2017:00:00:01 +0000")
                     AT("31/Dec/2019:23:59:59.9 +0000") AT("01/Jan/2020:02:00:00.1 +0200")
                         AT("31/Dec/2019:19:00:01 -0500"));
#undef AT
    assert_string_equal(answers(), "yynyyn");
    assert_string_equal(verdict(0, "resetAt"), "\"2017-09-01T00:00:00.000Z\"");
    done(s);
}

/* ---- jsonl, order, and what is counted --------------------------------------------------------------------------- */

static void verdicts_have_every_field_in_the_order_decided(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
    options.format = SL_REPLAY_JSONL;
    s = run_text(&options,
                 "version: 1\n"
                 "limits:\n"
                 "  - {name: main, rate: 2/s, warn_at: 50%}\n"
                 "  - {name: tried, layer: trial, rate: 1/h, mode: dry_run}\n",
                 "{\"t_us\":1754003722500000,\"key\":\"b\\\"\\u00e9\",\"cost\":3}\n"
                 "{\"t_us\":1754003722000000,\"key\":\"a\",\"scope\":\"x\"}\n"
                 "{\"t_us\":1754003722500000,\"key\":\"a\"}\n");
    assert_string_equal(
        verdicts,
        "{\"t_us\":1754003722000000,\"key\":\"a\",\"scope\":\"x\",\"allowed\":true,\"limit\":2,\"remaining\":1,"
        "\"resetAt\":\"2025-07-31T23:15:22.500Z\",\"retryAfterMs\":0,\"resetAfterMs\":500,\"delayMs\":0,"
        "\"source\":\"local\",\"policy\":\"main\",\"warning\":true}\n"
        "{\"t_us\":1754003722500000,\"key\":\"b\\\"\xc3\xa9\",\"scope\":\"\",\"allowed\":false,\"limit\":2,"
        "\"remaining\":2,"
        "\"resetAt\":\"2025-07-31T23:15:22.500Z\",\"retryAfterMs\":-1,\"resetAfterMs\":0,\"delayMs\":0,"
        "\"source\":\"local\",\"policy\":\"main\",\"warning\":false,\"reason\":\"cost_exceeds_limit\","
        "\"dryRun\":{\"policy\":\"tried\",\"retryAfterMs\":-1}}\n"
        "{\"t_us\":1754003722500000,\"key\":\"a\",\"scope\":\"\",\"allowed\":true,\"limit\":2,\"remaining\":1,"
        "\"resetAt\":\"2025-07-31T23:15:23.000Z\",\"retryAfterMs\":0,\"resetAfterMs\":500,\"delayMs\":0,"
        "\"source\":\"local\",\"policy\":\"main\",\"warning\":true,"
        "\"dryRun\":{\"policy\":\"tried\",\"retryAfterMs\":3599500}}\n");
    assert_int_equal(s->dry_run, 1);
    assert_true(limit(s, "tried")->dry_run);
    assert_int_equal(limit(s, "tried")->count.allowed, 1);
    assert_int_equal(limit(s, "tried")->count.rejected, 2);
    done(s);
}

static void limits_are_counted_by_their_own_room(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;
    char log[4000] = "";

    (void)state;
    options.format = SL_REPLAY_JSONL;
    for (int i = 0; i < 8; i++)
        sprintf(log + strlen(log), "{\"t_us\":%d,\"key\":\"k\",\"scope\":\"%s\",\"labels\":{\"a\":\"b\"}}\n", i * 1000,
                i == 6   ? "shut"
                : i == 7 ? "open"
                         : "x");
    s = run_text(&options,
                 "version: 1\n"
                 "endpoints: {shut: {match: [shut]}, open: {match: [open]}}\n"
                 "limits:\n"
                 "  - {name: two, rates: [4/h, 5/d]}\n"
                 "  - {name: wide, layer: edge, per: [], rate: 2/h}\n"
                 "  - {name: shut, endpoint: shut, rate: blocked}\n"
                 "  - {name: open, endpoint: open, rate: unlimited}\n"
                 "  - {name: idle, layer: idle, key: nobody, rate: 1/s}\n"
                 "  - {name: off, layer: idle, tier: none, rate: 1/s, mode: off}\n",
                 log);
    assert_string_equal(answers(), "yynnnnnn");
    assert_int_equal(limit(s, "two")->count.allowed, 6);
    assert_int_equal(limit(s, "two")->count.rejected, 0);
    assert_int_equal(limit(s, "wide")->count.allowed, 2);
    assert_int_equal(limit(s, "wide")->count.rejected, 6);
    assert_int_equal(limit(s, "shut")->count.rejected, 1);
    assert_int_equal(limit(s, "shut")->decided, 1);
    assert_int_equal(limit(s, "wide")->decided, 5);
    assert_int_equal(limit(s, "open")->count.allowed, 1);
    assert_int_equal(limit(s, "idle")->count.allowed + limit(s, "idle")->count.rejected, 0);
    assert_int_equal(s->n_limits, 5);
    done(s);
}

static void peaks_are_those_of_the_busiest_minutes(void **state)
{
    static const int seconds[] = {10, 50, 61, 62, 63, 119, 120, 240, 241};
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;
    char log[2000] = "";

    (void)state;
    options.format = SL_REPLAY_JSONL;
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
        sprintf(log + strlen(log), "{\"t_us\":%d000000,\"key\":\"k\"}\n", seconds[i]);
    s = run_text(&options, "version: 1\nlimits: [{name: w, algorithm: fixed_window, rate: 1/m}]\n", log);
    assert_int_equal(s->events_peak.minute, 1);
    assert_int_equal(s->events_peak.n, 4);
    assert_int_equal(s->rejected_peak.minute, 1);
    assert_int_equal(s->rejected_peak.n, 3);
    assert_int_equal(limit(s, "w")->checked.n, 4);
    assert_int_equal(limit(s, "w")->rejected.n, 3);
    assert_int_equal(s->first_us, 10000000);
    assert_int_equal(s->last_us, 241000000);
    done(s);
}

static void every_part_of_a_request_reaches_the_policy(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
    options.format = SL_REPLAY_JSONL;
    s = run_text(&options,
                 "version: 1\n"
                 "tiers: {default: free}\n"
                 "limits:\n"
                 "  - {name: plain, rate: 100/d}\n"
                 "  - {name: pro, tier: pro, rate: 100/d}\n"
                 "  - {name: user, key_type: user, rate: 100/d}\n"
                 "  - {name: eu, labels: {region: \"eu-*\"}, per: [label.zone], rate: 100/d}\n"
                 "  - {name: edge, layer: edge, per: [address], rate: 1/d}\n",
                 "{\"t_us\":1,\"key\":\"k\",\"cost\":7}\n"
                 "{\"t_us\":2,\"key\":\"k\",\"tier\":\"pro\"}\n"
                 "{\"t_us\":3,\"key\":\"k\",\"keyType\":\"user\"}\n"
                 "{\"t_us\":4,\"key\":\"k\",\"labels\":{\"zone\":\"1\",\"region\":\"eu-west\"}}\n"
                 "{\"t_us\":5,\"key\":\"l\",\"labels\":{\"region\":\"eu-west\",\"zone\":\"1\"}}\n"
                 "{\"t_us\":6,\"key\":\"k\",\"labels\":{\"region\":\"eu-west\",\"zone\":\"2\"}}\n"
                 "{\"t_us\":7,\"key\":\"k\",\"address\":\"2001:db8::1\"}\n"
                 "{\"t_us\":8,\"key\":\"k\",\"address\":\"2001:db8::2\"}\n");
    assert_string_equal(answers(), "yyyyyyyn");
    assert_string_equal(verdict(0, "remaining"), "93");
    assert_string_equal(verdict(1, "policy"), "\"pro\"");
    assert_string_equal(verdict(2, "policy"), "\"user\"");
    assert_string_equal(verdict(3, "policy"), "\"eu\"");
    assert_string_equal(verdict(4, "remaining"), "98");
    assert_string_equal(verdict(5, "remaining"), "99");
    assert_string_equal(verdict(7, "policy"), "\"edge\"");
    done(s);
}

static void unmatched_events_are_told(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
    options.format = SL_REPLAY_JSONL;
    s = run_text(&options, "version: 1\nlimits: [{name: a, key: known, rate: 1/s}]\nunmatched: deny\n",
                 "{\"t_us\":1,\"key\":\"known\"}\n{\"t_us\":2,\"key\":\"other\"}\n");
    assert_int_equal(s->unmatched, 1);
    assert_string_equal(answers(), "yn");
    assert_string_equal(verdict(1, "reason"), "\"unmatched\"");
    assert_string_equal(verdict(1, "resetAt"), "null");
    done(s);
}

static void bad_values_of_jsonl_are_malformed_with_their_field(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
    options.format = SL_REPLAY_JSONL;
    s = run_text(&options, "version: 1\nlimits: [{name: a, rate: 1/s}]\n",
                 "{\"t_us\":1,\"key\":\"\"}\n"
                 "{\"t_us\":1,\"key\":\"a\\u0000b\"}\n"
                 "{\"t_us\":1,\"key\":\"host\",\"keyType\":\"address\"}\n"
                 "{\"t_us\":1,\"key\":\"k\",\"address\":\"1.2.3\"}\n"
                 "{\"t_us\":1,\"key\":\"k\",\"labels\":{\"\":\"v\"}}\n");
    assert_int_equal(s->events, 0);
    assert_int_equal(s->malformed, 5);
    assert_non_null(strstr(s->malformed_shown[0].reason, "key: "));
    assert_non_null(strstr(s->malformed_shown[1].reason, "key: "));
    assert_non_null(strstr(s->malformed_shown[2].reason, "key: "));
    assert_non_null(strstr(s->malformed_shown[3].reason, "address: "));
    assert_non_null(strstr(s->malformed_shown[4].reason, "labels[0].name: "));
    done(s);
}

/* A request could not ask for so much, but an event that did ask is judged like any that no limit can hold. */
static void costs_beyond_all_limits_are_rejected_for_ever(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
    options.format = SL_REPLAY_JSONL;
    s = run_text(&options, "version: 1\nlimits: [{name: a, rate: 1000000000/s}]\n",
                 "{\"t_us\":1,\"key\":\"k\",\"cost\":1000000001}\n"
                 "{\"t_us\":1,\"key\":\"k\",\"cost\":9223372036854775807}\n"
                 "{\"t_us\":1,\"key\":\"k\",\"cost\":1000000000}\n");
    assert_int_equal(s->malformed, 0);
    assert_string_equal(answers(), "nny");
    assert_string_equal(verdict(1, "retryAfterMs"), "-1");
    assert_string_equal(verdict(1, "reason"), "\"cost_exceeds_limit\"");
    done(s);
}

/* ---- two policies ------------------------------------------------------------------------------------------------ */

static void a_second_policy_is_compared_per_limit_and_per_key(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;
    char log[4000] = "";

    (void)state;
    options.format = SL_REPLAY_JSONL;
    for (int i = 0; i < 10; i++)
        sprintf(log + strlen(log), "{\"t_us\":%d,\"key\":\"%s\"}\n", i, i % 2 ? "odd" : "even");
    options.compare = policy_of("version: 1\nlimits: [{name: all, rate: 2/d}, {name: odd, key: odd, rate: 5/d}]\n");
    s = run_text(&options, "version: 1\nlimits: [{name: all, rate: 3/d}]\n", log);
    sl_policy_unref(options.compare);
    assert_int_equal(s->rejected, 4);
    assert_non_null(s->compare);
    assert_int_equal(s->compare->allowed, 7);
    assert_int_equal(s->compare->rejected, 3);
    assert_int_equal(s->compare->newly_rejected, 1);
    assert_int_equal(s->compare->newly_allowed, 2);
    assert_int_equal(s->compare->n_limits, 1);
    assert_string_equal(s->compare->limits[0].name, "all");
    assert_int_equal(s->compare->limits[0].newly_rejected, 1);
    assert_int_equal(s->compare->limits[0].newly_allowed, 2);
    assert_int_equal(s->compare->n_keys, 2);
    assert_string_equal(s->compare->keys[0].key, "odd");
    assert_int_equal(s->compare->keys[0].newly_allowed, 2);
    assert_string_equal(s->compare->keys[1].key, "even");
    assert_int_equal(s->compare->keys[1].newly_rejected, 1);
    done(s);
}

static void a_second_policy_sees_clients_with_its_own_eyes(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;

    (void)state;
    options.compare = policy_of("version: 1\n"
                                "identity: {trusted_proxies: [127.0.0.0/8], ipv6_prefix: 48}\n"
                                "limits: [{name: one, key_type: address, rate: 1/d}]\n");
    s = run_text(&options, "version: 1\nlimits: [{name: one, key_type: address, rate: 1/d}]\n",
                 "2001:db8:1:2::1 - -" REQUEST          /* y y */
                 "2001:db8:1:3::1 - -" REQUEST          /* y n: the same /48 */
                 "198.51.100.1 127.0.0.1 - -" REQUEST   /* y y */
                 "198.51.100.2 127.0.0.1 - -" REQUEST   /* n y: the first counts the proxy */
                 "198.51.100.2 127.0.0.1 - -" REQUEST); /* n n */
    sl_policy_unref(options.compare);
    assert_string_equal(answers(), "yyynn");
    assert_int_equal(s->compare->newly_rejected, 1);
    assert_int_equal(s->compare->newly_allowed, 1);
    assert_int_equal(s->compare->rejected, 2);
    done(s);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

/* 40,000 events of one second: more than a megabyte that would all have to wait. */
static void too_much_in_one_window_is_decided_early_and_told(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;
    char *log = malloc(40000 * 64), *at = log;

    (void)state;
    assert_non_null(log);
    for (int i = 0; i < 40000; i++)
        at += sprintf(at, "{\"t_us\":%d,\"key\":\"k%d\"}\n", 1000 + i % 3, i % 50);
    options.format = SL_REPLAY_JSONL;
    options.reorder_bytes = 1 << 20;
    options.policy = policy_of("version: 1\nlimits: [{name: a, rate: 100/d}]\n");
    s = run_bytes(&options, log, (size_t)(at - log));
    sl_policy_unref(options.policy);
    assert_int_equal(s->events, 40000);
    assert_int_equal(s->allowed, 5000);
    assert_true(s->early > 0);
    free(log);
    done(s);
}

static void a_full_table_is_told(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;
    char *log = malloc(40000 * 64), *at = log, *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    assert_non_null(log);
    for (int i = 0; i < 40000; i++)
        at += sprintf(at, "{\"t_us\":%d,\"key\":\"k%d\"}\n", 1000 + i, i);
    options.format = SL_REPLAY_JSONL;
    options.table_keys = 1000;
    options.policy = policy_of("version: 1\nlimits: [{name: a, rate: 1/d}]\n");
    s = run_bytes(&options, log, (size_t)(at - log));
    sl_policy_unref(options.policy);
    assert_true(s->evictions > 30000);
    sl_replay_print_text(s, out);
    fclose(out);
    assert_non_null(strstr(text, "NOT EXACT"));
    free(text);
    free(log);
    done(s);
}

static void keys_beyond_the_tally_are_counted_together(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;
    char *log = malloc(40000 * 64), *at = log;

    (void)state;
    assert_non_null(log);
    for (int i = 0; i < 3000; i++)
        at += sprintf(at, "{\"t_us\":%d,\"key\":\"k%04d\"}\n", i, i % 1000);
    options.format = SL_REPLAY_JSONL;
    options.tally_keys = 100;
    options.top = 3;
    options.policy = policy_of("version: 1\nlimits: [{name: a, rate: 1/d}]\n");
    s = run_bytes(&options, log, (size_t)(at - log));
    sl_policy_unref(options.policy);
    assert_int_equal(s->rejected, 2000);
    assert_int_equal(s->rejected_keys, 100);
    assert_int_equal(s->untallied, 1800);
    assert_int_equal(s->n_top_rejected, 3);
    assert_string_equal(s->top_rejected[2].key, "k0002");
    assert_int_equal(s->top_rejected[2].rejected, 2);
    free(log);
    done(s);
}

/* ---- summaries, errors ------------------------------------------------------------------------------------------- */

static void the_json_summary_has_the_stated_members(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s;
    json_t *root, *first;

    (void)state;
    options.format = SL_REPLAY_JSONL;
    options.compare = policy_of("version: 1\nlimits: [{name: a, rate: 2/d}]\n");
    s = run_text(&options, "version: 1\nlimits: [{name: a, rate: 1/d}]\n",
                 "{\"t_us\":1,\"key\":\"k\"}\n{\"t_us\":2,\"key\":\"k\"}\nx\n");
    sl_policy_unref(options.compare);
    root = sl_replay_summary_json(s);
    assert_int_equal(json_integer_value(json_object_get(root, "events")), 2);
    assert_int_equal(json_integer_value(json_object_get(root, "allowed")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "rejected")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "malformed")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "late")), 0);
    first = json_object_get(json_object_get(root, "limits"), "a");
    assert_int_equal(json_integer_value(json_object_get(first, "rejected")), 1);
    first = json_array_get(json_object_get(root, "top_rejected"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "key")), "k");
    assert_int_equal(json_integer_value(json_object_get(first, "rejected")), 1);
    first = json_array_get(json_object_get(root, "malformed_lines"), 0);
    assert_int_equal(json_integer_value(json_object_get(first, "line")), 3);
    first = json_object_get(root, "compare");
    assert_int_equal(json_integer_value(json_object_get(first, "newly_allowed")), 1);
    json_decref(root);
    done(s);
}

static void an_empty_log_is_an_answer(void **state)
{
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s = run_text(&options, "version: 1\nlimits: [{name: a, rate: 1/d}]\n", "");
    json_t *root = sl_replay_summary_json(s);

    (void)state;
    assert_int_equal(s->events, 0);
    assert_int_equal(s->n_limits, 1);
    assert_non_null(root);
    assert_true(json_is_null(json_object_get(root, "first")));
    json_decref(root);
    done(s);
}

static void note_progress(void *ctx, const struct sl_replay_progress *progress)
{
    *(struct sl_replay_progress *)ctx = *progress;
}

static void progress_ends_at_the_end(void **state)
{
    static const char *const paths[] = {LOG, LOG};
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_progress last = {0};
    struct sl_replay_summary *s;

    (void)state;
    options.paths = paths;
    options.n_paths = 2;
    options.table_keys = 10000;
    options.progress = note_progress;
    options.progress_ctx = &last;
    options.policy = policy_of("version: 1\nlimits: [{name: a, rate: 1/d}]\n");
    assert_int_equal(sl_replay_run(&options, &s, why, sizeof why), 0);
    assert_int_equal(last.events, 12000);
    assert_true(last.bytes_total > 0);
    assert_int_equal(last.bytes_read, last.bytes_total);
    assert_true(s->late > 0); /* the second log begins days before the first ends */
    sl_replay_summary_free(&s);
    sl_policy_unref(options.policy);
}

static void errors_name_what_is_wrong(void **state)
{
    static const char *const path = "/nonexistent/access.log";
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s = NULL;

    (void)state;
    assert_int_equal(sl_replay_run(&options, &s, why, sizeof why), SL_EINVALID);
    assert_string_equal(why, "no policy to replay");
    options.policy = policy_of("version: 1\nlimits: [{name: a, rate: 1/d}]\n");
    assert_int_equal(sl_replay_run(&options, &s, why, sizeof why), SL_EINVALID);
    assert_string_equal(why, "no log to replay");
    options.paths = &path;
    options.n_paths = 1;
    assert_int_equal(sl_replay_run(&options, &s, why, sizeof why), SL_EIO);
    assert_non_null(strstr(why, path));
    assert_null(s);
    options.reorder_us = SL_REPLAY_REORDER_MAX_US + 1;
    assert_int_equal(sl_replay_run(&options, &s, why, sizeof why), SL_EINVALID);
    sl_policy_unref(options.policy);
}

static void verdicts_that_cannot_be_written_are_an_error(void **state)
{
    static const char *const path = LOG;
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s = NULL;

    (void)state;
    options.paths = &path;
    options.n_paths = 1;
    options.table_keys = 10000;
    options.policy = policy_of("version: 1\nlimits: [{name: a, rate: 1/d}]\n");
    options.verdicts = fopen("/dev/full", "w");
    assert_non_null(options.verdicts);
    assert_int_equal(sl_replay_run(&options, &s, why, sizeof why), SL_EIO);
    assert_non_null(strstr(why, "cannot write the verdicts: "));
    assert_null(s);
    fclose(options.verdicts);
    sl_policy_unref(options.policy);
}

/* Counts allocations down from *ctx; at 0 and below there is no memory. Both threads allocate. */
static void *stingy_realloc(void *ctx, void *p, size_t size)
{
    int *left = ctx;

    if (size == 0) {
        free(p);
        return NULL;
    }
    return __atomic_fetch_sub(left, 1, __ATOMIC_RELAXED) > 0 ? realloc(p, size) : NULL;
}

static void every_allocation_may_fail(void **state)
{
    static const char log[] = "{\"t_us\":1,\"key\":\"a\"}\n{\"t_us\":2,\"key\":\"a\"}\nx\n{\"t_us\":3,\"key\":\"a\"}\n";
    static const char *const standard_input = "-";
    struct sl_replay_options options = sl_replay_defaults();
    struct sl_replay_summary *s = NULL;
    int n = 0, left, error;

    (void)state;
    options.format = SL_REPLAY_JSONL;
    options.table_keys = 1000;
    options.paths = &standard_input;
    options.n_paths = 1;
    options.policy = policy_of("version: 1\nlimits: [{name: a, rate: 1/d}]\n");
    options.compare = policy_of("version: 1\nlimits: [{name: a, rate: 2/d}]\n");
    options.alloc = (struct sl_alloc){stingy_realloc, &left};
    do {
        left = n++;
        options.input = input_of(log, sizeof log - 1);
        error = sl_replay_run(&options, &s, why, sizeof why);
        assert_true(error == 0 || error == SL_ENOMEM);
        assert_true(!error || !s);
        fclose(options.input);
    } while (error && n < 1000);
    assert_int_equal(error, 0);
    assert_true(n > 10);
    assert_int_equal(s->rejected, 2);
    left = 1000;
    sl_replay_summary_free(&s);
    sl_policy_unref(options.policy);
    sl_policy_unref(options.compare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_real_log_is_decided_as_the_model_decides_it),
        cmocka_unit_test(b184_the_client_of_a_list_is_that_of_live_traffic),
        cmocka_unit_test(addresses_are_grouped_and_opaque_clients_kept),
        cmocka_unit_test(b186_parsed_and_skipped_make_all_lines),
        cmocka_unit_test(b188_odd_requests_never_end_the_run),
        cmocka_unit_test(b189_scopes_are_as_written_without_the_query),
        cmocka_unit_test(b191_days_change_at_midnight_utc),
        cmocka_unit_test(verdicts_have_every_field_in_the_order_decided),
        cmocka_unit_test(limits_are_counted_by_their_own_room),
        cmocka_unit_test(peaks_are_those_of_the_busiest_minutes),
        cmocka_unit_test(every_part_of_a_request_reaches_the_policy),
        cmocka_unit_test(unmatched_events_are_told),
        cmocka_unit_test(bad_values_of_jsonl_are_malformed_with_their_field),
        cmocka_unit_test(costs_beyond_all_limits_are_rejected_for_ever),
        cmocka_unit_test(a_second_policy_is_compared_per_limit_and_per_key),
        cmocka_unit_test(a_second_policy_sees_clients_with_its_own_eyes),
        cmocka_unit_test(too_much_in_one_window_is_decided_early_and_told),
        cmocka_unit_test(a_full_table_is_told),
        cmocka_unit_test(keys_beyond_the_tally_are_counted_together),
        cmocka_unit_test(the_json_summary_has_the_stated_members),
        cmocka_unit_test(an_empty_log_is_an_answer),
        cmocka_unit_test(progress_ends_at_the_end),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(errors_name_what_is_wrong),
        cmocka_unit_test(verdicts_that_cannot_be_written_are_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
