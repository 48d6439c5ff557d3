#include "lib/loop.h"

#include "base/err.h"
#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#define BEAT_MS 250u
#define HURRY_MS 1u /* between looks while sluice_open waits */
#define TURN_MAX 1024u
#define END_MS 700u /* that closing waits for the thread, once it is done with the limiter */

/* ---- on the thread */

/* One of the two is done with the limiter. */
static void on_ended(void *ctx)
{
    struct sl_loop *loop = ctx;

    if (--loop->n_ending > 0)
        return;
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->beat, NULL);
    pthread_mutex_lock(&loop->lock);
    loop->released = true;
    pthread_cond_broadcast(&loop->changed);
    pthread_mutex_unlock(&loop->lock);
}

static void on_stopped(void *ctx)
{
    struct sl_loop *loop = ctx;

    sl_lane_free(loop->tier->lane);
    loop->tier->lane = NULL;
    on_ended(loop);
}

static void stop(struct sl_loop *loop)
{
    loop->tier->stopping = true;
    loop->n_ending = 2;
    sl_lane_stop(loop->tier->lane, on_stopped, loop);
    if (sl_lib_versions_stop(&loop->versions, on_ended, loop))
        on_ended(loop);
}

/* All that was asked for since the last turn, so that it goes to the store together. What comes while that lasts is for
 * the next one. */
static void on_wake(uv_async_t *wake)
{
    struct sl_loop *loop = wake->data;
    struct sl_tier *tier = loop->tier;
    struct sl_ticket *ticket = NULL;

    for (unsigned i = 0; i < TURN_MAX && (ticket = sl_mailbox_take(&tier->mailbox)); i++)
        ticket->go(ticket, tier->lane);
    if (sl_fleet_has_errands(tier->fleet))
        sl_lane_tend(tier->lane);
    if (ticket) {
        sl_loop_wake(loop);
    } else if (!tier->stopping && sl_mailbox_is_done(&tier->mailbox)) {
        stop(loop);
    }
}

static void worst_breaker(void *ctx, const struct sl_shard_stats *stats)
{
    struct sl_store_health *health = ctx;

    if (stats->breaker > health->breaker)
        health->breaker = stats->breaker;
}

static void look(struct sl_tier *tier)
{
    struct sl_store_health health = {.breaker = SL_BREAKER_CLOSED};
    struct sl_fleet_stats stats;

    if (!tier->watch)
        return;
    sl_fleet_stats(tier->fleet, &stats);
    sl_fleet_shards(tier->fleet, worst_breaker, &health);
    health.reached = stats.reached;
    health.secret_known = stats.secret_known;
    health.answered = stats.answered;
    health.refused = stats.refused;
    sl_store_watch_look(tier->watch, &health, uv_hrtime() / 1000);
}

static bool is_ready(const struct sl_loop *loop)
{
    struct sl_secret secret;

    return sl_fleet_secret(loop->tier->fleet, &secret) && !loop->tier->unadopted && loop->versions.looked &&
           loop->versions.looked_over;
}

static void on_beat(uv_timer_t *beat)
{
    struct sl_loop *loop = beat->data;
    bool hurry;

    if (loop->tier->unadopted)
        sl_tier_adopt(loop->tier);
    sl_lib_versions_beat(&loop->versions);
    sl_tier_end_overrides(loop->tier);
    pthread_mutex_lock(&loop->lock);
    if (!loop->ready && is_ready(loop)) {
        loop->ready = true;
        pthread_cond_broadcast(&loop->changed);
    }
    hurry = loop->hurry && !loop->ready;
    pthread_mutex_unlock(&loop->lock);
    if (!hurry && uv_timer_get_repeat(beat) != BEAT_MS)
        uv_timer_start(beat, on_beat, BEAT_MS, BEAT_MS);
    if (!hurry)
        look(loop->tier);
}

static void loop_free(struct sl_loop *loop)
{
    struct sl_alloc alloc = loop->alloc;

    pthread_cond_destroy(&loop->changed);
    pthread_mutex_destroy(&loop->lock);
    sl_free(&alloc, loop);
}

/* Until every handle is closed and every request is over. */
static void run_out(struct sl_loop *loop)
{
    int left;

    uv_run(&loop->uv, UV_RUN_DEFAULT);
    sl_net_uv_fini(&loop->net);
    left = uv_loop_close(&loop->uv);
    assert(left == 0);
    (void)left;
}

static void *run(void *ctx)
{
    struct sl_loop *loop = ctx;
    bool orphan;

    pthread_setname_np(pthread_self(), "sluice");
    run_out(loop);
    pthread_mutex_lock(&loop->lock);
    loop->ended = true;
    orphan = loop->orphan;
    pthread_cond_broadcast(&loop->changed);
    pthread_mutex_unlock(&loop->lock);
    if (orphan)
        loop_free(loop);
    return NULL;
}

