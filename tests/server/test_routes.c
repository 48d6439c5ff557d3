/* Every route but /auth, without a network; and that docs/openapi.yaml describes each of them. */
#include "door.h"

#include "limiter/counters.h"
#include "server/headers.h"
#include "server/see.h"

#include <jansson.h>
#include <libfyaml.h>
#include <stdio.h>
#include <string.h>

#define LIMITS "limits: [{name: free, rate: 10/m}, {name: addresses, key_type: address, rate: 3/m}]\n"

/* The body of the last answer as JSON; the caller drops it. */
static json_t *body_json(struct door *d)
{
    json_t *value = json_loads(door_body(d), JSON_REJECT_DUPLICATES, NULL);

    if (!value)
        fail_msg("no JSON: %s", door_body(d));
    return value;
}

static void expect_problem(struct door *d, int status, const char *field)
{
    json_t *p = body_json(d);

    assert_int_equal(d->response.status, status);
    assert_string_equal(d->response.content_type, "application/problem+json");
    assert_int_equal(json_integer_value(json_object_get(p, "status")), status);
    assert_true(json_string_length(json_object_get(p, "type")) > 0);
    assert_true(json_string_length(json_object_get(p, "title")) > 0);
    assert_true(json_string_length(json_object_get(p, "detail")) > 0);
    if (field)
        assert_string_equal(json_string_value(json_object_get(p, "field")), field);
    else
        assert_null(json_object_get(p, "field"));
    json_decref(p);
}

static void check_answers_the_verdict(void **state)
{
    static const char *const fields[] = {"allowed",      "limit",   "remaining", "resetAt", "retryAfterMs",
                                         "resetAfterMs", "delayMs", "source",    "policy",  "warning"};
    struct door d;
    json_t *v;

    (void)state;
    door_open(&d, LIMITS);
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"k\",\"cost\":4}"), 200);
    assert_string_equal(d.response.content_type, "application/json");
    assert_int_equal(d.response.n_headers, 0); /* the verdict is the body */
    v = body_json(&d);
    assert_int_equal(json_object_size(v), sizeof fields / sizeof *fields);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        assert_non_null(json_object_get(v, fields[i]));
    assert_int_equal(json_integer_value(json_object_get(v, "remaining")), 6);
    assert_int_equal(json_integer_value(json_object_get(v, "resetAfterMs")), 24000);
    assert_string_equal(json_string_value(json_object_get(v, "resetAt")), "2025-07-31T22:13:44.000Z");
    json_decref(v);
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"k\",\"cost\":7}"), 200);
    v = body_json(&d);
    assert_true(json_is_false(json_object_get(v, "allowed")));
    assert_string_equal(json_string_value(json_object_get(v, "reason")), "rate_limited");
    assert_int_equal(json_integer_value(json_object_get(v, "retryAfterMs")), 6000);
    json_decref(v);
    door_close(&d);
}

static void check_takes_batches_whole_or_not_at_all(void **state)
{
    struct door d;
    json_t *v;

    (void)state;
    door_open(&d, LIMITS);
    assert_int_equal(door_ask(&d, "POST /check\n\n[{\"key\":\"a\"},{\"key\":\"a\",\"cost\":2},{\"key\":\"b\"}]"), 200);
    v = body_json(&d);
    assert_int_equal(json_array_size(v), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(v, 1), "remaining")), 7);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(v, 2), "remaining")), 9);
    json_decref(v);
    door_ask(&d, "POST /check\n\n[{\"key\":\"a\"},{\"key\":\"\"}]");
    expect_problem(&d, 400, "[1].key");
    door_ask(&d, "POST /check\n\n[{\"key\":\"a\"},{\"key\":\"b\",\"cost\":-2}]");
    expect_problem(&d, 400, "[1].cost");
    door_ask(&d, "POST /check\n\n{\"key\":\"a\",\"cost\":0}");
    v = body_json(&d);
    assert_int_equal(json_integer_value(json_object_get(v, "remaining")), 7);
    json_decref(v);
    door_close(&d);
}

