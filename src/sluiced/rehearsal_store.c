/* Candidates as versions on the store: pushed, followed, stopped and promoted by any instance, for all. */
#include "control/report.h"
#include "sluiced/outcome.h"
#include "sluiced/rehearsal.h"

#include "base/err.h"
#include "policy/digest.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char none[] = SL_REHEARSAL_NONE;

static bool is_none(const struct sl_version_text *text)
{
    return text->body_len == sizeof none - 1 && !text->keys && !memcmp(text->body, none, sizeof none - 1);
}

/* The same by its hash, as the pointer has it. */
static bool points_to_none(const struct sl_pointer *pointer)
{
    char hash[SL_HASH_HEX + 1];

    return pointer->number && !sl_digest(none, sizeof none - 1, NULL, 0, hash) && !strcmp(pointer->hash, hash);
}

/* ---- following */

static enum sl_offer on_offer(void *owner, const struct sl_version *version, struct sl_version_text *text, char *why,
                              size_t why_size)
{
    struct sl_rehearsal *rehearsal = owner;
    int err;

    if (is_none(text)) {
        sl_rehearsal_halt(rehearsal, version);
        return SL_OFFER_TAKEN;
    }
    err = sl_rehearsal_run(rehearsal, version, text, why, why_size);
    if (!err)
        return SL_OFFER_TAKEN;
    return err == SL_EPOLICY || err == SL_EINVALID ? SL_OFFER_REFUSED : SL_OFFER_LATER;
}

static void on_odd(void *owner, const char *text)
{
    struct sl_rehearsal *rehearsal = owner;

    sl_log(rehearsal->set.log, SL_LOG_ERROR, "candidate policies on the store: %s", text);
}

void sl_rehearsal_follow(struct sl_rehearsal *rehearsal)
{
    const struct sl_pointer nothing = {.number = 0};
    struct sl_follow_config config = {.place = rehearsal->place,
                                      .host = rehearsal->set.plane->host,
                                      .mute = true, /* the counts tell who takes part */
                                      .offer = on_offer,
                                      .odd = on_odd,
                                      .owner = rehearsal};

    if (!rehearsal->shared)
        return;
    config.id = sl_fleet_id(rehearsal->set.tier->fleet);
    if (sl_follow_new(&config, &nothing, &rehearsal->follow))
        sl_log(rehearsal->set.log, SL_LOG_ERROR, "out of memory: candidate policies are not followed");
}

/* ---- jobs */

/* A job in the middle of it. */
struct task {
    struct sl_rehearsal *rehearsal;
    struct sl_policy_job *job;
    struct sl_pointer current;   /* the candidate's version */
    struct sl_version candidate; /* to be promoted, with its text */
    struct sl_version_text text;
    struct sl_version promoted;
};

static void end(struct task *task)
{
    sl_version_text_free(&task->rehearsal->alloc, &task->text);
    free(task);
}

static void refuse(struct task *task, int status, const char *why)
{
    struct sl_policy_job *job = task->job;

    end(task);
    sl_rehearsal_refuse(job, status, why);
}

static void answer(struct task *task, json_t *value)
{
    struct sl_policy_job *job = task->job;

    end(task);
    sl_rehearsal_answer(job, value);
}

static void refuse_outcome(struct task *task, enum sl_control outcome, const char *why)
{
    refuse(task, sl_outcome_status(outcome), sl_outcome_why(outcome, why));
}

/* Who asks: the job's own author, or where it came from. */
static const char *author_of(const struct sl_policy_job *job, char buf[static SL_AUTHOR_MAX + 1])
{
    if (job->author[0])
        return job->author;
    snprintf(buf, SL_AUTHOR_MAX + 1, "admin at %s", job->peer);
    return buf;
}

/* A candidate, or none, as the next version. */
static void push_candidate(struct task *task, const struct sl_version_text *text, uint64_t beside, const char *comment,
                           sl_versions_pushed *done)
{
    char author[SL_AUTHOR_MAX + 1];
    const struct sl_version_draft draft = {.body = text->body,
                                           .body_len = text->body_len,
                                           .keys = text->keys,
                                           .keys_len = text->keys_len,
                                           .author = author_of(task->job, author),
                                           .comment = comment,
                                           .expected = task->current.number,
                                           .from = beside};
    const char *wrong = NULL;
    enum sl_control outcome = sl_versions_push(&task->rehearsal->place, &draft, done, task, &wrong);

    if (outcome != SL_CONTROL_OK)
        done(task, outcome, NULL, wrong ? wrong : "");
}

/* ---- starting */

