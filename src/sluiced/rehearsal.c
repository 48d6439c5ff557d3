#include "sluiced/rehearsal.h"

#include "base/err.h"
#include "policy/override.h"
#include "sluiced/gently.h"
#include "sluiced/outcome.h"
#include "store/url.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(SL_SERVER_LOOPS_MAX <= SL_SHADOW_LOOPS_MAX, "every loop has its ring");
static_assert(SL_SERVER_LOOPS_MAX <= SL_DRY_LOOPS_MAX, "and its pairs");

static uint64_t wall_us(void)
{
    struct sl_clock clock = sl_clock_system();

    return clock.wall_us(clock.ctx);
}

/* ---- on the serving loops */

static void on_decision(void *ctx, const struct sl_witnessed *decision)
{
    struct sl_rehearsal *rehearsal = ctx;

    sl_shadow_offer(rehearsal->shadow, decision->loop, decision->request, decision->verdict);
}

static void on_dry_rejection(void *ctx, const struct sl_witnessed *decision)
{
    struct sl_rehearsal *rehearsal = ctx;

    sl_dry_saw(rehearsal->dry, decision->loop, decision->request, decision->verdict);
}

void sl_rehearsal_totals(void *ctx, struct sl_shadow_totals *ret_totals)
{
    struct sl_rehearsal *rehearsal = ctx;

    sl_shadow_totals(rehearsal->shadow, ret_totals);
}

/* ---- what runs */

/* A reference to the policy that decides. What lies over it now lies over the candidate too; that changes with the
 * policy also when an override ends, and the list of them stays. */
static struct sl_policy *live_policy(struct sl_rehearsal *rehearsal)
{
    struct sl_policy *live = sl_limiter_policy(rehearsal->set.limiter);

    if (live == rehearsal->laid || sl_shadow_lay(rehearsal->shadow, sl_policy_overrides(live)))
        return live;
    sl_policy_unref(rehearsal->laid); /* held so that another one can never be taken for it */
    rehearsal->laid = sl_policy_ref(live);
    return live;
}

static void begin_counts(struct sl_rehearsal *rehearsal)
{
    struct sl_policy *live = live_policy(rehearsal);

    snprintf(rehearsal->live, sizeof rehearsal->live, "%s", sl_policy_hash(live));
    sl_policy_unref(live);
    rehearsal->since_us = wall_us();
    rehearsal->told_ms = 0;
}

/* Starting compiles, which takes long for a large policy: that gives way to the workers. */
struct start {
    struct sl_rehearsal *rehearsal;
    const struct sl_version_text *text;
    char *why;
    size_t why_size;
    int err;
};

static void start(void *ctx)
{
    struct start *start = ctx;

    start->err = sl_shadow_start(start->rehearsal->shadow, start->text, "the candidate", start->why, start->why_size);
}

int sl_rehearsal_run(struct sl_rehearsal *rehearsal, const struct sl_version *version,
                     const struct sl_version_text *text, char *why, size_t why_size)
{
    struct start job = {.rehearsal = rehearsal, .text = text, .why = why, .why_size = why_size};
    struct sl_pointer runs = sl_source_runs(rehearsal->set.source);

    sl_policy_unref(live_policy(rehearsal)); /* its overrides */
    sl_gently(start, &job);
    if (job.err) {
        sl_log(rehearsal->set.log, SL_LOG_ERROR, "a candidate policy by %s was not taken: %s", version->author, why);
        return job.err;
    }
    rehearsal->version = *version;
    rehearsal->against = (struct sl_pointer){.number = version->from};
    if (!rehearsal->shared || runs.number == version->from)
        rehearsal->against = runs;
    begin_counts(rehearsal);
    sl_witness_set(rehearsal->all_seen, SL_SEE_ALL);
    sl_log(rehearsal->set.log, SL_LOG_INFO, "a candidate policy by %s runs beside the live one%s%s%s", version->author,
           version->comment[0] ? " (" : "", version->comment, version->comment[0] ? ")" : "");
    return 0;
}

