/* One request from the door to the verdict. */
#include "limiter/snapshot.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

/* sl_request_check may name a field in its caller's buffer; what goes out must outlive the call. */
static const char *static_field(const char *field)
{
    static const char *const labels[SLUICE_LABELS_MAX][3] = {
#define ROW(i) {"labels[" #i "]", "labels[" #i "].name", "labels[" #i "].value"}
        ROW(0), ROW(1), ROW(2),  ROW(3),  ROW(4),  ROW(5),  ROW(6),  ROW(7),
        ROW(8), ROW(9), ROW(10), ROW(11), ROW(12), ROW(13), ROW(14), ROW(15),
#undef ROW
    };
    static const char *const plain[] = {"key", "keyType", "scope", "tier", "address", "labels", "cost", ""};

    for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(field, plain[i]) == 0)
            return plain[i];
    for (unsigned i = 0; i < SLUICE_LABELS_MAX; i++)
        for (unsigned j = 0; j < 3; j++)
            if (strcmp(field, labels[i][j]) == 0)
                return labels[i][j];
    return "request";
}

int sl_check_request(const struct sl_policy *policy, const struct sluice_request *request,
                     struct sluice_request *ret_request, struct sl_request_buffer *buffer, const char **ret_field,
                     const char **ret_why)
{
    const char *field = "", *why = "";
    int err = sl_request_check(policy, request, ret_request, buffer, &field, &why);

    if (err != 0 && ret_field)
        *ret_field = static_field(field);
    if (err != 0 && ret_why)
        *ret_why = why;
    return err;
}

bool sl_find_key_tier(const struct sl_limiter *limiter, const struct sl_policy *policy, struct sluice_request *request,
                      char tier[static SLUICE_NAME_MAX])
{
    size_t len;

    if (!limiter->key_tier || !sl_policy_asks_store(policy, request))
        return false;
    if (limiter->key_tier(limiter->key_tier_ctx, request->key, request->key_len, tier, &len) &&
        sl_policy_names_tier(policy, tier, len)) {
        request->tier = tier;
        request->tier_len = len;
    }
    return true;
}

int sl_limiter_resolve(const struct sl_limiter *limiter, const struct sl_policy *policy,
                       const struct sluice_request *request, struct sl_resolved *ret)
{
    int err = sl_check_request(policy, request, &ret->request, &ret->buffer, NULL, NULL);

    if (err != 0)
        return err;
    sl_find_key_tier(limiter, policy, &ret->request, ret->tier);
    sl_policy_resolve(policy, &ret->request, &ret->resolution);
    return 0;
}

void sl_limiter_set_key_tier(struct sl_limiter *limiter, sl_key_tier *key_tier, void *ctx)
{
    limiter->key_tier = key_tier;
    limiter->key_tier_ctx = ctx;
}

/* A limit is consulted once however many rates it has, and had room when all of them had. */
static void count_groups(struct sl_snapshot *snapshot, unsigned slot, const struct sl_item *items,
                         const struct sl_decision *decisions, unsigned n, enum sl_counter counter)
{
    for (unsigned first = 0, end; first < n; first = end) {
        bool room = true;

        end = sl_items_group_end(items, n, first);
        for (unsigned i = first; i < end; i++)
            room = room && decisions[i].allowed;
        sl_counters_add(&snapshot->counters, slot, items[first].limit, counter, room);
    }
}

static void count_decision(struct sl_limiter *limiter, unsigned slot, const struct sl_consult *consult, bool allowed)
{
    struct sl_pulse *pulse = &limiter->pulses[slot];

    sl_tally(&pulse->decided[allowed], 1);
    if (consult->anonymous)
        sl_tally(&pulse->anonymous[allowed], 1);
}

void sl_consult_count(struct sl_limiter *limiter, struct sl_snapshot *snapshot, unsigned slot,
                      const struct sl_consult *consult, const struct sl_outcome *outcome, const struct sl_limit *by,
                      enum sluice_source source)
{
    struct sl_counters *counters = &snapshot->counters;

