/* Bodies, their signatures, and addresses. */
#include "notify/message.h"
#include "notify/sign.h"
#include "notify/target.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR UINT64_C(3600000000)

static const struct sl_message_source source = {.instance = "here"};

static json_t *parsed(const struct sl_message *message)
{
    json_t *body;

    assert_non_null(message);
    assert_int_equal(message->len, strlen(message->body));
    body = json_loadb(message->body, message->len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(body);
    return body;
}

static const char *string(json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    assert_non_null(value);
    return value;
}

/* As `printf '%s' '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 'a secret of 16 b'` has it. */
static void a_signature_is_that_of_time_and_body(void **state)
{
    char text[SL_SIGNATURE_MAX];

    (void)state;
    assert_int_equal(sl_sign("a secret of 16 b", 1700000000, "{\"a\":1}", 7, text), 0);
    assert_string_equal(text, "t=1700000000,v1=0c4eefa52ddfc8729095e0cd461528b3c4fe1a8c5e2fd0cbd87a19d4629bee7d");
    assert_int_equal(sl_sign("a secret of 16 b", UINT64_MAX, "", 0, text), 0);
    assert_int_equal(strlen(text), strlen("t=18446744073709551615,v1=") + 64);
}

static struct sl_message *warning_of(const struct sluice_request *request, unsigned per, uint64_t period_us)
{
    static const char *const labels[] = {"plan", "zone"};
    struct sl_limit limit = {
        .name = "free", .per = per, .per_labels = labels, .n_per_labels = per & SL_PER_LABEL ? 2 : 0};
    struct sl_shape shape = {.period_us = period_us};
    struct sl_item item = {.limit = &limit, .shape = &shape, .fp = {1, 2}};
    struct sluice_verdict verdict = {.policy = "free",
                                     .warning_policy = "free",
                                     .warning = true,
                                     .limit = 10,
                                     .remaining = 1,
                                     .warning_limit = 10,
                                     .warning_remaining = 1,
                                     .warn_at_percent = 80,
                                     .warning_used_percent = 90,
                                     .reset_at_ms = 1500};
    struct sl_message_warning warning = {
        .item = &item, .request = request, .verdict = &verdict, .endpoint = "search", .tier = "gold"};

    return sl_message_warning(&source, &warning, 1000);
}

static void a_warning_says_which_bucket(void **state)
{
    struct sluice_label labels[] = {{.name = "zone", .name_len = 4, .value = "eu", .value_len = 2},
                                    {.name = "rest", .name_len = 4, .value = "x", .value_len = 1}};
    struct sluice_request request = {.key = "k\"\\",
                                     .key_len = 3,
                                     .scope = "GET /",
                                     .scope_len = 5,
                                     .address = "192.0.2.1",
                                     .address_len = 9,
                                     .labels = labels,
                                     .n_labels = 2};
    struct sl_message *message = warning_of(&request, 63, HOUR);
    json_t *body = parsed(message), *bucket = json_object_get(body, "bucket");

    (void)state;
    assert_string_equal(string(body, "event"), "limit_warning");
    assert_string_equal(string(body, "id"), message->id);
    assert_string_equal(string(body, "time"), "1970-01-01T00:00:01.000Z");
    assert_string_equal(string(body, "resetAt"), "1970-01-01T00:00:01.500Z");
    assert_string_equal(string(bucket, "key"), "k\"\\");
    assert_string_equal(string(bucket, "keyType"), "api_key");
    assert_string_equal(string(bucket, "address"), "192.0.2.1");
    assert_string_equal(string(bucket, "endpoint"), "search");
    assert_string_equal(string(bucket, "tier"), "gold");
    assert_string_equal(string(bucket, "scope"), "GET /");
    assert_string_equal(string(json_object_get(bucket, "labels"), "zone"), "eu");
    assert_int_equal(json_object_size(json_object_get(bucket, "labels")), 1);
    json_decref(body);
    sl_message_unref(message);
}

static void a_bucket_for_all_names_nobody(void **state)
{
    struct sluice_request request = {.key = "k", .key_len = 1};
    struct sl_message *message = warning_of(&request, 0, HOUR);
    json_t *body = parsed(message);

    (void)state;
    assert_int_equal(json_object_size(json_object_get(body, "bucket")), 0);
    json_decref(body);
    sl_message_unref(message);
}

static void bytes_that_are_no_text_do_not_break_the_body(void **state)
{
    struct sluice_request request = {.key = "a\xff\xc3\xa4\x80", .key_len = 5};
    struct sl_message *message = warning_of(&request, SL_PER_KEY, HOUR);
    json_t *body = parsed(message);

    (void)state;
    assert_string_equal(string(json_object_get(body, "bucket"), "key"), "a\xEF\xBF\xBD\xc3\xa4\xEF\xBF\xBD");
    json_decref(body);
    sl_message_unref(message);
}

static void the_window_is_the_period_but_an_hour_at_least(void **state)
{
    static const uint64_t periods[] = {1, HOUR / 60, HOUR, HOUR + 1, 24 * HOUR};
    struct sluice_request request = {.key = "k", .key_len = 1};

    (void)state;
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++) {
        struct sl_message *message = warning_of(&request, SL_PER_KEY, periods[i]);

        assert_int_equal(message->window_us, periods[i] > HOUR ? periods[i] : HOUR);
        assert_int_equal(message->fp.a, 1);
        sl_message_unref(message);
    }
}