/* ---- life */

static void init_lock(struct sl_loop *loop)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&loop->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&loop->lock, NULL);
}

static void close_walked(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Of one whose net was opened, whose thread does not run, and whose lane is gone. */
static void discard(struct sl_loop *loop)
{
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->beat, NULL);
    run_out(loop);
    loop_free(loop);
}

/* Of a loop that does not run. */
static void close_parts(struct sl_loop *loop)
{
    sl_lib_versions_stop(&loop->versions, NULL, NULL);
    sl_lane_free(loop->tier->lane);
    loop->tier->lane = NULL;
}

/* What has no net yet: two handles at most. */
static int give_up(struct sl_loop *loop, int err, char *ret_why, size_t why_size)
{
    sl_lib_why(ret_why, why_size, "the background loop cannot be opened: %s", sl_err_text(err));
    uv_walk(&loop->uv, close_walked, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    loop_free(loop);
    return err;
}

static int open_handles(struct sl_loop *loop)
{
    loop->wake.data = loop->beat.data = loop;
    if (uv_async_init(&loop->uv, &loop->wake, on_wake) != 0 || uv_timer_init(&loop->uv, &loop->beat) != 0 ||
        uv_timer_start(&loop->beat, on_beat, HURRY_MS, HURRY_MS) != 0)
        return SL_EIO;
    return sl_net_uv_init(&loop->net, &loop->uv, &loop->alloc);
}

int sl_loop_new(struct sl_tier *tier, struct sl_loop **ret_loop, char *ret_why, size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_loop *loop = sl_calloc(&alloc, 1, sizeof *loop);
    char why[256] = "";
    sigset_t before;
    int err;

    if (!loop) {
        sl_lib_why(ret_why, why_size, "%s", sl_err_text(SL_ENOMEM));
        return SL_ENOMEM;
    }
    loop->tier = tier;
    loop->alloc = alloc;
    init_lock(loop);
    if (uv_loop_init(&loop->uv) != 0) {
        sl_lib_why(ret_why, why_size, "the background loop cannot be opened: %s", strerror(errno));
        loop_free(loop);
        return SL_EIO;
    }
    err = open_handles(loop);
    if (err != 0)
        return give_up(loop, err, ret_why, why_size);
    sl_block_signals(&before);
    err = sl_lane_new(tier->fleet, &loop->net.net, &tier->lane, why, sizeof why);
    if (err == 0)
        err = sl_lib_versions_start(&loop->versions, tier, &loop->uv, &loop->net.net, why, sizeof why);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0) {
        close_parts(loop);
        sl_lib_why(ret_why, why_size, "store: %s", why);
        discard(loop);
        return err;
    }
    *ret_loop = loop;
    return 0;
}

int sl_loop_start(struct sl_loop *loop, char *ret_why, size_t why_size)
{
    sigset_t before;
    int err;

    sl_block_signals(&before);
    err = pthread_create(&loop->thread, NULL, run, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err == 0)
        return 0;
    sl_lib_why(ret_why, why_size, "the background thread cannot be started: %s", strerror(err));
    close_parts(loop);
    discard(loop);
    return SL_EBUSY;
}

bool sl_loop_wait_ready(struct sl_loop *loop, unsigned for_ms)
{
    struct timespec until = sl_time_in_ms(CLOCK_MONOTONIC, for_ms);
    bool ready;
    int err = 0;

    pthread_mutex_lock(&loop->lock);
    while (!loop->ready && err != ETIMEDOUT)
        err = pthread_cond_timedwait(&loop->changed, &loop->lock, &until);
    ready = loop->ready;
    loop->hurry = false;
    pthread_mutex_unlock(&loop->lock);
    return ready;
}

void sl_loop_stop(struct sl_loop *loop)
{
    struct timespec until = sl_time_in_ms(CLOCK_MONOTONIC, END_MS);
    pthread_t thread = loop->thread;
    bool ended;
    int err = 0;

    sl_loop_wake(loop);
    pthread_mutex_lock(&loop->lock);
    while (!loop->released)
        pthread_cond_wait(&loop->changed, &loop->lock);
    while (!loop->ended && err != ETIMEDOUT)
        err = pthread_cond_timedwait(&loop->changed, &loop->lock, &until);
    ended = loop->ended;
    loop->orphan = !ended;
    pthread_mutex_unlock(&loop->lock);
    if (!ended) {
        pthread_detach(thread); /* it frees itself; see above */
        return;
    }
    pthread_join(thread, NULL);
    loop_free(loop);
}