static void addresses_are_normalised_or_refused(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, LIMITS);
    door_ask(&d, "POST /check\n\n{\"key\":\"::ffff:192.0.2.5\",\"keyType\":\"address\"}");
    door_ask(&d, "POST /check\n\n{\"key\":\"192.0.2.5\",\"keyType\":\"address\"}");
    assert_non_null(strstr(door_body(&d), "\"remaining\":1,"));
    door_ask(&d, "POST /check\n\n{\"key\":\"nobody\",\"keyType\":\"address\"}");
    expect_problem(&d, 400, "key");
    door_ask(&d, "POST /check\n\n{\"key\":\"k\",\"address\":\"nowhere\"}");
    expect_problem(&d, 400, "address");
    door_ask(&d, "POST /check\n\n{\"key\":\"a\\r\\nX: y\"}");
    expect_problem(&d, 400, "key");
    door_ask(&d, "POST /check\n\n{\"key\":\"a\",\"labels\":{\"\":\"x\"}}");
    assert_int_equal(d.response.status, 400);
    door_close(&d);
}

static void paths_and_methods(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, LIMITS);
    door_ask(&d, "GET /nowhere");
    expect_problem(&d, 404, NULL);
    door_ask(&d, "GET /check");
    expect_problem(&d, 405, NULL);
    assert_string_equal(door_header(&d, "Allow"), "POST");
    door_ask(&d, "POST /healthz");
    expect_problem(&d, 405, NULL);
    assert_string_equal(door_header(&d, "Allow"), "GET, HEAD");
    door_ask(&d, "GET /metrics"); /* the admin listener's alone */
    expect_problem(&d, 404, NULL);
    assert_int_equal(door_ask_admin(&d, "POST /check\n\n{\"key\":\"k\"}"), 404);
    assert_int_equal(door_ask(&d, "GET /healthz?x=1"), 200);
    assert_int_equal(door_ask(&d, "HEAD /healthz"), 200);
    assert_int_equal(door_ask_admin(&d, "GET /healthz"), 200);
    assert_int_equal(door_ask(&d, "GET /check/"), 404);
    assert_int_equal(door_ask(&d, "OPTIONS *"), 404);
    door_close(&d);
}

static void readiness_is_told(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, LIMITS);
    assert_int_equal(door_ask(&d, "GET /readyz"), 200);
    atomic_store(&d.shared.ready, false);
    door_ask(&d, "GET /readyz");
    expect_problem(&d, 503, NULL);
    atomic_store(&d.shared.ready, true);
    atomic_store(&d.shared.draining, true);
    door_ask(&d, "GET /readyz");
    expect_problem(&d, 503, NULL);
    assert_int_equal(door_ask(&d, "GET /healthz"), 200);
    door_close(&d);
}

static void tokens_are_asked_for(void **state)
{
    static const char *const wrong[] = {"",
                                        "Authorization: Bearer \n",
                                        "Authorization: Bearer secre\n",
                                        "Authorization: Bearer secrett\n",
                                        "Authorization: Bearer secretsecret\n",
                                        "Authorization: Basic secret\n",
                                        "Authorization: secret\n",
                                        "Authorization: Bearer secret\nAuthorization: Bearer secret\n"};
    struct door d;
    char text[256];

    (void)state;
    door_open(&d, LIMITS);
    d.shared.check_token = "secret";
    d.shared.admin_token = "other";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "POST /check\n%s\n{\"key\":\"k\"}", wrong[i]);
        door_ask(&d, text);
        expect_problem(&d, 401, NULL);
        assert_string_equal(door_header(&d, "WWW-Authenticate"), "Bearer realm=\"sluice\"");
    }
    assert_int_equal(door_ask(&d, "POST /check\nAuthorization: bearer secret\n\n{\"key\":\"k\"}"), 200);
    assert_int_equal(door_ask(&d, "GET /auth\n"), 200);
    assert_int_equal(door_ask(&d, "GET /healthz\n"), 200);
    assert_int_equal(door_ask_admin(&d, "GET /metrics\nAuthorization: Bearer secret\n"), 401);
    assert_int_equal(door_ask_admin(&d, "GET /metrics\nAuthorization: Bearer other\n"), 200);
    assert_int_equal(door_ask_admin(&d, "GET /healthz\n"), 200);
    d.unix_socket = true;
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"k\"}"), 200);
    door_close(&d);
}

