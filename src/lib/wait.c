#include "lib/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void sl_wait_done(struct sl_wait *wait)
{
    /* The address may belong to something else by the time of the call: a wake-up too many is nothing to a futex. */
    if (atomic_fetch_sub(&wait->left, 1) == 1)
        syscall(SYS_futex, &wait->left, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

bool sl_wait_for(struct sl_wait *wait, uint64_t for_us)
{
    uint64_t began_us = for_us == UINT64_MAX ? 0 : now_us();
    unsigned left;

    while ((left = atomic_load(&wait->left)) != 0) {
        struct timespec rest, *timeout = NULL;

        if (for_us != UINT64_MAX) {
            uint64_t gone_us = now_us() - began_us;

            if (gone_us >= for_us)
                return false;
            rest.tv_sec = (time_t)((for_us - gone_us) / 1000000);
            rest.tv_nsec = (long)((for_us - gone_us) % 1000000 * 1000);
            timeout = &rest;
        }
        syscall(SYS_futex, &wait->left, FUTEX_WAIT_PRIVATE, left, timeout, NULL, 0);
    }
    return true;
}
