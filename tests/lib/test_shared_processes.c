/* Many processes, many threads and forks on one shared limit: they admit exactly the limit, as daemons do. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 8
#define THREADS 8
#define REQUESTS 50 /* a process or thread: 400 for a limit of 100 */

static struct store store;

static const char *const algorithms[] = {"token_bucket", "leaky_bucket", "fixed_window", "sliding_window_log",
                                         "sliding_window_counter"};

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
    return 0;
}

/* What came of a number of requests. */
struct tally {
    unsigned admitted, rejected, degraded, failed;
};

static void add(struct tally *tally, int result, const struct sluice_verdict *verdict)
{
    if (result != 0)
        tally->failed++;
    else if (verdict->source == SLUICE_DEGRADED)
        tally->degraded++;
    else if (verdict->allowed)
        tally->admitted++;
    else
        tally->rejected++;
}

static struct tally fire(struct sluice *limiter, unsigned n)
{
    struct tally tally = {.admitted = 0};

    for (unsigned i = 0; i < n; i++) {
        struct sluice_request request = request_of("one", 1);
        struct sluice_verdict verdict;
        int result = sluice_check(limiter, &request, &verdict);

        add(&tally, result, &verdict);
    }
    return tally;
}

static void expect_exactly(const struct tally *tallies, unsigned n, unsigned limit)
{
    struct tally sum = {.admitted = 0};

    for (unsigned i = 0; i < n; i++) {
        sum.admitted += tallies[i].admitted;
        sum.rejected += tallies[i].rejected;
        sum.degraded += tallies[i].degraded;
        sum.failed += tallies[i].failed;
    }
    assert_int_equal(sum.failed, 0);
    assert_int_equal(sum.degraded, 0);
    assert_int_equal(sum.admitted, limit);
    assert_int_equal(sum.rejected, n * REQUESTS - limit);
}

/* ---- processes: this program again, with the words URL NAMESPACE POLICY */

/* Opens, tells that it is ready, waits for the start, fires, tells what came of it. */
static int be_a_process(const char *url, const char *ns, const char *yaml)
{
    struct store there = {.runs = false};
    struct sluice_options options = shared_options(&there, yaml);
    struct sluice *limiter;
    struct tally tally;
    char go = 'r';

    options.store = url;
    options.store_namespace = ns;
    if (sluice_open(&options, &limiter, NULL, 0) != 0 || write(STDOUT_FILENO, &go, 1) != 1 ||
        read(STDIN_FILENO, &go, 1) < 0)
        return 1;
    tally = fire(limiter, REQUESTS);
    sluice_close(&limiter);
    return write(STDOUT_FILENO, &tally, sizeof tally) == sizeof tally ? 0 : 1;
}

static pid_t start_process(const struct sluice_options *options, int start, int results)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        dup2(start, STDIN_FILENO);
        dup2(results, STDOUT_FILENO);
        execl("/proc/self/exe", "test", options->store, options->store_namespace, options->policy_text, NULL);
        _exit(127);
    }
    return child;
}

static void read_all(int fd, void *bytes, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t more = read(fd, (char *)bytes + got, n - got);

        if (more < 0 && errno == EINTR)
            continue;
        assert_true(more > 0);
        got += (size_t)more;
    }
}

static void fire_in_processes(const char *yaml, unsigned limit)
{
    struct sluice_options options = shared_options(&store, yaml);
    struct tally tallies[PROCESSES];
    pid_t children[PROCESSES];
    char ready[PROCESSES];
    int start[2], results[2], status;

    assert_int_equal(pipe2(start, O_CLOEXEC), 0);
    assert_int_equal(pipe2(results, O_CLOEXEC), 0);
    for (int i = 0; i < PROCESSES; i++)
        children[i] = start_process(&options, start[0], results[1]);
    read_all(results[0], ready, sizeof ready);
    close(start[1]); /* they all read the end of it at once */
    read_all(results[0], tallies, sizeof tallies);
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    close(start[0]);
    close(results[0]);
    close(results[1]);
    expect_exactly(tallies, PROCESSES, limit);
}

