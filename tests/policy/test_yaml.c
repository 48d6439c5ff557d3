/* YAML from outside: everything that is no plain document is refused with its place, quickly. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void one_error(const char *text, unsigned line, unsigned column, const char *part)
{
    struct loaded loaded = load_text(text);

    expect_error(&loaded, line, column, "", part);
    unload(&loaded);
}

static void b95_broken_documents_name_their_place(void **state)
{
    struct loaded loaded;

    (void)state;
    one_error("", 1, 1, "empty");
    one_error("# nothing but a comment\n", 1, 1, "empty");
    one_error("x", 1, 1, "expected a policy");
    one_error("- a\n- b\n", 1, 1, "expected a policy");
    one_error("version: 1\nlimits:\n\t- {name: a, rate: 1/s}\n", 3, 1, "tab");
    one_error("version: 1\nlimits: [\n", 3, 1, "not valid YAML");
    one_error("version: 1\nlimits: {a: b\n", 3, 1, "not valid YAML");
    one_error("a: \"b\n", 1, 5, "not valid YAML");
    one_error("version: 1\nlimits: []\n---\nversion: 1\n", 3, 1, "second document");
    one_error("version: 1\n# \xff\n", 2, 3, "UTF-8");
    one_error("version: 1\nnote: \xed\xa0\x80\n", 2, 7, "UTF-8");
    one_error("version: 1\n\x01", 2, 1, "control character");
    one_error("%YAML 1.2\n---\nversion: 1\n", 1, 1, "directives");
    one_error("version: !!int 1\n", 1, 16, "tags");
    one_error("version: 1\nlimits: !x []\n", 2, 12, "tags");
    one_error("[a]: 1\n", 1, 1, "key must be");
    loaded = load_bytes("version: 1\0\nlimits: []\n", 23);
    expect_error(&loaded, 1, 11, "", "control character");
    unload(&loaded);
}

static void b95_wrong_kinds_of_value_name_their_place(void **state)
{
    static const struct {
        const char *text, *field;
        unsigned line, column;
    } cases[] = {
        {"version: 1\nlimits: []\ntiers: [a, b]\n", "tiers", 3, 8},       /* a list for a mapping */
        {"version: 1\nlimits:\n  - {name: a}\n", "limits[0].rate", 3, 5}, /* a required key */
        {"version: 1\nlimits:\n  - {name: a, rate: 5/s, burst: 0.9}\n", "limits[0].burst", 3, 33}, /* not an integer */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded loaded = load_text(cases[i].text);

        expect_error(&loaded, cases[i].line, cases[i].column, cases[i].field, "");
        unload(&loaded);
    }
}

static char *repeat(const char *part, size_t times)
{
    size_t len = strlen(part);
    char *text = malloc(len * times + 1);

    assert_non_null(text);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * len, part, len);
    text[len * times] = '\0';
    return text;
}

static void b102_aliases_are_refused_before_they_multiply(void **state)
{
    struct loaded loaded;
    char bomb[1000] = "a0: &a0 [x, x]\n";

    (void)state;
    for (int i = 1; i <= 20; i++)
        snprintf(bomb + strlen(bomb), sizeof bomb - strlen(bomb), "a%d: &a%d [*a%d, *a%d]\n", i, i, i - 1, i - 1);
    loaded = load_text(bomb);
    expect_error(&loaded, 2, 10, "", "aliases");
    unload(&loaded);
    loaded = load_text("a: &a [*a]\n");
    expect_error(&loaded, 1, 8, "", "aliases");
    unload(&loaded);
}

static void b102_deep_nesting_is_refused(void **state)
{
    static const char *const parts[] = {"[", "{a: ", "- ", "? ", "[{", "{[", "\"a\": {"};

    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *text = repeat(parts[i], 60000 / strlen(parts[i]));
        struct loaded loaded = load_bytes(text, strlen(text));

        assert_int_equal(loaded.diags.n_errors, 1);
        assert_int_equal(loaded.diags.list[0].line, 1);
        unload(&loaded);
        free(text);
    }
}

