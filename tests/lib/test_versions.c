/* Limiters that follow the versions of the policy on their store: seen through the public header, the history by the command
 * line. */
#include "store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLICY(rate)                                                                                         \
    "version: 1\nlimits:\n  - {name: a, rate: " rate "/366d, algorithm: fixed_window, coordination: shared," \
    " on_store_failure: local}\n"
#define OWN POLICY("10")
#define VERSION_FORMAT "sluice-version 1" /* as control/record.c writes it */

static struct store store;

/* What was logged, line by line; written by several threads. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char logged[65536];

static void keep_log(void *ctx, int level, const char *message)
{
    size_t len;

    (void)ctx;
    pthread_mutex_lock(&log_lock);
    len = strlen(logged);
    snprintf(logged + len, sizeof logged - len, "%d %s\n", level, message);
    pthread_mutex_unlock(&log_lock);
}

static unsigned times_logged(const char *text)
{
    unsigned n = 0;

    pthread_mutex_lock(&log_lock);
    for (const char *at = logged; (at = strstr(at, text)); at++)
        n++;
    pthread_mutex_unlock(&log_lock);
    return n;
}

static int start_store(void **state)
{
    (void)state;
    store_open(&store);
    return 0;
}

static int end_store(void **state)
{
    (void)state;
    store_close(&store);
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    next_namespace();
    logged[0] = '\0';
    return 0;
}

static struct sluice_options options_of(const char *yaml)
{
    struct sluice_options options = shared_options(&store, yaml);

    options.log = keep_log;
    return options;
}

static struct sluice *open_following(const char *yaml)
{
    struct sluice_options options = options_of(yaml);

    return open_with(&options);
}

/* The command line on this test's namespace; the beginning of its standard output. All of it is read: a command whose answer
 * finds no room fails. */
static char *run(const char *words)
{
    static char out[65536];
    struct sluice_options options = shared_options(&store, OWN);
    char command[1024], more[4096];
    FILE *pipe;
    size_t n;

    snprintf(command, sizeof command, "%s %s --store '%s' --namespace %s", SLUICE_COMMAND, words, options.store,
             options.store_namespace);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    n = fread(out, 1, sizeof out - 1, pipe);
    out[n] = '\0';
    while (fread(more, 1, sizeof more, pipe) > 0)
        ;
    if (pclose(pipe) != 0)
        fail_msg("%s: %s", command, out);
    return out;
}

static void push(const char *yaml)
{
    char *path = temporary_path(), words[256];
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(yaml, file) >= 0);
    assert_int_equal(fclose(file), 0);
    snprintf(words, sizeof words, "policy push %s --author ann --comment more", path);
    run(words);
    remove_path(path);
}

/* As another release could: what this one would not push. */
static void push_raw(unsigned number, const char *text)
{
    const char *ns = shared_options(&store, OWN).store_namespace;
    char *path = temporary_path(), command[256], record[512], hash[65] = "";
    FILE *file = fopen(path, "w"), *pipe;

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command, "sha256sum %s", path);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fread(hash, 1, 64, pipe), 64);
    assert_int_equal(pclose(pipe), 0);
    remove_path(path);
    redis_run(store.server.c, "HSET %s:{fleet}:policy:body:%s 0 %s", ns, hash, text);
    snprintf(record, sizeof record, VERSION_FORMAT "\n%s\n1754000000000000\n%zu\n-\n0\n%016x\nann\nraw\n", hash,
             strlen(text), number);
    redis_run(store.server.c, "HSET %s:{fleet}:policy:versions %u %b", ns, number, record, strlen(record));
    snprintf(command, sizeof command, "%u %s", number, hash);
    redis_run(store.server.c, "SET %s:{fleet}:policy:current %s", ns, command);
}

