/* Decisions on their way to the store, begun by the program's threads. */
#ifndef SL_LIB_FLYING_H
#define SL_LIB_FLYING_H

#include "lib/tier.h"

/* One that somebody waits for, or several that somebody waits for together. */
struct sl_flying {
    struct sl_ticket ticket;
    struct sl_flight *flight; /* NULL: it was decided at once */
};

/* The near part. Returns SL_DECIDED, SL_PENDING or SL_EINVALID. `wait` is done when the verdict is there. */
int sl_flying_begin(struct sl_tier *tier, const struct sluice_request *request, struct sluice_verdict *ret_verdict,
                    struct sl_wait *wait, struct sl_flying *ret_flying);

/* Sends those of n that are pending, in one turn of the loop, or decides them at once where there is no room. */
void sl_flying_send(struct sl_tier *tier, struct sl_flying *flying, size_t n);

/* Waits until n of them, sent or decided, are done; they may be in any state. */
void sl_flying_wait(struct sl_tier *tier, struct sl_flying *flying, size_t n, struct sl_wait *wait);

/* One that is told of later: by a callback, or, when `queue` is given, by a completion with done NULL. */
struct sl_later {
    sluice_done_fn *done;
    struct sl_completions *queue;
    struct sluice_verdict *verdict;
    void *ctx;
};

/* Returns SL_DECIDED, SL_PENDING or SL_EINVALID. */
int sl_later_begin(struct sl_tier *tier, const struct sluice_request *request, const struct sl_later *later);

/* n completions were taken. */
void sl_later_taken(struct sl_tier *tier, size_t n);

#endif
