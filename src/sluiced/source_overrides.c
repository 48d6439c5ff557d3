/* Overrides over the policy in force. */
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "sluiced/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETIRE_MS 100

static uint64_t wall_us(void)
{
    struct sl_clock clock = sl_clock_system();

    return clock.wall_us(clock.ctx);
}

/* ---- what is inactive is told once */

static int compare_marks(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static bool is_marked(const struct sl_source_marks *marks, uint64_t mark)
{
    return marks->n && bsearch(&mark, marks->list, marks->n, sizeof mark, compare_marks);
}

/* Of an override and what is the matter with it. */
static uint64_t mark_of(const struct sl_override *o, const char *why)
{
    char text[SLUICE_KEY_MAX + 2 * SLUICE_NAME_MAX + 640];
    int len = snprintf(text, sizeof text, "%s\n%s\n%s\n%s", o->key_type, o->limit ? o->limit : "", o->key, why);

    return sl_hash13((struct sl_secret){0}, text, len < (int)sizeof text ? (size_t)len : sizeof text - 1).a;
}

static void tell(const struct sl_source *source, const struct sl_override *o, const struct sl_override_status *status)
{
    sl_log(source->config.log, SL_LOG_WARNING, "the override of key %s (%s)%s%s, set by %s, is %s: %s", o->key,
           o->key_type, o->limit ? " for limit " : "", o->limit ? o->limit : "", o->author,
           status->n_limits ? "inactive for some limits" : "inactive", status->why);
}

static void tell_inactive(struct sl_source *source, const struct sl_policy *policy)
{
    const struct sl_overrides *overrides = sl_policy_overrides(policy);
    struct sl_source_marks marks = {.n = 0};
    unsigned n_told = 0, n_more = 0;

    if (!overrides || !overrides->n)
        return;
    marks.list = calloc(overrides->n, sizeof *marks.list);
    for (size_t i = 0; marks.list && i < overrides->n; i++) {
        struct sl_override_status status;
        uint64_t mark;

        sl_policy_override_status(policy, i, &status);
        if (!status.why || status.over)
            continue;
        mark = mark_of(&overrides->list[i], status.why);
        marks.list[marks.n++] = mark;
        if (is_marked(&source->told, mark))
            continue;
        if (n_told++ < SL_SOURCE_FINDINGS_MAX)
            tell(source, &overrides->list[i], &status);
        else
            n_more++;
    }
    if (n_more)
        sl_log(source->config.log, SL_LOG_WARNING, "%u more overrides are inactive; `sluice override list` tells why",
               n_more);
    if (marks.n)
        qsort(marks.list, marks.n, sizeof *marks.list, compare_marks);
    free(source->told.list);
    source->told = marks;
}

/* ---- over the policy */

void sl_source_retire(struct sl_policy *policy)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; i < RETIRE_MS && !sl_policy_is_alone(policy); i++)
        nanosleep(&pause, NULL);
    sl_policy_unref(policy);
}

int sl_source_put(struct sl_source *source, struct sl_policy *policy)
{
    struct sl_policy *over;
    int err = sl_policy_override(policy, source->overrides, wall_us(), &over);

    if (err)
        return err;
    err = sl_limiter_set_policy(source->limiter, sl_policy_ref(over));
    if (err)
        sl_policy_unref(over); /* the reference that was not taken */
    else
        tell_inactive(source, over);
    sl_policy_unref(over);
    return err;
}

int sl_source_lay(struct sl_source *source, struct sl_overrides *overrides)
{
    struct sl_overrides *old = source->overrides;
    struct sl_policy *policy = sl_limiter_policy(source->limiter);
    int err;

    source->overrides = overrides;
    err = sl_source_put(source, policy);
    if (err) {
        source->overrides = old;
    } else {
        sl_overrides_ref(overrides);
        sl_overrides_unref(old);
    }
    /* One without overrides lies below the new one, and stays. */
    if (!err && sl_policy_overrides(policy))
        sl_source_retire(policy);
    else
        sl_policy_unref(policy);
    return err;
}

static void judge(const struct sl_policy *policy, const struct sl_override *o, struct sl_override_status *ret_status)
{
    const struct sl_overrides *list = sl_policy_overrides(policy);

    sl_policy_override_status(policy, (size_t)(sl_overrides_find(list, o) - list->list), ret_status);
}

int sl_source_judge_override(struct sl_source *source, const struct sl_override *override, char *why, size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_policy *policy = sl_limiter_policy(source->limiter), *over = NULL;
    struct sl_overrides *list = NULL;
    struct sl_override_status status;
    uint64_t now_us = wall_us();
    int err = sl_overrides_with(&alloc, source->overrides, override, false, now_us, 0, &list);

    if (!err)
        err = sl_policy_override(policy, list, now_us, &over);
    if (!err) {
        judge(over, override, &status);
        if (status.why) {
            snprintf(why, why_size, "%s%s", status.why,
                     status.n_limits ? "; name the limit that the override is for" : "");
            err = SL_EPOLICY;
        }
    }
    sl_policy_unref(over);
    sl_overrides_unref(list);
    sl_policy_unref(policy);
    return err;
}

void sl_source_forget_overrides(struct sl_source *source)
{
    sl_overrides_unref(source->overrides);
    source->overrides = NULL;
    free(source->told.list);
    source->told = (struct sl_source_marks){.n = 0};
}
