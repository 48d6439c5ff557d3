/* Secrets and versions that survive a restart: one for each store and namespace, for the owner's eyes alone. */
#include "base/err.h"
#include "control/text.h"
#include "policy/digest.h"
#include "sluiced/keep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/sluice-keep-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

/* The one file there is; "" when there is none. */
static void only_file(char path[static 512])
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    unsigned n = 0;

    path[0] = '\0';
    while ((entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, 512, "%.60s/%s", dir, entry->d_name);
        n++;
    }
    closedir(folder);
    assert_true(n <= 1);
}

static int tear_down(void **state)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;

    (void)state;
    while ((entry = readdir(folder)))
        unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    return rmdir(dir);
}

static struct sl_store_url url_of(const char *text)
{
    struct sl_store_url url;
    char why[256];

    if (sl_store_url_parse(text, &url, why, sizeof why))
        fail_msg("%s", why);
    return url;
}

static void save(const char *store, const char *ns, uint64_t k0)
{
    struct sl_store_url url = url_of(store);
    struct sl_secret secret = {.k0 = k0, .k1 = 2};
    char why[256];

    assert_int_equal(sl_keep_secret(dir, &url, ns, &secret, why, sizeof why), 0);
}

static int find(const char *store, const char *ns, struct sl_secret *secret)
{
    struct sl_store_url url = url_of(store);
    char why[256];

    return sl_keep_find_secret(dir, &url, ns, secret, why, sizeof why);
}

static void each_store_and_namespace_has_its_own(void **state)
{
    static const char *const stores[] = {"redis://h:1",           "redis://h:2",         "redis://h:1/3",
                                         "rediss://h:1",          "redis+cluster://h:1", "redis+sentinel://h:1/a",
                                         "redis+sentinel://h:1/b"};
    struct sl_secret secret;

    (void)state;
    for (uint64_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        assert_int_equal(find(stores[i], "a", &secret), SL_ENOTFOUND);
        save(stores[i], "a", 2 * i);
        save(stores[i], "b", 2 * i + 1);
    }
    for (uint64_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        assert_int_equal(find(stores[i], "a", &secret), 0);
        assert_int_equal(secret.k0, 2 * i);
        assert_int_equal(secret.k1, 2);
        assert_int_equal(find(stores[i], "b", &secret), 0);
        assert_int_equal(secret.k0, 2 * i + 1);
    }
}

/* A password that was changed is no other store. */
static void the_password_is_not_part_of_the_name(void **state)
{
    struct sl_secret secret;

    (void)state;
    save("redis://user:old@h:1", "a", 5);
    assert_int_equal(find("redis://user:new@h:1", "a", &secret), 0);
    assert_int_equal(secret.k0, 5);
}