static void on_started(void *ctx, enum sl_control outcome, const struct sl_version *version, const char *why)
{
    struct task *task = ctx;

    if (outcome != SL_CONTROL_OK) {
        refuse_outcome(task, outcome, why);
        return;
    }
    sl_log(task->rehearsal->set.log, SL_LOG_INFO, "audit: candidate %" PRIu64 " (%.12s) by %s was pushed through %s",
           version->number, version->hash, version->author, task->job->peer);
    if (task->rehearsal->follow)
        sl_follow_hurry(task->rehearsal->follow);
    answer(task, json_pack("{s:{s:s, s:I, s:s, s:s, s:I}}", "shadow", "hash", version->hash, "version",
                           (json_int_t)version->number, "author", version->author, "comment", version->comment,
                           "beside", (json_int_t)version->from));
}

static void begin_start(struct task *task)
{
    const struct sl_policy_job *job = task->job;
    const struct sl_version_text text = {
        .body = job->body, .body_len = job->body_len, .keys = job->keys, .keys_len = job->keys_len};
    char why[SL_CONTROL_WHY_MAX];
    int err;

    if (is_none(&text))
        refuse(task, 422, "That is no policy.");
    else if ((err = sl_source_try(task->rehearsal->set.source, &text, "the candidate", SL_WARNINGS_NONE, why,
                                  sizeof why)))
        refuse(task, err == SL_EPOLICY ? 422 : 500, why);
    else
        push_candidate(task, &text, sl_source_runs(task->rehearsal->set.source).number, job->comment, on_started);
}

/* ---- stopping */

static void on_stopped(void *ctx, enum sl_control outcome, const struct sl_version *version, const char *why)
{
    struct task *task = ctx;

    if (outcome != SL_CONTROL_OK) {
        refuse_outcome(task, outcome, why);
        return;
    }
    sl_log(task->rehearsal->set.log, SL_LOG_INFO, "audit: the candidate was stopped by %s through %s", version->author,
           task->job->peer);
    if (task->rehearsal->follow)
        sl_follow_hurry(task->rehearsal->follow);
    answer(task, json_pack("{s:b}", "stopped", 1));
}

static void begin_stop(struct task *task)
{
    const struct sl_version_text text = {.body = none, .body_len = sizeof none - 1};

    push_candidate(task, &text, 0, task->job->comment, on_stopped);
}

/* ---- promoting */

static void answer_promoted(struct task *task)
{
    answer(task, json_pack("{s:o}", "version", sl_version_json(&task->promoted)));
}

/* It is the policy now. That it goes on as a candidate too, when it could not be stopped, does no harm. */
static void on_retired(void *ctx, enum sl_control outcome, const struct sl_version *version, const char *why)
{
    struct task *task = ctx;

    (void)version;
    if (outcome != SL_CONTROL_OK)
        sl_log(task->rehearsal->set.log, SL_LOG_WARNING, "the candidate that was promoted could not be stopped: %s",
               why);
    else if (task->rehearsal->follow)
        sl_follow_hurry(task->rehearsal->follow);
    answer_promoted(task);
}

static void on_promoted(void *ctx, enum sl_control outcome, const struct sl_version *version, const char *why)
{
    const struct sl_version_text text = {.body = none, .body_len = sizeof none - 1};
    struct task *task = ctx;
    char comment[64];

    if (outcome == SL_CONTROL_CONFLICT) {
        refuse(task, 412, why);
        return;
    }
    if (outcome != SL_CONTROL_OK) {
        refuse_outcome(task, outcome, why);
        return;
    }
    sl_log(task->rehearsal->set.log, SL_LOG_INFO,
           "audit: version %" PRIu64 " of the policy (%.12s) by %s was promoted from candidate %" PRIu64 " through %s",
           version->number, version->hash, version->author, task->candidate.number, task->job->peer);
    task->promoted = *version;
    sl_plane_hurry(task->rehearsal->set.plane);
    snprintf(comment, sizeof comment, "promoted to version %" PRIu64, version->number);
    push_candidate(task, &text, 0, comment, on_retired);
}

static void promote(struct task *task, const struct sl_pointer *live)
{
    const struct sl_policy_job *job = task->job;
    char author[SL_AUTHOR_MAX + 1], comment[64], why[SL_CONTROL_WHY_MAX];
    const struct sl_version_draft draft = {.body = task->text.body,
                                           .body_len = task->text.body_len,
                                           .keys = task->text.keys,
                                           .keys_len = task->text.keys_len,
                                           .author = author_of(job, author),
                                           .comment = job->comment[0] ? job->comment : comment,
                                           .expected = live->number};
    const char *wrong = NULL;
    enum sl_control outcome;
    int err;

    snprintf(comment, sizeof comment, "promoted from shadow %" PRIu64, task->candidate.number);
    err = sl_source_try(task->rehearsal->set.source, &task->text, "the candidate", SL_WARNINGS_NONE, why, sizeof why);
    if (err) {
        refuse(task, err == SL_EPOLICY ? 422 : 500, why);
        return;
    }
    outcome = sl_versions_push(&task->rehearsal->set.plane->place, &draft, on_promoted, task, &wrong);
    if (outcome != SL_CONTROL_OK)
        refuse_outcome(task, outcome, wrong);
}

