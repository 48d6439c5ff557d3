#include "table/internal.h"

#include <sched.h>
#include <time.h>

#define SPINS 64u
#define YIELDS 512u

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Not the table's clock, which may stand still (a test, a replay): what is waited for happens in real time. */
static uint64_t real_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

uint64_t sl_wait_turn(struct sl_wait *w)
{
    uint64_t now_us;

    if (w->turns++ < SPINS) {
        relax();
        return 0;
    }
    now_us = real_us();
    if (w->began_us == 0)
        w->began_us = now_us;
    if (w->turns < YIELDS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return now_us - w->began_us;
}