static void a_token_that_may_only_read(void **state)
{
    static const char *const writes[] = {"PUT /v1/policy", "POST /v1/policy/rollback", "DELETE /v1/buckets?key=k",
                                         "POST /v1/reload"};
    struct door d;
    char text[256];

    (void)state;
    door_open(&d, LIMITS);
    d.shared.admin_token = "all";
    for (int both = 1; both >= 0; both--) { /* and then the reader's alone */
        d.shared.admin_read_token = "reader";
        assert_int_equal(door_ask_admin(&d, "GET /metrics\nAuthorization: Bearer reader\n"), 200);
        assert_int_equal(door_ask_admin(&d, "HEAD /metrics\nAuthorization: Bearer reader\n"), 200);
        assert_int_equal(door_ask_admin(&d, "GET /v1/buckets?key=k\nAuthorization: Bearer reader\n"), 200);
        assert_int_equal(door_ask_admin(&d, "GET /metrics"), 401);
        assert_int_equal(door_ask_admin(&d, "GET /metrics\nAuthorization: Bearer readers\n"), 401);
        assert_int_equal(door_ask_admin(&d, "GET /metrics\nAuthorization: Bearer all\n"), both ? 200 : 401);
        assert_int_equal(door_ask_admin(&d, "GET /healthz"), 200);
        for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
            snprintf(text, sizeof text, "%s\nAuthorization: Bearer reader\n", writes[i]);
            door_ask_admin(&d, text);
            expect_problem(&d, 403, NULL);
            assert_string_equal(door_header(&d, "WWW-Authenticate"),
                                "Bearer realm=\"sluice\", error=\"insufficient_scope\"");
            door_ask_admin(&d, writes[i]);
            expect_problem(&d, 401, NULL);
        }
        assert_int_equal(door_ask_admin(&d, "DELETE /v1/buckets?key=k\nAuthorization: Bearer all\n"), both ? 200 : 401);
        d.shared.admin_token = NULL;
    }
    d.unix_socket = true;
    assert_int_equal(door_ask_admin(&d, "DELETE /v1/buckets?key=k"), 200);
    door_close(&d);
}