    count_decision(limiter, slot, consult, outcome->allowed);
    sl_counters_add(counters, slot, by, SL_COUNT_DECIDED_REJECTED, outcome->allowed);
    if (source != SLUICE_LOCAL)
        sl_counters_add(counters, slot, by,
                        source == SLUICE_SHARED ? SL_COUNT_SHARED_REJECTED : SL_COUNT_DEGRADED_REJECTED,
                        outcome->allowed);
    count_groups(snapshot, slot, consult->items, outcome->items, consult->n_items, SL_COUNT_CHECK_REJECTED);
    for (unsigned i = 0; i < consult->n_bare; i++)
        sl_counters_add(counters, slot, consult->bare[i], SL_COUNT_CHECK_REJECTED,
                        consult->bare[i]->kind == SL_RATE_UNLIMITED);
    if (consult->n_dry > 0)
        count_groups(snapshot, slot, consult->dry, outcome->dry, consult->n_dry, SL_COUNT_DRY_REJECTED);
    if (consult->dry_blocked)
        sl_counters_add(counters, slot, consult->dry_blocked, SL_COUNT_DRY_REJECTED, false);
    if (consult->unmatched || consult->denied)
        sl_tally(&limiter->pulses[slot].unmatched, 1);
}

void sl_consult_prefetch(const struct sl_table *table, const struct sl_consult *consult)
{
    for (unsigned i = 0; i < consult->n_items; i++)
        sl_table_prefetch(table, consult->items[i].fp);
    for (unsigned i = 0; i < consult->n_dry; i++)
        sl_table_prefetch(table, consult->dry[i].fp);
}

/* The usual request: one bucket, nothing else. */
static void run_plain(struct sl_limiter *limiter, struct sl_snapshot *snapshot, unsigned slot,
                      const struct sl_consult *consult, uint64_t now_us, struct sluice_verdict *ret_verdict)
{
    const struct sl_item *item = consult->items;
    struct sl_decision decision;

    sl_table_charge(limiter->table, item->fp, item->shape, now_us, item->cost, &decision);
    sl_bucket_verdict(item, &decision, snapshot->names, ret_verdict);
    count_decision(limiter, slot, consult, decision.allowed);
    sl_counters_add(&snapshot->counters, slot, item->limit, SL_COUNT_PLAIN_REJECTED, decision.allowed);
}

void sl_consult_run(struct sl_limiter *limiter, struct sl_snapshot *snapshot, unsigned slot,
                    const struct sl_consult *consult, uint64_t now_us, struct sluice_verdict *ret_verdict,
                    struct sl_report *report)
{
    struct sl_outcome outcome;
    const struct sl_limit *by;

    if (sl_consult_is_plain(consult) && !report) {
        run_plain(limiter, snapshot, slot, consult, now_us, ret_verdict);
        return;
    }
    sl_consult_decide(limiter->table, consult, now_us, &outcome);
    by = sl_consult_verdict(consult, &outcome, snapshot->names, ret_verdict);
    sl_consult_count(limiter, snapshot, slot, consult, &outcome, by, SLUICE_LOCAL);
    if (report)
        sl_consult_report(limiter->table, consult, &outcome, now_us, report);
}

/* One call of sl_limiter_check or sl_limiter_check_at, inside a reader slot. */
struct call {
    struct sl_limiter *limiter;
    struct sl_snapshot *snapshot;
    unsigned slot;
    bool at; /* decide at t_us, not at the table's own reading */
    uint64_t t_us;
    struct sluice_verdict *ret_verdict;
    struct sl_report *report;
    sl_beyond *beyond; /* NULL: every limit is decided in the table */
    void *beyond_ctx;
    int result; /* of beyond */
};

/* Decides; the buckets' lines are on their way while the clock is read. */
static void run(struct call *c, const struct sl_consult *consult)
{
    struct sl_table *table = c->limiter->table;
    uint64_t now_us;

    sl_consult_prefetch(table, consult);
    now_us = c->at ? sl_table_clamp(table, c->t_us) : sl_table_now(table);
    if (consult->shared && c->beyond)
        c->result = c->beyond(c->beyond_ctx, c->snapshot, c->slot, consult, now_us, c->ret_verdict, c->report);
    else
        sl_consult_run(c->limiter, c->snapshot, c->slot, consult, now_us, c->ret_verdict, c->report);
}

