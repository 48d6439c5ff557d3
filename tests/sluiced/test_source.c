/* Reloads: what cannot be put in force leaves the policy that is. */
#include "limiter/limiter.h"
#include "control/text.h"
#include "sluiced/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ONE "version: 1\nlimits: [{name: one, rate: 1/s}]\n"
#define TWO "version: 1\nlimits: [{name: two, rate: 2/s}]\n"

/* An allocator that can be told to have no memory. */
static bool exhausted;

static void *scarce_realloc(void *ctx, void *p, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return exhausted ? NULL : realloc(p, size);
}

struct fixture {
    char path[64];
    FILE *lines;
    struct sl_log log;
    struct sl_source source;
    struct sl_limiter *limiter;
    const char *state_dir;
    unsigned keyed;
    struct sl_secret secret;
    unsigned judged; /* times */
    bool of_store;
    char finding[256]; /* "": it was taken */
};

static void on_judged(void *ctx, bool of_store, const char *finding)
{
    struct fixture *f = ctx;

    f->judged++;
    f->of_store = of_store;
    snprintf(f->finding, sizeof f->finding, "%s", finding ? finding : "");
}

static void on_keyed(void *ctx, const struct sl_secret *secret)
{
    struct fixture *f = ctx;

    f->keyed++;
    f->secret = *secret;
}

static void write_policy(const struct fixture *f, const char *text)
{
    FILE *file = fopen(f->path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void open_source_in(struct fixture *f, const char *state_dir)
{
    struct sl_table_options options = sl_table_defaults();
    struct sl_alloc scarce = {.realloc = scarce_realloc};
    struct sl_table *table;
    struct sl_policy *policy;
    bool fallen_back;
    char why[512];
    int fd;

    *f = (struct fixture){.state_dir = state_dir};
    snprintf(f->path, sizeof f->path, "/tmp/sluice-source-XXXXXX");
    fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    write_policy(f, ONE);
    f->lines = tmpfile();
    assert_non_null(f->lines);
    sl_log_init(&f->log, SL_LOG_LOGFMT, fileno(f->lines));
    options.keys = options.log_entries = 1000;
    assert_int_equal(sl_table_open(&options, &table, why, sizeof why), 0);
    assert_int_equal(sl_source_init(&f->source,
                                    &(struct sl_source_config){.path = f->path,
                                                               .state_dir = f->state_dir,
                                                               .secret = sl_table_secret(table),
                                                               .log = &f->log,
                                                               .keyed = on_keyed,
                                                               .judged = on_judged,
                                                               .ctx = f},
                                    why, sizeof why),
                     0);
    assert_int_equal(sl_source_first(&f->source, &policy, &fallen_back, why, sizeof why), 0);
    assert_int_equal(sl_limiter_new(table, policy, &scarce, &f->limiter), 0);
    sl_source_attach(&f->source, f->limiter);
}

static void open_source(struct fixture *f)
{
    open_source_in(f, NULL);
}

static void close_source(struct fixture *f)
{
    sl_limiter_free(f->limiter);
    sl_source_fini(&f->source);
    sl_log_fini(&f->log);
    fclose(f->lines);
    unlink(f->path);
}

static void assert_in_force(struct fixture *f, const char *limit)
{
    struct sl_policy *policy = sl_limiter_policy(f->limiter);

    assert_string_equal(sl_policy_limit(policy, 0)->name, limit);
    sl_policy_unref(policy);
}

static bool was_logged(const struct fixture *f, const char *text)
{
    static char all[16384];
    ssize_t n = pread(fileno(f->lines), all, sizeof all - 1, 0);

    assert_true(n >= 0);
    all[n] = '\0';
    return strstr(all, text) != NULL;
}

static void a_good_file_is_put_in_force(void **state)
{
    struct fixture f;

    (void)state;
    open_source(&f);
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_SAME);
    write_policy(&f, TWO);
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_DONE);
    assert_in_force(&f, "two");
    close_source(&f);
}

