/* Overrides straight in the store. They are held against the store's current policy, when it has one that is valid here. */
#include "cli/override.h"
#include "cli/store_policy.h"
#include "control/overrides.h"
#include "policy/override_effect.h"
#include "policy/override_json.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

static uint64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The store's current policy with the list over it; NULL: it has none, or none that is valid here. */
static struct sl_policy *policy_with(struct cli_store *store, struct sl_overrides *list)
{
    struct sl_policy *policy = cli_store_policy(store, NULL), *over = NULL;

    if (policy && sl_policy_override(policy, list, wall_us(), &over))
        over = NULL;
    sl_policy_unref(policy);
    return over;
}

/* ---- what is there */

struct got {
    bool done;
    enum sl_control outcome;
    struct sl_overrides *list;
    json_t *log;
    char why[SL_CONTROL_WHY_MAX];
};

static void on_fetched(void *ctx, enum sl_control outcome, struct sl_overrides *list,
                       const struct sl_revision *revision, const char *why)
{
    struct got *got = ctx;

    (void)revision;
    got->done = true;
    got->outcome = outcome;
    got->list = list;
    snprintf(got->why, sizeof got->why, "%s", why);
}

static void on_told(void *ctx, enum sl_control outcome, json_t *entries, const char *why)
{
    struct got *got = ctx;
    json_t *entry;
    size_t i;

    got->done = true;
    got->outcome = outcome;
    snprintf(got->why, sizeof got->why, "%s", why);
    got->log = json_array();
    json_array_foreach(entries, i, entry)
    {
        json_array_append_new(got->log, sl_override_entry_shown(entry));
    }
}

/* Waits for it. Returns 0, or a status after it has said why. */
static int await(struct cli_store *store, enum sl_control begun, struct got *got)
{
    if (begun != SL_CONTROL_OK)
        return cli_store_fail(store, begun, "");
    cli_store_wait(store, &got->done);
    got->done = false;
    return got->outcome == SL_CONTROL_OK ? 0 : cli_store_fail(store, got->outcome, got->why);
}

/* ---- changes */

struct changed {
    bool done;
    enum sl_control outcome;
    json_t *entry;
    char why[SL_CONTROL_WHY_MAX];
};

static void on_changed(void *ctx, enum sl_control outcome, const json_t *entry, const char *why)
{
    struct changed *changed = ctx;

    changed->done = true;
    changed->outcome = outcome;
    changed->entry = outcome == SL_CONTROL_OK ? sl_override_entry_shown(entry) : NULL;
    snprintf(changed->why, sizeof changed->why, "%s", why);
}

/* 0: the policy has a place for it, or there is no policy to hold it against. `effect` gets what it does. */
static int judge(struct cli_store *store, const struct sl_override *override, bool *ret_checked, json_t *effect)
{
    struct sl_override_status status = {.why = NULL};
    struct sl_overrides *list;
    struct sl_policy *policy;
    int result = 0;

    *ret_checked = false;
    if (sl_overrides_new(&store->alloc, override, 1, 0, &list))
        return cli_fail(CLI_USAGE, "out of memory");
    policy = policy_with(store, list);
    if (policy)
        sl_policy_override_status(policy, 0, &status);
    *ret_checked = policy != NULL;
    (void)sl_override_add_effect(effect, policy, 0);
    if (status.why)
        result = cli_fail(CLI_NO, "%s%s; nothing was changed", status.why,
                          status.n_limits ? "; name the limit that the override is for" : "");
    sl_policy_unref(policy);
    sl_overrides_unref(list);
    return result;
}

/* Says which others of the key there are. */
static int fail_missing(struct cli_store *store, const struct sl_override *override)
{
    struct got got = {.done = false};
    int status = await(store, sl_overrides_fetch(&store->place, on_fetched, &got), &got);
    char why[1024];

    if (!status)
        sl_override_missing(got.list, override, wall_us(), why, sizeof why);
    sl_overrides_unref(got.list);
    return status ? status : cli_fail(CLI_NO, "%s", why);
}