static void buckets_are_shown_and_reset(void **state)
{
    struct door d;
    json_t *v, *bucket;

    (void)state;
    door_open(&d, LIMITS);
    door_ask(&d, "POST /check\n\n{\"key\":\"a b\",\"cost\":4}");
    assert_int_equal(door_ask_admin(&d, "GET /v1/buckets?key=a%20b"), 200);
    v = body_json(&d);
    assert_int_equal(json_array_size(json_object_get(v, "buckets")), 1);
    bucket = json_array_get(json_object_get(v, "buckets"), 0);
    assert_string_equal(json_string_value(json_object_get(bucket, "name")), "free");
    assert_string_equal(json_string_value(json_object_get(bucket, "rate")), "10/m");
    assert_string_equal(json_string_value(json_object_get(bucket, "algorithm")), "token_bucket");
    assert_int_equal(json_integer_value(json_object_get(bucket, "remaining")), 6);
    json_decref(v);
    assert_int_equal(door_ask_admin(&d, "DELETE /v1/buckets?key=a+b&keyType=user"), 200);
    assert_string_equal(door_body(&d), "{\"reset\":0}\n");
    assert_int_equal(door_ask_admin(&d, "DELETE /v1/buckets?key=a+b"), 200);
    assert_string_equal(door_body(&d), "{\"reset\":1}\n");
    assert_int_equal(door_ask_admin(&d, "GET /v1/buckets?key=a%20b"), 200);
    assert_string_equal(door_body(&d), "{\"buckets\":[]}\n");
    door_ask_admin(&d, "GET /v1/buckets");
    expect_problem(&d, 400, "key");
    door_ask_admin(&d, "GET /v1/buckets?key=");
    expect_problem(&d, 400, "key");
    door_ask_admin(&d, "GET /v1/buckets?key=%zz");
    expect_problem(&d, 400, NULL);
    door_ask_admin(&d, "GET /v1/buckets?key=a&nope=1");
    expect_problem(&d, 400, NULL);
    door_ask_admin(&d, "DELETE /v1/buckets?key=a&key=b");
    expect_problem(&d, 400, NULL);
    door_ask_admin(&d, "DELETE /v1/buckets?key=a&tier=&tier=free");
    expect_problem(&d, 400, NULL);
    door_ask_admin(&d, "GET /v1/buckets?key=zz&keyType=address");
    expect_problem(&d, 400, "key");
    door_close(&d);
}

static int reload(void *ctx, char *why, size_t size)
{
    snprintf(why, size, "policy.yaml:3:1: error: \"quoted\"");
    return *(int *)ctx;
}

static void reload_asks_the_daemon(void **state)
{
    struct door d;
    int result = 0;

    (void)state;
    door_open(&d, LIMITS);
    door_ask_admin(&d, "POST /v1/reload");
    expect_problem(&d, 501, NULL);
    d.shared.hooks.reload = reload;
    d.shared.hooks.ctx = &result;
    assert_int_equal(door_ask_admin(&d, "POST /v1/reload"), 200);
    result = -4;
    door_ask_admin(&d, "POST /v1/reload");
    expect_problem(&d, 422, NULL);
    assert_non_null(strstr(door_body(&d), "policy.yaml:3:1"));
    door_close(&d);
}

static void the_policy_is_shown_with_its_hash(void **state)
{
    struct door d;
    struct sl_policy *policy;
    json_t *v;

    (void)state;
    door_open(&d, LIMITS);
    policy = sl_limiter_policy(d.kit.limiter);
    assert_int_equal(door_ask_admin(&d, "GET /v1/policy"), 200);
    v = body_json(&d);
    assert_string_equal(json_string_value(json_object_get(v, "hash")), sl_policy_hash(policy));
    assert_int_equal(json_integer_value(json_object_get(v, "version")), 1);
    assert_int_equal(json_integer_value(json_object_get(v, "limits")), 2);
    assert_true(json_is_object(json_object_get(v, "policy")));
    json_decref(v);
    sl_policy_unref(policy);
    door_close(&d);
}

/* Lines of a body that begin with `prefix`. */
static unsigned count_lines(const char *body, const char *prefix)
{
    unsigned n = 0;

    for (const char *line = body; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        n += !strncmp(line, prefix, strlen(prefix));
    return n;
}

static void metrics_count_decisions(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, LIMITS);
    for (int i = 0; i < 12; i++)
        door_ask(&d, "POST /check\n\n{\"key\":\"k\"}");
    assert_int_equal(door_ask_admin(&d, "GET /metrics"), 200);
    assert_non_null(strstr(door_body(&d),
                           "\nsluice_decisions_total{limit=\"free\",verdict=\"allowed\",source=\"local\","
                           "mode=\"enforce\"} 10\n"));
    assert_non_null(strstr(door_body(&d), "verdict=\"rejected\",source=\"local\",mode=\"enforce\"} 2\n"));
    assert_non_null(strstr(door_body(&d), "\nsluice_limit_checks_total{limit=\"free\",result=\"rejected\"} 2\n"));
    assert_non_null(strstr(door_body(&d), "\nsluice_http_responses_total{route=\"/check\",class=\"2xx\"} 12\n"));
    assert_non_null(strstr(door_body(&d), "# TYPE sluice_decisions_total counter\n"));
    assert_int_equal(door_body(&d)[d.response.body.len - 1], '\n');
    assert_int_equal(
        door_ask_admin(&d, "GET /metrics\nAccept: application/openmetrics-text; version=1.0.0,text/plain;q=0.5\n"),
        200);
    assert_non_null(strstr(door_body(&d), "# TYPE sluice_decisions counter\n"));
    assert_non_null(strstr(door_body(&d), "\n# EOF\n"));
    door_close(&d);
}

