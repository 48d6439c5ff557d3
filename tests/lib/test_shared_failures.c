/* The public API when the store is late, silent, gone; when the limiter is closed or reloaded meanwhile; at its
 * bounds. */
#include "store.h"

#include <dirent.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DAY_TEN "version: 1\nlimits:\n  - {name: ten, rate: 10/d, coordination: shared}\n"
#define DAY_THOUSAND "version: 1\nlimits:\n  - {name: thousand, rate: 1000/d, coordination: shared}\n"
#define MODES                                                                   \
    "version: 1\ndefaults: {coordination: shared}\nlimits:\n"                   \
    "  - {name: local, rate: 1000/d, endpoint: l, on_store_failure: local}\n"   \
    "  - {name: open, rate: 1000/d, endpoint: o, on_store_failure: open}\n"     \
    "  - {name: closed, rate: 1000/d, endpoint: c, on_store_failure: closed}\n" \
    "endpoints: {l: {match: [local]}, o: {match: [open]}, c: {match: [closed]}}\n"

static struct store store;

static int fresh_store(void **state)
{
    (void)state;
    next_namespace();
    store_open(&store);
    return 0;
}

static int end_store(void **state)
{
    (void)state;
    store_close(&store);
    return 0;
}

static struct sluice_verdict check_scope(struct sluice *limiter, const char *scope)
{
    struct sluice_request request = request_of("one", 1);
    struct sluice_verdict verdict;

    request.scope = scope;
    request.scope_len = strlen(scope);
    assert_int_equal(sluice_check(limiter, &request, &verdict), 0);
    return verdict;
}

/* What the operator sees is the store's failure, not the caller's fault: neither a plain 429, nor a silent yes. */
static void expect_modes(struct sluice *limiter)
{
    struct sluice_verdict local = check_scope(limiter, "local"), open = check_scope(limiter, "open"),
                          closed = check_scope(limiter, "closed");

    assert_true(local.allowed);
    assert_int_equal(local.source, SLUICE_DEGRADED);
    assert_int_equal(local.limit, 1000);
    assert_true(open.allowed);
    assert_int_equal(open.source, SLUICE_DEGRADED);
    assert_int_equal(open.remaining, -1);
    assert_false(closed.allowed);
    assert_int_equal(closed.source, SLUICE_DEGRADED);
    assert_int_equal(closed.reason, SLUICE_REASON_STORE_UNAVAILABLE);
    assert_true(closed.retry_after_ms >= 1000);
}

struct lines {
    pthread_mutex_t lock;
    unsigned n[3];
    char last[3][SLUICE_WHY_MAX];
};

static void keep_line(void *ctx, int level, const char *message)
{
    struct lines *lines = ctx;

    pthread_mutex_lock(&lines->lock);
    lines->n[level]++;
    snprintf(lines->last[level], sizeof lines->last[level], "%s", message);
    pthread_mutex_unlock(&lines->lock);
}

/* What changes twice in a second is told a little later. */
static void wait_for_line(struct lines *lines, int level)
{
    bool there = false;

    for (int i = 0; i < 20000 && !there; i++) {
        usleep(1000);
        pthread_mutex_lock(&lines->lock);
        there = lines->n[level] > 0;
        pthread_mutex_unlock(&lines->lock);
    }
    assert_true(there);
}

/* Opening does not fail, nor wait longer than it was told; what the store misses is decided by the failure modes; when
 * it comes, it decides. */
static void b181_a_store_that_is_late_is_no_failure(void **state)
{
    struct sluice_options options;
    struct sluice *limiter;
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};

    (void)state;
    store_stop(&store);
    options = shared_options(&store, MODES);
    options.log = keep_line;
    options.log_ctx = &lines;
    options.store_wait_ms = 30;
    limiter = open_with(&options);
    pthread_mutex_lock(&lines.lock);
    assert_true(lines.n[SLUICE_LOG_WARNING] > 0);
    assert_non_null(strstr(lines.last[SLUICE_LOG_WARNING], "not reached within 30 ms"));
    pthread_mutex_unlock(&lines.lock);
    expect_modes(limiter);
    assert_int_equal(stats_of(limiter).store_reached, 0);
    store_start(&store);
    wait_reached(limiter, true);
    assert_int_equal(check_scope(limiter, "closed").source, SLUICE_SHARED);
    sluice_close(&limiter);
}

static void opening_need_not_wait(void **state)
{
    struct sluice_options options;
    struct sluice *limiter;

    (void)state;
    store_freeze(&store);
    options = shared_options(&store, MODES);
    options.store_wait_ms = SLUICE_NO_WAIT;
    limiter = open_with(&options);
    expect_modes(limiter);
    sluice_close(&limiter); /* nor does closing need the store */
    store_thaw(&store);
}

