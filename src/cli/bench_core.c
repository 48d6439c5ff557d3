/* `sluice bench core`: one decision in the library, beside the least that any limiter must do. */
#include "cli/bench.h"
#include "cli/bench_see.h"

#include "base/clock.h"
#include "base/hash.h"
#include "limiter/limiter.h"
#include "observe/top.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BATCH 16
#define KEY_LEN 16

enum subject {
    FLOOR,    /* hash, clock and one compare-and-swap on a flat array, one hot slot */
    HOT,      /* a hot key, allowed */
    REJECTED, /* the same, rejected */
    HOT_SEEN, /* both again, while the hottest keys are followed (observe/top.h) */
    REJECTED_SEEN,
    FEW,        /* 10 limits, keys in turn */
    FEW_SEEN,   /* and while the hottest keys are followed */
    MANY,       /* 10,000 limits, the same keys */
    WIDE_FLOOR, /* the floor over as many slots as keys, in batches with prefetch */
    WIDE,       /* batches of 16 over all keys */
    REMEMBERED, /* on top of a rejection, in a daemon: one key again and again, 512 in turn, ever new ones */
    REMEMBERED_TURNS,
    REMEMBERED_NEW,
    SUBJECTS,
};

/* One hot key against one limiter. */
struct hot {
    struct sl_limiter *limiter;
    struct sl_top *top; /* NULL: they are not followed */
    struct sluice_request request;
};

/* Keys in turn, each seen again only after all the others: more than a limiter remembers the resolution of, so that every
 * decision resolves anew, and few enough for their buckets to stay in the processor's cache. */
#define TURN_KEYS 512u
struct turns {
    struct hot hot;
    char keys[TURN_KEYS][KEY_LEN];
};

/* A stream of keys at random, made beforehand, so that what is timed is deciding and not the making of keys. */
#define STREAM_KEYS (UINT64_C(1) << 22)
struct stream {
    char (*keys)[KEY_LEN];
    uint64_t next;
};

/* A flat array of 16-byte slots. */
struct flat {
    struct sl_secret secret;
    struct sl_clock clock;
    unsigned __int128 *slots;
    uint64_t n; /* a power of two */
    struct stream stream;
};

struct wide {
    struct sl_limiter *limiter;
    uint64_t n_keys;
    struct stream stream;
};

struct core_values {
    struct cli_common common;
    uint64_t keys, rounds, ms;
};

static void make_key(char key[static KEY_LEN], uint64_t number)
{
    static const char digits[] = "0123456789abcdef";

    for (unsigned i = 0; i < KEY_LEN; i++, number >>= 4)
        key[i] = digits[number & 15];
}

static void run_hot(void *ctx, uint64_t n)
{
    struct hot *hot = ctx;
    struct sluice_verdict verdict;

    for (uint64_t i = 0; i < n; i++) {
        sl_limiter_check(hot->limiter, &hot->request, &verdict, NULL, NULL, NULL);
        bench_keep((uint64_t)verdict.remaining);
    }
}

static void run_turns(void *ctx, uint64_t n)
{
    struct turns *turns = ctx;
    struct sluice_request request = turns->hot.request;
    struct sluice_verdict verdict;

    for (uint64_t i = 0; i < n; i++) {
        request.key = turns->keys[i % TURN_KEYS];
        sl_limiter_check(turns->hot.limiter, &request, &verdict, NULL, NULL, NULL);
        bench_keep((uint64_t)verdict.remaining);
    }
}

/* As little as a limiter could do with a slot: move its time of wholeness on. */
static void charge_slot(unsigned __int128 *slot, uint64_t now_us)
{
    for (;;) {
        unsigned __int128 seen = *slot;
        uint64_t whole_us = (uint64_t)seen > now_us ? (uint64_t)seen : now_us;

        if (__sync_bool_compare_and_swap(slot, seen, (seen >> 64 << 64) | (whole_us + 1)))
            return;
    }
}

static void run_floor(void *ctx, uint64_t n)
{
    struct flat *flat = ctx;
    char key[KEY_LEN];

    make_key(key, 1);
    for (uint64_t i = 0; i < n; i++) {
        struct sl_hash128 h;

        __asm__ volatile("" : : "r"(key) : "memory");
        h = sl_hash13(flat->secret, key, KEY_LEN);
        charge_slot(&flat->slots[h.b & (flat->n - 1)], flat->clock.mono_us(flat->clock.ctx));
    }
}

static bool open_stream(struct stream *stream, uint64_t n_keys)
{
    uint64_t random = 88172645463325252u;

    *stream = (struct stream){.keys = malloc(STREAM_KEYS * KEY_LEN)};
    for (uint64_t i = 0; stream->keys && i < STREAM_KEYS; i++)
        make_key(stream->keys[i], bench_random(&random) % n_keys);
    return stream->keys != NULL;
}

