/* The work is done, once, by a thread that gives way; and done all the same where no thread can be had. */
#include "sluiced/gently.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_work_gives_way_and_the_caller_does_not),
        cmocka_unit_test(work_within_work_ends_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