/* Read, then increment: more than the limit passed. */
static void b109_eight_processes_admit_exactly_the_limit(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        char yaml[200];

        next_namespace();
        snprintf(yaml, sizeof yaml,
                 "version: 1\nlimits:\n  - {name: hundred, algorithm: %s, rate: 100/300d, coordination: shared}\n",
                 algorithms[i]);
        fire_in_processes(yaml, 100);
    }
}

static void b109_the_same_behind_several_rates_and_layers(void **state)
{
    (void)state;
    fire_in_processes("version: 1\ndefaults: {coordination: shared}\nlimits:\n"
                      "  - {name: mine, rates: [300/d, 100/300d]}\n"
                      "  - {name: all, layer: all, per: [], rate: 200/300d}\n",
                      100);
}

/* ---- threads */

struct worker {
    struct sluice *limiter;
    struct tally tally;
    pthread_t thread;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    w->tally = fire(w->limiter, REQUESTS);
    return NULL;
}

static void b109_eight_threads_admit_exactly_the_limit(void **state)
{
    struct sluice *limiter =
        open_shared(&store, "version: 1\nlimits:\n  - {name: hundred, rate: 100/300d, coordination: shared}\n");
    struct worker workers[THREADS];
    struct tally tallies[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        workers[i].limiter = limiter;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        tallies[i] = workers[i].tally;
    }
    expect_exactly(tallies, THREADS, 100);
    sluice_close(&limiter);
}

/* All ways of asking at once, with reloads in between, on leased and shared limits. */
struct mixer {
    struct sluice *limiter;
    pthread_t thread;
    unsigned seed;
    struct later later[40];
};

#define MIXED                                                                        \
    "version: 1\nlimits:\n"                                                          \
    "  - {name: leased, rate: 100000/d, coordination: leased, lease: {block: 50}}\n" \
    "  - {name: all, layer: all, per: [], rate: 1000000/d, coordination: shared}\n"

static void *mix(void *arg)
{
    struct mixer *m = arg;
    struct sluice_request batch[8];
    struct sluice_verdict verdicts[8];

    for (unsigned i = 0; i < 40; i++) {
        char key[8];

        snprintf(key, sizeof key, "k%u", (m->seed + i) % 3);
        begin_later(m->limiter, key, &m->later[i]);
        for (unsigned k = 0; k < 8; k++)
            batch[k] = request_of(key, 1);
        if (sluice_check_batch(m->limiter, batch, 8, verdicts, NULL) != 0)
            abort();
        if (i % 8 == m->seed % 8 && sluice_reload_text(m->limiter, MIXED, strlen(MIXED), NULL, NULL, NULL) != 0)
            abort();
        if (i % 8 == 3 && sluice_inspect(m->limiter, &batch[0], NULL, NULL, NULL) != 0)
            abort();
        stats_of(m->limiter);
    }
    return NULL;
}

