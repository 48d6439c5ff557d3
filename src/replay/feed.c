#include "replay/feed.h"

#include "base/err.h"
#include "replay/intake.h"
#include "replay/log_reader.h"

#include <pthread.h>
#include <string.h>

struct sl_feed {
    const struct sl_replay_options *options;
    struct sl_log_reader *reader;
    pthread_t thread;
    /* of the reading thread until it has ended */
    struct sl_intake intake;
    struct sl_feed_counts counts;
    struct sl_event_batch *newest; /* of all that were made */
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sl_event_batch *ready, **ready_end; /* filled, in order */
    struct sl_event_batch *spare;              /* empty */
    unsigned n_ready;
    bool ended;
    bool stopping; /* written under the lock, read atomically without it too */
    int error;
    char why[SL_REPLAY_WHY_MAX];
};

/* An empty batch, or NULL when out of memory. */
static struct sl_event_batch *get_batch(struct sl_feed *feed)
{
    const struct sl_alloc *alloc = &feed->options->alloc;
    struct sl_event_batch *batch;

    pthread_mutex_lock(&feed->lock);
    batch = feed->spare;
    if (batch)
        feed->spare = batch->next;
    pthread_mutex_unlock(&feed->lock);
    if (!batch) {
        batch = alloc->realloc(alloc->ctx, NULL, sizeof *batch);
        if (!batch)
            return NULL;
        batch->older = feed->newest;
        feed->newest = batch;
    }
    batch->next = NULL;
    batch->used = 0;
    batch->live = 0;
    return batch;
}