static json_t *change(struct cli_store *store, const struct sl_override *override, bool remove, int *ret_status)
{
    struct sl_override_change what = {
        .override = override, .remove = remove, .author = override->author, .comment = override->comment};
    struct changed changed = {.done = false};
    const char *why = "";
    enum sl_control outcome = sl_overrides_change(&store->place, &what, on_changed, &changed, &why);

    if (outcome == SL_CONTROL_OK) {
        cli_store_wait(store, &changed.done);
        outcome = changed.outcome;
        why = changed.why;
    }
    if (outcome == SL_CONTROL_NONE)
        *ret_status = fail_missing(store, override);
    else if (outcome != SL_CONTROL_OK)
        *ret_status = cli_store_fail(store, outcome, why);
    return changed.entry;
}

json_t *cli_override_set_in_store(const struct override_values *values, const struct sl_override *override,
                                  int *ret_status)
{
    struct cli_store store;
    json_t *entry = NULL, *effect = json_object();
    bool checked;

    *ret_status = cli_store_open(&store, &values->at);
    if (*ret_status) {
        json_decref(effect);
        return NULL;
    }
    *ret_status = judge(&store, override, &checked, effect);
    if (*ret_status == 0)
        entry = change(&store, override, false, ret_status);
    if (entry) {
        json_object_set_new(entry, "keptIn", json_string("store"));
        json_object_update(entry, effect);
    }
    json_decref(effect);
    if (entry && !checked)
        json_object_set_new(entry, "note",
                            json_string("the store has no policy that it could be held against: `sluice "
                                        "override list --admin URL` tells whether it is active"));
    cli_store_close(&store);
    return entry;
}

json_t *cli_override_remove_in_store(const struct override_values *values, const struct sl_override *override,
                                     int *ret_status)
{
    struct cli_store store;
    json_t *entry;

    *ret_status = cli_store_open(&store, &values->at);
    if (*ret_status)
        return NULL;
    entry = change(&store, override, true, ret_status);
    cli_store_close(&store);
    return entry;
}

/* ---- the list, and the log */

static json_t *list_json(struct cli_store *store, const struct got *got)
{
    struct sl_policy *policy = policy_with(store, got->list);
    json_t *array = json_array(), *object;
    uint64_t now_us = wall_us();

    for (size_t i = 0; i < got->list->n; i++)
        if (!sl_override_is_over(&got->list->list[i], now_us))
            json_array_append_new(array, sl_override_in_force_json(&got->list->list[i], policy, i));
    object =
        json_pack("{s:I,s:s,s:o}", "revision", (json_int_t)got->list->revision, "keptIn", "store", "overrides", array);
    if (object && got->log)
        json_object_set(object, "log", got->log);
    sl_policy_unref(policy);
    return object;
}

int cli_override_lay(const struct cli_store_options *options, struct sl_policy **policy)
{
    struct got got = {.done = false};
    struct sl_policy *over = NULL;
    struct cli_store store;
    int status = cli_store_open(&store, options);

    if (status)
        return status;
    status = await(&store, sl_overrides_fetch(&store.place, on_fetched, &got), &got);
    if (!status && got.list->n && sl_policy_override(*policy, got.list, wall_us(), &over))
        status = cli_fail(CLI_USAGE, "out of memory");
    if (!status && over) {
        sl_policy_unref(*policy);
        *policy = over;
    }
    sl_overrides_unref(got.list);
    cli_store_close(&store);
    return status;
}

json_t *cli_override_list_in_store(const struct override_values *values, unsigned log, int *ret_status)
{
    struct got got = {.done = false};
    struct cli_store store;
    json_t *object = NULL;

    *ret_status = cli_store_open(&store, &values->at);
    if (*ret_status)
        return NULL;
    *ret_status = await(&store, sl_overrides_fetch(&store.place, on_fetched, &got), &got);
    if (got.why[0] && !*ret_status)
        cli_fail(CLI_NO, "%s", got.why);
    if (!*ret_status && log)
        *ret_status = await(&store, sl_overrides_log(&store.place, log, on_told, &got), &got);
    if (!*ret_status)
        object = list_json(&store, &got);
    json_decref(got.log);
    sl_overrides_unref(got.list);
    cli_store_close(&store);
    return object;
}