/* The next BATCH keys. */
static const char (*next_keys(struct stream *stream))[KEY_LEN]
{
    const char(*keys)[KEY_LEN] = (const char(*)[KEY_LEN]) & stream->keys[stream->next];

    stream->next = (stream->next + BATCH) % STREAM_KEYS;
    return keys;
}

static void run_wide_floor(void *ctx, uint64_t n)
{
    struct flat *flat = ctx;

    for (uint64_t done = 0; done < n; done += BATCH) {
        const char(*keys)[KEY_LEN] = next_keys(&flat->stream);
        uint64_t now_us = flat->clock.mono_us(flat->clock.ctx);
        unsigned __int128 *slots[BATCH];

        for (unsigned i = 0; i < BATCH; i++) {
            slots[i] = &flat->slots[sl_hash13(flat->secret, keys[i], KEY_LEN).b & (flat->n - 1)];
            __builtin_prefetch(slots[i], 1);
        }
        for (unsigned i = 0; i < BATCH; i++)
            charge_slot(slots[i], now_us);
    }
}

static void run_wide(void *ctx, uint64_t n)
{
    struct wide *wide = ctx;
    struct sluice_request requests[BATCH];
    struct sluice_verdict verdicts[BATCH];
    size_t bad;

    for (unsigned i = 0; i < BATCH; i++)
        requests[i] = (struct sluice_request)SLUICE_REQUEST_INIT;
    for (uint64_t done = 0; done < n; done += BATCH) {
        const char(*keys)[KEY_LEN] = next_keys(&wide->stream);

        for (unsigned i = 0; i < BATCH; i++)
            requests[i].key = keys[i], requests[i].key_len = KEY_LEN;
        sl_limiter_check_batch(wide->limiter, requests, BATCH, verdicts, NULL, &bad, NULL, NULL);
        bench_keep((uint64_t)verdicts[BATCH - 1].remaining);
    }
}

/* Every key once, so that the table is as full as it will be. */
static void fill(struct wide *wide)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;
    struct sluice_verdict verdict;
    char key[KEY_LEN];

    request.key = key, request.key_len = KEY_LEN;
    for (uint64_t i = 0; i < wide->n_keys; i++) {
        make_key(key, i);
        sl_limiter_check(wide->limiter, &request, &verdict, NULL, NULL, NULL);
    }
}

static bool open_flat(struct flat *flat, uint64_t n_keys)
{
    void *memory;

    *flat = (struct flat){.clock = sl_clock_system(), .n = 1};
    while (flat->n < n_keys)
        flat->n *= 2;
    memory = mmap(NULL, flat->n * sizeof *flat->slots, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    madvise(memory, flat->n * sizeof *flat->slots, MADV_HUGEPAGE);
    memset(memory, 0, flat->n * sizeof *flat->slots);
    flat->slots = memory;
    return sl_secret_random(&flat->secret) == 0 && open_stream(&flat->stream, n_keys);
}

static void close_flat(struct flat *flat)
{
    if (flat->slots)
        munmap(flat->slots, flat->n * sizeof *flat->slots);
    free(flat->stream.keys);
}

static bool open_hot(struct hot *hot, unsigned n_limits, const char *rate)
{
    char *text = bench_policy_text(n_limits, rate);

    hot->limiter = text ? bench_open_limiter(text, 1000) : NULL;
    free(text);
    hot->request = (struct sluice_request)SLUICE_REQUEST_INIT;
    hot->request.key = "acct_00000000001", hot->request.key_len = KEY_LEN;
    hot->request.scope = "GET /v1/orders/17", hot->request.scope_len = 17;
    return hot->limiter != NULL;
}

static bool follow(struct hot *hot)
{
    struct sl_alloc alloc = sl_alloc_system();

    return sl_top_new(&alloc, hot->limiter, &hot->top) == 0;
}

static void close_hot(struct hot *hot)
{
    sl_top_free(hot->top);
    sl_limiter_free(hot->limiter);
}

static bool open_turns(struct turns *turns, unsigned n_limits, const char *rate)
{
    for (unsigned i = 0; i < TURN_KEYS; i++)
        make_key(turns->keys[i], i);
    return open_hot(&turns->hot, n_limits, rate);
}

static bool open_wide(struct wide *wide, unsigned n_limits, uint64_t n_keys)
{
    /* A token takes 86 s to come back, so every bucket stays in use; a burst that no run exhausts. */
    char *text = bench_policy_text(n_limits, "1000/d, burst: 1000000");

    wide->limiter = text ? bench_open_limiter(text, n_keys) : NULL;
    free(text);
    wide->n_keys = n_keys;
    if (wide->limiter)
        fill(wide);
    return wide->limiter && open_stream(&wide->stream, n_keys);
}

static json_t *ratios_json(const struct bench_subject *s, unsigned rounds)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "hotFollowedToNot",
                     bench_subject_ratio(&s[HOT_SEEN], &s[HOT], rounds), "rejectedFollowedToNot",
                     bench_subject_ratio(&s[REJECTED_SEEN], &s[REJECTED], rounds), "turnsFollowedToNot",
                     bench_subject_ratio(&s[FEW_SEEN], &s[FEW], rounds), "hotToFloor",
                     bench_subject_ratio(&s[HOT], &s[FLOOR], rounds), "batchToFloor",
                     bench_subject_ratio(&s[WIDE], &s[WIDE_FLOOR], rounds), "rejectedToAllowed",
                     bench_subject_ratio(&s[REJECTED], &s[HOT], rounds), "tenThousandLimitsToTen",
                     bench_subject_ratio(&s[MANY], &s[FEW], rounds));
}