/* The long way: validates and resolves, and lets the memo know. */
static __attribute__((noinline)) int run_unknown(struct call *c, const struct sluice_request *request,
                                                 const struct sl_memo_query *query, const char **ret_field,
                                                 const char **ret_why)
{
    const struct sl_policy *policy = c->snapshot->policy;
    struct sl_request_buffer buffer;
    struct sluice_request checked;
    struct sl_resolution resolution;
    struct sl_consult consult;
    char tier[SLUICE_NAME_MAX];
    bool may_change;
    int err = sl_check_request(policy, request, &checked, &buffer, ret_field, ret_why);

    if (err != 0)
        return err;
    may_change = sl_find_key_tier(c->limiter, policy, &checked, tier);
    sl_policy_resolve(policy, &checked, &resolution);
    sl_consult_make(&resolution, &consult);
    consult.anonymous = sl_is_anonymous(&checked);
    run(c, &consult);
    if (!may_change)
        sl_memo_offer(query, request, &consult);
    return 0;
}

static int check(struct call *c, const struct sluice_request *request, const char **ret_field, const char **ret_why)
{
    struct sl_limiter *limiter = c->limiter;
    void *held;
    unsigned slot = c->slot = sl_rcu_enter(&limiter->rcu, &held);
    struct sl_pulse *pulse = &limiter->pulses[slot];
    bool sampled = sl_pulse_ticks(pulse) % SL_SAMPLE == 0;
    uint64_t started_ns = sampled ? sl_stopwatch_ns() : 0;
    struct sl_memo_query query;
    const struct sl_consult *known;
    int err = 0;

    c->snapshot = held;
    known = sl_memo_find(&c->snapshot->memos[slot], request, &query);
    if (known)
        run(c, known);
    else
        err = run_unknown(c, request, &query, ret_field, ret_why);
    if (sampled && err == 0 && c->result == 0) /* what answers later has yet to see how long it takes */
        sl_pulse_record(pulse, sl_stopwatch_ns() - started_ns);
    if (err == 0)
        sl_tap_request(limiter, slot, request, c->result == 0 && !c->ret_verdict->allowed);
    sl_rcu_leave(&limiter->rcu, slot);
    return err;
}

int sl_limiter_check(struct sl_limiter *limiter, const struct sluice_request *request,
                     struct sluice_verdict *ret_verdict, struct sl_report *report, const char **ret_field,
                     const char **ret_why)
{
    struct call call = {.limiter = limiter, .ret_verdict = ret_verdict, .report = report};

    return check(&call, request, ret_field, ret_why);
}

int sl_limiter_check_beyond(struct sl_limiter *limiter, const struct sluice_request *request,
                            struct sluice_verdict *ret_verdict, struct sl_report *report, const char **ret_field,
                            const char **ret_why, sl_beyond *beyond, void *beyond_ctx)
{
    struct call call = {
        .limiter = limiter, .ret_verdict = ret_verdict, .report = report, .beyond = beyond, .beyond_ctx = beyond_ctx};
    int err = check(&call, request, ret_field, ret_why);

    return err != 0 ? err : call.result;
}

int sl_limiter_check_at(struct sl_limiter *limiter, uint64_t t_us, const struct sluice_request *request,
                        struct sluice_verdict *ret_verdict, struct sl_report *report, const char **ret_field,
                        const char **ret_why)
{
    if (t_us > SL_TIME_MAX_US) {
        if (ret_field)
            *ret_field = "t_us";
        if (ret_why)
            *ret_why = "lies beyond the year 4000";
        return SL_EINVALID;
    }
    struct call call = {.limiter = limiter, .at = true, .t_us = t_us, .ret_verdict = ret_verdict, .report = report};

    return check(&call, request, ret_field, ret_why);
}