void sl_rehearsal_halt(struct sl_rehearsal *rehearsal, const struct sl_version *version)
{
    if (!sl_shadow_runs(rehearsal->shadow))
        return;
    sl_witness_set(rehearsal->all_seen, 0);
    sl_shadow_stop(rehearsal->shadow);
    sl_policy_unref(rehearsal->laid); /* else it would be kept for as long as nothing runs */
    rehearsal->laid = NULL;
    sl_log(rehearsal->set.log, SL_LOG_INFO, "the candidate policy was stopped by %s%s%s%s", version->author,
           version->comment[0] ? " (" : "", version->comment, version->comment[0] ? ")" : "");
}

void sl_rehearsal_note_live(struct sl_rehearsal *rehearsal)
{
    struct sl_policy *live;
    bool same;

    if (!sl_shadow_runs(rehearsal->shadow))
        return;
    live = live_policy(rehearsal);
    same = !strcmp(sl_policy_hash(live), rehearsal->live);
    sl_policy_unref(live);
    if (same)
        return;
    sl_shadow_recount(rehearsal->shadow);
    begin_counts(rehearsal);
    sl_log(rehearsal->set.log, SL_LOG_INFO, "another policy is in force: the candidate's counts begin anew");
}

static void on_look(uv_timer_t *timer)
{
    struct sl_rehearsal *rehearsal = timer->data;

    sl_rehearsal_note_live(rehearsal);
    if (rehearsal->shared)
        sl_rehearsal_tell(rehearsal);
}

/* ---- jobs */

void sl_rehearsal_refuse(struct sl_policy_job *job, int status, const char *why)
{
    job->status = status;
    sl_outcome_sentence(why, job->why, sizeof job->why);
    sl_policy_job_done(job);
}

void sl_rehearsal_answer(struct sl_policy_job *job, json_t *value)
{
    job->text = value ? json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(value);
    job->status = job->text ? 200 : 500;
    snprintf(job->why, sizeof job->why, "Out of memory.");
    sl_policy_job_done(job);
}

/* Who asks, for a candidate that is no version. */
static void sign(const struct sl_policy_job *job, struct sl_version *version)
{
    *version = (struct sl_version){.number = 0};
    if (job->author[0])
        snprintf(version->author, sizeof version->author, "%s", job->author);
    else
        snprintf(version->author, sizeof version->author, "admin at %s", job->peer);
    snprintf(version->comment, sizeof version->comment, "%s", job->comment);
}

static void start_here(struct sl_rehearsal *rehearsal, struct sl_policy_job *job)
{
    const struct sl_version_text text = {
        .body = job->body, .body_len = job->body_len, .keys = job->keys, .keys_len = job->keys_len};
    struct sl_shadow_figures figures;
    struct sl_version version;
    char why[1024];
    int err = sl_source_try(rehearsal->set.source, &text, "the candidate", SL_WARNINGS_NONE, why, sizeof why);

    sign(job, &version);
    if (!err)
        err = sl_rehearsal_run(rehearsal, &version, &text, why, sizeof why);
    if (err) {
        sl_rehearsal_refuse(job, err == SL_EPOLICY ? 422 : err == SL_EBUSY ? 503 : 500, why);
        return;
    }
    sl_shadow_figures(rehearsal->shadow, &figures);
    sl_log(rehearsal->set.log, SL_LOG_INFO, "audit: candidate %.12s by %s was started through %s", figures.hash,
           version.author, job->peer);
    sl_rehearsal_answer(job, json_pack("{s:{s:s, s:s, s:s}}", "shadow", "hash", figures.hash, "author", version.author,
                                       "comment", version.comment));
}

