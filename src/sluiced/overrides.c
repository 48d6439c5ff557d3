#include "sluiced/overrides.h"

#include "base/clock.h"
#include "base/err.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define ENDING_MAX_MS 2000u /* a clock that is set is noticed within it, forward and back */

static uint64_t wall_us(void)
{
    struct sl_clock clock = sl_clock_system();

    return clock.wall_us(clock.ctx);
}

/* ---- in force */

static void on_ending(uv_timer_t *timer);

static bool has_ends(const struct sl_overrides *list)
{
    for (size_t i = 0; list && i < list->n; i++)
        if (list->list[i].until_us)
            return true;
    return false;
}

/* Also while all have ended: the clock may be set back. */
static void wait_for_end(struct sl_override_desk *desk)
{
    uint64_t now = wall_us(), end = sl_overrides_next_end(desk->list, now), ms = ENDING_MAX_MS;

    if (!has_ends(desk->list)) {
        uv_timer_stop(&desk->ending);
        return;
    }
    if (end != UINT64_MAX && (end - now) / 1000 < ms)
        ms = (end - now) / 1000 + 1;
    uv_timer_start(&desk->ending, on_ending, ms, 0);
}

/* How many of those that lie over the policy have ended since, and how many that had ended have not, by a clock that was
 * set back. */
static void count_ended(const struct sl_policy *policy, uint64_t now_us, unsigned *ret_ended, unsigned *ret_revived)
{
    const struct sl_overrides *list = sl_policy_overrides(policy);
    struct sl_override_status status;

    *ret_ended = *ret_revived = 0;
    for (size_t i = 0; list && i < list->n; i++) {
        bool over = sl_override_is_over(&list->list[i], now_us);

        sl_policy_override_status(policy, i, &status);
        *ret_ended += over && !status.over;
        *ret_revived += !over && status.over;
    }
}

static void tell_ended(const struct sl_override_desk *desk, unsigned ended, unsigned revived)
{
    if (ended)
        sl_log(desk->config.log, SL_LOG_INFO, "%u override%s ended and %s not in force any more", ended,
               ended == 1 ? "" : "s", ended == 1 ? "is" : "are");
    if (revived)
        sl_log(desk->config.log, SL_LOG_WARNING,
               "the clock was set back: %u override%s that had ended %s in force again", revived,
               revived == 1 ? "" : "s", revived == 1 ? "is" : "are");
}

static void on_ending(uv_timer_t *timer)
{
    struct sl_override_desk *desk = timer->data;
    struct sl_source *source = desk->config.source;
    struct sl_policy *policy = sl_limiter_policy(source->limiter);
    unsigned ended, revived;

    count_ended(policy, wall_us(), &ended, &revived);
    sl_policy_unref(policy);
    if ((ended || revived) && sl_source_set_overrides(source, desk->list)) {
        sl_log(desk->config.log, SL_LOG_ERROR, "out of memory: %u overrides stay in force beyond their end", ended);
        uv_timer_start(&desk->ending, on_ending, 1000, 0);
        return;
    }
    tell_ended(desk, ended, revived);
    wait_for_end(desk);
}

/* Keeping is a service, not a condition: the list is in force all the same. */
static void keep(const struct sl_override_desk *desk)
{
    const struct sl_overrides_config *config = &desk->config;
    char why[512];

    if (config->state_dir && config->place &&
        sl_keep_overrides(config->state_dir, config->url, config->ns, desk->list, &desk->revision, NULL, why,
                          sizeof why))
        sl_log(config->log, SL_LOG_ERROR, "the overrides could not be kept in %s: %s", config->state_dir, why);
}

int sl_overrides_adopt(struct sl_override_desk *desk, struct sl_overrides *list)
{
    int err = sl_source_set_overrides(desk->config.source, list);

    if (err) {
        sl_log(desk->config.log, SL_LOG_ERROR, "the overrides cannot be put in force: %s", sl_err_text(err));
        sl_overrides_unref(list);
        return err;
    }
    sl_overrides_unref(desk->list);
    desk->list = list;
    keep(desk);
    wait_for_end(desk);
    return 0;
}

/* ---- the store's */

static bool on_take(void *owner, struct sl_overrides *overrides, const struct sl_revision *revision)
{
    struct sl_override_desk *desk = owner;
    struct sl_revision before = desk->revision;
    size_t n = overrides->n;

    desk->revision = *revision;
    if (sl_overrides_adopt(desk, overrides)) {
        desk->revision = before;
        return false;
    }
    sl_log(desk->config.log, SL_LOG_INFO, "revision %" PRIu64 " of the overrides is in force: %zu of them",
           revision->number, n);
    return true;
}