static void ignore(void *ctx, bool serious, const char *line)
{
    (void)ctx;
    (void)serious;
    (void)line;
}

/* Gives the door what the daemon would: alarms, the watch of shares, the hottest keys. */
static void open_watch(struct door *d, struct sl_alarms *alarms)
{
    static struct sl_alloc alloc;
    struct sl_teller teller = {.alarms = alarms, .say = ignore};

    alloc = sl_alloc_system();

    sl_alarms_init(alarms);
    assert_int_equal(sl_ratio_watch_new(&alloc, &teller, 0, &d->shared.ratios), 0);
    assert_int_equal(sl_top_new(&alloc, d->kit.limiter, &d->shared.top), 0);
    d->shared.alarms = alarms;
}

static void close_watch(struct door *d)
{
    sl_top_free(d->shared.top);
    sl_ratio_watch_free(d->shared.ratios);
    sl_alarms_fini(d->shared.alarms);
}

static void metrics_show_shares_and_alarms(void **state)
{
    struct door d;
    struct sl_alarms alarms;

    (void)state;
    door_open(&d, LIMITS);
    open_watch(&d, &alarms);
    for (int i = 0; i < 4; i++) {
        door_ask(&d, "POST /check\n\n{\"key\":\"192.0.2.1\",\"keyType\":\"address\"}");
        door_ask(&d, "POST /check\n\n{\"key\":\"k\",\"cost\":5}");
    }
    sl_alarm_raise(&alarms, SL_ALARM_TABLE_FULL, NULL, 1);
    assert_int_equal(door_ask_admin(&d, "GET /metrics"), 200);
    assert_non_null(strstr(door_body(&d), "\nsluice_rejection_ratio{limit=\"free\"} 0.5\n"));
    assert_non_null(strstr(door_body(&d), "\nsluice_rejection_ratio{limit=\"addresses\"} 0.25\n"));
    assert_null(strstr(door_body(&d), "\nsluice_rejection_ratio{limit=\"\"}"));
    assert_non_null(strstr(door_body(&d), "\nsluice_anonymous_rejection_ratio 0.25\n"));
    assert_non_null(strstr(door_body(&d), "\nsluice_anonymous_decisions_total{verdict=\"rejected\"} 1\n"));
    assert_non_null(strstr(door_body(&d), "\nsluice_alarm{kind=\"table_full\"} 1\n"));
    for (unsigned i = 0; i < SL_ALARMS; i++) {
        char line[128];

        snprintf(line, sizeof line, "\nsluice_alarm{kind=\"%s\"} %d\n", sl_alarm_name((enum sl_alarm)i),
                 i == SL_ALARM_TABLE_FULL);
        assert_non_null(strstr(door_body(&d), line));
    }
    close_watch(&d);
    door_close(&d);
}

/* As the daemon does. */
static void see_rejections(struct door *d, struct sl_see *see, struct sl_witnesses *witnesses)
{
    struct sl_alloc alloc = sl_alloc_system();

    assert_int_equal(sl_rejections_new(&alloc, 1, 0, &see->rejections), 0);
    assert_int_equal(sl_top_follow_rejections(d->shared.top, 1), 0);
    see->top = d->shared.top;
    sl_witness_set(sl_witness_add(witnesses, sl_see_rejection, NULL, see), SL_SEE_REJECTED);
    d->shared.witnesses = witnesses;
}

