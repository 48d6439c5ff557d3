/* The reading half of a replay: a thread that turns logs into batches of events and hands them over in order.
 *
 * At most SL_FEED_BATCHES batches are ahead of the deciding thread; who is faster waits. Lines that are no events are
 * counted, and the first of them kept, in file order. */
#ifndef SL_REPLAY_FEED_H
#define SL_REPLAY_FEED_H

#include "replay/event.h"
#include "replay/replay.h"

#define SL_FEED_BATCHES 8

struct sl_feed;

struct sl_feed_counts {
    uint64_t lines, malformed;
    struct sl_replay_malformed shown[SL_REPLAY_MALFORMED_SHOWN];
    size_t n_shown;
};

/* Opens the logs and starts the thread. Borrows options. Returns 0, SL_EIO or SL_ENOMEM with the reason. */
int sl_feed_start(const struct sl_replay_options *options, struct sl_feed **ret_feed, char *ret_why, size_t why_size);

/* The next batch, to give back with sl_feed_recycle: 1; 0 at the end; else an error of the reading thread with its
 * reason. Waits. */
int sl_feed_next(struct sl_feed *feed, struct sl_event_batch **ret_batch, char *ret_why, size_t why_size);

void sl_feed_recycle(struct sl_feed *feed, struct sl_event_batch *batch);

/* Ends the thread, wherever it is, and takes over what it counted (free the strings with the options' allocator). */
void sl_feed_stop(struct sl_feed *feed, struct sl_feed_counts *ret_counts);

/* Batches that are with the caller are freed too. Accepts NULL; the thread must have been stopped. */
void sl_feed_free(struct sl_feed *feed);

void sl_feed_progress(const struct sl_feed *feed, struct sl_replay_progress *ret_progress);

#endif
