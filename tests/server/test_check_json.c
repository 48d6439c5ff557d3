/* The reader of /check bodies: against examples, and against jansson on a hundred thousand mutations of them. */
#include "server/check_json.h"

#include "json_oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sl_check_input in;
static struct sl_check_error error;
static char text[4 << 20];

static int parse_bytes(const char *body, size_t len)
{
    memcpy(text, body, len);
    error = (struct sl_check_error){"", ""};
    return sl_check_parse(text, len, &in, &error);
}

static int parse(const char *body)
{
    return parse_bytes(body, strlen(body));
}

#define assert_span(text, len, want)            \
    do {                                        \
        assert_int_equal(len, strlen(want));    \
        assert_memory_equal(text, want, (len)); \
    } while (0)

static void every_member_is_read(void **state)
{
    const struct sluice_request *q = &in.requests[0];

    (void)state;
    assert_int_equal(
        parse(" {\"key\" : \"acct\",\"scope\":\"GET /v1\",\n\"cost\":7,\"keyType\":\"user\",\"tier\":\"pro\","
              "\"address\":\"192.0.2.1\",\t\"labels\":{\"a\":\"1\",\"b\":\"\"}}\r\n"),
        0);
    assert_false(in.batch);
    assert_int_equal(in.n, 1);
    assert_span(q->key, q->key_len, "acct");
    assert_span(q->scope, q->scope_len, "GET /v1");
    assert_span(q->key_type, q->key_type_len, "user");
    assert_span(q->tier, q->tier_len, "pro");
    assert_span(q->address, q->address_len, "192.0.2.1");
    assert_int_equal(q->cost, 7);
    assert_int_equal(q->n_labels, 2);
    assert_span(q->labels[0].name, q->labels[0].name_len, "a");
    assert_span(q->labels[0].value, q->labels[0].value_len, "1");
    assert_span(q->labels[1].name, q->labels[1].name_len, "b");
    assert_int_equal(q->labels[1].value_len, 0);
}

static void absent_members_keep_their_defaults(void **state)
{
    const struct sluice_request *q = &in.requests[0];

    (void)state;
    assert_int_equal(parse("{\"key\":\"k\"}"), 0);
    assert_int_equal(q->cost, SLUICE_COST_DEFAULT);
    assert_null(q->scope);
    assert_null(q->key_type);
    assert_null(q->tier);
    assert_null(q->address);
    assert_int_equal(q->n_labels, 0);
}

static void escapes_are_resolved(void **state)
{
    const struct sluice_request *q = &in.requests[0];

    (void)state;
    assert_int_equal(parse("{\"k\\u0065y\":\"a\\\"\\\\\\/\\u00e9\\u20AC\\ud83d\\ude00\\b\\f\\n\\r\\tz\"}"), 0);
    assert_span(q->key, q->key_len, "a\"\\/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\b\f\n\r\tz");
}

static void batches_are_read_in_order(void **state)
{
    char body[64 * SLUICE_BATCH_MAX], *at = body;

    (void)state;
    for (int i = 0; i < SLUICE_BATCH_MAX; i++)
        at += sprintf(at, "%c{\"key\":\"k%d\",\"cost\":%d,\"labels\":{\"n\":\"%d\"}}", i ? ',' : '[', i, i, i);
    sprintf(at, "]");
    assert_int_equal(parse(body), 0);
    assert_true(in.batch);
    assert_int_equal(in.n, SLUICE_BATCH_MAX);
    for (int i = 0; i < SLUICE_BATCH_MAX; i++) {
        char want[16];

        snprintf(want, sizeof want, "%d", i);
        assert_int_equal(in.requests[i].cost, i);
        assert_span(in.requests[i].labels[0].value, in.requests[i].labels[0].value_len, want);
    }
    sprintf(at, ",{\"key\":\"one too many\"}]");
    assert_int_not_equal(parse(body), 0);
    assert_string_equal(error.field, "[1000]");
}

