/* What the admin listener is asked about versions: pushes, rollbacks, histories. */
#include "base/err.h"
#include "control/report.h"
#include "sluiced/outcome.h"
#include "sluiced/plane.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job in the middle of it. */
struct task {
    struct sl_plane *plane;
    struct sl_policy_job *job;
    struct sl_pointer current;
    uint64_t from;               /* a rollback: what is brought back */
    struct sl_version_text text; /* its texts, or the job's (not to be freed) */
};

/* ---- answers */

static void done(struct task *task)
{
    struct sl_policy_job *job = task->job;

    if (task->from)
        sl_version_text_free(&task->plane->alloc, &task->text);
    free(task);
    sl_policy_job_done(job);
}

static void refuse(struct task *task, int status, const char *why)
{
    struct sl_policy_job *job = task->job;

    job->status = status;
    sl_outcome_sentence(why, job->why, sizeof job->why);
    done(task);
}

static void refuse_outcome(struct task *task, enum sl_control outcome, const char *why)
{
    refuse(task, sl_outcome_status(outcome), sl_outcome_why(outcome, why));
}

/* Takes the value. */
static void answer(struct task *task, json_t *value, const char *etag)
{
    struct sl_policy_job *job = task->job;

    job->text = value ? json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(value);
    job->status = job->text ? 200 : 500;
    snprintf(job->why, sizeof job->why, "Out of memory.");
    if (job->text && etag)
        snprintf(job->etag, sizeof job->etag, "%s", etag);
    done(task);
}

/* ---- histories */

static void on_told(void *ctx, enum sl_control outcome, const struct sl_history *history, const char *why)
{
    struct task *task = ctx;

    if (outcome == SL_CONTROL_OK)
        answer(task, sl_history_json(history), NULL);
    else
        refuse_outcome(task, outcome, why);
}

static void begin_history(struct task *task)
{
    const struct sl_policy_job *job = task->job;
    enum sl_control outcome =
        sl_versions_history(&task->plane->place, job->number ? job->number - 1 : 0, job->limit, on_told, task);

    if (outcome != SL_CONTROL_OK)
        refuse_outcome(task, outcome, NULL);
}

/* ---- a version with its texts */

static void on_texts(void *ctx, enum sl_control outcome, const struct sl_version *version, struct sl_version_text *text,
                     const char *why)
{
    struct task *task = ctx;
    struct sl_alloc *alloc = &task->plane->alloc; /* the task is gone with its answer */
    json_t *policy, *keys;

    if (outcome != SL_CONTROL_OK) {
        refuse_outcome(task, outcome, why);
        return;
    }
    policy = json_stringn(text->body, text->body_len);
    keys = text->keys ? json_stringn(text->keys, text->keys_len) : json_null();
    answer(task, json_pack("{s:o, s:o, s:o}", "version", sl_version_json(version), "policy", policy, "keysFile", keys),
           version->hash);
    sl_version_text_free(alloc, text);
}

static void begin_texts(struct task *task)
{
    enum sl_control outcome = sl_versions_fetch(&task->plane->place, task->job->number, on_texts, task);

    if (outcome != SL_CONTROL_OK)
        refuse_outcome(task, outcome, NULL);
}

/* ---- pushes: the last step of a rollback too */

static void on_pushed(void *ctx, enum sl_control outcome, const struct sl_version *version, const char *why)
{
    struct task *task = ctx;
    const struct sl_policy_job *job = task->job;

    if (outcome == SL_CONTROL_OK) {
        sl_log(task->plane->log, SL_LOG_INFO,
               "audit: version %" PRIu64 " of the policy (%.12s) by %s was %s through %s", version->number,
               version->hash, version->author, version->from ? "brought back" : "pushed", job->peer);
        sl_plane_hurry(task->plane);
        answer(task, json_pack("{s:o}", "version", sl_version_json(version)), version->hash);
        return;
    }
    sl_log(task->plane->log, SL_LOG_WARNING, "audit: a push of the policy through %s failed: %s", job->peer, why);
    if (outcome == SL_CONTROL_CONFLICT && job->match[0])
        refuse(task, 412, why);
    else
        refuse_outcome(task, outcome, why);
}

