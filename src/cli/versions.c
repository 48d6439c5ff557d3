/* Versions of the policy, straight in the store; what a daemon is to do goes to versions_daemon.c. */
#include "cli/versions.h"

#include "control/report.h"

#include <jansson.h>
#include <string.h>

int cli_versions_open(const struct cli_call *call, const struct cli_connect *connect,
                      const struct cli_store_options *at, struct cli_versions *ret_versions)
{
    *ret_versions = (struct cli_versions){.in_store = cli_means_store(call), .connect = *connect};
    ret_versions->connect.timeout_us = at->timeout_us;
    return ret_versions->in_store ? cli_store_open(&ret_versions->store, at) : 0;
}

void cli_versions_close(struct cli_versions *versions)
{
    if (versions->in_store)
        cli_store_close(&versions->store);
}

/* ---- fetching */

int cli_versions_fetch(struct cli_versions *versions, uint64_t number, bool *ret_found, struct sl_version *ret_version,
                       struct sl_version_text *ret_text)
{
    char why[SL_CONTROL_WHY_MAX];
    enum sl_control outcome;

    if (!versions->in_store)
        return cli_daemon_fetch(&versions->connect, number, ret_found, ret_version, ret_text);
    outcome = cli_store_fetch(&versions->store, number, ret_version, ret_text, why, sizeof why);
    if (ret_found)
        *ret_found = outcome == SL_CONTROL_OK;
    if (outcome == SL_CONTROL_OK || (ret_found && outcome == SL_CONTROL_NONE))
        return 0;
    return cli_store_fail(&versions->store, outcome, why);
}

/* ---- the one before */

struct found {
    bool done;
    enum sl_control outcome;
    uint64_t number;
    char why[SL_CONTROL_WHY_MAX];
};

static void on_found(void *ctx, enum sl_control outcome, uint64_t number, const char *why)
{
    struct found *found = ctx;

    found->done = true;
    found->outcome = outcome;
    found->number = number;
    snprintf(found->why, sizeof found->why, "%s", why);
}

int cli_versions_before(struct cli_versions *versions, uint64_t number, uint64_t *ret_number)
{
    struct found found = {.done = false};
    enum sl_control outcome;

    if (!versions->in_store)
        return cli_daemon_before(&versions->connect, number, ret_number);
    outcome = sl_versions_before(&versions->store.place, number, on_found, &found);
    if (outcome == SL_CONTROL_OK) {
        cli_store_wait(&versions->store, &found.done);
        outcome = found.outcome;
    }
    *ret_number = found.number;
    return outcome == SL_CONTROL_OK ? 0 : cli_store_fail(&versions->store, outcome, found.why);
}

/* ---- the history */

struct told {
    bool done;
    enum sl_control outcome;
    json_t *history;
    char why[SL_CONTROL_WHY_MAX];
};

static void on_told(void *ctx, enum sl_control outcome, const struct sl_history *history, const char *why)
{
    struct told *told = ctx;

    told->done = true;
    told->outcome = outcome;
    told->history = outcome == SL_CONTROL_OK ? sl_history_json(history) : NULL;
    snprintf(told->why, sizeof told->why, "%s", why);
}

json_t *cli_versions_history(struct cli_versions *versions, uint64_t before, unsigned count, int *ret_status)
{
    struct told told = {.done = false};
    enum sl_control outcome;

    if (!versions->in_store)
        return cli_daemon_history(&versions->connect, before, count, ret_status);
    outcome = sl_versions_history(&versions->store.place, before ? before - 1 : 0, count, on_told, &told);
    if (outcome == SL_CONTROL_OK) {
        cli_store_wait(&versions->store, &told.done);
        outcome = told.outcome;
    }
    if (outcome != SL_CONTROL_OK)
        *ret_status = cli_store_fail(&versions->store, outcome, told.why);
    else if (!told.history)
        *ret_status = cli_fail(CLI_USAGE, "out of memory");
    return told.history;
}

/* ---- pushing */

struct pushing {
    bool done;
    enum sl_control outcome;
    struct cli_pushed *pushed;
};

static void on_pushed(void *ctx, enum sl_control outcome, const struct sl_version *version, const char *why)
{
    struct pushing *pushing = ctx;
    struct cli_pushed *pushed = pushing->pushed;

    pushing->done = true;
    pushing->outcome = outcome;
    pushed->conflict = outcome == SL_CONTROL_CONFLICT;
    pushed->has_version = version != NULL;
    if (version)
        pushed->version = *version;
    snprintf(pushed->why, sizeof pushed->why, "%s", why);
}

int cli_versions_push(struct cli_versions *versions, const struct sl_version_draft *draft,
                      const struct sl_version *current, enum sl_warnings refused, struct cli_pushed *ret_pushed)
{
    struct pushing pushing = {.pushed = ret_pushed};
    const char *why = "";
    enum sl_control outcome;

    *ret_pushed = (struct cli_pushed){.conflict = false};
    if (!versions->in_store)
        return cli_daemon_push(&versions->connect, draft, current, refused, ret_pushed);
    outcome = sl_versions_push(&versions->store.place, draft, on_pushed, &pushing, &why);
    if (outcome == SL_CONTROL_OK) {
        cli_store_wait(&versions->store, &pushing.done);
        outcome = pushing.outcome;
        why = ret_pushed->why;
    }
    return outcome == SL_CONTROL_OK || outcome == SL_CONTROL_CONFLICT ? 0
                                                                      : cli_store_fail(&versions->store, outcome, why);
}