/* body, the field named, a piece of the sentence */
static const struct {
    const char *body, *field, *detail;
} refused[] = {
    {"", "", "ends where a value"},
    {"{", "", "name is missing"},
    {"[]", "", "empty array"},
    {"[]x", "", "empty array"},
    {"{\"key\":\"a\"}x", "", "follows the end"},
    {"null", "", "must be an object or an array"},
    {"\"k\"", "", "must be an object or an array"},
    {"17", "", "must be an object or an array"},
    {"{}", "key", "is missing"},
    {"{\"cost\":1}", "key", "is missing"},
    {"{\"key\":1}", "key", "must be a string"},
    {"{\"key\":null}", "key", "must be a string"},
    {"{\"key\":[\"a\"]}", "key", "must be a string"},
    {"{\"key\":\"a\",\"scope\":7}", "scope", "must be a string"},
    {"{\"key\":\"a\",\"scope\":null}", "scope", "must be a string"},
    {"{\"key\":\"a\",\"cost\":-1}", "cost", "between 0 and"},
    {"{\"key\":\"a\",\"cost\":1000000001}", "cost", "between 0 and"},
    {"{\"key\":\"a\",\"cost\":99999999999999999999999999}", "cost", "between 0 and"},
    {"{\"key\":\"a\",\"cost\":1.5}", "cost", "whole number"},
    {"{\"key\":\"a\",\"cost\":1.0}", "cost", "whole number"},
    {"{\"key\":\"a\",\"cost\":1e30}", "cost", "whole number"},
    {"{\"key\":\"a\",\"cost\":\"1\"}", "cost", "whole number"},
    {"{\"key\":\"a\",\"cost\":true}", "cost", "whole number"},
    {"{\"key\":\"a\",\"cost\":01}", "", "begins with 0"},
    {"{\"key\":\"a\",\"cost\":+1}", "cost", "whole number"},
    {"{\"key\":\"a\",\"key\":\"b\"}", "key", "given twice"},
    {"{\"key\":\"a\",\"k\\u0065y\":\"b\"}", "key", "given twice"},
    {"{\"key\":\"a\",\"nope\":1}", "nope", "Unknown member"},
    {"{\"key\":\"a\",\"Key\":\"b\"}", "Key", "Unknown member"},
    {"{\"key\":\"a\",\"\":1}", "", "Unknown member"},
    {"{\"key\":\"a\",\"<script>\":1}", "", "Unknown member"},
    {"{\"key\":\"a\\u0000b\"}", "", "u0000"},
    {"{\"key\":\"\xff\xfe\"}", "", "UTF-8"},
    {"{\"key\":\"\xc0\x80\"}", "", "UTF-8"},
    {"{\"key\":\"\xed\xa0\x80\"}", "", "UTF-8"},
    {"{\"key\":\"\xf4\x90\x80\x80\"}", "", "UTF-8"},
    {"{\"key\":\"\xe2\x82\"}", "", "UTF-8"},
    {"{\"key\":\"\\ud800\"}", "", "surrogate"},
    {"{\"key\":\"\\ud800\\u0041\"}", "", "surrogate"},
    {"{\"key\":\"\\udc00\"}", "", "surrogate"},
    {"{\"key\":\"\\u12g4\"}", "", "hex"},
    {"{\"key\":\"\\x\"}", "", "escape"},
    {"{\"key\":\"a\nb\"}", "", "control character"},
    {"{\"key\":\"a", "", "inside a string"},
    {"{\"key\":\"a\"", "", "is missing"},
    {"{\"key\":\"a\",}", "", "name is missing"},
    {"{\"key\" \"a\"}", "", "`:`"},
    {"{'key':'a'}", "", "name is missing"},
    {"{\"key\":\"a\",\"labels\":[]}", "labels", "object of strings"},
    {"{\"key\":\"a\",\"labels\":{\"x\":1}}", "labels", "must be a string"},
    {"{\"key\":\"a\",\"labels\":{\"x\":\"1\",\"x\":\"2\"}}", "labels", "twice"},
    {"[{\"key\":\"a\"},{\"key\":\"b\",\"cost\":-2}]", "[1].cost", "between 0 and"},
    {"[{\"key\":\"a\"},7]", "[1]", "must be an object"},
    {"[{\"key\":\"a\"},{}]", "[1].key", "is missing"},
    {"[[{\"key\":\"a\"}]]", "[0]", "must be an object"},
    {"\xef\xbb\xbf{\"key\":\"a\"}", "", "must be an object"},
};

static void every_fault_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int e = parse(refused[i].body);

        if (!e || strcmp(error.field, refused[i].field) != 0 || !strstr(error.detail, refused[i].detail))
            fail_msg("%s: %d field `%s` detail `%s`", refused[i].body, e, error.field, error.detail);
    }
}