static void push(struct task *task)
{
    struct sl_policy_job *job = task->job;
    char author[SL_AUTHOR_MAX + 1];
    struct sl_version_draft draft = {
        .body = task->text.body,
        .body_len = task->text.body_len,
        .keys = task->text.keys,
        .keys_len = task->text.keys_len,
        .author = job->author[0] ? job->author : author,
        .comment = job->comment,
        .expected = task->current.number,
        .from = task->from,
    };
    char name[48] = "the policy", why[SL_CONTROL_WHY_MAX];
    const char *wrong = NULL;
    enum sl_control outcome;
    int err;

    if (task->from)
        snprintf(name, sizeof name, "version %" PRIu64, task->from);
    err = sl_source_try(task->plane->source, &task->text, name, task->from ? SL_WARNINGS_NONE : job->refused, why,
                        sizeof why);
    if (err) {
        sl_log(task->plane->log, SL_LOG_WARNING, "audit: a push of the policy through %s is not valid: %s", job->peer,
               why);
        refuse(task, err == SL_EPOLICY ? 422 : 500, why);
        return;
    }
    snprintf(author, sizeof author, "admin at %s", job->peer);
    outcome = sl_versions_push(&task->plane->place, &draft, on_pushed, task, &wrong);
    if (outcome != SL_CONTROL_OK)
        refuse_outcome(task, outcome, wrong);
}

static void on_fetched(void *ctx, enum sl_control outcome, const struct sl_version *version,
                       struct sl_version_text *text, const char *why)
{
    struct task *task = ctx;

    (void)version;
    if (outcome != SL_CONTROL_OK) {
        task->from = 0; /* no texts to free */
        refuse_outcome(task, outcome, why);
        return;
    }
    task->text = *text;
    push(task);
}

static void fetch(struct task *task, uint64_t number)
{
    enum sl_control outcome = sl_versions_fetch(&task->plane->place, number, on_fetched, task);

    if (outcome == SL_CONTROL_OK)
        task->from = number;
    else
        refuse_outcome(task, outcome, NULL);
}

static void on_before(void *ctx, enum sl_control outcome, uint64_t number, const char *why)
{
    struct task *task = ctx;

    if (outcome != SL_CONTROL_OK)
        refuse_outcome(task, outcome, why);
    else if (number == 0)
        refuse(task, 404, "Version 1 is the first: there is none before it.");
    else
        fetch(task, number);
}

static void bring_back(struct task *task)
{
    enum sl_control outcome;

    if (task->current.number == 0) {
        refuse(task, 404, "The store has no version of the policy.");
    } else if (task->job->number) {
        fetch(task, task->job->number);
    } else {
        outcome = sl_versions_before(&task->plane->place, task->current.number, on_before, task);
        if (outcome != SL_CONTROL_OK)
            refuse_outcome(task, outcome, NULL);
    }
}

/* While the store has no version, it is the file's policy that a push replaces. */
static bool matches(const struct task *task)
{
    const char *match = task->job->match;
    struct sl_pointer runs;

    if (!match[0])
        return true;
    if (task->current.number)
        return !strcmp(match, task->current.hash);
    runs = sl_source_runs(task->plane->source);
    return !strcmp(match, runs.hash);
}

static void on_looked(void *ctx, enum sl_control outcome, const struct sl_pointer *pointer, const char *why)
{
    struct task *task = ctx;
    char text[160];

    if (outcome != SL_CONTROL_OK) {
        refuse_outcome(task, outcome, why);
        return;
    }
    task->current = *pointer;
    if (!matches(task)) {
        snprintf(text, sizeof text,
                 "The policy to be replaced is not the current one: that is version %" PRIu64 " (%s).", pointer->number,
                 pointer->number ? pointer->hash : "the file's");
        refuse(task, 412, text);
    } else if (task->job->verb == SL_POLICY_ROLLBACK) {
        bring_back(task);
    } else {
        push(task);
    }
}

static void begin_change(struct task *task)
{
    const struct sl_policy_job *job = task->job;
    enum sl_control outcome;

    task->text = (struct sl_version_text){
        .body = job->body, .body_len = job->body_len, .keys = job->keys, .keys_len = job->keys_len};
    if (task->plane->from_file) {
        refuse(task, 409, "This instance follows its file (--policy-source file).");
        return;
    }
    outcome = sl_versions_look(&task->plane->place, on_looked, task);
    if (outcome != SL_CONTROL_OK)
        refuse_outcome(task, outcome, NULL);
}

void sl_plane_do(struct sl_plane *plane, struct sl_policy_job *job)
{
    struct task *task = calloc(1, sizeof *task);

    if (!task) {
        job->status = 500;
        snprintf(job->why, sizeof job->why, "Out of memory.");
        sl_policy_job_done(job);
        return;
    }
    *task = (struct task){.plane = plane, .job = job};
    if (job->verb == SL_POLICY_HISTORY)
        begin_history(task);
    else if (job->verb == SL_POLICY_TEXTS)
        begin_texts(task);
    else
        begin_change(task);
}
