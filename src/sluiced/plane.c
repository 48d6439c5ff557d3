#include "sluiced/plane.h"

#include "base/err.h"
#include "store/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- following */

static void count_take(struct sl_plane *plane, enum sl_reload result, const char *why)
{
    sl_server_count_reload(plane->server, result == SL_RELOAD_DONE || result == SL_RELOAD_SAME, why);
}

static enum sl_offer ignore(struct sl_plane *plane, const struct sl_version *version)
{
    sl_log(plane->log, SL_LOG_WARNING,
           "version %" PRIu64
           " of the policy (%.12s) is current on the store, and not taken: this instance follows its "
           "file (--policy-source file)",
           version->number, version->hash);
    sl_server_count_ignored(plane->server);
    return SL_OFFER_IGNORED;
}

static enum sl_offer on_offer(void *owner, const struct sl_version *version, struct sl_version_text *text, char *why,
                              size_t why_size)
{
    struct sl_plane *plane = owner;
    enum sl_reload result;

    if (!text)
        return ignore(plane, version);
    result = sl_source_take(plane->source, version, text, why, why_size);
    count_take(plane, result, why);
    if (result == SL_RELOAD_FAILED || result == SL_RELOAD_SHORT)
        return result == SL_RELOAD_SHORT ? SL_OFFER_LATER : SL_OFFER_REFUSED;
    sl_server_set_policy_version(plane->server, version->number);
    return SL_OFFER_TAKEN;
}

static void on_odd(void *owner, const char *text)
{
    struct sl_plane *plane = owner;

    sl_log(plane->log, SL_LOG_ERROR, "versions of the policy: %s", text);
}

static void be_ready(struct sl_plane *plane)
{
    uv_timer_stop(&plane->patience);
    sl_server_set_ready(plane->server, true);
}

void sl_plane_heard(struct sl_plane *plane, unsigned what)
{
    plane->awaited &= ~what;
    if (!plane->awaited)
        be_ready(plane);
}

static void on_looked(void *owner)
{
    sl_plane_heard(owner, SL_PLANE_POLICY);
}

static void on_patience(uv_timer_t *timer)
{
    be_ready(timer->data);
}

void sl_plane_follow(struct sl_plane *plane, struct sl_server *server)
{
    struct sl_follow_config config = {.place = plane->place,
                                      .host = plane->host,
                                      .region = plane->config->region,
                                      .address = sl_server_address(server, false, 0),
                                      .from_file = plane->from_file,
                                      .offer = on_offer,
                                      .odd = on_odd,
                                      .looked = on_looked,
                                      .owner = plane};
    struct sl_pointer runs;

    plane->server = server;
    if (!plane->started) {
        sl_server_set_ready(server, true);
        return;
    }
    plane->awaited = SL_PLANE_POLICY | SL_PLANE_OVERRIDES;
    runs = sl_source_runs(plane->source);
    if (!plane->from_file)
        sl_server_set_policy_version(server, runs.number);
    config.id = sl_fleet_id(plane->tier->fleet);
    if (sl_follow_new(&config, &runs, &plane->follow)) {
        sl_log(plane->log, SL_LOG_ERROR, "out of memory: versions of the policy are not followed");
        sl_server_set_ready(server, true);
        return;
    }
    uv_timer_start(&plane->patience, on_patience, SL_PLANE_PATIENCE_MS, 0);
}

bool sl_plane_hurry(struct sl_plane *plane)
{
    if (!plane->follow || plane->from_file)
        return false;
    sl_follow_hurry(plane->follow);
    return true;
}

/* ---- jobs on their way from other threads */

void sl_plane_job(void *ctx, struct sl_policy_job *job)
{
    struct sl_plane *plane = ctx;
    bool room;

    pthread_mutex_lock(&plane->lock);
    room = plane->n_jobs < sizeof plane->jobs / sizeof plane->jobs[0];
    if (room)
        plane->jobs[plane->n_jobs++] = job;
    pthread_mutex_unlock(&plane->lock);
    if (room) {
        uv_async_send(&plane->asked);
        return;
    }
    job->status = 503;
    snprintf(job->why, sizeof job->why, "Too many requests about versions wait; try again.");
    sl_policy_job_done(job);
}

static void on_asked(uv_async_t *handle)
{
    struct sl_plane *plane = handle->data;
    struct sl_policy_job *jobs[sizeof plane->jobs / sizeof plane->jobs[0]];
    unsigned n;

    pthread_mutex_lock(&plane->lock);
    n = plane->n_jobs;
    memcpy(jobs, plane->jobs, n * sizeof(struct sl_policy_job *));
    plane->n_jobs = 0;
    pthread_mutex_unlock(&plane->lock);
    for (unsigned i = 0; i < n; i++)
        sl_plane_do(plane, jobs[i]);
}

/* ---- life */

static int open_client(struct sl_plane *plane, char *why, size_t why_size)
{
    const struct sl_config *config = plane->config;
    size_t len;
    struct sl_client_config client = {
        .net = &plane->net.net,
        .alloc = &plane->alloc,
        .url = &plane->tier->url,
        .script = sl_script_text(&len),
        .script_sha1 = sl_script_sha1(),
        .timeout_us = config->timeout_us > SL_PLANE_TIMEOUT_US ? config->timeout_us : SL_PLANE_TIMEOUT_US,
    };

    return sl_client_new(&client, &plane->client, why, why_size);
}

int sl_plane_start(struct sl_plane *plane, const struct sl_config *config, struct sl_tier *tier,
                   struct sl_source *source, struct sl_log *log, uv_loop_t *loop, char *why, size_t why_size)
{
    int err;

    *plane =
        (struct sl_plane){.config = config, .tier = tier, .source = source, .log = log, .alloc = sl_alloc_system()};
    if (!sl_tier_is_shared(tier))
        return 0;
    plane->from_file = config->policy_source == SL_POLICY_FROM_FILE;
    if (gethostname(plane->host, sizeof plane->host - 1))
        snprintf(plane->host, sizeof plane->host, "unknown");
    snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
    if (uv_async_init(loop, &plane->asked, on_asked) || uv_timer_init(loop, &plane->patience))
        return SL_ENOMEM;
    plane->asked.data = plane->patience.data = plane;
    err = sl_net_uv_init(&plane->net, loop, &plane->alloc);
    if (err)
        return err;
    pthread_mutex_init(&plane->lock, NULL);
    plane->started = true;
    err = open_client(plane, why, why_size);
    plane->place = (struct sl_versions_place){
        .net = &plane->net.net, .client = plane->client, .alloc = &plane->alloc, .ns = config->namespace};
    return err;
}

void sl_plane_stop(struct sl_plane *plane)
{
    sl_client_free(plane->client);
    plane->client = NULL;
    sl_follow_free(plane->follow);
    plane->follow = NULL;
}

void sl_plane_fini(struct sl_plane *plane)
{
    if (!plane->started)
        return;
    sl_net_uv_fini(&plane->net);
    pthread_mutex_destroy(&plane->lock);
    plane->started = false;
}