/* What is to be replaced must be what the caller names or, when nothing is named, what the candidate was started
 * beside. */
static bool is_expected(const struct task *task, const struct sl_pointer *live)
{
    const struct sl_policy_job *job = task->job;
    struct sl_pointer runs;

    if (job->match_any)
        return true;
    if (!job->match[0])
        return live->number == task->candidate.from;
    if (live->number)
        return !strcmp(job->match, live->hash);
    runs = sl_source_runs(task->rehearsal->set.source);
    return !strcmp(job->match, runs.hash);
}

static void on_live_looked(void *ctx, enum sl_control outcome, const struct sl_pointer *pointer, const char *why)
{
    struct task *task = ctx;
    char text[320];

    if (outcome != SL_CONTROL_OK) {
        refuse_outcome(task, outcome, why);
    } else if (!is_expected(task, pointer)) {
        snprintf(text, sizeof text,
                 "Version %" PRIu64 " of the policy is current; the candidate was compared with %s %" PRIu64
                 ". Look at what it changes now, and name version %" PRIu64 " to replace it",
                 pointer->number, task->job->match[0] ? "another one, and started beside version" : "version",
                 task->candidate.from, pointer->number);
        refuse(task, 412, text);
    } else {
        promote(task, pointer);
    }
}

static void on_candidate(void *ctx, enum sl_control outcome, const struct sl_version *version,
                         struct sl_version_text *text, const char *why)
{
    struct task *task = ctx;

    if (outcome != SL_CONTROL_OK) {
        refuse_outcome(task, outcome,
                       outcome == SL_CONTROL_NONE
                           ? "no candidate policy runs: `sluice policy shadow FILE`, or PUT /v1/shadow, starts one"
                           : why);
        return;
    }
    task->text = *text;
    task->candidate = *version;
    task->current.number = version->number;
    if (is_none(text)) {
        refuse(task, 404, "No candidate policy runs: `sluice policy shadow FILE`, or PUT /v1/shadow, starts one.");
        return;
    }
    outcome = sl_versions_look(&task->rehearsal->set.plane->place, on_live_looked, task);
    if (outcome != SL_CONTROL_OK)
        refuse_outcome(task, outcome, NULL);
}

static void begin_promote(struct task *task)
{
    enum sl_control outcome;

    if (task->rehearsal->set.plane->from_file) {
        refuse(task, 409, "This instance follows its file (--policy-source file).");
        return;
    }
    outcome = sl_versions_fetch(&task->rehearsal->place, 0, on_candidate, task);
    if (outcome != SL_CONTROL_OK)
        refuse_outcome(task, outcome, NULL);
}

/* ---- beginning */

static void on_looked(void *ctx, enum sl_control outcome, const struct sl_pointer *pointer, const char *why)
{
    struct task *task = ctx;

    if (outcome != SL_CONTROL_OK) {
        refuse_outcome(task, outcome, why);
        return;
    }
    task->current = *pointer;
    if (task->job->verb == SL_SHADOW_START)
        begin_start(task);
    else if (points_to_none(pointer) || (!pointer->number && !sl_shadow_runs(task->rehearsal->shadow)))
        refuse(task, 404, "No candidate policy runs: `sluice policy shadow FILE`, or PUT /v1/shadow, starts one.");
    else
        begin_stop(task);
}

void sl_rehearsal_do_shared(struct sl_rehearsal *rehearsal, struct sl_policy_job *job)
{
    struct task *task = NULL;
    enum sl_control outcome;

    if (job->verb == SL_SHADOW_REPORT) {
        sl_rehearsal_report_shared(rehearsal, job);
        return;
    }
    task = calloc(1, sizeof *task);
    if (!task) {
        sl_rehearsal_refuse(job, 500, "Out of memory.");
        return;
    }
    *task = (struct task){.rehearsal = rehearsal, .job = job};
    if (job->verb == SL_SHADOW_PROMOTE) {
        begin_promote(task);
        return;
    }
    outcome = sl_versions_look(&rehearsal->place, on_looked, task);
    if (outcome != SL_CONTROL_OK)
        refuse_outcome(task, outcome, NULL);
}
