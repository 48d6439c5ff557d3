/* A version's texts: from files, and to a policy without a file being read. */
#include "base/err.h"
#include "control/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char body[] = "version: 1\ntiers: {keys_file: keys.csv}\n"
                           "limits: [{name: a, tier: pro, rate: 1/s, on_store_failure: local}]\n";

static char folder[64], policy_path[96], keys_path[96];

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/sluice-text-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(policy_path, sizeof policy_path, "%s/policy.yaml", folder);
    snprintf(keys_path, sizeof keys_path, "%s/keys.csv", folder);
    write_file(policy_path, body);
    write_file(keys_path, "k,pro\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(policy_path);
    unlink(keys_path);
    return rmdir(folder);
}

static struct sl_policy_options options(void)
{
    return (struct sl_policy_options){.alloc = sl_alloc_system(), .has_store = true};
}

static struct sl_policy *load(void)
{
    struct sl_policy_options with = options();
    struct sl_policy *policy = NULL;
    struct sl_diags diags;

    sl_diags_init(&diags, with.alloc);
    assert_int_equal(sl_policy_load(policy_path, &with, &policy, &diags), 0);
    sl_diags_fini(&diags);
    return policy;
}

/* Compiles; on failure the first error is in `said`. */
static struct sl_policy *compile(const struct sl_version_text *text, char *said, size_t size)
{
    struct sl_policy_options with = options();
    struct sl_policy *policy = NULL;
    struct sl_diags diags;

    sl_diags_init(&diags, with.alloc);
    if (sl_version_text_compile(text, "@7", &with, &policy, &diags)) {
        policy = NULL;
        assert_true(diags.n > 0);
        sl_diag_format(&diags.list[0], said, size);
    }
    sl_diags_fini(&diags);
    return policy;
}

static void test_texts_make_the_policy_of_the_files(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_policy *from_files = load(), *from_texts;
    struct sl_version_text text;
    char why[256], said[512] = "";

    (void)state;
    assert_int_equal(sl_version_text_read(&alloc, policy_path, from_files, &text, why, sizeof why), 0);
    assert_string_equal(text.body, body);
    assert_string_equal(text.keys, "k,pro\n");
    unlink(keys_path); /* it is not read */
    from_texts = compile(&text, said, sizeof said);
    assert_non_null(from_texts);
    assert_string_equal(sl_policy_hash(from_texts), sl_policy_hash(from_files));
    sl_policy_unref(from_texts);
    sl_policy_unref(from_files);
    sl_version_text_free(&alloc, &text);
    write_file(keys_path, "");
}

static void test_a_keys_file_that_did_not_come_along(void **state)
{
    struct sl_version_text text = {.body = body, .body_len = sizeof body - 1};
    char said[512] = "";

    (void)state;
    assert_null(compile(&text, said, sizeof said)); /* though there is a keys.csv */
    assert_non_null(strstr(said, "@7:2:"));
    assert_non_null(strstr(said, "keys.csv did not come with this policy"));
}

static void test_errors_of_a_keys_file_have_its_name(void **state)
{
    struct sl_version_text text = {.body = body, .body_len = sizeof body - 1, .keys = "k;pro\n", .keys_len = 6};
    char said[512] = "";

    (void)state;
    assert_null(compile(&text, said, sizeof said));
    assert_non_null(strstr(said, "keys.csv:1:"));
}

static void test_files_that_have_changed_are_not_taken(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_policy *policy = load();
    struct sl_version_text text;
    char why[256] = "";

    (void)state;
    write_file(keys_path, "other,pro\n");
    assert_int_equal(sl_version_text_read(&alloc, policy_path, policy, &text, why, sizeof why), SL_EIO);
    assert_non_null(strstr(why, "changed"));
    unlink(policy_path);
    assert_int_equal(sl_version_text_read(&alloc, policy_path, policy, &text, why, sizeof why), SL_EIO);
    assert_non_null(strstr(why, "policy.yaml"));
    sl_policy_unref(policy);
    write_file(policy_path, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_texts_make_the_policy_of_the_files),
        TEST(test_a_keys_file_that_did_not_come_along),
        TEST(test_errors_of_a_keys_file_have_its_name),
        TEST(test_files_that_have_changed_are_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
