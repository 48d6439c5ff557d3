/* What the benchmarks share: where they ran, clocks, medians, and how results are printed. */
#ifndef SL_CLI_BENCH_H
#define SL_CLI_BENCH_H

#include "cli/cli.h"
#include "cli/hdr.h"

#include <stdint.h>
#include <sys/types.h>

/* Monotonic nanoseconds. */
uint64_t bench_now_ns(void);

/* CPU nanoseconds of the calling thread. */
uint64_t bench_thread_cpu_ns(void);

/* CPU time (user and system, all threads) that a process has used, in nanoseconds, to a clock tick; 0 when there is no
 * such process. */
uint64_t bench_process_cpu_ns(pid_t pid);

/* The median of n > 0 numbers; sorts them. */
double bench_median(double *numbers, unsigned n);

/* {"cpu","cores","kernel","version","compiler","hugePages"}: what it was measured on. */
struct json_t *bench_machine_json(void);
void bench_print_machine(FILE *out);

/* {"n","mean","min","p50","p90","p99","p999","max"} in the histogram's unit. */
struct json_t *bench_hdr_json(const struct hdr *hdr);

/* xorshift64*: fast, and good enough to spread keys. */
static inline uint64_t bench_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Something that is timed beside others: `run` does n operations. */
#define BENCH_ROUNDS_MAX 99
struct bench_subject {
    const char *name;     /* in JSON */
    const char *sentence; /* for people */
    void (*run)(void *ctx, uint64_t n);
    void *ctx;
    double ns[BENCH_ROUNDS_MAX]; /* CPU time an operation, one a round */
};

/* Times every subject once a round, one after the other, so that whatever the machine does meanwhile meets all of
 * them; each for about `ms` milliseconds. */
void bench_alternate(struct bench_subject *subjects, size_t n, unsigned rounds, unsigned ms);

/* The median of a subject's rounds, and of the rounds' ratios of two subjects. */
double bench_subject_ns(const struct bench_subject *subject, unsigned rounds);
double bench_subject_ratio(const struct bench_subject *a, const struct bench_subject *b, unsigned rounds);

/* {"name": {"ns": ..., "rounds": [...]}} of all. */
struct json_t *bench_subjects_json(const struct bench_subject *subjects, size_t n, unsigned rounds);

/* Keeps the compiler from leaving out what computes `value`. */
static inline void bench_keep(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

/* A limiter with a policy text of its own, on a table in memory; NULL after it has said why. */
struct sl_limiter;
struct sl_limiter *bench_open_limiter(const char *policy_text, uint64_t keys);

/* A policy of n limits: 1 in 100, and at least one, by endpoint, one that everybody meets, the rest by key, so that
 * resolution has its full work. `rate` is the flow text after `rate: `. Free it. */
char *bench_policy_text(unsigned n_limits, const char *rate);

#endif