static void find_closed(void *ctx, const struct sluice_limit_count *count)
{
    if (strcmp(count->policy, "closed") == 0)
        *(struct sluice_limit_count *)ctx = *count;
}

static void b134_b135_b128_a_store_that_dies_is_told_as_such(void **state)
{
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct sluice_options options = shared_options(&store, MODES);
    struct sluice_limit_count closed = {.policy = NULL};
    struct sluice *limiter;

    (void)state;
    options.log = keep_line;
    options.log_ctx = &lines;
    limiter = open_with(&options);
    wait_reached(limiter, true);
    assert_int_equal(check_scope(limiter, "closed").source, SLUICE_SHARED);
    store_stop(&store);
    wait_reached(limiter, false);
    expect_modes(limiter);
    assert_true(stats_of(limiter).degraded >= 3);
    assert_int_equal(sluice_limit_counts(limiter, find_closed, &closed), 0);
    assert_int_equal(closed.shared_allowed, 1);
    assert_int_equal(closed.degraded_rejected, 1);
    wait_for_line(&lines, SLUICE_LOG_ERROR);
    store_start(&store);
    wait_reached(limiter, true);
    assert_int_equal(check_scope(limiter, "closed").source, SLUICE_SHARED);
    sluice_close(&limiter);
}

/* Silence, under load: every wait ends, and once the breaker is open nobody waits any more. */
static void waits_end_when_the_store_is_silent(void **state)
{
    struct sluice_options options = shared_options(&store, MODES);
    struct sluice *limiter;

    (void)state;
    options.timeout_us = 20000;
    limiter = open_with(&options);
    store_freeze(&store);
    for (int i = 0; i < 200; i++) {
        struct sluice_verdict verdict = check_scope(limiter, i % 2 ? "open" : "closed");

        assert_int_equal(verdict.allowed, i % 2 == 1);
        assert_int_equal(verdict.source, SLUICE_DEGRADED);
    }
    assert_int_not_equal(stats_of(limiter).store_breaker, 0);
    store_thaw(&store);
    for (int i = 0; i < 20000 && check_scope(limiter, "open").source != SLUICE_SHARED; i++)
        usleep(1000);
    assert_int_equal(stats_of(limiter).store_breaker, 0);
    sluice_close(&limiter);
}

static void a_silent_store_cannot_be_looked_into(void **state)
{
    struct sluice_options options = shared_options(&store, DAY_TEN);
    struct sluice_request request = request_of("one", 1);
    struct sluice *limiter;
    size_t n = 99;

    (void)state;
    options.timeout_us = 20000;
    limiter = open_with(&options);
    store_freeze(&store);
    assert_int_equal(sluice_inspect(limiter, &request, NULL, NULL, &n), SLUICE_EIO);
    assert_int_equal(sluice_reset(limiter, &request, &n), SLUICE_EIO);
    assert_int_equal(n, 99);
    store_thaw(&store);
    sluice_close(&limiter);
}

/* ---- pending */

static void begin_all(struct sluice *limiter, struct later *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        begin_later(limiter, i % 2 ? "one" : "two", &list[i]);
}

static void closing_ends_what_is_pending_each_once(void **state)
{
    struct sluice *limiter = open_shared(&store, DAY_THOUSAND);
    static struct later list[100];
    static struct sluice_verdict verdicts[50];
    struct sluice_options brief = shared_options(&store, DAY_THOUSAND);
    struct sluice *other;

    (void)state;
    brief.timeout_us = 50000;
    other = open_with(&brief);
    store_freeze(&store);
    begin_all(other, list, 100);
    for (int i = 0; i < 50; i++) { /* never taken */
        struct sluice_request request = request_of("three", 1);

        sluice_check_queued(other, &request, &verdicts[i], NULL);
    }
    sluice_close(&other);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(atomic_load(&list[i].done), list[i].result == SLUICE_PENDING);
        assert_int_equal(list[i].verdict.source, SLUICE_DEGRADED);
    }
    store_thaw(&store);
    assert_int_equal(check_key(limiter, "four", 1).source, SLUICE_SHARED);
    sluice_close(&limiter);
}

static void a_reload_leaves_what_is_pending_alone(void **state)
{
    static const char twenty[] = "version: 1\nlimits:\n  - {name: ten, rate: 10/d, burst: 20, coordination: shared}\n";
    struct sluice *limiter = open_shared(&store, DAY_TEN);
    static struct later list[12];
    unsigned allowed = 0;

    (void)state;
    store_freeze(&store);
    for (int i = 0; i < 12; i++)
        begin_later(limiter, "one", &list[i]);
    for (int i = 0; i < 5; i++)
        assert_int_equal(sluice_reload_text(limiter, twenty, strlen(twenty), NULL, NULL, NULL), 0);
    assert_int_equal(stats_of(limiter).reloads, 5);
    store_thaw(&store);
    wait_later(list, 12);
    for (int i = 0; i < 12; i++) {
        allowed += list[i].verdict.allowed;
        assert_int_equal(list[i].verdict.source, SLUICE_SHARED);
        assert_int_equal(list[i].verdict.limit, 10);
    }
    assert_int_equal(allowed, 10);
    assert_int_equal(check_key(limiter, "one", 1).remaining, 9);
    sluice_close(&limiter);
}

