/* The histogram against sorted lists: every percentile within one step of the exact one. */
#include "cli/hdr.h"

#include "cli/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Exact values below the first step's size, within 1/128 above it, over the whole range. */
static void percentiles_are_those_of_the_sorted_values(void **state)
{
    static const unsigned parts[] = {1, 1000, 25000, 50000, 90000, 99000, 99900, 99999, 100000};
    uint64_t random = 88172645463325252u;
    struct hdr *hdr = malloc(sizeof *hdr);
    uint64_t *values = malloc(10000 * sizeof *values);

    (void)state;
    for (unsigned shift = 0; shift < 64; shift++) {
        hdr_init(hdr);
        for (unsigned i = 0; i < 10000; i++) {
            values[i] = bench_random(&random) >> shift;
            hdr_record(hdr, values[i]);
        }
        qsort(values, 10000, sizeof *values, compare);
        for (unsigned p = 0; p < sizeof parts / sizeof parts[0]; p++) {
            uint64_t rank = ((uint64_t)10000 * parts[p] + 99999) / 100000;
            uint64_t exact = values[rank - 1], got = hdr_percentile(hdr, parts[p]);

            assert_true(got >= exact);
            assert_true(got - exact <= exact / HDR_STEPS);
        }
        assert_int_equal(hdr->least, values[0]);
        assert_int_equal(hdr->most, values[9999]);
        assert_int_equal(hdr_percentile(hdr, 100000), values[9999]);
    }
    free(values);
    free(hdr);
}

static void the_ends_of_the_range_are_recorded(void **state)
{
    struct hdr *hdr = malloc(sizeof *hdr);

    (void)state;
    hdr_init(hdr);
    assert_int_equal(hdr_percentile(hdr, 99000), 0);
    assert_true(hdr_mean(hdr) == 0);
    hdr_record(hdr, 0);
    assert_int_equal(hdr_percentile(hdr, 99000), 0);
    hdr_record(hdr, UINT64_MAX);
    assert_int_equal(hdr_percentile(hdr, 50000), 0);
    assert_true(hdr_percentile(hdr, 100000) == UINT64_MAX);
    free(hdr);
}

static void merged_is_as_if_recorded_in_one(void **state)
{
    struct hdr *a = malloc(sizeof *a), *b = malloc(sizeof *b), *all = malloc(sizeof *all);
    uint64_t random = 1;

    (void)state;
    hdr_init(a), hdr_init(b), hdr_init(all);
    for (unsigned i = 0; i < 5000; i++) {
        uint64_t value = bench_random(&random) >> (random % 60);

        hdr_record(i % 3 ? a : b, value);
        hdr_record(all, value);
    }
    hdr_merge(a, b);
    assert_memory_equal(a->slots, all->slots, sizeof a->slots);
    assert_int_equal(a->n, all->n);
    assert_int_equal(a->least, all->least);
    assert_int_equal(a->most, all->most);
    free(a), free(b), free(all);
}

static void medians_of_odd_and_even_counts(void **state)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};

    (void)state;
    assert_true(bench_median(odd, 3) == 2);
    assert_true(bench_median(even, 4) == 2.5);
    assert_true(bench_median(one, 1) == 7);
}

/* The CPU time of a process is what its own clock says, to a tick either way. */
static void cpu_time_is_that_of_the_process(void **state)
{
    uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK), before, after;
    struct timespec ts;

    (void)state;
    do { /* enough to be seen in ticks */
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
        before = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    } while (before < 5 * tick_ns);
    after = bench_process_cpu_ns(getpid());
    assert_true(after + 2 * tick_ns >= before);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    assert_true(after <= (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec + 2 * tick_ns);
    assert_int_equal(bench_process_cpu_ns(-1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_those_of_the_sorted_values),
        cmocka_unit_test(the_ends_of_the_range_are_recorded),
        cmocka_unit_test(merged_is_as_if_recorded_in_one),
        cmocka_unit_test(medians_of_odd_and_even_counts),
        cmocka_unit_test(cpu_time_is_that_of_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
