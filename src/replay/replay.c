/* The deciding half of a replay: batches in, time order, one decision an event, figures out. The reading half is
 * feed.c. All of this runs on the caller's thread. */
#include "replay/replay.h"

#include "base/err.h"
#include "core/limits.h"
#include "replay/difference.h"
#include "replay/feed.h"
#include "replay/reorder.h"
#include "replay/side.h"
#include "replay/tally.h"
#include "replay/verdict_line.h"

#include <errno.h>
#include <string.h>

struct replay {
    const struct sl_replay_options *options;
    struct sl_feed *feed;
    struct sl_reorder *reorder;
    struct sl_side sides[2];
    struct sl_tally tally;
    struct sl_difference difference;
    struct sl_event_batch *pinned; /* the batch whose events are being pushed: it stays although it may be empty */
    uint64_t held_bytes;           /* of batches with events that wait */
    uint64_t late, early;
    char *why;
    size_t why_size;
};

struct sl_replay_options sl_replay_defaults(void)
{
    return (struct sl_replay_options){
        .format = SL_REPLAY_COMBINED,
        .reorder_us = SL_REPLAY_REORDER_DEFAULT_US,
        .reorder_bytes = SL_REPLAY_REORDER_BYTES,
        .table_keys = SL_REPLAY_TABLE_KEYS,
        .tally_keys = SL_REPLAY_TALLY_KEYS,
        .top = 10,
        .alloc = sl_alloc_system(),
    };
}

/* Tables are opened with the first event: their clocks begin at its time. */
static int open_sides(struct replay *r, uint64_t start_us)
{
    const struct sl_replay_options *o = r->options;
    const struct sl_policy *policies[2] = {o->policy, o->compare};

    for (int i = 0; i < 2; i++) {
        int error = 0;

        if (policies[i] && !r->sides[i].table)
            error = sl_side_open(&r->sides[i], policies[i], &o->alloc, o->table_keys, start_us, r->why, r->why_size);
        if (error)
            return error;
    }
    return 0;
}

/* A batch whose last event has been decided goes back. */
static void release(struct replay *r, struct sl_event_batch *batch)
{
    if (batch->live > 0 || batch == r->pinned)
        return;
    r->held_bytes -= sizeof *batch;
    sl_feed_recycle(r->feed, batch);
}

static int decide(struct replay *r, struct sl_event *event, uint64_t t_us)
{
    struct sl_side *first = &r->sides[0], *second = &r->sides[1];
    struct sl_event_batch *batch = sl_event_home(event);
    int error = first->table ? 0 : open_sides(r, t_us);

    if (error)
        return error;
    sl_side_decide(first, event, t_us);
    error = sl_tally_event(&r->tally, first, t_us);
    if (!error && r->options->compare) {
        sl_side_decide(second, sl_event_twin(event), t_us);
        error = sl_difference_event(&r->difference, first, second);
    }
    if (r->options->verdicts)
        sl_verdict_line_write(r->options->verdicts, event->t_us, sl_event_shown(event),
                              sl_event_part(event, SL_EVENT_SCOPE), &first->verdict);
    batch->live--;
    release(r, batch);
    return error;
}

/* Decides what is due; and while too much waits, the oldest before its time. */
static int decide_due(struct replay *r)
{
    struct sl_event *event;
    uint64_t t_us;
    bool late;
    int error = 0;

    while (!error && sl_reorder_pop(r->reorder, &event, &t_us, &late)) {
        r->late += late;
        error = decide(r, event, t_us);
    }
    while (!error && r->held_bytes > r->options->reorder_bytes && sl_reorder_pop_early(r->reorder, &event, &t_us)) {
        r->early++;
        error = decide(r, event, t_us);
    }
    return error;
}

static int take_batch(struct replay *r, struct sl_event_batch *batch)
{
    int error = 0;

    r->pinned = batch;
    r->held_bytes += sizeof *batch;
    for (size_t at = 0; at < batch->used && !error;) {
        struct sl_event *event = (struct sl_event *)(void *)(batch->records + at);

        at += event->size;
        if (event->has_twin)
            at += sl_event_twin(event)->size;
        error = sl_reorder_push(r->reorder, event->t_us, event);
        if (!error)
            error = decide_due(r);
    }
    r->pinned = NULL;
    release(r, batch);
    return error;
}

static int decide_rest(struct replay *r)
{
    struct sl_event *event;
    uint64_t t_us;
    int error = 0;

    while (!error && sl_reorder_pop_early(r->reorder, &event, &t_us))
        error = decide(r, event, t_us);
    if (!error && sl_reorder_waiting(r->reorder) > 0)
        error = SL_ENOMEM;
    return error;
}

