/* Overrides in the daemon: kept in a folder, laid over whatever policy is in force, while others decide. */
#include "base/err.h"
#include "sluiced/overrides.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ONE "version: 1\nlimits: [{name: a, rate: 100/h, on_store_failure: local}]\n"
#define TWO "version: 1\nlimits: [{name: a, rate: 300/h, on_store_failure: local}]\n"
#define NONE "version: 1\nlimits: [{name: b, rate: 500/h, on_store_failure: local}]\n"

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/sluice-overrides-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static struct sl_override override(const char *key, const char *limit, uint32_t count)
{
    return (struct sl_override){.key = key,
                                .key_len = strlen(key),
                                .key_type = "api_key",
                                .limit = limit,
                                .rate = {SL_RATE_LIMITED, count, UINT64_C(3600000000)},
                                .set_us = 5,
                                .author = "ann",
                                .comment = "c"};
}

static struct sl_overrides *list_of(const struct sl_override *list, size_t n, uint64_t revision)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_overrides *overrides;

    assert_int_equal(sl_overrides_new(&alloc, list, n, revision, &overrides), 0);
    return overrides;
}

/* ---- kept */

static void what_was_kept_is_found_again(void **state)
{
    struct sl_override list[2] = {override("k", "a", 5), override("\xc3\xa9 \"j\"", NULL, 6)};
    struct sl_overrides *overrides;
    struct sl_revision revision = {.number = 0};
    struct sl_kept_overrides kept;
    json_t *log = json_pack("[{s:i}]", "revision", 12);
    char why[512];

    (void)state;
    list[1].until_us = 4000000000000000;
    overrides = list_of(list, 2, 12);
    assert_int_equal(sl_revision_read("12 0123456789abcdef", 19, &revision), 0);
    assert_int_equal(sl_keep_find_overrides(dir, NULL, "ns", &kept, why, sizeof why), SL_ENOTFOUND);
    assert_int_equal(sl_keep_overrides(dir, NULL, "ns", overrides, &revision, log, why, sizeof why), 0);
    assert_int_equal(sl_keep_find_overrides(dir, NULL, "ns", &kept, why, sizeof why), 0);
    assert_int_equal(kept.list->n, 2);
    assert_int_equal(kept.list->revision, 12);
    assert_string_equal(kept.revision.text, revision.text);
    assert_int_equal(json_array_size(kept.log), 1);
    assert_int_equal(sl_overrides_find(kept.list, &list[0])->rate.count, 5);
    assert_true(sl_overrides_find(kept.list, &list[1])->until_us == 4000000000000000);
    sl_overrides_unref(kept.list);
    json_decref(kept.log);
    json_decref(log);
    sl_overrides_unref(overrides);
}

static void a_file_that_cannot_be_read_is_put_aside(void **state)
{
    static const char *const texts[] = {
        "",
        "{}",
        "[",
        "{\"format\":\"sluice-overrides 1\",\"revision\":1,\"mark\":\"x\",\"overrides\":[],\"log\":[]}",
        "{\"format\":\"sluice-overrides 1\",\"revision\":-1,\"mark\":\"\",\"overrides\":[],\"log\":[]}",
        "{\"format\":\"sluice-overrides 1\",\"revision\":1,\"mark\":\"\",\"overrides\":[{\"key\":\"k\"}],\"log\":[]}",
        "{\"format\":\"sluice-overrides 2\",\"revision\":1,\"mark\":\"\",\"overrides\":[],\"log\":[]}"};
    struct sl_kept_overrides kept;
    char path[128], aside[160], why[512];
    FILE *file;

    (void)state;
    snprintf(path, sizeof path, "%s/overrides.json", dir);
    snprintf(aside, sizeof aside, "%s.unreadable", path);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        file = fopen(path, "w");
        assert_non_null(file);
        fputs(texts[i], file);
        fclose(file);
        why[0] = '\0';
        assert_int_not_equal(sl_keep_find_overrides(dir, NULL, "ns", &kept, why, sizeof why), 0);
        assert_non_null(strstr(why, "overrides.json"));
        assert_int_equal(access(aside, F_OK), 0);
        unlink(aside);
        unlink(path);
    }
}

/* ---- over the policy in force */

struct fixture {
    char path[96];
    FILE *lines;
    struct sl_log log;
    struct sl_source source;
    struct sl_limiter *limiter;
};

static void write_policy(const struct fixture *f, const char *text)
{
    char next[128];
    FILE *file;

    snprintf(next, sizeof next, "%s.next", f->path);
    file = fopen(next, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(rename(next, f->path), 0);
}

static void open_source(struct fixture *f)
{
    struct sl_table_options options = sl_table_defaults();
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_source_config config;
    struct sl_policy *policy;
    struct sl_table *table;
    bool fallen_back;
    char why[512];

    *f = (struct fixture){.limiter = NULL};
    snprintf(f->path, sizeof f->path, "%s/policy.yaml", dir);
    write_policy(f, ONE);
    f->lines = tmpfile();
    sl_log_init(&f->log, SL_LOG_LOGFMT, fileno(f->lines));
    options.keys = options.log_entries = 1000;
    assert_int_equal(sl_table_open(&options, &table, why, sizeof why), 0);
    config = (struct sl_source_config){.path = f->path, .secret = sl_table_secret(table), .log = &f->log};
    assert_int_equal(sl_source_init(&f->source, &config, why, sizeof why), 0);
    assert_int_equal(sl_source_first(&f->source, &policy, &fallen_back, why, sizeof why), 0);
    assert_int_equal(sl_limiter_new(table, policy, &alloc, &f->limiter), 0);
    sl_source_attach(&f->source, f->limiter);
}

static void close_source(struct fixture *f)
{
    sl_limiter_free(f->limiter);
    sl_source_fini(&f->source);
    sl_log_fini(&f->log);
    fclose(f->lines);
}

static int64_t limit_of(struct sl_limiter *limiter, const char *key)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;
    struct sluice_verdict verdict;

    request.key = key;
    request.key_len = strlen(key);
    request.cost = 0;
    if (sl_limiter_check(limiter, &request, &verdict, NULL, NULL, NULL))
        return -2;
    return verdict.limit;
}