static void one_too_many_is_degraded_at_once(void **state)
{
    struct sluice_options options = shared_options(&store, DAY_TEN);
    struct later *list = calloc(SLUICE_PENDING_MAX + 1, sizeof *list), extra;
    struct sluice *limiter;
    unsigned pending = 0;

    (void)state;
    assert_non_null(list);
    options.timeout_us = 60000000;
    limiter = open_with(&options);
    store_freeze(&store);
    for (unsigned i = 0; i < SLUICE_PENDING_MAX; i++) {
        char key[24];

        snprintf(key, sizeof key, "k%u", i);
        begin_later(limiter, key, &list[i]);
        pending += list[i].result == SLUICE_PENDING;
    }
    assert_int_equal(pending, SLUICE_PENDING_MAX);
    assert_int_equal(stats_of(limiter).pending, SLUICE_PENDING_MAX);
    begin_later(limiter, "extra", &extra);
    assert_int_equal(extra.result, SLUICE_OK);
    assert_int_equal(extra.verdict.source, SLUICE_DEGRADED);
    assert_int_equal(check_key(limiter, "extra", 1).source, SLUICE_DEGRADED);
    assert_int_equal(stats_of(limiter).pending_full, 2);
    store_thaw(&store);
    wait_later(list, SLUICE_PENDING_MAX);
    assert_int_equal(stats_of(limiter).pending, 0);
    assert_int_equal(check_key(limiter, "extra", 1).source, SLUICE_SHARED);
    sluice_close(&limiter);
    free(list);
}

/* ---- a callback that does not return */

struct stuck {
    sem_t entered, leave;
};

static void be_stuck(void *ctx)
{
    struct stuck *stuck = ctx;

    sem_post(&stuck->entered);
    sem_wait(&stuck->leave);
}

static void a_stuck_callback_does_not_keep_others_for_ever(void **state)
{
    struct sluice_options options = shared_options(&store, DAY_TEN);
    struct sluice_request request = request_of("one", 1), batch[20];
    struct sluice_verdict verdict, verdicts[20];
    struct sluice *limiter;
    struct stuck stuck;

    (void)state;
    options.timeout_us = 50000;
    limiter = open_with(&options);
    sem_init(&stuck.entered, 0, 0);
    sem_init(&stuck.leave, 0, 0);
    assert_int_equal(sluice_check_async(limiter, &request, &verdict, be_stuck, &stuck), SLUICE_PENDING);
    sem_wait(&stuck.entered);
    assert_int_equal(check_key(limiter, "two", 1).source, SLUICE_DEGRADED);
    for (int i = 0; i < 20; i++)
        batch[i] = request_of("three", 1);
    assert_int_equal(sluice_check_batch(limiter, batch, 20, verdicts, NULL), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_not_equal(verdicts[i].source, SLUICE_SHARED);
        assert_int_equal(verdicts[i].allowed, i < 10);
    }
    sem_post(&stuck.leave);
    for (int i = 0; i < 20000 && check_key(limiter, "four", 0).source != SLUICE_SHARED; i++)
        usleep(1000);
    assert_int_equal(check_key(limiter, "four", 0).source, SLUICE_SHARED);
    sluice_close(&limiter);
    sem_destroy(&stuck.entered);
    sem_destroy(&stuck.leave);
}

/* ---- a name that is not resolved in time */

static sem_t resolving, resolved;

/* In place of the system's: it hangs, as when no name server answers, and then fails. */
__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *service,
                                                       const struct addrinfo *hints, struct addrinfo **ret_list)
{
    (void)host;
    (void)service;
    (void)hints;
    (void)ret_list;
    sem_post(&resolving);
    sem_wait(&resolved);
    return EAI_NONAME;
}

/* The thread of that name; 0: there is none. */
static pid_t thread_named(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    pid_t thread = 0;

    assert_non_null(tasks);
    for (struct dirent *e; thread == 0 && (e = readdir(tasks));) {
        char path[300], comm[32] = "";
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        file = fopen(path, "r");
        if (!file)
            continue;
        if (fgets(comm, sizeof comm, file) && strcmp(strtok(comm, "\n"), name) == 0)
            thread = (pid_t)strtol(e->d_name, NULL, 10);
        fclose(file);
    }
    closedir(tasks);
    return thread;
}