static void hot_keys_are_named_in_top_and_ranked_in_metrics(void **state)
{
    static const char odd[] = "POST /check\n\n{\"key\":\"qu\\\"ote\\\\ \xc3\xa9\",\"keyType\":\"user\",\"cost\":0}";
    struct door d;
    struct sl_alarms alarms;
    struct sl_witnesses witnesses = {0};
    struct sl_see see = {0};
    json_t *v, *hot, *rejected;

    (void)state;
    door_open(&d, LIMITS);
    door_ask_admin(&d, "GET /v1/top");
    expect_problem(&d, 501, NULL);
    open_watch(&d, &alarms);
    see_rejections(&d, &see, &witnesses);
    assert_int_equal(door_ask_admin(&d, "GET /v1/top"), 200);
    assert_non_null(strstr(door_body(&d), "\"alarms\":[],\"hot\":[],\"rejected\":[]}\n"));
    assert_non_null(strstr(door_body(&d), "\"allowedPerSecond\":null"));
    assert_int_equal(door_ask_admin(&d, "GET /v1/top?n=0"), 400);
    assert_int_equal(door_ask_admin(&d, "GET /v1/top?m=1"), 400);
    for (int i = 0; i < 1600; i++) {
        door_ask(&d, "POST /check\n\n{\"key\":\"k\"}");
        if (i % 4 == 0)
            door_ask(&d, odd);
    }
    sl_top_look(d.shared.top, 1000000);
    assert_int_equal(door_ask_admin(&d, "GET /v1/top"), 200);
    v = body_json(&d);
    hot = json_object_get(v, "hot");
    rejected = json_object_get(v, "rejected");
    assert_int_equal(json_array_size(hot), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(hot, 0), "key")), "k");
    assert_string_equal(json_string_value(json_object_get(json_array_get(hot, 0), "keyType")), "api_key");
    assert_true(json_real_value(json_object_get(json_array_get(hot, 0), "opsPerSecond")) > 100);
    assert_string_equal(json_string_value(json_object_get(json_array_get(hot, 1), "key")), "qu\"ote\\ \xc3\xa9");
    assert_string_equal(json_string_value(json_object_get(json_array_get(hot, 1), "keyType")), "user");
    assert_int_equal(json_array_size(rejected), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rejected, 0), "key")), "k");
    json_decref(v);
    assert_int_equal(door_ask_admin(&d, "GET /metrics"), 200);
    assert_int_equal(count_lines(door_body(&d), "sluice_hot_key_ops{rank="), 10);
    assert_null(strstr(door_body(&d), "sluice_hot_key_ops{rank=\"2\"} 0\n"));
    assert_non_null(strstr(door_body(&d), "sluice_hot_key_ops{rank=\"3\"} 0\n"));
    assert_null(strstr(door_body(&d), "ote\\"));
    assert_int_equal(door_ask_admin(&d, "GET /v1/top?n=1"), 200);
    v = body_json(&d);
    assert_int_equal(json_array_size(json_object_get(v, "hot")), 1);
    json_decref(v);
    sl_rejections_free(see.rejections);
    close_watch(&d);
    door_close(&d);
}

static const char *text_of(json_t *list, size_t i, const char *name)
{
    return json_string_value(json_object_get(json_array_get(list, i), name));
}