static void b102_long_lines_are_refused_before_the_parser(void **state)
{
    static const char *const parts[] = {"[", "{}", "%", "a", " ", "&a ", "!a ", "- ", "\"", "a: ", "#"};

    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *text = repeat(parts[i], (1 << 20) / strlen(parts[i]));
        struct loaded loaded = load_bytes(text, strlen(text));

        expect_error(&loaded, 1, 65537, "", "longer than 65536");
        unload(&loaded);
        free(text);
    }
}

static void b102_duplicate_keys_name_both_lines(void **state)
{
    struct loaded loaded = load_text("version: 1\n"
                                     "limits:\n"
                                     "  - {name: a, rate: 1/s}\n"
                                     "  - name: b\n"
                                     "    rate: 1/s\n"
                                     "    tier: t\n"
                                     "    rate: 2/s\n"
                                     "    frob: 1\n"
                                     "version: 1\n");

    (void)state;
    expect_error(&loaded, 7, 5, "limits[1].rate", "stands first in line 5");
    expect_error(&loaded, 9, 1, "version", "stands first in line 1");
    expect_error(&loaded, 8, 5, "limits[1].frob", "unknown field"); /* the pass goes on */
    assert_int_equal(loaded.diags.n_errors, 3);
    unload(&loaded);
}

static void b102_duplicates_among_many_keys_are_found(void **state)
{
    char *text = malloc(4000000);
    size_t len = 0;
    struct loaded loaded;

    (void)state;
    assert_non_null(text);
    len += (size_t)sprintf(text + len, "version: 1\nlimits: []\ntiers:\n  keys:\n");
    for (int i = 0; i < 50000; i++)
        len += (size_t)sprintf(text + len, "    key%d: free\n", i);
    len += (size_t)sprintf(text + len, "    key777: pro\n");
    loaded = load_bytes(text, len);
    assert_int_equal(loaded.diags.n_errors, 1);
    expect_error(&loaded, 50005, 5, "tiers.keys.key777", "stands first in line 782");
    unload(&loaded);
    free(text);
}

static void plain_and_quoted_scalars_keep_their_meaning(void **state)
{
    struct loaded loaded = load_text("\"version\": 1\n'limits':\n  - {\"name\": \"a\", \"rate\": \"5/s\", key: 12345}\n"
                                     "  - name: b\n    rate: >-\n      7/s\n    key: \"caf\\u00e9\"\n");

    (void)state;
    assert_int_equal(loaded.rc, 0);
    assert_string_equal(sl_policy_limit(loaded.policy, 0)->key, "12345");
    assert_int_equal(sl_policy_limit(loaded.policy, 1)->shapes[0].count, 7);
    assert_string_equal(sl_policy_limit(loaded.policy, 1)->key, "caf\xc3\xa9");
    unload(&loaded);
}

static void crlf_files_load(void **state)
{
    struct sl_policy *policy = must_load("version: 1\r\nlimits:\r\n  - {name: a, rate: 5/s}\r\n");

    (void)state;
    assert_string_equal(sl_policy_limit(policy, 0)->name, "a");
    sl_policy_unref(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b95_broken_documents_name_their_place),
        cmocka_unit_test(b95_wrong_kinds_of_value_name_their_place),
        cmocka_unit_test(b102_aliases_are_refused_before_they_multiply),
        cmocka_unit_test(b102_deep_nesting_is_refused),
        cmocka_unit_test(b102_long_lines_are_refused_before_the_parser),
        cmocka_unit_test(b102_duplicate_keys_name_both_lines),
        cmocka_unit_test(b102_duplicates_among_many_keys_are_found),
        cmocka_unit_test(plain_and_quoted_scalars_keep_their_meaning),
        cmocka_unit_test(crlf_files_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