static void pause_ms(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int64_t limit_of(struct sluice *limiter)
{
    return check_key(limiter, "key", 0).limit;
}

static void wait_limit(struct sluice *limiter, int64_t limit)
{
    for (int i = 0; i < 20000 && limit_of(limiter) != limit; i++)
        pause_ms();
    assert_int_equal(limit_of(limiter), limit);
}

static void wait_logged(const char *text)
{
    for (int i = 0; i < 20000 && !times_logged(text); i++)
        pause_ms();
    if (!times_logged(text))
        fail_msg("not logged: %s; but:\n%s", text, logged);
}

/* Waits until the history says it of an instance. */
static void wait_history(const char *text)
{
    const char *instances = NULL;

    for (int i = 0; i < 500; i++) {
        instances = strstr(run("policy history --json"), "\"instance\":");
        if (instances && strstr(instances, text))
            return;
        pause_ms();
    }
    fail_msg("%s is not in %s", text, instances ? instances : "nothing");
}

/* ---- */

static void the_stores_version_wins(void **state)
{
    struct sluice *one = open_following(OWN), *other, *own;
    struct sluice_options options = options_of(OWN);

    (void)state;
    assert_int_equal(limit_of(one), 10); /* there is no version yet */
    assert_int_equal(stats_of(one).policy_version, 0);
    assert_int_equal(check_key(one, "key", 4).remaining, 6);
    push(POLICY("200"));
    wait_limit(one, 200);
    assert_int_equal(stats_of(one).policy_version, 1);
    wait_logged("version 1 of the policy by ann (more) is in force: 1 limits");
    assert_int_equal(check_key(one, "key", 0).remaining, 196); /* buckets keep their state */
    other = open_following(OWN);                               /* begins with it */
    assert_int_equal(limit_of(other), 200);
    assert_int_equal(check_key(other, "key", 1).remaining, 195);
    options.policy_source = SLUICE_POLICY_OWN;
    own = open_with(&options);
    assert_int_equal(limit_of(own), 10);
    wait_logged("is current on the store, and not taken");
    assert_int_equal(stats_of(own).policy_version, 0);
    push(POLICY("300"));
    wait_limit(one, 300);
    wait_limit(other, 300);
    assert_int_equal(limit_of(own), 10);
    sluice_close(&one);
    sluice_close(&other);
    sluice_close(&own);
}

static void an_instance_is_in_the_history(void **state)
{
    struct sluice *one = open_following(OWN);
    struct sluice_options options = options_of(OWN);
    struct sluice *own;

    (void)state;
    wait_history("\"version\":0");
    push(POLICY("200"));
    wait_limit(one, 200);
    wait_history("\"version\":1,");
    options.policy_source = SLUICE_POLICY_OWN;
    own = open_with(&options);
    wait_history("\"source\":\"file\"");
    sluice_close(&one);
    sluice_close(&own);
}

static void a_reload_is_refused_while_a_version_is_in_force(void **state)
{
    struct sluice *one = open_following(OWN), *own;
    struct sluice_options options = options_of(OWN);

    (void)state;
    assert_int_equal(sluice_reload_text(one, POLICY("20"), strlen(POLICY("20")), NULL, NULL, NULL), 0);
    assert_int_equal(limit_of(one), 20);
    push(POLICY("200"));
    wait_limit(one, 200);
    assert_int_equal(sluice_reload_text(one, POLICY("30"), strlen(POLICY("30")), NULL, NULL, NULL), SLUICE_EBUSY);
    assert_int_equal(sluice_reload_file(one, "/there/is/none", NULL, NULL), SLUICE_EBUSY);
    assert_int_equal(times_logged("version 1 of the store is in force, and the program's policy is not taken"), 2);
    assert_int_equal(limit_of(one), 200);
    options.policy_source = SLUICE_POLICY_OWN;
    own = open_with(&options);
    assert_int_equal(sluice_reload_text(own, POLICY("40"), strlen(POLICY("40")), NULL, NULL, NULL), 0);
    assert_int_equal(limit_of(own), 40);
    sluice_close(&one);
    sluice_close(&own);
}

static void a_broken_version_is_refused(void **state)
{
    struct sluice *one = open_following(OWN);

    (void)state;
    push(POLICY("200"));
    wait_limit(one, 200);
    push_raw(2, "version: 1\nlimits: [{name: a, rate: much}]\n");
    wait_logged("version 2 of the policy was not taken, and the policy in force stays: version 2:2:");
    assert_int_equal(limit_of(one), 200);
    assert_int_equal(stats_of(one).policy_version, 1);
    wait_history("\"refused\":2");
    push_raw(3, POLICY("300"));
    wait_limit(one, 300);
    assert_int_equal(times_logged("was not taken"), 1);
    sluice_close(&one);
}

/* The secret of a store that was flushed is another: then the version's text is compiled anew. */
static void a_version_outlives_its_store(void **state)
{
    struct sluice *one = open_following(OWN);

    (void)state;
    push("version: 1\ntiers: {default: free}\nlimits:\n  - {name: a, rate: 200/366d, algorithm: fixed_window,"
         " coordination: shared, tier: free}\n");
    wait_limit(one, 200);
    store_stop(&store);
    assert_int_equal(limit_of(one), 200);
    store_start(&store);
    for (int i = 0; i < 20000 && check_key(one, "key", 0).source != SLUICE_SHARED; i++)
        pause_ms();
    assert_int_equal(check_key(one, "key", 1).source, SLUICE_SHARED);
    assert_int_equal(limit_of(one), 200);
    assert_int_equal(stats_of(one).policy_version, 1);
    wait_logged("the store has no version of the policy any more: version 1 stays in force");
    push(POLICY("300"));
    wait_limit(one, 300);
    sluice_close(&one);
}

static void options_out_of_range(void **state)
{
    struct sluice_options options = options_of(OWN);
    struct sluice *limiter = NULL;
    char why[SLUICE_WHY_MAX];

    (void)state;
    options.policy_source = 2;
    assert_int_equal(sluice_open(&options, &limiter, why, sizeof why), SLUICE_EINVALID);
    assert_non_null(strstr(why, "policy_source"));
    options.policy_source = -1;
    assert_int_equal(sluice_open(&options, &limiter, why, sizeof why), SLUICE_EINVALID);
}

/* A policy that takes a while to compile: some thousand limits. */
static char *large_policy(unsigned n)
{
    size_t size = 64 + (size_t)n * 96, len;
    char *text = malloc(size);

    assert_non_null(text);
    len = (size_t)snprintf(text, size, "version: 1\nlimits:\n");
    for (unsigned i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, size - len, "  - {name: l%u, key: k%u, rate: %u/m, coordination: local}\n",
                                i, i, i + 1);
    return text;
}

/* Wherever the version is: being fetched, being compiled, just taken. */
static void closing_while_a_version_is_on_its_way(void **state)
{
    char *large = large_policy(4000);

    (void)state;
    push(large);
    for (unsigned i = 0; i < 12; i++) {
        struct sluice_options options = options_of(OWN);
        struct sluice *one;

        options.store_wait_ms = SLUICE_NO_WAIT;
        one = open_with(&options);
        nanosleep(&(struct timespec){.tv_nsec = (long)i * 4000000}, NULL);
        sluice_close(&one);
    }
    free(large);
}

static void decisions_go_on_while_versions_come(void **state)
{
    struct sluice *one = open_following(OWN);
    char *large = large_policy(2000);

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        push(i % 2 ? large : POLICY("200"));
        for (int n = 0; n < 20000 && stats_of(one).policy_version != i + 1; n++)
            assert_true(check_key(one, "other", 0).source != SLUICE_DEGRADED);
        assert_int_equal(stats_of(one).policy_version, i + 1);
    }
    assert_int_equal(stats_of(one).degraded, 0);
    free(large);
    sluice_close(&one);
}