static void alarms_are_listed_with_those_that_are_over(void **state)
{
    uint64_t now_us = sl_stopwatch_ns() / 1000;
    struct door d;
    struct sl_alarms alarms;
    json_t *v, *raised, *past;

    (void)state;
    door_open(&d, LIMITS);
    door_ask_admin(&d, "GET /v1/alarms");
    expect_problem(&d, 501, NULL);
    open_watch(&d, &alarms);
    assert_int_equal(door_ask_admin(&d, "GET /v1/alarms"), 200);
    assert_string_equal(door_body(&d), "{\"raised\":[],\"past\":[]}\n");
    sl_alarm_raise(&alarms, SL_ALARM_CLOCKS_APART, "ours is 2.0 s ahead", now_us - 3600000000u);
    sl_alarm_rest(&alarms, SL_ALARM_CLOCKS_APART, now_us - 1800000000u);
    sl_alarm_raise(&alarms, SL_ALARM_POLICY_REJECTED, "\xff\"", now_us - 10000000u);
    sl_alarm_raise(&alarms, SL_ALARM_TABLE_FULL, "901 live", now_us - 20000000u);
    sl_alarm_raise(&alarms, SL_ALARM_TABLE_FULL, "902 live", now_us - 10000000u);
    assert_int_equal(door_ask_admin(&d, "GET /v1/alarms"), 200);
    v = body_json(&d);
    raised = json_object_get(v, "raised");
    past = json_object_get(v, "past");
    assert_int_equal(json_array_size(raised), 2);
    assert_string_equal(text_of(raised, 0, "kind"), "table_full");
    assert_string_equal(text_of(raised, 0, "sentence"),
                        "the table of buckets is nearly full, or live buckets are thrown out of it: 902 live");
    assert_string_equal(text_of(raised, 0, "detail"), "902 live");
    assert_string_equal(text_of(raised, 0, "began"), "901 live");
    assert_string_equal(text_of(raised, 0, "runbook"), "docs/runbook.md#table_full");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(raised, 0), "times")), 1);
    assert_int_equal(strlen(text_of(raised, 0, "since")), 24);
    assert_true(json_integer_value(json_object_get(json_array_get(raised, 0), "seconds")) >= 20);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(past, 0), "seconds")), 1800);
    assert_string_equal(text_of(raised, 1, "detail"), "(it is no UTF-8)");
    assert_int_equal(json_array_size(past), 1);
    assert_string_equal(text_of(past, 0, "kind"), "clocks_apart");
    assert_string_equal(text_of(past, 0, "detail"), "ours is 2.0 s ahead");
    assert_true(strcmp(text_of(past, 0, "from"), text_of(past, 0, "to")) < 0);
    assert_true(strcmp(text_of(past, 0, "to"), text_of(raised, 0, "since")) < 0);
    json_decref(v);
    close_watch(&d);
    door_close(&d);
}

/* One list of kinds: the code's. The description of the API has the same, in the same order. */
static void openapi_names_every_alarm(void **state)
{
    struct fy_document *doc = fy_document_build_from_file(NULL, SLUICE_SOURCE_DIR "/docs/openapi.yaml");
    struct fy_node *kinds;

    (void)state;
    assert_non_null(doc);
    kinds = fy_node_by_path(fy_document_root(doc), "/components/schemas/AlarmKind/enum", FY_NT, FYNWF_DONT_FOLLOW);
    assert_non_null(kinds);
    assert_int_equal(fy_node_sequence_item_count(kinds), SL_ALARMS);
    for (int i = 0; i < SL_ALARMS; i++)
        assert_string_equal(fy_node_get_scalar0(fy_node_sequence_get_by_index(kinds, i)),
                            sl_alarm_name((enum sl_alarm)i));
    fy_document_destroy(doc);
}

static void b146_one_help_and_type_a_family(void **state)
{
    struct door d;
    struct sl_alarms alarms;
    const char *body;

    (void)state;
    door_open(&d, LIMITS);
    open_watch(&d, &alarms);
    door_ask_admin(&d, "GET /metrics");
    body = door_body(&d);
    assert_int_equal(count_lines(body, "# HELP "), count_lines(body, "# TYPE "));
    for (const char *line = strstr(body, "# TYPE "); line; line = strstr(line + 1, "# TYPE ")) {
        char name[128], prefix[256];

        assert_int_equal(sscanf(line, "# TYPE %100s", name), 1);
        snprintf(prefix, sizeof prefix, "# TYPE %s ", name);
        assert_int_equal(count_lines(body, prefix), 1);
    }
    close_watch(&d);
    door_close(&d);
}