static void an_alarm_says_what_it_is_about(void **state)
{
    struct sl_alarm_news news = {.kind = "store_slow",
                                 .raised = false,
                                 .sentence = "slow: 3 calls",
                                 .detail = "3 calls",
                                 .runbook = "docs/runbook.md#store_slow"};
    struct sl_message *message = sl_message_alarm(&source, &news, 1000, 31000);
    json_t *body = parsed(message);

    (void)state;
    assert_string_equal(string(body, "event"), "alarm");
    assert_string_equal(string(body, "alarm"), "store_slow");
    assert_string_equal(string(body, "state"), "ended");
    assert_string_equal(string(body, "since"), "1970-01-01T00:00:01.000Z");
    assert_string_equal(string(body, "time"), "1970-01-01T00:00:31.000Z");
    assert_string_equal(string(body, "runbook"), "docs/runbook.md#store_slow");
    assert_int_equal(message->window_us, 0); /* never deduplicated */
    json_decref(body);
    sl_message_unref(message);
}

static void names_differ(void **state)
{
    struct sl_message *x = sl_message_test(&source, 0), *y = sl_message_test(&source, 0);

    (void)state;
    assert_string_not_equal(x->id, y->id);
    sl_message_unref(x);
    sl_message_unref(y);
}

static void addresses_are_shown_without_what_may_be_secret(void **state)
{
    char text[SL_TARGET_TEXT_MAX];

    (void)state;
    sl_target_text("https://user:hush@hooks.example.com/services/hush?token=hush", text);
    assert_string_equal(text, "https://hooks.example.com:443");
    sl_target_text("http://[::1]:8080/", text);
    assert_string_equal(text, "http://[::1]:8080");
}

static void addresses_that_are_none_are_refused(void **state)
{
    static const char *const good[] = {"http://h",       "https://h:1/p?q=1", "HTTPS://h/",
                                       "http://[::1]/x", "http://10.0.0.1/x", "https://user:word@h/x"};
    static const char *const bad[] = {"",
                                      "h",
                                      "/x",
                                      "h:80/hush",
                                      "ftp://h/hush",
                                      "http://",
                                      "http:///",
                                      "http:/h",
                                      "file:///hush",
                                      "http://h:x/",
                                      "http://h:65536/",
                                      "http://h/a b",
                                      "http://h/#x",
                                      "https://h/\n"};
    char why[200];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(sl_target_check(good[i], why, sizeof why), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        why[0] = '\0';
        if (sl_target_check(bad[i], why, sizeof why) == 0)
            fail_msg("accepted: %s", bad[i]);
        assert_true(strlen(why) > 10);
        assert_null(strstr(why, "hush"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_is_that_of_time_and_body),
        cmocka_unit_test(a_warning_says_which_bucket),
        cmocka_unit_test(a_bucket_for_all_names_nobody),
        cmocka_unit_test(bytes_that_are_no_text_do_not_break_the_body),
        cmocka_unit_test(the_window_is_the_period_but_an_hour_at_least),
        cmocka_unit_test(an_alarm_says_what_it_is_about),
        cmocka_unit_test(names_differ),
        cmocka_unit_test(addresses_are_shown_without_what_may_be_secret),
        cmocka_unit_test(addresses_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
