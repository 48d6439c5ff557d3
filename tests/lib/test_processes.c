/* One table file, four processes of 64 threads each: one bucket. */
#include "kit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 4
#define THREADS 64
#define REQUESTS 40 /* a thread: 10,240 in all */

static uint64_t now_us = T0_US;

struct worker {
    struct sluice *limiter;
    unsigned admitted, failed;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request request = request_of("one", 1);
        struct sluice_verdict verdict;

        if (sluice_check(w->limiter, &request, &verdict) != 0)
            w->failed++;
        else
            w->admitted += verdict.allowed;
    }
    return NULL;
}

/* In a child: opens the file, fires from all threads, and tells how many were admitted; UINT_MAX when something
 * failed. */
static unsigned fire(const struct sluice_options *options, int start)
{
    struct worker workers[THREADS] = {{.limiter = NULL}};
    pthread_t threads[THREADS];
    struct sluice *limiter;
    unsigned admitted = 0;
    char go;

    if (sluice_open(options, &limiter, NULL, 0) != 0 || read(start, &go, 1) < 0)
        return (unsigned)-1;
    for (int i = 0; i < THREADS; i++) {
        workers[i].limiter = limiter;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            return (unsigned)-1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (workers[i].failed)
            return (unsigned)-1;
        admitted += workers[i].admitted;
    }
    sluice_close(&limiter);
    return admitted;
}

static unsigned fire_in_processes(const char *yaml)
{
    struct sluice_options options = options_for(yaml, &now_us);
    char *path = temporary_path();
    int start[2], results[2];
    unsigned sum = 0;

    options.table_path = path;
    assert_int_equal(pipe(start), 0);
    assert_int_equal(pipe(results), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            close(start[1]);
            unsigned admitted = fire(&options, start[0]);

            _exit(write(results[1], &admitted, sizeof admitted) == sizeof admitted ? 0 : 1);
        }
    }
    close(start[1]); /* they all read the end of it at once */
    for (int i = 0; i < PROCESSES; i++) {
        unsigned admitted;

        assert_int_equal(read(results[0], &admitted, sizeof admitted), sizeof admitted);
        assert_int_not_equal(admitted, (unsigned)-1);
        sum += admitted;
    }
    for (int i = 0; i < PROCESSES; i++)
        assert_true(wait(NULL) > 0);
    close(start[0]);
    close(results[0]);
    close(results[1]);
    remove_path(path);
    return sum;
}

/* Read, then increment: more than the limit passed. */
static void b109_processes_and_threads_admit_exactly_the_limit(void **state)
{
    static const char *const algorithms[] = {"token_bucket", "leaky_bucket", "fixed_window", "sliding_window_log",
                                             "sliding_window_counter"};

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        char yaml[200];

        snprintf(yaml, sizeof yaml, "version: 1\nlimits:\n  - {name: hundred, algorithm: %s, rate: 100/m}\n",
                 algorithms[i]);
        assert_int_equal(fire_in_processes(yaml), 100);
    }
}

static void b109_the_same_behind_three_rates(void **state)
{
    (void)state;
    assert_int_equal(fire_in_processes("version: 1\nlimits:\n  - {name: three, rates: [300/s, 100/m, 200/h]}\n"), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b109_processes_and_threads_admit_exactly_the_limit),
        cmocka_unit_test(b109_the_same_behind_three_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