static int report(const struct core_values *values, const struct bench_subject *s, const struct wide *wide)
{
    unsigned rounds = (unsigned)values->rounds;
    struct sl_table_stats stats;

    sl_table_stats(sl_limiter_table(wide->limiter), &stats);
    if (values->common.json)
        return cli_print_json(json_pack("{s:s,s:o,s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "bench", "core", "machine",
                                        bench_machine_json(), "rounds", (json_int_t)values->rounds, "msPerRound",
                                        (json_int_t)values->ms, "keys", (json_int_t)values->keys, "tableBytes",
                                        (json_int_t)stats.bytes, "evictions", (json_int_t)stats.evictions, "subjects",
                                        bench_subjects_json(s, SUBJECTS, rounds), "ratios", ratios_json(s, rounds)),
                              CLI_DONE);
    printf("One decision in the library, 16-byte keys, CPU time of one thread; medians of %u alternating rounds of "
           "%llu ms\n",
           rounds, (unsigned long long)values->ms);
    bench_print_machine(stdout);
    for (unsigned i = 0; i < SUBJECTS; i++)
        printf("  %8.1f ns  %s\n", bench_subject_ns(&s[i], rounds), s[i].sentence);
    printf("\n  %8.2f     hot key to its floor\n", bench_subject_ratio(&s[HOT], &s[FLOOR], rounds));
    printf("  %8.2f     batch to its floor\n", bench_subject_ratio(&s[WIDE], &s[WIDE_FLOOR], rounds));
    printf("  %8.2f     rejection to acceptance\n", bench_subject_ratio(&s[REJECTED], &s[HOT], rounds));
    printf("  %8.2f     10,000 limits to 10\n", bench_subject_ratio(&s[MANY], &s[FEW], rounds));
    printf("  %8.2f     hot key followed to not\n", bench_subject_ratio(&s[HOT_SEEN], &s[HOT], rounds));
    printf("  %8.2f     rejected key followed to not\n", bench_subject_ratio(&s[REJECTED_SEEN], &s[REJECTED], rounds));
    printf("  %8.2f     512 keys followed to not\n", bench_subject_ratio(&s[FEW_SEEN], &s[FEW], rounds));
    printf("\n  %8.1f     bytes of table for each of %llu keys; %llu evictions\n",
           (double)stats.bytes / (double)values->keys, (unsigned long long)values->keys,
           (unsigned long long)stats.evictions);
    return CLI_DONE;
}

static bool open_memories(struct bench_memory memories[static 3])
{
    for (unsigned i = 0; i < 3; i++)
        if (!bench_memory_open(&memories[i], (enum bench_keys)i))
            return false;
    return true;
}

#define PLENTY "1000000000/s"

