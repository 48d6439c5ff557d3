/* What the admin listener is asked about overrides: the list, one that is set, one that is removed. */
#include "sluiced/overrides.h"

#include "base/clock.h"
#include "base/err.h"
#include "policy/instant.h"
#include "policy/override_effect.h"
#include "policy/override_json.h"
#include "sluiced/outcome.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job in the middle of it. */
struct task {
    struct sl_override_desk *desk;
    struct sl_override_job *job;
};

static uint64_t wall_us(void)
{
    struct sl_clock clock = sl_clock_system();

    return clock.wall_us(clock.ctx);
}

static const char *kept_in(const struct sl_override_desk *desk)
{
    return desk->config.place ? "store" : desk->config.state_dir ? "state" : "memory";
}

/* ---- answers */

static void refuse(struct sl_override_job *job, int status, const char *why)
{
    job->status = status;
    sl_outcome_sentence(why, job->why, sizeof job->why);
    sl_override_job_done(job);
}

static void refuse_outcome(struct sl_override_job *job, enum sl_control outcome, const char *why)
{
    refuse(job, sl_outcome_status(outcome), sl_outcome_why(outcome, why));
}

/* Takes the value. */
static void answer(struct sl_override_job *job, json_t *value)
{
    job->text = value ? json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(value);
    job->status = job->text ? 200 : 500;
    snprintf(job->why, sizeof job->why, "Out of memory.");
    sl_override_job_done(job);
}

/* ---- the list */

static json_t *list_json(const struct sl_override_desk *desk, json_t *log)
{
    struct sl_policy *policy = sl_limiter_policy(desk->config.source->limiter);
    const struct sl_overrides *list = sl_policy_overrides(policy);
    json_t *array = json_array(), *object;
    uint64_t now_us = wall_us();

    for (size_t i = 0; list && i < list->n; i++)
        if (!sl_override_is_over(&list->list[i], now_us))
            json_array_append_new(array, sl_override_in_force_json(&list->list[i], policy, i));
    object = json_pack("{s:I,s:s,s:o}", "revision", (json_int_t)(list ? list->revision : 0), "keptIn", kept_in(desk),
                       "overrides", array);
    if (object && log)
        json_object_set_new(object, "log", log);
    sl_policy_unref(policy);
    return object;
}

static json_t *log_json(const json_t *entries, unsigned max)
{
    json_t *shown = json_array(), *entry;
    size_t i;

    json_array_foreach(entries, i, entry)
    {
        if (i < max)
            json_array_append_new(shown, sl_override_entry_shown(entry));
    }
    return shown;
}

static void on_logged(void *ctx, enum sl_control outcome, json_t *entries, const char *why)
{
    struct task task = *(struct task *)ctx;

    free(ctx);
    if (outcome == SL_CONTROL_OK)
        answer(task.job, list_json(task.desk, log_json(entries, task.job->log)));
    else
        refuse_outcome(task.job, outcome, why);
}

/* The task is freed by whoever hears of its end. */
static struct task *new_task(struct sl_override_desk *desk, struct sl_override_job *job)
{
    struct task *task = malloc(sizeof *task);

    if (task)
        *task = (struct task){desk, job};
    else
        refuse(job, 500, "out of memory");
    return task;
}

static void do_list(struct sl_override_desk *desk, struct sl_override_job *job)
{
    enum sl_control outcome;
    struct task *task;

    if (!job->log || !desk->config.place) {
        answer(job, list_json(desk, job->log ? log_json(desk->log, job->log) : NULL));
        return;
    }
    task = new_task(desk, job);
    if (!task)
        return;
    outcome = sl_overrides_log(desk->config.place, job->log, on_logged, task);
    if (outcome == SL_CONTROL_OK)
        return;
    free(task);
    refuse_outcome(job, outcome, NULL);
}

/* ---- the line in the log */

static void describe(const struct sl_override *o, char *buf, size_t size)
{
    char rate[SL_RATE_TEXT_MAX], burst[32] = "", until[SL_INSTANT_MAX] = "";

    if (!o) {
        snprintf(buf, size, "none");
        return;
    }
    sl_rate_format(&o->rate, rate);
    if (o->burst)
        snprintf(burst, sizeof burst, " burst %" PRIu32, o->burst);
    if (o->until_us)
        sl_instant_format(o->until_us, until);
    snprintf(buf, size, "%s%s%s%s", rate, burst, o->until_us ? " until " : "", until);
}

