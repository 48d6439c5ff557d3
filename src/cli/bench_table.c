/* `sluice bench table`: the local tier's memory alone, without policy or verdicts. */
#include "cli/bench.h"

#include "base/hash.h"
#include "core/limits.h"
#include "table/table.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 16
#define THREADS_MAX 64

struct table_values {
    struct cli_common common;
    uint64_t keys, rounds, ms, threads;
    char *file;
};

/* What one thread works with. */
struct user {
    struct sl_table *table;
    struct sl_secret secret;
    struct sl_shape shape;     /* a token takes 86 s to come back, so buckets stay in use */
    struct sl_shape hot_shape; /* never exhausted */
    uint64_t n_keys, random;
    struct sl_hash128 hot;
};

enum subject { HOT, SINGLE, BATCHED, INSERTED, SUBJECTS };

static struct sl_hash128 fingerprint(const struct user *user, uint64_t number)
{
    uint64_t key[2] = {number, number};

    return sl_hash13(user->secret, key, sizeof key);
}

static void charge(struct user *user, const struct sl_shape *shape, struct sl_hash128 fp, uint64_t now_us)
{
    struct sl_decision decision;

    sl_table_charge(user->table, fp, shape, now_us, 1, &decision);
    bench_keep(decision.allowed);
}

static void run_hot(void *ctx, uint64_t n)
{
    struct user *user = ctx;

    for (uint64_t i = 0; i < n; i++)
        charge(user, &user->hot_shape, user->hot, sl_table_now(user->table));
}

static void run_single(void *ctx, uint64_t n)
{
    struct user *user = ctx;

    for (uint64_t i = 0; i < n; i++)
        charge(user, &user->shape, fingerprint(user, bench_random(&user->random) % user->n_keys),
               sl_table_now(user->table));
}

static void run_batched(void *ctx, uint64_t n)
{
    struct user *user = ctx;
    struct sl_hash128 fp[BATCH];

    for (uint64_t done = 0; done < n; done += BATCH) {
        uint64_t now_us = sl_table_now(user->table);

        for (unsigned i = 0; i < BATCH; i++) {
            fp[i] = fingerprint(user, bench_random(&user->random) % user->n_keys);
            sl_table_prefetch(user->table, fp[i]);
        }
        for (unsigned i = 0; i < BATCH; i++)
            sl_table_prefetch_state(user->table, fp[i]);
        for (unsigned i = 0; i < BATCH; i++)
            charge(user, &user->shape, fp[i], now_us);
    }
}

/* Keys that were never seen: each makes a bucket, and in a full table takes another's place. */
static void run_inserted(void *ctx, uint64_t n)
{
    struct user *user = ctx;

    for (uint64_t i = 0; i < n; i++)
        charge(user, &user->shape, fingerprint(user, bench_random(&user->random) | UINT64_C(1) << 63),
               sl_table_now(user->table));
}

struct worker {
    struct user user;
    void (*run)(void *ctx, uint64_t n);
    unsigned ms;
    double ns;
};

static void *work(void *ctx)
{
    struct worker *worker = ctx;
    uint64_t started = bench_now_ns(), spent = 0, n = 0;

    while (spent < (uint64_t)worker->ms * 1000000) {
        worker->run(&worker->user, 1024);
        n += 1024;
        spent = bench_now_ns() - started;
    }
    worker->ns = (double)spent / (double)n;
    return NULL;
}

/* Wall time of one operation on each of n threads that share the table. */
static double run_threads(const struct user *user, unsigned n, unsigned ms, void (*run)(void *ctx, uint64_t n))
{
    struct worker workers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    double sum = 0;
    unsigned started = 0;

    for (; started < n; started++) {
        workers[started] = (struct worker){.user = *user, .run = run, .ms = ms};
        workers[started].user.random += started * UINT64_C(0x9e3779b97f4a7c15);
        if (pthread_create(&threads[started], NULL, work, &workers[started]))
            break;
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        sum += workers[i].ns;
    }
    return started ? sum / started : 0;
}

static int open_table(const struct table_values *values, struct user *user)
{
    struct sl_table_options options = sl_table_defaults();
    struct sl_rate slow = {.kind = SL_RATE_LIMITED, .count = 1000, .period_us = SL_DAY_US};
    struct sl_rate fast = {.kind = SL_RATE_LIMITED, .count = SL_COUNT_MAX, .period_us = SL_SECOND_US};
    const char *reason;
    char why[512];

    options.keys = values->keys;
    options.log_entries = 0;
    options.path = values->file;
    if (sl_table_open(&options, &user->table, why, sizeof why))
        return cli_fail(CLI_USAGE, "%s", why);
    if (sl_shape_init(&user->shape, SL_TOKEN_BUCKET, &slow, 10000000, &reason) ||
        sl_shape_init(&user->hot_shape, SL_TOKEN_BUCKET, &fast, 0, &reason))
        return cli_fail(CLI_USAGE, "%s", reason);
    user->secret = sl_table_secret(user->table);
    user->n_keys = values->keys;
    user->random = 88172645463325252u;
    user->hot = fingerprint(user, UINT64_MAX);
    for (uint64_t i = 0; i < values->keys; i++)
        charge(user, &user->shape, fingerprint(user, i), sl_table_now(user->table));
    return CLI_DONE;
}