static void threads_may_do_anything_at_once(void **state)
{
    struct sluice *limiter = open_shared(&store, MIXED);
    static struct mixer mixers[4];

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        mixers[i] = (struct mixer){.limiter = limiter, .seed = i};
        assert_int_equal(pthread_create(&mixers[i].thread, NULL, mix, &mixers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(mixers[i].thread, NULL);
        wait_later(mixers[i].later, 40);
    }
    struct sluice_stats stats = stats_of(limiter);

    assert_int_equal(stats.allowed + stats.rejected, 4 * 40 * 9);
    assert_int_equal(stats.rejected, 0);
    assert_int_equal(stats.pending, 0);
    sluice_close(&limiter);
}

/* ---- fork */

/* A child under ThreadSanitizer cannot start threads: there it only closes. */
#if defined(__SANITIZE_THREAD__)
#define CHILD_OPENS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILD_OPENS 0
#endif
#endif
#ifndef CHILD_OPENS
#define CHILD_OPENS 1
#endif

#define TEN "version: 1\nlimits:\n  - {name: ten, rate: 10/300d, coordination: shared}\n"

static unsigned connections_received(void)
{
    redisReply *reply = redis_do(store.server.c, "INFO stats");
    const char *at = strstr(reply->str, "total_connections_received:");
    unsigned n = at ? (unsigned)strtoul(strchr(at, ':') + 1, NULL, 10) : 0;

    freeReplyObject(reply);
    return n;
}

/* The child closes what it inherited, and opens and uses one of its own. */
static int be_a_child(struct sluice **inherited)
{
    struct sluice_options options = shared_options(&store, TEN);
    struct sluice *mine;
    int result;

    sluice_close(inherited);
    if (!CHILD_OPENS)
        return *inherited != NULL;
    if (*inherited || sluice_open(&options, &mine, NULL, 0) != 0)
        return 1;
    result = fire(mine, 1).admitted == 1 ? 0 : 2;
    sluice_close(&mine);
    return result;
}

static void a_forked_child_leaves_the_parents_limiter_alone(void **state)
{
    struct sluice *limiter = open_shared(&store, TEN);
    unsigned before, children = 3;
    struct later pending[3];
    int status;

    (void)state;
    wait_reached(limiter, true);
    assert_int_equal(fire(limiter, 1).admitted, 1);
    before = connections_received();
    for (unsigned i = 0; i < children; i++) {
        begin_later(limiter, "other", &pending[i]); /* under way while it forks */
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            _exit(be_a_child(&limiter));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    wait_later(pending, children);
    for (unsigned i = 0; i < children; i++)
        assert_int_equal(pending[i].verdict.source, SLUICE_SHARED);
    /* Two connections for each child's own limiter (decisions and versions); the parent's were not lost, nor did anybody say goodbye in its
     * name. */
    assert_int_equal(connections_received() - before, CHILD_OPENS * 2 * children);
    assert_int_equal(check_key(limiter, "one", 0).remaining, 9 - CHILD_OPENS * children);
    assert_int_equal(fire(limiter, 6).admitted, 6);
    check_key(limiter, "one", 3 - CHILD_OPENS * children);
    assert_int_equal(fire(limiter, 1).rejected, 1);
    assert_int_equal(stats_of(limiter).degraded, 0);
    assert_int_equal(stats_of(limiter).store_reached, 1);
    sluice_close(&limiter);
}

/* Leased tokens are the parent's: a child that closes its copy must not give them back. */
static void a_forked_child_returns_no_leases(void **state)
{
    static const char yaml[] = "version: 1\nlimits:\n  - {name: l, rate: 1000/300d, coordination: leased, "
                               "lease: {block: 100, ttl: 60s}}\n";
    struct sluice *limiter = open_shared(&store, yaml), *after;
    unsigned spent = 0;
    int status;

    (void)state;
    for (int i = 0; i < 100000 && stats_of(limiter).leased < 20; i++)
        spent += check_key(limiter, "one", 1).allowed;
    assert_true(stats_of(limiter).leases >= 1);
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        sluice_close(&limiter);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    sluice_close(&limiter);
    after = open_shared(&store, "version: 1\nlimits:\n  - {name: l, rate: 1000/300d, coordination: shared}\n");
    assert_int_equal(check_key(after, "one", 0).remaining, 1000 - spent);
    sluice_close(&after);
}

/* A child that uses what it inherited against the rule is not left hanging. */
static void a_forked_child_does_not_hang(void **state)
{
    struct sluice *limiter = open_shared(&store, TEN);
    struct sluice_request request = request_of("one", 1);
    int status;

    (void)state;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct tally tally = fire(limiter, 3);

        if (tally.degraded != 3 || sluice_inspect(limiter, &request, NULL, NULL, NULL) != SLUICE_EIO)
            _exit(1);
        sluice_close(&limiter);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(fire(limiter, 10).admitted, 10);
    sluice_close(&limiter);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(b109_eight_processes_admit_exactly_the_limit),
        TEST(b109_the_same_behind_several_rates_and_layers),
        TEST(b109_eight_threads_admit_exactly_the_limit),
        TEST(threads_may_do_anything_at_once),
        TEST(a_forked_child_leaves_the_parents_limiter_alone),
        TEST(a_forked_child_returns_no_leases),
        TEST(a_forked_child_does_not_hang),
    };

    if (argc == 4)
        return be_a_process(argv[1], argv[2], argv[3]);
    return cmocka_run_group_tests(tests, start_store, end_store);
}