static void audit(const struct sl_override_desk *desk, const struct sl_override_job *job, const struct sl_override *old,
                  const struct sl_override *now)
{
    const struct sl_override *o = &job->override;
    char from[128], to[128];

    describe(old, from, sizeof from);
    describe(now, to, sizeof to);
    sl_log(desk->config.log, SL_LOG_INFO, "audit: override of key %s (%s), limit %s: %s -> %s, by %s, through %s%s%s",
           o->key, o->key_type, o->limit ? o->limit : "any", from, to, job->author, job->caller,
           job->comment[0] ? ": " : "", job->comment);
}

/* What it does under the policy in force. */
static void add_effect(const struct sl_override_desk *desk, const struct sl_override *changed, json_t *object)
{
    struct sl_policy *policy = sl_limiter_policy(desk->config.source->limiter);
    const struct sl_overrides *list = sl_policy_overrides(policy);
    const struct sl_override *found = list ? sl_overrides_find(list, changed) : NULL;

    (void)sl_override_add_effect(object, found ? policy : NULL, found ? (size_t)(found - list->list) : 0);
    sl_policy_unref(policy);
}

/* ... of a change that took place. */
static void answer_change(const struct sl_override_desk *desk, struct sl_override_job *job, const json_t *entry)
{
    json_t *object = sl_override_entry_shown(entry);

    if (object)
        json_object_set_new(object, "keptIn", json_string(kept_in(desk)));
    if (object && job->verb == SL_OVERRIDE_SET)
        add_effect(desk, &job->override, object);
    if (object && job->verb == SL_OVERRIDE_SET && !desk->config.place && !desk->config.state_dir)
        json_object_set_new(object, "note",
                            json_string("kept in memory alone: it is gone at a restart; --state DIR keeps it"));
    answer(job, object);
}

/* ---- changes in the store */

static const struct sl_override *record_in(const json_t *entry, const char *name, struct sl_override *buf)
{
    const char *field;

    return sl_override_read(json_object_get(entry, name), SL_OVERRIDE_RECORD, buf, &field) ? NULL : buf;
}

/* Here it is in force when the answer goes out; what else has changed in between comes with the next look. A change that
 * had to be sent again may be known from there already, and a later one over it. */
static void apply(struct sl_override_desk *desk, const struct sl_override_job *job, const struct sl_override *now,
                  json_int_t revision)
{
    const struct sl_override *changed = now ? now : &job->override;
    bool is_known = desk->list && desk->list->revision >= (uint64_t)revision;
    struct sl_overrides *list;

    if (!is_known &&
        sl_overrides_with(&desk->alloc, desk->list, changed, !now, wall_us(), (uint64_t)revision, &list) == 0)
        (void)sl_overrides_adopt(desk, list);
    if (desk->follow)
        sl_overrides_follow_hurry(desk->follow);
}

/* Says which others of the key there are. */
static void refuse_missing(const struct sl_override_desk *desk, struct sl_override_job *job)
{
    char why[1024];

    sl_override_missing(desk->list, &job->override, wall_us(), why, sizeof why);
    refuse(job, 404, why);
}

static void on_changed(void *ctx, enum sl_control outcome, const json_t *entry, const char *why)
{
    struct task task = *(struct task *)ctx;
    struct sl_override old, now;
    const struct sl_override *was, *is;

    free(ctx);
    if (outcome == SL_CONTROL_NONE) {
        refuse_missing(task.desk, task.job);
        return;
    }
    if (outcome != SL_CONTROL_OK) {
        refuse_outcome(task.job, outcome, why);
        return;
    }
    was = record_in(entry, "old", &old);
    is = record_in(entry, "new", &now);
    audit(task.desk, task.job, was, is);
    apply(task.desk, task.job, is, json_integer_value(json_object_get(entry, "revision")));
    answer_change(task.desk, task.job, entry);
}

static void change_in_store(struct sl_override_desk *desk, struct sl_override_job *job)
{
    struct sl_override_change change = {.override = &job->override,
                                        .remove = job->verb == SL_OVERRIDE_REMOVE,
                                        .author = job->author,
                                        .comment = job->comment};
    struct task *task = new_task(desk, job);
    const char *why = NULL;
    enum sl_control outcome;

    if (!task)
        return;
    outcome = sl_overrides_change(desk->config.place, &change, on_changed, task, &why);
    if (outcome == SL_CONTROL_OK)
        return;
    free(task);
    refuse_outcome(job, outcome, why);
}

/* ---- changes here */