static int report(const struct table_values *values, const struct bench_subject *s, const struct sl_table_stats *filled,
                  const double threaded[2])
{
    double bytes = (double)filled->bytes / (double)values->keys;

    if (values->common.json)
        return cli_print_json(json_pack("{s:s,s:o,s:I,s:I,s:I,s:f,s:I,s:o,s:I,s:{s:f,s:f}}", "bench", "table",
                                        "machine", bench_machine_json(), "keys", (json_int_t)values->keys, "rounds",
                                        (json_int_t)values->rounds, "msPerRound", (json_int_t)values->ms, "bytesPerKey",
                                        bytes, "evictionsWhileFilling", (json_int_t)filled->evictions, "subjects",
                                        bench_subjects_json(s, SUBJECTS, (unsigned)values->rounds), "threads",
                                        (json_int_t)values->threads, "threaded", "hotNs", threaded[0], "singleNs",
                                        threaded[1]),
                              CLI_DONE);
    printf("The table alone: fingerprint, clock and charge of a token bucket, %llu keys, %s; medians of %llu "
           "alternating rounds\n",
           (unsigned long long)values->keys, values->file ? "in a file" : "in memory",
           (unsigned long long)values->rounds);
    bench_print_machine(stdout);
    for (unsigned i = 0; i < SUBJECTS; i++)
        printf("  %8.1f ns  %s\n", bench_subject_ns(&s[i], (unsigned)values->rounds), s[i].sentence);
    printf("  %8.1f ns  one hot key, each of %llu threads (wall time)\n", threaded[0],
           (unsigned long long)values->threads);
    printf("  %8.1f ns  keys at random, each of %llu threads (wall time)\n", threaded[1],
           (unsigned long long)values->threads);
    printf("\n  %8.1f     bytes a key; %llu evictions while every key was filled in\n", bytes,
           (unsigned long long)filled->evictions);
    return CLI_DONE;
}

static int run(const struct cli_call *call)
{
    const struct table_values *values = (const struct table_values *)call->values;
    struct user user = {0};
    struct bench_subject subjects[SUBJECTS] = {
        [HOT] = {"hot", "one hot key", run_hot, &user, {0}},
        [SINGLE] = {"single", "keys at random, one by one", run_single, &user, {0}},
        [BATCHED] = {"batch", "keys at random, batches of 16 with prefetch", run_batched, &user, {0}},
        [INSERTED] = {"inserted", "keys never seen, each makes a bucket", run_inserted, &user, {0}},
    };
    struct sl_table_stats filled;
    double threaded[2];
    int status = open_table(values, &user);

    if (status == CLI_DONE) {
        unsigned ms = (unsigned)values->ms, threads = (unsigned)values->threads;

        sl_table_stats(user.table, &filled);
        bench_alternate(subjects, SUBJECTS, (unsigned)values->rounds, ms);
        threaded[0] = run_threads(&user, threads, ms, run_hot);
        threaded[1] = run_threads(&user, threads, ms, run_single);
        status = report(values, subjects, &filled, threaded);
    }
    sl_table_close(&user.table);
    return status;
}

static const struct sl_option table_rows[] = {
    {.group = "Measuring",
     .name = "keys",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct table_values, keys),
     .argument = "N",
     .preset = "1000000",
     .min = 1000,
     .max = 1000000000,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "keys, and room for as many"},
    {.name = "rounds",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct table_values, rounds),
     .argument = "N",
     .preset = "9",
     .min = 1,
     .max = BENCH_ROUNDS_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "alternating rounds, of which medians are taken"},
    {.name = "ms",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct table_values, ms),
     .argument = "N",
     .preset = "200",
     .min = 1,
     .max = 60000,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "CPU milliseconds for each subject in each round"},
    {.name = "threads",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct table_values, threads),
     .argument = "N",
     .preset = "2",
     .min = 1,
     .max = THREADS_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "threads of the last two figures"},
    {.name = "file",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct table_values, file),
     .argument = "FILE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "a table in this file, which is made when it is not there, instead of in memory"},
    CLI_COMMON_ROWS(struct table_values),
};

const struct cli_command cli_bench_table = {
    .name = "bench table",
    .arguments = "",
    .summary = "time the table of buckets alone",
    .manual = "Times charges on the lock-free table: one hot key, keys at random one by one and in prefetched batches, "
              "new keys, and\n"
              "several threads on one table; and says how many bytes a key takes.\n\n"
              "  sluice bench table --keys 10000000\n"
              "  sluice bench table --file /dev/shm/table --threads 2 --json",
    .rows = table_rows,
    .n_rows = sizeof table_rows / sizeof table_rows[0],
    .values_size = sizeof(struct table_values),
    .run = run,
};