static bool runs(pid_t thread)
{
    return syscall(SYS_tgkill, getpid(), thread, 0) == 0;
}

/* The resolver cannot be interrupted: closing leaves it behind, with a thread that ends by itself when it is done. */
static void closing_does_not_wait_for_a_resolver(void **state)
{
    struct sluice_options options = shared_options(&store, DAY_TEN);
    struct sluice *limiter;
    pid_t thread = 0;

    (void)state;
    sem_init(&resolving, 0, 0);
    sem_init(&resolved, 0, 0);
    options.store = "redis://no-such-host.test";
    options.store_wait_ms = SLUICE_NO_WAIT;
    options.timeout_us = 10000;
    limiter = open_with(&options);
    sem_wait(&resolving);
    for (int i = 0; i < 20000 && thread == 0; i++) {
        usleep(1000);
        thread = thread_named("sluice");
    }
    assert_true(thread > 0);
    assert_int_equal(check_key(limiter, "one", 1).source, SLUICE_DEGRADED);
    sluice_close(&limiter);
    assert_true(runs(thread));
    for (int i = 0; i < 16; i++)
        sem_post(&resolved);
    for (int i = 0; i < 20000 && runs(thread); i++)
        usleep(1000);
    assert_false(runs(thread));
}

/* ---- what the thread keeps away from */

static void note_signal(int number)
{
    (void)number;
}

/* A program's signals are its own threads': the background thread takes none, and none is left ignored. */
static void signals_are_the_programs(void **state)
{
    struct sigaction note = {.sa_handler = note_signal}, before, after;
    struct sluice *limiter;
    sigset_t mask_before, mask_after, pending;

    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &note, NULL), 0);
    assert_int_equal(sigaction(SIGPIPE, NULL, &before), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    limiter = open_shared(&store, DAY_TEN);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    for (int number = 1; number < NSIG; number++)
        assert_int_equal(sigismember(&mask_before, number), sigismember(&mask_after, number));
    assert_int_equal(sigaction(SIGPIPE, NULL, &after), 0);
    assert_ptr_equal(before.sa_handler, after.sa_handler);

    sigset_t usr1;

    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL); /* nobody is left to take it */
    kill(getpid(), SIGUSR1);
    check_key(limiter, "one", 1);
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGUSR1));
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);

    store_stop(&store); /* and writing to a store that is gone kills nobody */
    for (int i = 0; i < 20; i++)
        check_key(limiter, "one", 1);
    sluice_close(&limiter);
    signal(SIGUSR1, SIG_DFL);
}

/* Lets allocation n and all after it fail, on whatever thread: opening fails cleanly or works degraded, and nothing is
 * left. */
static void failed_allocations_are_clean_errors(void **state)
{
    struct sluice_options options = shared_options(&store, DAY_TEN);
    unsigned opened = 0;

    (void)state;
    options.store_wait_ms = 1;
    for (uint64_t n = 1; n < 400 && opened < 25; n++) {
        struct allocator allocator = {.fail_at = n};
        struct sluice *limiter = NULL;
        int err;

        options.realloc = counting_realloc;
        options.realloc_ctx = &allocator;
        err = sluice_open(&options, &limiter, NULL, 0);
        assert_true(err == 0 || err == SLUICE_ENOMEM);
        if (err == 0) {
            struct sluice_request request = request_of("one", 1);
            struct later later;

            opened++;
            check_key(limiter, "one", 1);
            begin_later(limiter, "two", &later);
            sluice_reload_text(limiter, DAY_TEN, strlen(DAY_TEN), NULL, NULL, NULL);
            sluice_inspect(limiter, &request, NULL, NULL, NULL);
            sluice_close(&limiter);
            assert_int_equal(atomic_load(&later.done), later.result == SLUICE_PENDING);
        }
        assert_int_equal(__atomic_load_n(&allocator.outstanding, __ATOMIC_RELAXED), 0);
    }
    assert_true(opened > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh_store, end_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(b181_a_store_that_is_late_is_no_failure),
        TEST(opening_need_not_wait),
        TEST(b134_b135_b128_a_store_that_dies_is_told_as_such),
        TEST(waits_end_when_the_store_is_silent),
        TEST(a_silent_store_cannot_be_looked_into),
        TEST(closing_ends_what_is_pending_each_once),
        TEST(a_reload_leaves_what_is_pending_alone),
        TEST(one_too_many_is_degraded_at_once),
        TEST(a_stuck_callback_does_not_keep_others_for_ever),
        TEST(closing_does_not_wait_for_a_resolver),
        TEST(signals_are_the_programs),
        TEST(failed_allocations_are_clean_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