static int run(const struct cli_call *call)
{
    const struct core_values *values = (const struct core_values *)call->values;
    struct hot hot = {0}, rejected = {0}, hot_seen = {0}, rejected_seen = {0};
    struct turns few = {0}, few_seen = {0}, many = {0};
    struct flat flat = {0}, wide_flat = {0};
    struct wide wide = {0};
    struct bench_memory memories[3] = {{0}};
    struct bench_subject subjects[SUBJECTS] = {
        [FLOOR] = {"floor", "floor: SipHash, clock, one 16-byte compare-and-swap on one slot", run_floor, &flat, {0}},
        [HOT] = {"hot", "hot key, allowed, clock included, 100-limit policy", run_hot, &hot, {0}},
        [REJECTED] = {"rejected", "hot key, rejected", run_hot, &rejected, {0}},
        [HOT_SEEN] = {"hotFollowed", "hot key, allowed, while the hottest keys are followed", run_hot, &hot_seen, {0}},
        [REJECTED_SEEN] = {"rejectedFollowed", "hot key, rejected, likewise", run_hot, &rejected_seen, {0}},
        [FEW] = {"tenLimits", "512 keys in turn, nothing remembered, 10-limit policy", run_turns, &few, {0}},
        [FEW_SEEN] = {"tenLimitsFollowed", "the same, while the hottest keys are followed", run_turns, &few_seen, {0}},
        [MANY] = {"tenThousandLimits",
                  "the same keys, 10,000-limit policy (100 by endpoint, 9,899 by key)",
                  run_turns,
                  &many,
                  {0}},
        [WIDE_FLOOR] = {"batchFloor",
                        "floor of a batch: the same over as many slots as keys, prefetched",
                        run_wide_floor,
                        &wide_flat,
                        {0}},
        [WIDE] = {"batch", "batches of 16 over all keys at random, each decision", run_wide, &wide, {0}},
        [REMEMBERED] = {"remembered",
                        "on top of a rejection in a daemon: remembering it, one key",
                        bench_memory_run,
                        &memories[BENCH_ONE_KEY],
                        {0}},
        [REMEMBERED_TURNS] =
            {"rememberedTurns", "the same, 512 keys in turn", bench_memory_run, &memories[BENCH_KEYS_IN_TURN], {0}},
        [REMEMBERED_NEW] = {"rememberedNew",
                            "the same, ever new keys, each of which pushes one out",
                            bench_memory_run,
                            &memories[BENCH_NEW_KEYS],
                            {0}},
    };
    int status = CLI_USAGE;

    if (open_flat(&flat, 1024) && open_flat(&wide_flat, values->keys) && open_hot(&hot, 100, PLENTY) &&
        open_hot(&rejected, 100, "1/d") && open_hot(&hot_seen, 100, PLENTY) && follow(&hot_seen) &&
        open_hot(&rejected_seen, 100, "1/d") && follow(&rejected_seen) && open_turns(&few_seen, 10, PLENTY) &&
        follow(&few_seen.hot) && open_turns(&few, 10, PLENTY) && open_turns(&many, 10000, PLENTY) &&
        open_wide(&wide, 100, values->keys) && open_memories(memories)) {
        bench_alternate(subjects, SUBJECTS, (unsigned)values->rounds, (unsigned)values->ms);
        status = report(values, subjects, &wide);
    } else {
        cli_fail(CLI_USAGE, "not enough memory for %llu keys", (unsigned long long)values->keys);
    }
    for (unsigned i = 0; i < 3; i++)
        bench_memory_close(&memories[i]);
    close_hot(&hot);
    close_hot(&rejected);
    close_hot(&hot_seen);
    close_hot(&rejected_seen);
    close_hot(&few.hot);
    close_hot(&few_seen.hot);
    close_hot(&many.hot);
    sl_limiter_free(wide.limiter);
    free(wide.stream.keys);
    close_flat(&flat);
    close_flat(&wide_flat);
    return status;
}

static const struct sl_option core_rows[] = {
    {.group = "Measuring",
     .name = "keys",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct core_values, keys),
     .argument = "N",
     .preset = "10000000",
     .min = 1000,
     .max = 1000000000,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "keys of the wide part"},
    {.name = "rounds",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct core_values, rounds),
     .argument = "N",
     .preset = "9",
     .min = 1,
     .max = BENCH_ROUNDS_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "alternating rounds, of which medians are taken"},
    {.name = "ms",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct core_values, ms),
     .argument = "N",
     .preset = "200",
     .min = 1,
     .max = 60000,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "CPU milliseconds for each subject in each round"},
    CLI_COMMON_ROWS(struct core_values),
};

const struct cli_command cli_bench_core = {
    .name = "bench core",
    .arguments = "",
    .summary = "time one decision in the library, beside the bare floor",
    .manual = "Times a decision on a hot key (allowed and rejected), with 10 and 10,000 limits, and batches of 16 over "
              "many keys, each\n"
              "beside the least any limiter must do: a keyed hash, a clock reading and one compare-and-swap on a flat "
              "array.\n"
              "The subjects take turns, so that what else the machine does meets all of them.\n\n"
              "  sluice bench core\n"
              "  sluice bench core --keys 1000000 --rounds 5 --json",
    .rows = core_rows,
    .n_rows = sizeof core_rows / sizeof core_rows[0],
    .values_size = sizeof(struct core_values),
    .run = run,
};