static void stop_here(struct sl_rehearsal *rehearsal, struct sl_policy_job *job)
{
    struct sl_version version;

    if (!sl_shadow_runs(rehearsal->shadow)) {
        sl_rehearsal_refuse(job, 404,
                            "No candidate policy runs: `sluice policy shadow FILE`, or PUT /v1/shadow, starts one.");
        return;
    }
    sign(job, &version);
    sl_rehearsal_halt(rehearsal, &version);
    sl_log(rehearsal->set.log, SL_LOG_INFO, "audit: the candidate was stopped by %s through %s", version.author,
           job->peer);
    sl_rehearsal_answer(job, json_pack("{s:b}", "stopped", 1));
}

static void promote_here(struct sl_rehearsal *rehearsal, struct sl_policy_job *job)
{
    if (sl_shadow_runs(rehearsal->shadow))
        sl_rehearsal_refuse(job, 409,
                            "This daemon follows its file, which it does not write: write the candidate there, as "
                            "`sluice policy promote --policy FILE` does.");
    else
        sl_rehearsal_refuse(job, 404,
                            "No candidate policy runs: `sluice policy shadow FILE`, or PUT /v1/shadow, starts one.");
}

static void do_here(struct sl_rehearsal *rehearsal, struct sl_policy_job *job)
{
    switch (job->verb) {
    case SL_SHADOW_START:
        start_here(rehearsal, job);
        break;
    case SL_SHADOW_STOP:
        stop_here(rehearsal, job);
        break;
    case SL_SHADOW_PROMOTE:
        promote_here(rehearsal, job);
        break;
    default:
        sl_rehearsal_answer(job, sl_rehearsal_json(rehearsal, job->with_text, NULL));
    }
}

static void clear_dry(struct sl_rehearsal *rehearsal, struct sl_policy_job *job)
{
    sl_dry_clear(rehearsal->dry);
    rehearsal->dry_since_us = wall_us();
    sl_log(rehearsal->set.log, SL_LOG_INFO, "audit: what dry-run limits would have rejected was forgotten through %s",
           job->peer);
    sl_rehearsal_answer(job, json_pack("{s:b}", "cleared", 1));
}

static void do_job(struct sl_rehearsal *rehearsal, struct sl_policy_job *job)
{
    sl_rehearsal_note_live(rehearsal);
    if (job->verb == SL_DRY_REPORT)
        sl_rehearsal_answer(job, sl_rehearsal_dry_json(rehearsal));
    else if (job->verb == SL_DRY_CLEAR)
        clear_dry(rehearsal, job);
    else if (rehearsal->shared)
        sl_rehearsal_do_shared(rehearsal, job);
    else
        do_here(rehearsal, job);
}

static void on_asked(uv_async_t *handle)
{
    struct sl_rehearsal *rehearsal = handle->data;
    struct sl_policy_job *jobs[sizeof rehearsal->jobs / sizeof rehearsal->jobs[0]];
    unsigned n;

    pthread_mutex_lock(&rehearsal->lock);
    n = rehearsal->n_jobs;
    memcpy(jobs, rehearsal->jobs, n * sizeof(struct sl_policy_job *));
    rehearsal->n_jobs = 0;
    pthread_mutex_unlock(&rehearsal->lock);
    for (unsigned i = 0; i < n; i++)
        do_job(rehearsal, jobs[i]);
}

void sl_rehearsal_job(void *ctx, struct sl_policy_job *job)
{
    struct sl_rehearsal *rehearsal = ctx;
    bool room;

    pthread_mutex_lock(&rehearsal->lock);
    room = rehearsal->n_jobs < sizeof rehearsal->jobs / sizeof rehearsal->jobs[0];
    if (room)
        rehearsal->jobs[rehearsal->n_jobs++] = job;
    pthread_mutex_unlock(&rehearsal->lock);
    if (room)
        uv_async_send(&rehearsal->asked);
    else
        sl_rehearsal_refuse(job, 503, "Too many requests about candidates wait; try again.");
}

/* ---- life */

