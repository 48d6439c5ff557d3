/* Policies and keys_files on disk: what is read, from where, and what is refused. */
#include "support.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/sluice-policy-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static const char *path_of(const char *name)
{
    static char path[200];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text, size_t len)
{
    FILE *f = fopen(path_of(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    fclose(f);
}

static void put(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static int tear_down(void **state)
{
    static const char *const names[] = {"p.yaml", "tiers.csv", "fifo", "link.yaml", "dir/p.yaml"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
    rmdir(path_of("dir"));
    return rmdir(folder);
}

#define POLICY                                                                                                  \
    "version: 1\ndefaults: {on_store_failure: open}\nlimits: [{name: a, rate: 1/s}]\ntiers: {keys: {k0: top}, " \
    "keys_file: tiers.csv}\n"

static const char *tier_of(const struct loaded *loaded, const char *key)
{
    struct sluice_request request = request_of(key, NULL);

    return resolve(loaded->policy, &request)->tier;
}

static void keys_come_from_the_file_beside_the_policy(void **state)
{
    struct loaded loaded;

    (void)state;
    put("p.yaml", POLICY);
    put("tiers.csv", "k1,free\n# a comment\n\nk2,pro\r\n\"with, comma\",pro\n\"say "
                     "\"\"hi\"\"\",free\n\"#hash\",pro\nk0,free\n caf\xe9 , x y \nlast,free");
    loaded = load_file(path_of("p.yaml"));
    expect_no_findings(&loaded);
    assert_string_equal(tier_of(&loaded, "k1"), "free");
    assert_string_equal(tier_of(&loaded, "k2"), "pro");
    assert_string_equal(tier_of(&loaded, "with, comma"), "pro");
    assert_string_equal(tier_of(&loaded, "say \"hi\""), "free");
    assert_string_equal(tier_of(&loaded, "#hash"), "pro");
    assert_string_equal(tier_of(&loaded, "k0"), "top");          /* `keys` goes before the file */
    assert_string_equal(tier_of(&loaded, " caf\xe9 "), " x y "); /* bytes as they are */
    assert_string_equal(tier_of(&loaded, "last"), "free");
    assert_string_equal(tier_of(&loaded, "# a comment"), "");
    unload(&loaded);
}

static void a_keys_file_has_findings_of_its_own(void **state)
{
    char text[4000];
    struct loaded loaded;
    static const struct {
        unsigned line, column;
        const char *part;
    } wrong[] = {
        {2, 8, "the tier is missing"},
        {3, 1, "the key is empty"},
        {4, 4, "the tier is empty"},
        {5, 5, "in double quotes"},
        {6, 4, "not closed"},
        {7, 4, "the tier is missing"},
        {8, 514, "longer than 512 bytes"},
        {9, 68, "longer than 63 bytes"},
        {10, 4, "control characters"},
        {11, 1, "too long"},
    };

    (void)state;
    put("p.yaml", POLICY);
    snprintf(text, sizeof text,
             "ok,free\nno-tier\n,free\nk1,\nk1,a,b\n\"k1\n\"k\"1,free\n%0513d,x\nk2,%063d4\na\tb,x\n%01300d,x\n", 1, 1,
             1);
    put("tiers.csv", text);
    loaded = load_file(path_of("p.yaml"));
    assert_int_equal(loaded.rc, SL_EPOLICY);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_error(&loaded, wrong[i].line, wrong[i].column, "", wrong[i].part);
        assert_string_equal(loaded.diags.list[i].file, path_of("tiers.csv"));
    }
    assert_int_equal(loaded.diags.n_errors, sizeof wrong / sizeof *wrong);
    unload(&loaded);
}

static void the_hash_is_that_of_the_file_and_moves_with_the_keys(void **state)
{
    struct sl_policy *known = must_load("version: 1\nlimits: []\n");
    struct loaded x, y;

    (void)state;
    assert_string_equal(sl_policy_hash(known), "cc47a99e7d74a46f0effb5b5f8ce60a3490207cb40be034463e7e773d313d1fc");
    put("p.yaml", POLICY);
    put("tiers.csv", "k1,free\n");
    x = load_file(path_of("p.yaml"));
    put("tiers.csv", "k1,pro\n");
    y = load_file(path_of("p.yaml"));
    assert_string_not_equal(sl_policy_hash(x.policy), sl_policy_hash(y.policy));
    unload(&x);
    unload(&y);
    sl_policy_unref(known);
}

static void b93_only_regular_files_are_read(void **state)
{
    struct loaded loaded;

    (void)state;
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    loaded = load_file(path_of("fifo")); /* refused, not waited for */
    assert_int_equal(loaded.rc, SL_EPOLICY);
    expect_error(&loaded, 0, 0, "", "not a regular file");
    unload(&loaded);
    loaded = load_file(folder);
    expect_error(&loaded, 0, 0, "", "not a regular file");
    unload(&loaded);
    loaded = load_file(path_of("missing.yaml"));
    expect_error(&loaded, 0, 0, "", "No such file");
    unload(&loaded);
}

static void b95_an_empty_file_is_an_error(void **state)
{
    struct loaded loaded;

    (void)state;
    put("p.yaml", "");
    loaded = load_file(path_of("p.yaml"));
    assert_int_equal(loaded.rc, SL_EPOLICY);
    expect_error(&loaded, 1, 1, "", "empty");
    unload(&loaded);
}

static void links_are_followed_and_keys_are_sought_beside_the_link(void **state)
{
    struct loaded loaded;

    (void)state;
    assert_int_equal(mkdir(path_of("dir"), 0700), 0);
    put("dir/p.yaml", POLICY);
    put("tiers.csv", "k9,nine\n");
    assert_int_equal(symlink("dir/p.yaml", path_of("link.yaml")), 0);
    loaded = load_file(path_of("link.yaml"));
    assert_int_equal(loaded.rc, 0);
    assert_string_equal(tier_of(&loaded, "k9"), "nine");
    unload(&loaded);
}

static void large_keys_files_load(void **state)
{
    const unsigned n = 200000;
    char *text = malloc(n * 24), key[24];
    size_t len = 0;
    struct loaded loaded;

    (void)state;
    assert_non_null(text);
    for (unsigned i = 0; i < n; i++)
        len += (size_t)sprintf(text + len, "acct_%07u,tier%u\n", i, i % 7);
    put("p.yaml", POLICY);
    write_file("tiers.csv", text, len);
    free(text);
    loaded = load_file(path_of("p.yaml"));
    assert_int_equal(loaded.rc, 0);
    for (unsigned i = 0; i < n; i += 1999) {
        char tier[8];

        snprintf(key, sizeof key, "acct_%07u", i);
        snprintf(tier, sizeof tier, "tier%u", i % 7);
        assert_string_equal(tier_of(&loaded, key), tier);
    }
    assert_string_equal(tier_of(&loaded, "acct_9999999"), "");
    unload(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_come_from_the_file_beside_the_policy),
        cmocka_unit_test(a_keys_file_has_findings_of_its_own),
        cmocka_unit_test(the_hash_is_that_of_the_file_and_moves_with_the_keys),
        cmocka_unit_test(b93_only_regular_files_are_read),
        cmocka_unit_test(b95_an_empty_file_is_an_error),
        cmocka_unit_test(links_are_followed_and_keys_are_sought_beside_the_link),
        cmocka_unit_test(large_keys_files_load),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