static void b147_requests_add_no_series(void **state)
{
    struct door d;
    struct sl_alarms alarms;
    char text[256];
    unsigned before;

    (void)state;
    door_open(&d, LIMITS);
    open_watch(&d, &alarms);
    door_ask_admin(&d, "GET /metrics");
    before = count_lines(door_body(&d), "sluice_");
    for (int i = 0; i < 2000; i++) {
        snprintf(text, sizeof text, "POST /check\n\n{\"key\":\"k%d\",\"scope\":\"s%d\",\"labels\":{\"l%d\":\"v\"}}", i,
                 i, i);
        door_ask(&d, text);
        snprintf(text, sizeof text, "M%d /path%d", i, i);
        door_ask(&d, text);
    }
    sl_top_look(d.shared.top, 1000000);
    door_ask_admin(&d, "GET /metrics");
    assert_int_equal(count_lines(door_body(&d), "sluice_"), before);
    assert_null(strstr(door_body(&d), "k17"));
    close_watch(&d);
    door_close(&d);
}

/* Each route, with each of its methods, is described: {"paths": {"/check": {"post": ...}}}. */
static void openapi_describes_every_route(void **state)
{
    static const struct {
        unsigned method;
        const char *name;
    } methods[] = {{SL_HTTP_GET, "get"}, {SL_HTTP_POST, "post"}, {SL_HTTP_PUT, "put"}, {SL_HTTP_DELETE, "delete"}};
    struct fy_document *doc = fy_document_build_from_file(NULL, SLUICE_SOURCE_DIR "/docs/openapi.yaml");

    (void)state;
    assert_non_null(doc);
    assert_non_null(fy_node_by_path(fy_document_root(doc), "/openapi", FY_NT, FYNWF_DONT_FOLLOW));
    for (unsigned i = 0; i < sl_n_routes; i++) {
        struct fy_node *paths = fy_node_mapping_lookup_by_string(fy_document_root(doc), "paths", FY_NT);
        struct fy_node *path = fy_node_mapping_lookup_by_string(paths, sl_routes[i].path, FY_NT);

        if (!path)
            fail_msg("docs/openapi.yaml does not describe %s", sl_routes[i].path);
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
            if (sl_routes[i].methods & methods[m].method &&
                !fy_node_mapping_lookup_by_string(path, methods[m].name, FY_NT))
                fail_msg("docs/openapi.yaml does not describe %s of %s", methods[m].name, sl_routes[i].path);
    }
    fy_document_destroy(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_answers_the_verdict),
        cmocka_unit_test(check_takes_batches_whole_or_not_at_all),
        cmocka_unit_test(addresses_are_normalised_or_refused),
        cmocka_unit_test(paths_and_methods),
        cmocka_unit_test(readiness_is_told),
        cmocka_unit_test(tokens_are_asked_for),
        cmocka_unit_test(a_token_that_may_only_read),
        cmocka_unit_test(buckets_are_shown_and_reset),
        cmocka_unit_test(reload_asks_the_daemon),
        cmocka_unit_test(the_policy_is_shown_with_its_hash),
        cmocka_unit_test(metrics_count_decisions),
        cmocka_unit_test(metrics_show_shares_and_alarms),
        cmocka_unit_test(hot_keys_are_named_in_top_and_ranked_in_metrics),
        cmocka_unit_test(alarms_are_listed_with_those_that_are_over),
        cmocka_unit_test(openapi_names_every_alarm),
        cmocka_unit_test(b146_one_help_and_type_a_family),
        cmocka_unit_test(b147_requests_add_no_series),
        cmocka_unit_test(openapi_describes_every_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