static void on_say(void *ctx, enum sl_shadow_say severity, const char *line)
{
    static const enum sl_log_level levels[] = {
        [SL_SHADOW_ERROR] = SL_LOG_ERROR, [SL_SHADOW_WARNING] = SL_LOG_WARNING, [SL_SHADOW_INFO] = SL_LOG_INFO};
    struct sl_rehearsal *rehearsal = ctx;

    sl_log(rehearsal->set.log, levels[severity], "candidate policy: %s", line);
}

static int open_shadow(struct sl_rehearsal *rehearsal)
{
    const struct sl_config *config = rehearsal->set.config;
    const struct sl_shadow_config shadow = {.alloc = &rehearsal->alloc,
                                            .live = sl_limiter_table(rehearsal->set.limiter),
                                            .store = rehearsal->shared ? &rehearsal->set.tier->url : NULL,
                                            .ns = config->namespace,
                                            .timeout_us = config->timeout_us,
                                            .instances = (unsigned)config->instances,
                                            .region = config->region,
                                            .check_store = sl_store_url_check,
                                            .table_keys = config->table_keys,
                                            .table_log_entries = config->table_log_entries ? config->table_log_entries
                                                                                           : config->table_keys,
                                            .say = on_say,
                                            .ctx = rehearsal};
    int err = sl_shadow_new(&shadow, &rehearsal->shadow);

    if (!err)
        err = sl_dry_new(&rehearsal->alloc, &rehearsal->dry);
    return err ? err : sl_shadow_namespace(config->namespace, rehearsal->ns);
}

static int open_witnesses(struct sl_rehearsal *rehearsal)
{
    struct sl_witnesses *witnesses = rehearsal->set.witnesses;

    rehearsal->all_seen = sl_witness_add(witnesses, on_decision, NULL, rehearsal);
    rehearsal->dry_seen = sl_witness_add(witnesses, on_dry_rejection, NULL, rehearsal);
    if (!rehearsal->all_seen || !rehearsal->dry_seen)
        return SL_EBUSY;
    sl_witness_set(rehearsal->dry_seen, SL_SEE_DRY);
    return 0;
}

int sl_rehearsal_start(struct sl_rehearsal *rehearsal, const struct sl_rehearsal_setting *setting, char *why,
                       size_t why_size)
{
    int err;

    *rehearsal = (struct sl_rehearsal){.set = *setting, .alloc = sl_alloc_system(), .dry_since_us = wall_us()};
    rehearsal->shared = sl_tier_is_shared(setting->tier);
    snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
    if (uv_async_init(setting->loop, &rehearsal->asked, on_asked))
        return SL_ENOMEM;
    uv_timer_init(setting->loop, &rehearsal->look); /* cannot fail */
    rehearsal->asked.data = rehearsal->look.data = rehearsal;
    pthread_mutex_init(&rehearsal->lock, NULL);
    rehearsal->started = true;
    err = open_shadow(rehearsal);
    if (!err)
        err = open_witnesses(rehearsal);
    if (err) {
        snprintf(why, why_size, "%s", sl_err_text(err));
        sl_rehearsal_stop(rehearsal);
        return err;
    }
    rehearsal->place = setting->plane->place;
    rehearsal->place.ns = rehearsal->ns;
    uv_timer_start(&rehearsal->look, on_look, SL_REHEARSAL_LOOK_MS, SL_REHEARSAL_LOOK_MS);
    return 0;
}

void sl_rehearsal_stop(struct sl_rehearsal *rehearsal)
{
    sl_follow_free(rehearsal->follow);
    rehearsal->follow = NULL;
    sl_policy_unref(rehearsal->laid);
    rehearsal->laid = NULL;
    sl_shadow_free(rehearsal->shadow);
    rehearsal->shadow = NULL;
    sl_dry_free(rehearsal->dry);
    rehearsal->dry = NULL;
}

void sl_rehearsal_fini(struct sl_rehearsal *rehearsal)
{
    if (!rehearsal->started)
        return;
    pthread_mutex_destroy(&rehearsal->lock);
    rehearsal->started = false;
}