static unsigned count_lines(struct fixture *f, const char *part)
{
    char line[4096];
    unsigned n = 0;

    rewind(f->lines);
    while (fgets(line, sizeof line, f->lines))
        n += strstr(line, part) != NULL;
    return n;
}

static void set(struct fixture *f, const struct sl_override *list, size_t n)
{
    struct sl_overrides *overrides = list_of(list, n, 1);

    assert_int_equal(sl_source_set_overrides(&f->source, overrides), 0);
    sl_overrides_unref(overrides);
}

static void overrides_stay_over_reloads_and_are_none(void **state)
{
    struct sl_override list[] = {override("k", "a", 900)};
    struct sl_limiter_stats stats;
    struct fixture f;
    char why[512];

    (void)state;
    open_source(&f);
    set(&f, list, 1);
    assert_int_equal(limit_of(f.limiter, "k"), 900);
    sl_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.reloads, 0);
    write_policy(&f, TWO);
    assert_int_equal(sl_source_reload(&f.source, "test", why, sizeof why), SL_RELOAD_DONE);
    sl_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.reloads, 1);
    assert_int_equal(limit_of(f.limiter, "k"), 900);
    assert_int_equal(limit_of(f.limiter, "j"), 300);
    write_policy(&f, NONE); /* which has no place for it: taken all the same, and told once */
    assert_int_equal(sl_source_reload(&f.source, "test", why, sizeof why), SL_RELOAD_DONE);
    assert_int_equal(limit_of(f.limiter, "k"), 500);
    set(&f, list, 1);
    assert_int_equal(count_lines(&f, "is inactive: the policy has no limit `a`"), 1);
    write_policy(&f, ONE);
    assert_int_equal(sl_source_reload(&f.source, "test", why, sizeof why), SL_RELOAD_DONE);
    assert_int_equal(limit_of(f.limiter, "k"), 900);
    assert_int_equal(sl_source_reload(&f.source, "test", why, sizeof why), SL_RELOAD_SAME);
    set(&f, NULL, 0);
    assert_int_equal(limit_of(f.limiter, "k"), 100);
    close_source(&f);
}

static void an_override_is_judged_before_it_is_set(void **state)
{
    struct sl_override good = override("k", "a", 900), bad = override("k", "b", 900);
    struct fixture f;
    char why[512] = "";

    (void)state;
    open_source(&f);
    assert_int_equal(sl_source_try_override(&f.source, &good, why, sizeof why), 0);
    assert_int_equal(sl_source_try_override(&f.source, &bad, why, sizeof why), SL_EPOLICY);
    assert_non_null(strstr(why, "no limit `b`"));
    assert_int_equal(limit_of(f.limiter, "k"), 100); /* it was tried, not set */
    close_source(&f);
}

/* ---- while others decide */

struct crowd {
    struct fixture *f;
    atomic_bool stop;
    atomic_uint wrong, decided;
};

static void *decide(void *ctx)
{
    struct crowd *crowd = ctx;

    while (!atomic_load(&crowd->stop)) {
        int64_t k = limit_of(crowd->f->limiter, "k"), j = limit_of(crowd->f->limiter, "j");

        if ((k != 100 && k != 300 && k != 900 && k != 901) || (j != 100 && j != 300))
            atomic_fetch_add(&crowd->wrong, 1);
        atomic_fetch_add(&crowd->decided, 1);
    }
    return NULL;
}

static void *reload(void *ctx)
{
    struct crowd *crowd = ctx;
    char why[512];

    for (unsigned i = 0; !atomic_load(&crowd->stop); i++) {
        write_policy(crowd->f, i % 2 ? ONE : TWO);
        if (sl_source_reload(&crowd->f->source, "test", why, sizeof why) == SL_RELOAD_FAILED)
            atomic_fetch_add(&crowd->wrong, 1);
    }
    return NULL;
}

static void changes_and_reloads_under_load_mix_nothing_up(void **state)
{
    pthread_t threads[3];
    struct crowd crowd = {.stop = false};
    struct fixture f;

    (void)state;
    open_source(&f);
    crowd.f = &f;
    assert_int_equal(pthread_create(&threads[0], NULL, decide, &crowd), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, decide, &crowd), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, reload, &crowd), 0);
    for (unsigned i = 0; i < 150 || atomic_load(&crowd.decided) < 1000; i++) {
        struct sl_override o = override("k", i % 2 ? "a" : NULL, 900 + i % 2);

        set(&f, &o, i % 3 ? 1 : 0);
    }
    atomic_store(&crowd.stop, true);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.wrong), 0);
    close_source(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_kept_is_found_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_read_is_put_aside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(overrides_stay_over_reloads_and_are_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_override_is_judged_before_it_is_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(changes_and_reloads_under_load_mix_nothing_up, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