static void show_progress(const struct replay *r)
{
    struct sl_replay_progress progress = {.events = r->tally.events};

    if (!r->options->progress)
        return;
    sl_feed_progress(r->feed, &progress);
    r->options->progress(r->options->progress_ctx, &progress);
}

static int decide_all(struct replay *r)
{
    struct sl_event_batch *batch;
    int result;

    while ((result = sl_feed_next(r->feed, &batch, r->why, r->why_size)) > 0) {
        int error = take_batch(r, batch);

        if (error)
            return error;
        show_progress(r);
    }
    if (!result)
        result = decide_rest(r);
    if (!result)
        show_progress(r);
    return result;
}

static int check_options(const struct sl_replay_options *o, char *why, size_t why_size)
{
    const char *problem = NULL;

    if (!o->policy)
        problem = "no policy to replay";
    else if (o->n_paths == 0)
        problem = "no log to replay";
    else if (o->reorder_us > SL_REPLAY_REORDER_MAX_US)
        problem = "the reorder window is longer than a day";
    if (!problem)
        return 0;
    snprintf(why, why_size, "%s", problem);
    return SL_EINVALID;
}

static int prepare(struct replay *r)
{
    const struct sl_replay_options *o = r->options;
    int error = sl_tally_init(&r->tally, o);

    if (!error && o->compare)
        error = sl_difference_init(&r->difference, o);
    if (!error)
        error = sl_reorder_new(&o->alloc, o->reorder_us, &r->reorder);
    return error;
}

static int flush_verdicts(struct replay *r)
{
    FILE *out = r->options->verdicts;

    if (!out || (fflush(out) == 0 && !ferror(out)))
        return 0;
    snprintf(r->why, r->why_size, "cannot write the verdicts: %s", strerror(errno));
    return SL_EIO;
}

static int summarise(struct replay *r, const struct sl_feed_counts *counts, struct sl_replay_summary *s)
{
    int error = sl_tally_summarise(&r->tally, r->options->top, s);

    s->lines = counts->lines;
    s->malformed = counts->malformed;
    s->late = r->late;
    s->early = r->early;
    s->evictions = sl_side_evictions(&r->sides[0]);
    if (error || !r->options->compare)
        return error;
    s->compare = sl_calloc(&s->alloc, 1, sizeof *s->compare);
    if (!s->compare)
        return SL_ENOMEM;
    s->compare->evictions = sl_side_evictions(&r->sides[1]);
    return sl_difference_summarise(&r->difference, r->options->top, s->compare);
}

static void finish(struct replay *r)
{
    sl_feed_free(r->feed);
    sl_reorder_free(r->reorder);
    sl_tally_fini(&r->tally);
    sl_difference_fini(&r->difference);
    sl_side_close(&r->sides[0]);
    sl_side_close(&r->sides[1]);
}

static int run(struct replay *r, struct sl_replay_summary *summary)
{
    struct sl_feed_counts counts;
    int error = prepare(r);

    if (error)
        return error;
    error = sl_feed_start(r->options, &r->feed, r->why, r->why_size);
    if (error)
        return error;
    error = decide_all(r);
    sl_feed_stop(r->feed, &counts);
    memcpy(summary->malformed_shown, counts.shown, sizeof counts.shown);
    summary->n_malformed_shown = counts.n_shown;
    if (!error)
        error = flush_verdicts(r);
    if (!error)
        error = summarise(r, &counts, summary);
    return error;
}

int sl_replay_run(const struct sl_replay_options *options, struct sl_replay_summary **ret_summary, char *ret_why,
                  size_t why_size)
{
    const struct sl_alloc *alloc = &options->alloc;
    struct sl_replay_summary *summary;
    struct replay *r;
    int error = check_options(options, ret_why, why_size);

    if (error)
        return error;
    snprintf(ret_why, why_size, "out of memory");
    summary = sl_calloc(alloc, 1, sizeof *summary);
    r = sl_calloc(alloc, 1, sizeof *r);
    error = summary && r ? 0 : SL_ENOMEM;
    if (summary)
        summary->alloc = *alloc;
    if (!error) {
        r->options = options;
        r->why = ret_why;
        r->why_size = why_size;
        error = run(r, summary);
        finish(r);
    }
    sl_free(alloc, r);
    if (error)
        sl_replay_summary_free(&summary);
    else
        *ret_summary = summary;
    return error;
}