/* A good file, but no memory to put it in force: that is a failure, and said to be one. */
static void without_memory_the_old_policy_stays(void **state)
{
    struct fixture f;
    char why[256] = "";

    (void)state;
    open_source(&f);
    write_policy(&f, TWO);
    exhausted = true;
    assert_int_equal(sl_source_reload(&f.source, "test", why, sizeof why), SL_RELOAD_FAILED);
    exhausted = false;
    assert_string_equal(why, "the policy cannot be put in force: out of memory");
    assert_in_force(&f, "one");
    assert_true(was_logged(&f, "the one in force stays"));
    assert_false(was_logged(&f, "is in force, "));
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_DONE);
    assert_in_force(&f, "two");
    close_source(&f);
}

/* ---- another secret */

static const struct sl_secret another = {.k0 = 7, .k1 = 8};

/* Where the policy in force would put somebody's bucket: it depends on the secret. */
static uint64_t seed(struct fixture *f)
{
    struct sl_policy *policy = sl_limiter_policy(f->limiter);
    uint64_t a = sl_policy_limit(policy, 0)->seeds[0].a;

    sl_policy_unref(policy);
    return a;
}

static void another_secret_compiles_the_policy_anew(void **state)
{
    struct fixture f;
    uint64_t before;

    (void)state;
    open_source(&f);
    before = seed(&f);
    assert_int_equal(sl_source_rekey(&f.source, &another), SL_RELOAD_DONE);
    assert_in_force(&f, "one");
    assert_int_equal(f.keyed, 1);
    assert_int_equal(f.secret.k0, 7);
    assert_true(seed(&f) != before);
    assert_int_equal(sl_source_rekey(&f.source, &another), SL_RELOAD_SAME);
    assert_int_equal(f.keyed, 1);
    /* Later reloads go on with it. */
    before = seed(&f);
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_SAME);
    write_policy(&f, TWO);
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_DONE);
    write_policy(&f, ONE);
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_DONE);
    assert_true(seed(&f) == before);
    assert_int_equal(f.keyed, 1);
    close_source(&f);
}

static void a_file_broken_meanwhile_does_not_keep_a_secret_out(void **state)
{
    struct fixture f;

    (void)state;
    open_source(&f);
    write_policy(&f, "limits: [");
    assert_int_equal(sl_source_rekey(&f.source, &another), SL_RELOAD_DONE);
    assert_in_force(&f, "one");
    assert_int_equal(f.keyed, 1);
    close_source(&f);
}

/* The file broken, and no memory to compile what it was: the next good reload takes the secret along. */
static void what_cannot_be_compiled_waits_for_a_good_file(void **state)
{
    struct fixture f;

    (void)state;
    open_source(&f);
    exhausted = true;
    assert_int_equal(sl_source_rekey(&f.source, &another), SL_RELOAD_FAILED);
    exhausted = false;
    assert_int_equal(f.keyed, 0);
    assert_true(was_logged(&f, "shared limits follow their failure modes"));
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_DONE); /* the same text, another secret */
    assert_int_equal(f.keyed, 1);
    assert_int_equal(f.secret.k1, 8);
    close_source(&f);
}

static void what_becomes_of_a_file_is_told(void **state)
{
    struct fixture f;

    (void)state;
    open_source(&f);
    assert_int_equal(f.judged, 0);
    write_policy(&f, "version: 1\nlimits: [{name: a, rat: 1/s}]\n");
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_FAILED);
    assert_int_equal(f.judged, 1);
    assert_non_null(strstr(f.finding, ":2:"));
    assert_false(f.of_store);
    write_policy(&f, ONE);
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_SAME); /* as good as another */
    assert_int_equal(f.judged, 2);
    assert_string_equal(f.finding, "");
    exhausted = true;
    assert_int_equal(sl_source_rekey(&f.source, &another), SL_RELOAD_FAILED);
    exhausted = false;
    assert_int_equal(f.judged, 3);
    assert_string_equal(f.finding, "it cannot be compiled under the instances' secret");
    close_source(&f);
}

