#include "kit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct sl_shape kit_shape(enum sl_algorithm algorithm, const char *text, uint32_t burst)
{
    struct sl_rate rate;
    struct sl_shape shape = {0};
    const char *why = "";

    if (sl_rate_parse(text, strlen(text), &rate, &why) || sl_shape_init(&shape, algorithm, &rate, burst, &why))
        fail_msg("%s: %s", text, why);
    return shape;
}

struct sl_hash128 kit_key(uint64_t domain, uint64_t number)
{
    return sl_hash13((struct sl_secret){1, 2}, (uint64_t[2]){domain, number}, 16);
}

struct sl_table *kit_open(const char *path, uint64_t keys, uint64_t log_entries, const uint64_t *now_us)
{
    struct sl_table_options o = sl_table_defaults();
    struct sl_table *t = NULL;
    char why[300];

    o.keys = keys;
    o.log_entries = log_entries;
    o.path = path;
    if (now_us)
        o.clock = sl_clock_manual(now_us);
    if (sl_table_open(&o, &t, why, sizeof why))
        fail_msg("%s", why);
    return t;
}

const char *kit_path(void)
{
    const char *tmp = getenv("TMPDIR");
    char folder[300], *path = malloc(320);

    snprintf(folder, sizeof folder, "%s/sluice-table-XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    if (!path)
        abort();
    if (!mkdtemp(folder))
        fail_msg("%s: %s", folder, strerror(errno));
    snprintf(path, 320, "%s/table", folder);
    return path;
}

void kit_forget(const char *path)
{
    char *folder = strdup(path);

    unlink(path);
    *strrchr(folder, '/') = 0;
    rmdir(folder);
    free(folder);
    free((void *)(uintptr_t)path);
}

bool kit_charge_at(struct sl_table *t, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                   uint32_t cost)
{
    struct sl_decision d;

    sl_table_charge(t, fp, shape, now_us, cost, &d);
    return d.allowed;
}

bool kit_charge(struct sl_table *t, struct sl_hash128 fp, const struct sl_shape *shape, uint32_t cost)
{
    return kit_charge_at(t, fp, shape, sl_table_now(t), cost);
}

uint32_t kit_remaining(struct sl_table *t, struct sl_hash128 fp, const struct sl_shape *shape)
{
    struct sl_decision d;

    sl_table_look(t, fp, shape, sl_table_now(t), 0, &d);
    return sl_decision_remaining(shape, &d);
}

struct sl_table_stats kit_stats(struct sl_table *t)
{
    struct sl_table_stats stats;

    sl_table_scan(t, UINT64_MAX);
    sl_table_stats(t, &stats);
    return stats;
}

unsigned kit_count_slots(const struct sl_table *t, struct sl_hash128 fp, bool claims)
{
    unsigned n = 0;

    for (uint64_t g = 0; g < t->n_groups; g++) {
        for (unsigned i = 0; i < SL_GROUP_SLOTS; i++) {
            struct sl_state s = sl_state_load(&t->groups[g].states[i]);

            if (sl_state_is_claim(s))
                n += claims && s.hi == fp.a;
            else
                n += !claims && sl_load(&t->groups[g].tags[i]) == fp.a;
        }
    }
    return n;
}

struct start {
    void (*fn)(void *ctx, unsigned i);
    void *ctx;
    unsigned i;
    pthread_barrier_t *barrier;
};

static void *run(void *arg)
{
    struct start *s = arg;

    pthread_barrier_wait(s->barrier);
    s->fn(s->ctx, s->i);
    return NULL;
}

void kit_threads(unsigned n, void (*fn)(void *ctx, unsigned i), void *ctx)
{
    pthread_t threads[256];
    struct start starts[256];
    pthread_barrier_t barrier;

    assert_true(n <= 256);
    pthread_barrier_init(&barrier, NULL, n);
    for (unsigned i = 0; i < n; i++) {
        starts[i] = (struct start){.fn = fn, .ctx = ctx, .i = i, .barrier = &barrier};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &starts[i]), 0);
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

pid_t kit_fork(void (*fn)(void *ctx), void *ctx)
{
    pid_t pid = fork();

    if (pid == 0) {
        fn(ctx);
        _exit(0);
    }
    assert_true(pid > 0);
    return pid;
}

bool kit_reap(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

uint64_t kit_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

unsigned kit_n_threads(void)
{
    const char *text = getenv("SLUICE_TEST_THREADS");
    long n = text ? strtol(text, NULL, 10) : 64;

    return n >= 1 && n <= 256 ? (unsigned)n : 64;
}
