/* Requests against the ranges of the contract: what is refused, where, and how addresses are brought into form. */
#include "support.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static struct sl_policy *policy;

static int set_up(void **state)
{
    (void)state;
    policy = must_load("version: 1\nlimits: [{name: a, rate: 1/s}]\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sl_policy_unref(policy);
    return 0;
}

static void accepted(struct sluice_request request)
{
    struct sluice_request out;
    struct sl_request_buffer buffer;
    const char *field = "", *why = "";

    if (sl_request_check(policy, &request, &out, &buffer, &field, &why) != 0)
        fail_msg("%s %s", field, why);
}

static void refused(struct sluice_request request, const char *at)
{
    struct sluice_request out;
    struct sl_request_buffer buffer;
    const char *field = "", *why = "";

    assert_int_equal(sl_request_check(policy, &request, &out, &buffer, &field, &why), SL_EINVALID);
    assert_string_equal(field, at);
    assert_true(why[0] != '\0');
}

static void b72_keys_are_1_to_512_bytes(void **state)
{
    struct sluice_request request = request_of("k", NULL);
    char *huge = malloc(1 << 20);

    (void)state;
    assert_non_null(huge);
    memset(huge, 'k', 1 << 20);
    request.key = huge;
    for (size_t len = 1; len <= 512; len += 73)
        request.key_len = len, accepted(request);
    request.key_len = 512;
    accepted(request);
    request.key_len = 0;
    refused(request, "key");
    request.key_len = 513;
    refused(request, "key");
    request.key_len = 1 << 20;
    refused(request, "key");
    request.key = NULL;
    request.key_len = 0;
    refused(request, "key");
    free(huge);
}

static void keys_are_opaque_bytes_without_control_characters(void **state)
{
    struct sluice_request request = request_of("k", NULL);

    (void)state;
    request.key = "\xff\xfe\x80 any bytes";
    request.key_len = 13;
    accepted(request);
    request.key = "a\0b";
    request.key_len = 3;
    refused(request, "key");
    request = request_of("a\nb", NULL);
    refused(request, "key");
    request = request_of("twelve bytes\x7f", NULL);
    refused(request, "key");
}

static void every_text_has_its_range(void **state)
{
    struct sluice_request request = request_of("k", "");
    char text[3000];

    (void)state;
    memset(text, 's', sizeof text);
    accepted(request); /* an empty scope is none */
    request.scope = text;
    request.scope_len = 2048;
    accepted(request);
    request.scope_len = 2049;
    refused(request, "scope");
    request = request_of("k", "a\tb");
    refused(request, "scope");
    request = request_of("k", NULL);
    request.tier = request.key_type = text;
    request.tier_len = request.key_type_len = 63;
    accepted(request);
    request.tier_len = 64;
    refused(request, "tier");
    request.tier_len = 0;
    refused(request, "tier");
    request.tier = NULL;
    request.key_type_len = 64;
    refused(request, "keyType");
    request.key_type_len = 0;
    refused(request, "keyType");
}

static void costs_have_their_range(void **state)
{
    static const int64_t good[] = {-1, 0, 1, 1000000000}, bad[] = {-2, 1000000001, INT64_MAX, INT64_MIN};
    struct sluice_request request = request_of("k", NULL);

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        request.cost = good[i];
        accepted(request);
        request.cost = bad[i];
        refused(request, "cost");
    }
}

static void labels_have_their_ranges(void **state)
{
    struct sluice_label labels[17];
    struct sluice_request request = request_of("k", NULL);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                        "j", "k", "l", "m", "n", "o", "p", "q"};
    char text[600];

    (void)state;
    memset(text, 'v', sizeof text);
    for (int i = 0; i < 17; i++)
        labels[i] = (struct sluice_label){names[i], 1, text, 512};
    request.labels = labels;
    request.n_labels = 16;
    accepted(request);
    request.n_labels = 17;
    refused(request, "labels");
    request.n_labels = 16;
    labels[3].value_len = 513;
    refused(request, "labels[3].value");
    labels[3].value = "a\x01";
    labels[3].value_len = 2;
    refused(request, "labels[3].value");
    labels[3] = (struct sluice_label){"d", 1, NULL, 0};
    accepted(request); /* an empty value */
    labels[15].name_len = 0;
    refused(request, "labels[15].name");
    labels[15] = (struct sluice_label){text, 65, "", 0};
    refused(request, "labels[15].name");
    labels[15] = (struct sluice_label){"a", 1, "", 0};
    refused(request, "labels[15].name");
    labels[15] = (struct sluice_label){NULL, 0, "", 0};
    refused(request, "labels[15].name");
    request.labels = NULL;
    refused(request, "labels");
}

static void addresses_get_one_spelling(void **state)
{
    struct sluice_request request = request_of("2001:DB8:0:0::5", NULL), out;
    struct sl_request_buffer buffer;
    const char *field, *why;

    (void)state;
    request.key_type = "address";
    request.key_type_len = 7;
    request.address = "::ffff:192.0.2.1";
    request.address_len = 16;
    assert_int_equal(sl_request_check(policy, &request, &out, &buffer, &field, &why), 0);
    assert_int_equal(out.key_len, 13);
    assert_memory_equal(out.key, "2001:db8::/64", 13);
    assert_int_equal(out.address_len, 9);
    assert_memory_equal(out.address, "192.0.2.1", 9);
    request.key = "not an address";
    request.key_len = 14;
    refused(request, "key");
    request = request_of("k", NULL);
    request.address = "10.0.0.256";
    request.address_len = 10;
    refused(request, "address");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b72_keys_are_1_to_512_bytes),
        cmocka_unit_test(keys_are_opaque_bytes_without_control_characters),
        cmocka_unit_test(every_text_has_its_range),
        cmocka_unit_test(costs_have_their_range),
        cmocka_unit_test(labels_have_their_ranges),
        cmocka_unit_test(addresses_get_one_spelling),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
