/* Time, handed in.
 *
 * Nothing below `server` reads a clock by itself: whoever owns a table or a limiter gives it a `struct sl_clock`.
 * Two kinds of time, both whole microseconds in 64 bits:
 *   wall_us  Unix time. Read once, when a table is created or re-anchored; may be set back and forth by an operator.
 *   mono_us  time since boot, suspend included (CLOCK_BOOTTIME). Never steps back, not even across threads.
 * A decision's `now` is wall time at the table's creation carried on by mono_us (see table/table.h). */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct sl_clock {
    uint64_t (*wall_us)(void *ctx);
    uint64_t (*mono_us)(void *ctx);
    void *ctx;
    /* True when mono_us can never step back, so that a reader may skip the clamp. Only the system clock says so. */
    bool steady;
};

/* The machine's own clocks. Any thread. */
struct sl_clock sl_clock_system(void);

/* A clock that stands where it is put, for tests, the replay and the simulator: both readings return *now_us.
 * Borrows `now_us` for as long as the clock is used; the caller may move it in any direction. */
struct sl_clock sl_clock_manual(const uint64_t *now_us);

#endif
