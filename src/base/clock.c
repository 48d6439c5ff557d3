#include "base/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static uint64_t system_wall_us(void *ctx)
{
    (void)ctx;
    return read_us(CLOCK_REALTIME);
}

static uint64_t system_mono_us(void *ctx)
{
    (void)ctx;
    return read_us(CLOCK_BOOTTIME);
}

struct sl_clock sl_clock_system(void)
{
    return (struct sl_clock){.wall_us = system_wall_us, .mono_us = system_mono_us, .ctx = 0, .steady = true};
}

static uint64_t manual_us(void *ctx)
{
    return __atomic_load_n((const uint64_t *)ctx, __ATOMIC_RELAXED);
}

struct sl_clock sl_clock_manual(const uint64_t *now_us)
{
    /* The context is only read through; the cast drops the const that the callback signature cannot carry. */
    return (struct sl_clock){
        .wall_us = manual_us, .mono_us = manual_us, .ctx = (void *)(uintptr_t)now_us, .steady = false};
}