static void a_child_closes_what_it_inherited(void **state)
{
    struct sluice *one = open_following(OWN);
    int status;
    pid_t child;

    (void)state;
    push(POLICY("200"));
    wait_limit(one, 200);
    child = fork();
    if (child == 0) {
        sluice_close(&one);
        _exit(one != NULL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    push(POLICY("300"));
    wait_limit(one, 300);
    sluice_close(&one);
}

/* Every allocation but the n-th: it opens or says why not, and leaves nothing behind. */
static void allocations_that_fail(void **state)
{
    (void)state;
    push("version: 1\ntiers: {keys: {k: free}}\nlimits: [{name: a, tier: free, rate: 200/h}]\n");
    for (uint64_t n = 1; n < 400; n += 7) {
        struct allocator allocator = {.fail_at = n};
        struct sluice_options options = options_of(OWN);
        struct sluice *one = NULL;

        options.realloc = counting_realloc;
        options.realloc_ctx = &allocator;
        options.store_wait_ms = 1;
        if (sluice_open(&options, &one, NULL, 0) == 0)
            sluice_close(&one);
        assert_null(one);
        assert_int_equal(allocator.outstanding, 0);
    }
}

/* ---- overrides */

static _Atomic uint64_t ahead_us;

static uint64_t clock_us(void *ctx)
{
    struct timespec now;

    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000 + ahead_us;
}

/* As `sluice override set` writes it; `until`: NULL, or a time. */
static void set_override(unsigned revision, const char *rate, const char *until)
{
    const char *ns = shared_options(&store, OWN).store_namespace;
    char record[512], end[64] = "null";

    if (until)
        snprintf(end, sizeof end, "\"%s\"", until);
    snprintf(record, sizeof record,
             "{\"key\":\"key\",\"keyType\":\"api_key\",\"limit\":null,\"rate\":\"%s\",\"burst\":null,\"until\":%s,"
             "\"author\":\"ann\",\"comment\":\"\",\"setUs\":1754000000000000}",
             rate, end);
    redis_run(store.server.c, "HSET %s:{fleet}:overrides %b %s", ns, "api_key\n\nkey", (size_t)12, record);
    redis_run(store.server.c, "SET %s:{fleet}:overrides:revision %s", ns,
              revision == 1   ? "1 0000000000000001"
              : revision == 2 ? "2 0000000000000002"
                              : "3 0000000000000003");
}

#define LOCAL "version: 1\nlimits:\n  - {name: a, rate: 10/m, coordination: local}\n"

/* One for a key counts here too, over the program's policy and over versions, over a reload, and until its time has come. */
static void overrides_are_followed(void **state)
{
    struct sluice_options options = options_of(LOCAL);
    struct sluice *one, *own;
    char until[40];
    time_t soon = time(NULL) + 3600;
    struct tm tm;

    (void)state;
    options.wall_us = options.mono_us = clock_us;
    one = open_with(&options);
    options.policy_source = SLUICE_POLICY_OWN;
    own = open_with(&options);
    assert_int_equal(limit_of(one), 10);
    set_override(1, "500/m", NULL);
    wait_limit(one, 500);
    wait_limit(own, 500);
    assert_int_equal(check_key(one, "other", 0).limit, 10);
    wait_logged("overrides of revision 1: 1, of which 1 have an effect here");
    assert_int_equal(sluice_reload_text(one, LOCAL "# anew\n", strlen(LOCAL "# anew\n"), NULL, NULL, NULL), 0);
    assert_int_equal(limit_of(one), 500);
    push("version: 1\nlimits:\n  - {name: a, rate: 20/m, coordination: local}\n");
    for (int i = 0; i < 20000 && check_key(one, "other", 0).limit != 20; i++)
        pause_ms();
    assert_int_equal(check_key(one, "other", 0).limit, 20);
    assert_int_equal(limit_of(one), 500);
    assert_non_null(gmtime_r(&soon, &tm));
    strftime(until, sizeof until, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
    set_override(2, "600/m", until);
    wait_limit(one, 600);
    ahead_us += 3700 * UINT64_C(1000000);
    wait_limit(one, 20);
    wait_limit(own, 10);
    sluice_close(&one);
    sluice_close(&own);
}

/* `tiers.keys_store`: the near part of the library's decisions runs on the program's threads. */
static void tiers_of_keys_in_the_store(void **state)
{
    static const char policy[] = "version: 1\ntiers: {default: free, keys_store: true}\nlimits:\n"
                                 "  - {name: free, tier: free, rate: 10/m, coordination: local}\n"
                                 "  - {name: gold, tier: gold, rate: 1000/m, coordination: local}\n";
    const char *ns = shared_options(&store, OWN).store_namespace;
    struct sluice *one;

    (void)state;
    redis_run(store.server.c, "HSET %s:{keys} key gold", ns);
    one = open_following(policy);
    assert_int_equal(limit_of(one), 10);
    wait_limit(one, 1000);
    assert_int_equal(check_key(one, "other", 0).limit, 10);
    sluice_close(&one);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_stores_version_wins),
        TEST(an_instance_is_in_the_history),
        TEST(a_reload_is_refused_while_a_version_is_in_force),
        TEST(a_broken_version_is_refused),
        TEST(a_version_outlives_its_store),
        TEST(options_out_of_range),
        TEST(closing_while_a_version_is_on_its_way),
        TEST(decisions_go_on_while_versions_come),
        TEST(a_child_closes_what_it_inherited),
        TEST(allocations_that_fail),
        TEST(overrides_are_followed),
        TEST(tiers_of_keys_in_the_store),
    };

    return cmocka_run_group_tests(tests, start_store, end_store);
}