/* ---- versions of a store */

static struct sl_version_text text_of(const char *body)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_version_text text;

    assert_int_equal(sl_version_text_make(&alloc, strlen(body), false, 0, &text), 0);
    memcpy(text.bytes, body, strlen(body));
    return text;
}

static enum sl_reload take(struct fixture *f, uint64_t number, const char *body, char *why, size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_version version = {.number = number, .author = "ann", .comment = "why not"};
    struct sl_version_text text = text_of(body);
    enum sl_reload result;

    memset(version.hash, 'a', SL_HASH_HEX);
    result = sl_source_take(&f->source, &version, &text, why, why_size);
    sl_version_text_free(&alloc, &text);
    return result;
}

static void a_version_takes_the_place_of_the_file(void **state)
{
    struct fixture f;
    char why[512] = "";

    (void)state;
    open_source(&f);
    assert_int_equal(sl_source_runs(&f.source).number, 0);
    assert_int_equal(take(&f, 3, TWO, why, sizeof why), SL_RELOAD_DONE);
    assert_in_force(&f, "two");
    assert_int_equal(sl_source_runs(&f.source).number, 3);
    assert_true(was_logged(&f, "version 3 by ann (why not): policy"));
    /* The file is not looked at any more, and another secret compiles the version. */
    assert_int_equal(sl_source_reload(&f.source, "test", why, sizeof why), SL_RELOAD_IGNORED);
    assert_non_null(strstr(why, "version 3"));
    assert_int_equal(sl_source_rekey(&f.source, &another), SL_RELOAD_DONE);
    assert_in_force(&f, "two");
    assert_int_equal(f.keyed, 1);
    /* The same text under another number is no reload, but another version. */
    assert_int_equal(take(&f, 4, TWO, why, sizeof why), SL_RELOAD_SAME);
    assert_int_equal(sl_source_runs(&f.source).number, 4);
    close_source(&f);
}

static void a_version_that_is_not_valid_changes_nothing(void **state)
{
    struct fixture f;
    char why[512] = "";

    (void)state;
    open_source(&f);
    assert_int_equal(take(&f, 3, "version: 1\nlimits: [{name: a, rat: 1/s}]\n", why, sizeof why), SL_RELOAD_FAILED);
    assert_non_null(strstr(why, "version 3:2:"));
    assert_in_force(&f, "one");
    assert_int_equal(sl_source_runs(&f.source).number, 0);
    assert_true(f.of_store && strstr(f.finding, "version 3:2:") != NULL);
    assert_int_equal(sl_source_reload(&f.source, "test", NULL, 0), SL_RELOAD_SAME); /* the file still counts */
    close_source(&f);
}

/* Nothing is wrong with it: that must not be said of it. */
static void a_version_without_memory_is_put_off(void **state)
{
    struct fixture f;
    char why[512] = "";

    (void)state;
    open_source(&f);
    exhausted = true;
    assert_int_equal(take(&f, 3, TWO, why, sizeof why), SL_RELOAD_SHORT);
    exhausted = false;
    assert_in_force(&f, "one");
    assert_int_equal(take(&f, 3, TWO, why, sizeof why), SL_RELOAD_DONE);
    assert_in_force(&f, "two");
    close_source(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_secret_compiles_the_policy_anew),
        cmocka_unit_test(a_file_broken_meanwhile_does_not_keep_a_secret_out),
        cmocka_unit_test(what_cannot_be_compiled_waits_for_a_good_file),
        cmocka_unit_test(what_becomes_of_a_file_is_told),
        cmocka_unit_test(a_version_takes_the_place_of_the_file),
        cmocka_unit_test(a_version_that_is_not_valid_changes_nothing),
        cmocka_unit_test(a_version_without_memory_is_put_off),
        cmocka_unit_test(a_good_file_is_put_in_force),
        cmocka_unit_test(without_memory_the_old_policy_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
