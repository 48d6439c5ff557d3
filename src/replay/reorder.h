/* Events into time order, stably, as far as a window reaches.
 *
 * newest is the latest time seen, and the window its last `window_us`. An event that leaves the window is due: nothing
 * that may still be put before it can come. An event older than the window, or than the latest that was given out, is
 * late: it is due at once, behind all that are due, and belongs at the latest time given out. Equal times keep their
 * order of arrival.
 *
 * Events of the near end wait in a heap, or as they came when they came in order; those of later seconds in one list a
 * second, untouched until their second is near. So an event costs a few nanoseconds in a log that is nearly in order,
 * and the logarithm of its second's events in the worst. Pure but for memory; one thread. */
#ifndef SL_REPLAY_REORDER_H
#define SL_REPLAY_REORDER_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_event;
struct sl_reorder;

/* window_us: 0 gives events out as they come. Returns 0 or SL_ENOMEM. */
int sl_reorder_new(const struct sl_alloc *alloc, uint64_t window_us, struct sl_reorder **ret_reorder);
void sl_reorder_free(struct sl_reorder *reorder); /* accepts NULL; the events are the caller's */

/* Takes an event with its time in. Returns 0, or SL_ENOMEM and then does not have it. Whoever pushes must pop until
 * nothing is due before the next push. */
int sl_reorder_push(struct sl_reorder *reorder, uint64_t t_us, struct sl_event *event);

/* The next event that is due, and the time to decide it at, which never falls; false when none is. */
bool sl_reorder_pop(struct sl_reorder *reorder, struct sl_event **ret_event, uint64_t *ret_t_us, bool *ret_late);

/* The same, but gives the oldest out although its window has not passed: for the end, and when too much waits. */
bool sl_reorder_pop_early(struct sl_reorder *reorder, struct sl_event **ret_event, uint64_t *ret_t_us);

/* Events that wait. */
size_t sl_reorder_waiting(const struct sl_reorder *reorder);

#endif
