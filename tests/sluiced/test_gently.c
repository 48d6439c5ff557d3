/* The work is done, once, by a thread that gives way; and done all the same where no thread can be had. */
#include "sluiced/gently.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct seen {
    int calls, nice;
    pthread_t thread;
};

static int my_nice(void)
{
    return getpriority(PRIO_PROCESS, (id_t)gettid());
}

static void look(void *ctx)
{
    struct seen *seen = ctx;

    seen->calls++;
    seen->nice = my_nice();
    seen->thread = pthread_self();
}

static int at_most_19(int nice)
{
    return nice > 19 ? 19 : nice;
}

static void the_work_gives_way_and_the_caller_does_not(void **state)
{
    struct seen seen = {0};
    int before = my_nice();

    (void)state;
    sl_gently(look, &seen);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.nice, at_most_19(before + SL_GENTLY_NICE));
    assert_false(pthread_equal(seen.thread, pthread_self()));
    assert_int_equal(my_nice(), before);
}

static void nested(void *ctx)
{
    sl_gently(look, ctx);
}

static void work_within_work_ends_too(void **state)
{
    struct seen seen = {0};

    (void)state;
    sl_gently(nested, &seen);
    assert_int_equal(seen.calls, 1);
    assert_true(seen.nice > my_nice() || my_nice() == 19);
}

/* Until it is not what is left over that it gets; or for 20 s. */
static void work_long(void *ctx)
{
    bool *shared = ctx;
    time_t end = time(NULL) + 20;

    while (!*shared && time(NULL) < end) {
        *shared = sched_getscheduler(0) == SCHED_OTHER;
        sched_yield();
    }
}

static void work_that_takes_long_gets_a_share_of_its_own(void **state)
{
    bool shared = false;

    (void)state;
    sl_gently(work_long, &shared);
    assert_true(shared);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void look_at_policy(void *ctx)
{
    *(int *)ctx = sched_getscheduler(0);
}

/* Where a thread may come back from there (a privileged one may). */
static void work_gets_what_is_left_over(void **state)
{
    struct rlimit limit = {0};
    int policy = -1;

    (void)state;
    getrlimit(RLIMIT_NICE, &limit);
    if (geteuid() != 0 && limit.rlim_cur < 20)
        skip();
    sl_gently(look_at_policy, &policy);
    if (geteuid() == 0 && policy == SCHED_OTHER)
        skip(); /* root without CAP_SYS_NICE */
    assert_int_equal(policy, SCHED_IDLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_work_gives_way_and_the_caller_does_not),
        cmocka_unit_test(work_within_work_ends_too),
        cmocka_unit_test(work_that_takes_long_gets_a_share_of_its_own),
        cmocka_unit_test(work_gets_what_is_left_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
