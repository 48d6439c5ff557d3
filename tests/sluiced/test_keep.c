/* Secrets that survive a restart: one for each store and namespace, for the owner's eyes alone. */
#include "base/err.h"
#include "sluiced/keep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_store_and_namespace_has_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_password_is_not_part_of_the_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_its_owner_may_read_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_ones_are_no_secret, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