static void seventeen_labels_are_too_many(void **state)
{
    char body[1024], *at = body + sprintf(body, "{\"key\":\"a\",\"labels\":{");

    (void)state;
    for (int i = 0; i < SLUICE_LABELS_MAX; i++)
        at += sprintf(at, "%s\"l%d\":\"v\"", i ? "," : "", i);
    sprintf(at, "}}");
    assert_int_equal(parse(body), 0);
    assert_int_equal(in.requests[0].n_labels, SLUICE_LABELS_MAX);
    sprintf(at, ",\"more\":\"v\"}}");
    assert_int_not_equal(parse(body), 0);
    assert_string_equal(error.field, "labels");
}

/* Depth costs no stack and no time: what nests deeper than labels is of a wrong type where it begins. */
static void b168_deep_nesting_is_refused_at_once(void **state)
{
    static char deep[1 << 20];

    (void)state;
    memset(deep, '[', sizeof deep);
    assert_int_not_equal(parse_bytes(deep, sizeof deep), 0);
    assert_string_equal(error.field, "[0]");
    for (size_t i = 0; i + 5 <= 500000; i += 5)
        memcpy(deep + i, (const char[]){'{', '"', 'a', '"', ':'}, 5);
    assert_int_not_equal(parse_bytes(deep, 500000), 0);
    assert_string_equal(error.field, "a");
    assert_int_equal(parse("[{\"key\":\"the deepest there is\",\"labels\":{\"x\":\"y\"}}]"), 0);
}

static uint64_t random_state;

static unsigned random_below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % n);
}

static const char *const seeds[] = {
    ("{\"key\":\"acct\",\"scope\":\"GET /v1\",\"cost\":7,\"keyType\":\"user\",\"tier\":\"pro\",\"address\":\"::1\","
     "\"labels\":{\"a\":\"1\",\"b\":\"\\u00e9\"}}"),
    "[{\"key\":\"a\"},{\"key\":\"b\",\"cost\":-0}]",
    " { \"k\\u0065y\" : \"\\ud83d\\ude00 \xc3\xa9 \xf0\x9f\x98\x80\" , \"cost\" : 1000000000 } ",
    "{\"labels\":{},\"key\":\"\"}",
};

/* Changes a few bytes: JSON's own characters above all. */
static size_t mutate(char *body, size_t len)
{
    static const char spice[] = "{}[]\":,\\u00d8eE.-+ntf01/ \t\n\x80\xc3\xe2\xf0\xff";

    for (unsigned n = 1 + random_below(3); n > 0 && len > 1; n--) {
        unsigned at = random_below((unsigned)len);

        switch (random_below(3)) {
        case 0:
            body[at] = spice[random_below(sizeof spice - 1)];
            break;
        case 1:
            memmove(body + at, body + at + 1, len - at - 1);
            len--;
            break;
        default:
            memmove(body + at + 1, body + at, len - at);
            body[at] = spice[random_below(sizeof spice - 1)];
            len++;
        }
    }
    return len;
}

static void jansson_agrees_on_mutations(void **state)
{
    const char *given = getenv("SLUICE_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 20260131;

    (void)state;
    random_state = seed;
    for (int i = 0; i < 100000; i++) {
        const char *from = seeds[random_below(sizeof seeds / sizeof *seeds)];
        char body[512];
        const char *difference;
        size_t len = (size_t)snprintf(body, sizeof body, "%s", from);

        len = mutate(body, len);
        difference = json_disagreement(body, len);
        if (difference)
            fail_msg("SLUICE_SEED=%llu, round %d: %s: %.*s", (unsigned long long)seed, i, difference, (int)len, body);
    }
}

static void jansson_agrees_on_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_null(json_disagreement(refused[i].body, strlen(refused[i].body)));
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        assert_null(json_disagreement(seeds[i], strlen(seeds[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_is_read),
        cmocka_unit_test(absent_members_keep_their_defaults),
        cmocka_unit_test(escapes_are_resolved),
        cmocka_unit_test(batches_are_read_in_order),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(seventeen_labels_are_too_many),
        cmocka_unit_test(b168_deep_nesting_is_refused_at_once),
        cmocka_unit_test(jansson_agrees_on_examples),
        cmocka_unit_test(jansson_agrees_on_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