static void on_odd(void *owner, const char *text)
{
    struct sl_override_desk *desk = owner;

    sl_log(desk->config.log, SL_LOG_ERROR, "overrides: %s", text);
}

static void on_looked(void *owner)
{
    struct sl_override_desk *desk = owner;

    if (desk->config.looked)
        desk->config.looked(desk->config.ctx);
}

void sl_overrides_begin(struct sl_override_desk *desk)
{
    struct sl_overrides_follow_config config = {.take = on_take, .odd = on_odd, .looked = on_looked, .owner = desk};

    if (!desk->started || !desk->config.place)
        return;
    config.place = *desk->config.place;
    if (sl_overrides_follow_new(&config, &desk->revision, &desk->follow)) {
        sl_log(desk->config.log, SL_LOG_ERROR, "out of memory: overrides are not followed");
        on_looked(desk);
    }
}

/* ---- jobs on their way from other threads */

void sl_overrides_take_job(void *ctx, struct sl_override_job *job)
{
    struct sl_override_desk *desk = ctx;
    bool room;

    pthread_mutex_lock(&desk->lock);
    room = desk->n_jobs < sizeof desk->jobs / sizeof desk->jobs[0];
    if (room)
        desk->jobs[desk->n_jobs++] = job;
    pthread_mutex_unlock(&desk->lock);
    if (room) {
        uv_async_send(&desk->asked);
        return;
    }
    job->status = 503;
    snprintf(job->why, sizeof job->why, "Too many requests about overrides wait; try again.");
    sl_override_job_done(job);
}

static void on_asked(uv_async_t *handle)
{
    struct sl_override_desk *desk = handle->data;
    struct sl_override_job *jobs[sizeof desk->jobs / sizeof desk->jobs[0]];
    unsigned n;

    pthread_mutex_lock(&desk->lock);
    n = desk->n_jobs;
    memcpy(jobs, desk->jobs, n * sizeof(struct sl_override_job *));
    desk->n_jobs = 0;
    pthread_mutex_unlock(&desk->lock);
    for (unsigned i = 0; i < n; i++)
        sl_overrides_do(desk, jobs[i]);
}

/* ---- life */

/* What was kept is in force until the store tells of another. */
static void take_kept(struct sl_override_desk *desk)
{
    const struct sl_overrides_config *config = &desk->config;
    struct sl_kept_overrides kept;
    char why[4608];
    size_t n;
    int err;

    if (!config->state_dir)
        return;
    err = sl_keep_find_overrides(config->state_dir, config->place ? config->url : NULL, config->ns, &kept, why,
                                 sizeof why);
    if (err && err != SL_ENOTFOUND)
        sl_log(config->log, SL_LOG_ERROR, "the overrides that were kept cannot be used: %s", why);
    if (err)
        return;
    desk->revision = kept.revision;
    json_decref(desk->log);
    desk->log = kept.log;
    n = kept.list->n;
    if (sl_overrides_adopt(desk, kept.list) == 0 && n)
        sl_log(config->log, SL_LOG_INFO, "%zu override%s kept in %s", n, n == 1 ? " was" : "s were", config->state_dir);
}

int sl_overrides_start(struct sl_override_desk *desk, const struct sl_overrides_config *config, uv_loop_t *loop)
{
    *desk = (struct sl_override_desk){.config = *config, .alloc = sl_alloc_system(), .log = json_array()};
    if (!desk->log || uv_async_init(loop, &desk->asked, on_asked) || uv_timer_init(loop, &desk->ending)) {
        json_decref(desk->log);
        return SL_ENOMEM;
    }
    desk->asked.data = desk->ending.data = desk;
    pthread_mutex_init(&desk->lock, NULL);
    desk->started = true;
    take_kept(desk);
    return 0;
}

void sl_overrides_stop(struct sl_override_desk *desk)
{
    sl_overrides_follow_free(desk->follow);
    desk->follow = NULL;
}

void sl_overrides_fini(struct sl_override_desk *desk)
{
    if (!desk->started)
        return;
    sl_overrides_unref(desk->list);
    json_decref(desk->log);
    pthread_mutex_destroy(&desk->lock);
    *desk = (struct sl_override_desk){.started = false};
}