static size_t count_alive(const struct sl_overrides *list, uint64_t now_us)
{
    size_t n = 0;

    for (size_t i = 0; list && i < list->n; i++)
        n += !sl_override_is_over(&list->list[i], now_us);
    return n;
}

/* The log with one entry more; those that have ended are told of as the store's script does it. A new reference. */
static json_t *longer_log(const struct sl_override_desk *desk, uint64_t revision, uint64_t now_us, json_t *entry)
{
    json_t *log = json_copy(desk->log);

    for (size_t i = 0; log && desk->list && i < desk->list->n; i++)
        if (sl_override_is_over(&desk->list->list[i], now_us))
            json_array_insert_new(log, 0,
                                  sl_override_entry(revision, now_us, "expire", "", "", &desk->list->list[i], NULL));
    if (log && json_array_insert(log, 0, entry)) {
        json_decref(log);
        return NULL;
    }
    while (json_array_size(log) > SL_OVERRIDE_LOG_MAX)
        json_array_remove(log, json_array_size(log) - 1);
    return log;
}

/* The state folder first: what is answered is kept. */
static int keep(const struct sl_override_desk *desk, const struct sl_overrides *list, const json_t *log, char *why,
                size_t why_size)
{
    struct sl_revision none = {.number = 0};

    if (!desk->config.state_dir)
        return 0;
    return sl_keep_overrides(desk->config.state_dir, NULL, desk->config.ns, list, &none, log, why, why_size);
}

/* Takes the list and the log. */
static void finish_here(struct sl_override_desk *desk, struct sl_override_job *job, struct sl_overrides *list,
                        json_t *log, const struct sl_override *old, const json_t *entry)
{
    const struct sl_override *now = job->verb == SL_OVERRIDE_SET ? &job->override : NULL;
    char why[512] = "out of memory";

    if (!log || keep(desk, list, log, why, sizeof why)) {
        json_decref(log);
        sl_overrides_unref(list);
        refuse(job, 500, why);
        return;
    }
    audit(desk, job, old, now); /* `old` goes with the list it is of */
    if (sl_overrides_adopt(desk, list)) {
        json_decref(log);
        refuse(job, 500, "out of memory: nothing changes before a restart");
        return;
    }
    json_decref(desk->log);
    desk->log = log;
    answer_change(desk, job, entry);
}

static void change_here(struct sl_override_desk *desk, struct sl_override_job *job)
{
    bool remove = job->verb == SL_OVERRIDE_REMOVE;
    uint64_t now_us = wall_us(), revision = desk->list ? desk->list->revision + 1 : 1;
    const struct sl_override *old = sl_overrides_find(desk->list, &job->override);
    struct sl_overrides *list;
    json_t *entry;

    if (old && sl_override_is_over(old, now_us))
        old = NULL;
    if (remove && !old) {
        refuse_missing(desk, job);
        return;
    }
    if (!remove && !old && count_alive(desk->list, now_us) >= SL_OVERRIDES_MAX) {
        refuse(job, 409, "there are 10000 overrides, which is as many as there can be");
        return;
    }
    job->override.set_us = now_us;
    entry = sl_override_entry(revision, now_us, remove ? "remove" : "set", job->author, job->comment, old,
                              remove ? NULL : &job->override);
    if (!entry || sl_overrides_with(&desk->alloc, desk->list, &job->override, remove, now_us, revision, &list))
        refuse(job, 500, "out of memory");
    else
        finish_here(desk, job, list, longer_log(desk, revision, now_us, entry), old, entry);
    json_decref(entry);
}

/* ---- jobs */

/* False after it has answered. */
static bool is_good(struct sl_override_desk *desk, struct sl_override_job *job)
{
    char why[1024];
    int err;

    if (sl_override_is_over(&job->override, wall_us())) {
        job->field = "until";
        refuse(job, 400, "the end of the override has passed");
        return false;
    }
    err = sl_source_try_override(desk->config.source, &job->override, why, sizeof why);
    if (err)
        refuse(job, err == SL_EPOLICY ? 422 : 500, err == SL_EPOLICY ? why : sl_err_text(err));
    return !err;
}

void sl_overrides_do(struct sl_override_desk *desk, struct sl_override_job *job)
{
    if (job->verb == SL_OVERRIDE_LIST) {
        do_list(desk, job);
        return;
    }
    if (job->verb == SL_OVERRIDE_SET && !is_good(desk, job))
        return;
    if (desk->config.place)
        change_in_store(desk, job);
    else
        change_here(desk, job);
}