/* Hands a filled batch over; waits while the other side is SL_FEED_BATCHES behind. False when told to stop. */
static bool hand_over(struct sl_feed *feed, struct sl_event_batch *batch)
{
    bool go_on;

    pthread_mutex_lock(&feed->lock);
    while (feed->n_ready >= SL_FEED_BATCHES && !feed->stopping)
        pthread_cond_wait(&feed->changed, &feed->lock);
    *feed->ready_end = batch;
    feed->ready_end = &batch->next;
    feed->n_ready++;
    go_on = !feed->stopping;
    pthread_cond_signal(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    return go_on;
}

/* Counts a line that is no event; the first ones are kept with their reason. */
static int note_malformed(struct sl_feed *feed, const struct sl_log_reader_line *line, const char *why)
{
    const struct sl_alloc *alloc = &feed->options->alloc;
    struct sl_feed_counts *counts = &feed->counts;
    struct sl_replay_malformed *shown;

    counts->malformed++;
    if (counts->n_shown == SL_REPLAY_MALFORMED_SHOWN)
        return 0;
    shown = &counts->shown[counts->n_shown++];
    shown->line = line->number;
    shown->path = sl_strndup(alloc, line->path, strlen(line->path));
    shown->reason = sl_strndup(alloc, why, strlen(why));
    return shown->path && shown->reason ? 0 : SL_ENOMEM;
}

/* Appends an event to *batch, or to a new one when it is full. Returns 0, SL_ENOMEM, or 1 when told to stop. */
static int append(struct sl_feed *feed, struct sl_event_batch **batch, const struct sl_event_source *sources)
{
    if (*batch && sl_event_append(*batch, sources, feed->intake.n_views))
        return 0;
    if (*batch && !hand_over(feed, *batch)) {
        *batch = NULL;
        return 1;
    }
    *batch = get_batch(feed);
    if (!*batch)
        return SL_ENOMEM;
    sl_event_append(*batch, sources, feed->intake.n_views);
    return 0;
}

static int take_line(struct sl_feed *feed, const struct sl_log_reader_line *line, struct sl_event_batch **batch)
{
    struct sl_event_source sources[2];
    int error;

    if (__atomic_load_n(&feed->stopping, __ATOMIC_RELAXED))
        return 1;
    feed->counts.lines++;
    if (line->too_long)
        return note_malformed(feed, line, "longer than 262144 bytes");
    error = sl_intake_line(&feed->intake, line->text, sources);
    if (error == SL_EINVALID)
        return note_malformed(feed, line, feed->intake.why);
    if (error)
        return error;
    error = append(feed, batch, sources);
    sl_intake_done(&feed->intake);
    return error;
}

/* Reads everything. Returns 0 (also when told to stop) or an error. */
static int read_all(struct sl_feed *feed, char *why)
{
    struct sl_event_batch *batch = NULL;
    struct sl_log_reader_line line;
    int result, error = 0;

    while ((result = sl_log_reader_next(feed->reader, &line, why, SL_REPLAY_WHY_MAX)) > 0) {
        error = take_line(feed, &line, &batch);
        if (error)
            break;
    }
    if (batch)
        hand_over(feed, batch);
    if (error)
        return error < 0 ? error : 0;
    return result;
}

static void *run(void *arg)
{
    struct sl_feed *feed = arg;
    char why[SL_REPLAY_WHY_MAX] = "out of memory";
    int error = read_all(feed, why);

    pthread_mutex_lock(&feed->lock);
    feed->ended = true;
    feed->error = error;
    memcpy(feed->why, why, sizeof why);
    pthread_cond_signal(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

int sl_feed_start(const struct sl_replay_options *options, struct sl_feed **ret_feed, char *ret_why, size_t why_size)
{
    struct sl_feed *feed = sl_calloc(&options->alloc, 1, sizeof *feed);
    int error;

    snprintf(ret_why, why_size, "out of memory");
    if (!feed)
        return SL_ENOMEM;
    feed->options = options;
    feed->ready_end = &feed->ready;
    sl_intake_init(&feed->intake, options->format, options->policy, options->compare);
    error = sl_log_reader_new(&options->alloc, options->paths, options->n_paths, options->input, &feed->reader, ret_why,
                              why_size);
    if (error) {
        sl_free(&options->alloc, feed);
        return error;
    }
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->changed, NULL);
    if (pthread_create(&feed->thread, NULL, run, feed)) {
        snprintf(ret_why, why_size, "cannot start a thread to read the logs");
        sl_feed_free(feed);
        return SL_ENOMEM;
    }
    *ret_feed = feed;
    return 0;
}

int sl_feed_next(struct sl_feed *feed, struct sl_event_batch **ret_batch, char *ret_why, size_t why_size)
{
    int result = 0;

    pthread_mutex_lock(&feed->lock);
    while (!feed->ready && !feed->ended)
        pthread_cond_wait(&feed->changed, &feed->lock);
    if (feed->ready) {
        *ret_batch = feed->ready;
        feed->ready = feed->ready->next;
        if (!feed->ready)
            feed->ready_end = &feed->ready;
        feed->n_ready--;
        result = 1;
    } else if (feed->error) {
        snprintf(ret_why, why_size, "%s", feed->why);
        result = feed->error;
    }
    pthread_cond_signal(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    return result;
}

void sl_feed_recycle(struct sl_feed *feed, struct sl_event_batch *batch)
{
    pthread_mutex_lock(&feed->lock);
    batch->next = feed->spare;
    feed->spare = batch;
    pthread_mutex_unlock(&feed->lock);
}

void sl_feed_stop(struct sl_feed *feed, struct sl_feed_counts *ret_counts)
{
    pthread_mutex_lock(&feed->lock);
    __atomic_store_n(&feed->stopping, true, __ATOMIC_RELAXED);
    pthread_cond_signal(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    pthread_join(feed->thread, NULL);
    *ret_counts = feed->counts;
}

void sl_feed_free(struct sl_feed *feed)
{
    struct sl_alloc alloc;

    if (!feed)
        return;
    alloc = feed->options->alloc;
    while (feed->newest) {
        struct sl_event_batch *batch = feed->newest;

        feed->newest = batch->older;
        sl_free(&alloc, batch);
    }
    sl_log_reader_free(feed->reader);
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
    sl_free(&alloc, feed);
}

void sl_feed_progress(const struct sl_feed *feed, struct sl_replay_progress *ret_progress)
{
    ret_progress->bytes_read = sl_log_reader_bytes(feed->reader);
    ret_progress->bytes_total = sl_log_reader_total(feed->reader);
}