static void only_its_owner_may_read_it(void **state)
{
    mode_t mask = umask(0);
    char path[512];
    struct stat st;

    (void)state;
    save("redis://h:1", "a", 5);
    umask(mask);
    only_file(path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_null(strstr(path, "h:1"));
}

static void damaged_ones_are_no_secret(void **state)
{
    static const char *const texts[] = {"", "\n", "0123", "0123456789abcdef0123456789abcdeX\n",
                                        "0123456789abcdef0123456789abcdef0\n"};
    struct sl_secret secret = {.k0 = 99};
    char path[512];

    (void)state;
    save("redis://h:1", "a", 5);
    only_file(path);
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *file = fopen(path, "w");

        assert_true(fputs(texts[i], file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_not_equal(find("redis://h:1", "a", &secret), 0);
        assert_int_equal(secret.k0, 99);
    }
    save("redis://h:1", "a", 6);
    assert_int_equal(find("redis://h:1", "a", &secret), 0);
    assert_int_equal(secret.k0, 6);
}

/* ---- versions */

static int keep_version(const char *ns, uint64_t number, const char *body, const char *keys)
{
    struct sl_store_url url = url_of("redis://h:1");
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_pointer version = {.number = number};
    size_t body_len = strlen(body), keys_len = keys ? strlen(keys) : 0;
    struct sl_version_text text;
    char why[256];
    int err;

    assert_int_equal(sl_version_text_make(&alloc, body_len, keys != NULL, keys_len, &text), 0);
    memcpy(text.bytes, body, body_len);
    if (keys)
        memcpy(text.bytes + body_len + 1, keys, keys_len);
    assert_int_equal(sl_digest(text.body, text.body_len, text.keys, text.keys_len, version.hash), 0);
    err = sl_keep_version(dir, &url, ns, &version, &text, why, sizeof why);
    sl_version_text_free(&alloc, &text);
    return err;
}

static int find_version(const char *ns, struct sl_pointer *version, struct sl_version_text *text)
{
    struct sl_store_url url = url_of("redis://h:1");
    char why[512] = "";
    int err = sl_keep_find_version(dir, &url, ns, version, text, why, sizeof why);

    assert_int_equal(err && err != SL_ENOTFOUND, why[0] != '\0');
    return err;
}

static void versions_are_found_as_they_were(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_version_text text;
    struct sl_pointer version;

    (void)state;
    assert_int_equal(find_version("a", &version, &text), SL_ENOTFOUND);
    assert_int_equal(keep_version("a", 7, "body\nof two lines\n", NULL), 0);
    assert_int_equal(keep_version("b", 999999999999999, "x", "k,pro\n"), 0);
    assert_int_equal(find_version("a", &version, &text), 0);
    assert_int_equal(version.number, 7);
    assert_string_equal(text.body, "body\nof two lines\n");
    assert_null(text.keys);
    sl_version_text_free(&alloc, &text);
    assert_int_equal(find_version("b", &version, &text), 0);
    assert_int_equal(version.number, 999999999999999);
    assert_string_equal(text.keys, "k,pro\n");
    sl_version_text_free(&alloc, &text);
    /* Another one takes its place; an empty keys_file is not none. */
    assert_int_equal(keep_version("b", 3, "y", ""), 0);
    assert_int_equal(find_version("b", &version, &text), 0);
    assert_int_equal(version.number, 3);
    assert_non_null(text.keys);
    assert_int_equal(text.keys_len, 0);
    sl_version_text_free(&alloc, &text);
}

/* Cut short at every byte, and with every byte changed in turn: never a policy that was not kept. */
static void damaged_ones_are_no_version(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_version_text text;
    struct sl_pointer version;
    char path[512], good[512], bad[512];
    size_t len;
    FILE *file;

    (void)state;
    keep_version("a", 7, "body", "keys");
    only_file(path);
    file = fopen(path, "r");
    len = fread(good, 1, sizeof good, file);
    fclose(file);
    for (size_t i = 0; i < 2 * len; i++) {
        size_t n = i < len ? i : len;
        int err;

        memcpy(bad, good, len);
        if (i >= len)
            bad[i - len] = (char)(bad[i - len] ^ 0x15);
        file = fopen(path, "w");
        assert_int_equal(fwrite(bad, 1, n, file), n);
        fclose(file);
        err = find_version("a", &version, &text);
        if (err == 0) { /* the number is not part of the hash */
            assert_string_equal(text.body, "body");
            assert_string_equal(text.keys, "keys");
            sl_version_text_free(&alloc, &text);
        }
        assert_true(err || i >= len);
    }
}

/* A disk that is full, as far as the system lets one be played: the old copy stays, and nothing of the new one. */
static void what_has_no_room_leaves_nothing(void **state)
{
    static char large[5000];
    struct rlimit limit, small;
    char path[512], why[256], found[8] = "";
    FILE *f;
    int err;

    (void)state;
    assert_int_equal(sl_keep_write(dir, "kept", "old", 3, why, sizeof why), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    err = sl_keep_write(dir, "kept", large, sizeof large, why, sizeof why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(err, SL_EIO);
    assert_non_null(strstr(why, "/kept: "));
    only_file(path);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(found, 1, sizeof found, f), 3);
    fclose(f);
    assert_string_equal(found, "old");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_store_and_namespace_has_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_password_is_not_part_of_the_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_its_owner_may_read_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_ones_are_no_secret, set_up, tear_down),
        cmocka_unit_test_setup_teardown(versions_are_found_as_they_were, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_ones_are_no_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_no_room_leaves_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
