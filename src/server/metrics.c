/* GET /metrics: what is counted now (SPEC section 12). No label ever carries a value from a request. */
#include "server/exposition.h"
#include "server/metrics_notify.h"
#include "server/metrics_store.h"
#include "server/problem.h"
#include "server/route.h"
#include "server/see.h"

#include "policy/override.h"
#include "shadow/shadow.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 10u
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define VERSION TEXT(SLUICE_VERSION_MAJOR) "." TEXT(SLUICE_VERSION_MINOR) "." TEXT(SLUICE_VERSION_PATCH)

static bool wants_open_metrics(const struct sl_http_request *request)
{
    struct sl_slice accept = sl_http_find(request, "accept", NULL);

    return accept.text && sl_exposition_wants_open_metrics(accept.text, accept.len);
}

static void decision(struct sl_exposition *x, const char *limit, bool allowed, int source, const char *mode, uint64_t n)
{
    sl_exposition_begin(x, "_total");
    sl_exposition_label(x, "limit", limit);
    sl_exposition_label(x, "verdict", allowed ? "allowed" : "rejected");
    sl_exposition_label(x, "source", sluice_source_name(source));
    sl_exposition_label(x, "mode", mode);
    sl_exposition_int(x, n);
}

/* With a shared tier every source has its row from the start, so that a first event is an increase. */
static void add_decided(struct sl_exposition *x, const struct sl_limiter_count *row, bool shared)
{
    uint64_t allowed = row->decided_allowed - row->shared_allowed - row->degraded_allowed;
    uint64_t rejected = row->decided_rejected - row->shared_rejected - row->degraded_rejected;

    decision(x, row->limit, true, SLUICE_LOCAL, "enforce", allowed);
    decision(x, row->limit, false, SLUICE_LOCAL, "enforce", rejected);
    if (!shared)
        return;
    decision(x, row->limit, true, SLUICE_SHARED, "enforce", row->shared_allowed);
    decision(x, row->limit, false, SLUICE_SHARED, "enforce", row->shared_rejected);
    decision(x, row->limit, true, SLUICE_DEGRADED, "enforce", row->degraded_allowed);
    decision(x, row->limit, false, SLUICE_DEGRADED, "enforce", row->degraded_rejected);
}

static void add_decisions(struct sl_exposition *x, const struct sl_limiter_count *rows, size_t n, bool shared)
{
    sl_exposition_family(
        x, "sluice_decisions", "counter",
        "Decisions, by the limit that decided (empty: none matched). Dry-run limits are counted apart.");
    for (size_t i = 0; i < n; i++) {
        add_decided(x, &rows[i], shared);
        if (rows[i].dry_allowed + rows[i].dry_rejected == 0)
            continue;
        decision(x, rows[i].limit, true, SLUICE_LOCAL, "dry_run", rows[i].dry_allowed);
        decision(x, rows[i].limit, false, SLUICE_LOCAL, "dry_run", rows[i].dry_rejected);
    }
}

static void add_checks(struct sl_exposition *x, const struct sl_limiter_count *rows, size_t n)
{
    sl_exposition_family(x, "sluice_limit_checks", "counter",
                         "Each limit consulted: had it room, whatever others said.");
    for (size_t i = 0; i < n; i++) {
        if (!*rows[i].limit)
            continue;
        for (int rejected = 0; rejected < 2; rejected++) {
            sl_exposition_begin(x, "_total");
            sl_exposition_label(x, "limit", rows[i].limit);
            sl_exposition_label(x, "result", rejected ? "rejected" : "allowed");
            sl_exposition_int(x, rejected ? rows[i].checks_rejected : rows[i].checks_allowed);
        }
    }
}

static void add_share(void *ctx, const char *limit, double share)
{
    struct sl_exposition *x = ctx;

    sl_exposition_begin(x, "");
    sl_exposition_label(x, "limit", limit);
    sl_exposition_real(x, share);
}

static void add_shares(struct sl_exposition *x, struct sl_ratio_watch *ratios, const struct sl_limiter_count *rows,
                       size_t n)
{
    sl_exposition_family(x, "sluice_rejection_ratio", "gauge",
                         "Share of the decisions of each limit in the last ten seconds that it had no room for, apart "
                         "from those for want of a store; 0 when there was none.");
    sl_ratio_watch_shares(ratios, rows, n, add_share, x);
}

static bool add_limits(struct sl_exposition *x, const struct sl_shared *shared)
{
    struct sl_limiter_count *rows = malloc(SL_COUNT_ROWS_MAX * sizeof *rows);
    size_t n;

    if (!rows)
        return false;
    n = sl_limiter_counts(shared->limiter, rows, SL_COUNT_ROWS_MAX);
    add_decisions(x, rows, n, shared->fleet != NULL);
    add_checks(x, rows, n);
    if (shared->ratios)
        add_shares(x, shared->ratios, rows, n);
    free(rows);
    return true;
}

static void add_durations(struct sl_exposition *x, const struct sl_limiter_stats *stats)
{
    uint64_t below = 0;

    sl_exposition_family(
        x, "sluice_decision_duration_seconds", "histogram",
        "Time the limiter took for a decision, apart from any protocol; one decision in 64 is measured.");
    for (unsigned i = 0; i < SL_DURATION_BUCKETS - 1; i++) {
        below += stats->duration[i];
        sl_exposition_begin(x, "_bucket");
        sl_exposition_bound(x, (double)(UINT64_C(64) << i) / 1e9);
        sl_exposition_int(x, below);
    }
    sl_exposition_begin(x, "_bucket");
    sl_exposition_label(x, "le", "+Inf");
    sl_exposition_int(x, below + stats->duration[SL_DURATION_BUCKETS - 1]);
    sl_exposition_begin(x, "_sum");
    sl_exposition_real(x, (double)stats->duration_sum_ns / 1e9);
    sl_exposition_begin(x, "_count");
    sl_exposition_int(x, below + stats->duration[SL_DURATION_BUCKETS - 1]);
}

static void add_anonymous(struct sl_exposition *x, const struct sl_shared *shared, const struct sl_limiter_stats *stats)
{
    sl_exposition_family(x, "sluice_anonymous_decisions", "counter", "Decisions about keys that are addresses.");
    for (int rejected = 0; rejected < 2; rejected++) {
        sl_exposition_begin(x, "_total");
        sl_exposition_label(x, "verdict", rejected ? "rejected" : "allowed");
        sl_exposition_int(x, rejected ? stats->anonymous_rejected : stats->anonymous_allowed);
    }
    if (!shared->ratios)
        return;
    sl_exposition_family(
        x, "sluice_anonymous_rejection_ratio", "gauge",
        "Share of rejections among the decisions about addresses in the last ten seconds; 0 when there "
        "was none.");
    sl_exposition_begin(x, "");
    sl_exposition_real(x, sl_ratio_watch_anonymous(shared->ratios, stats));
}

/* One series at a time: the hash of the policy in force is the only one there is. */
static void add_policy_info(struct sl_exposition *x, const struct sl_shared *shared)
{
    struct sl_policy *policy = sl_limiter_policy(shared->limiter);
    bool version = atomic_load(&shared->policy_from_store) && atomic_load(&shared->policy_version);

    sl_exposition_family(x, "sluice_policy", "info", "The policy in force: its SHA-256, and its source.");
    sl_exposition_begin(x, "_info");
    sl_exposition_label(x, "hash", sl_policy_hash(policy));
    sl_exposition_label(x, "source", version ? "store" : "file");
    sl_exposition_int(x, 1);
    sl_exposition_gauge(x, "sluice_overrides", "Overrides of single keys that have an effect.",
                        sl_policy_n_active_overrides(policy));
    sl_exposition_gauge(x, "sluice_overrides_revision", "How often the list of overrides in force has changed.",
                        sl_policy_overrides(policy) ? sl_policy_overrides(policy)->revision : 0);
    sl_policy_unref(policy);
}

static void add_reloads(struct sl_exposition *x, const struct sl_shared *shared, uint64_t put_in_force)
{
    const struct {
        const char *result;
        uint64_t n;
    } rows[] = {{"ok", atomic_load(&shared->reloads_ok)},
                {"failed", atomic_load(&shared->reloads_failed)},
                {"ignored", atomic_load(&shared->reloads_ignored)}};

    sl_exposition_gauge(x, "sluice_policy_version",
                        "Number of the version in force, 0 while it is the file's; where the policy has no versions: "
                        "policies put in force since the start, the first included.",
                        atomic_load(&shared->policy_from_store) ? atomic_load(&shared->policy_version) : put_in_force);
    add_policy_info(x, shared);
    sl_exposition_family(x, "sluice_policy_reloads", "counter", "Reloads of the policy, by result.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sl_exposition_begin(x, "_total");
        sl_exposition_label(x, "result", rows[i].result);
        sl_exposition_int(x, rows[i].n);
    }
}

static void add_limiter(struct sl_exposition *x, const struct sl_shared *shared)
{
    struct sl_limiter_stats stats;

    sl_limiter_stats(shared->limiter, &stats);
    add_durations(x, &stats);
    add_anonymous(x, shared, &stats);
    sl_exposition_counter(x, "sluice_unmatched", "Requests that no limit matched.", stats.unmatched);
    add_reloads(x, shared, stats.reloads + 1);
    sl_exposition_gauge(x, "sluice_policy_last_reload_failed", "1 while the latest reload is one that failed, else 0.",
                        atomic_load(&shared->last_reload_failed));
    sl_exposition_gauge(x, "sluice_policy_last_reload_timestamp_seconds",
                        "Unix time of the latest reload, good or not; 0 before the first.",
                        atomic_load(&shared->last_reload_s));
}

static void add_table(struct sl_exposition *x, struct sl_limiter *limiter)
{
    struct sl_table_stats stats;

    sl_table_stats(sl_limiter_table(limiter), &stats);
    sl_exposition_gauge(x, "sluice_buckets", "Buckets that are not whole now, as of the last scan.", stats.live);
    sl_exposition_gauge(x, "sluice_table_slots", "Buckets the table has room for.", stats.slots);
    sl_exposition_gauge(x, "sluice_table_bytes", "Bytes of the table.", stats.bytes);
    sl_exposition_counter(x, "sluice_table_evictions", "Live buckets that had to make room.", stats.evictions);
    sl_exposition_family(x, "sluice_table_forgiven_seconds", "counter", "Debt in time that evicted buckets had.");
    sl_exposition_begin(x, "_total");
    sl_exposition_real(x, (double)stats.forgiven_us / 1e6);
    sl_exposition_counter(x, "sluice_negative_elapsed", "Clock readings or events earlier than the latest.",
                          stats.negative_elapsed);
    sl_exposition_gauge(x, "sluice_log_entries", "Entries of sliding logs in use.", stats.log_used);
    sl_exposition_counter(x, "sluice_log_folded", "Hits folded into the newest log entry for want of room.",
                          stats.log_folded);
}

/* The sum of one counter over all loops; `offset` within struct sl_service_counters. */
static uint64_t sum(const struct sl_shared *shared, size_t offset)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < shared->n_services; i++) {
        const char *counters = (const char *)&shared->services[i]->counters;

        total +=
            atomic_load_explicit((const atomic_uint_fast64_t *)(const void *)(counters + offset), memory_order_relaxed);
    }
    return total;
}

#define SUM(shared, field) sum(shared, offsetof(struct sl_service_counters, field))

static void response(struct sl_exposition *x, const char *route, unsigned class, uint64_t n)
{
    static const char *const classes[SL_CLASSES] = {"2xx", "4xx", "429", "5xx"};

    sl_exposition_begin(x, "_total");
    sl_exposition_label(x, "route", route);
    sl_exposition_label(x, "class", classes[class]);
    sl_exposition_int(x, n);
}

static void add_http(struct sl_exposition *x, const struct sl_shared *shared)
{
    sl_exposition_family(x, "sluice_http_responses", "counter",
                         "HTTP answers, by route; `none` when no route was found.");
    for (unsigned c = 0; c < SL_CLASSES; c++) {
        for (unsigned r = 0; r < sl_n_routes; r++) {
            size_t at =
                offsetof(struct sl_service_counters, responses) + (r * SL_CLASSES + c) * sizeof(atomic_uint_fast64_t);

            response(x, sl_routes[r].path, c, sum(shared, at));
        }
        response(x, "none", c,
                 sum(shared, offsetof(struct sl_service_counters, unrouted) + c * sizeof(atomic_uint_fast64_t)));
    }
    sl_exposition_gauge(x, "sluice_http_connections", "Connections open now.", SUM(shared, open));
    sl_exposition_counter(x, "sluice_http_accepted", "Connections accepted.", SUM(shared, accepted));
    sl_exposition_counter(x, "sluice_http_reclaimed", "Idle connections closed to make room.", SUM(shared, reclaimed));
    sl_exposition_counter(x, "sluice_http_accept_pauses", "Times accepting paused for want of descriptors or room.",
                          SUM(shared, paused));
    sl_exposition_counter(x, "sluice_http_timeouts", "Connections ended by a deadline.", SUM(shared, timeouts));
    sl_exposition_counter(x, "sluice_http_malformed", "Requests that were no HTTP.", SUM(shared, malformed));
    sl_exposition_counter(x, "sluice_forwarded_malformed", "Forwarding headers that held something that is no address.",
                          SUM(shared, bad_forwarded));
}

/* Ranks, never keys: a label with a value from a request would be a series for everybody who asks. */
static void add_hot(struct sl_exposition *x, struct sl_top *top)
{
    struct sl_top_key keys[RANKS];
    unsigned n = sl_top_read(top, SL_TOP_HOT, keys, RANKS);

    sl_exposition_family(x, "sluice_hot_key_ops", "gauge",
                         "Requests a second of the hottest keys, from a sample; /v1/top names them.");
    for (unsigned i = 0; i < RANKS; i++) {
        char rank[8];

        snprintf(rank, sizeof rank, "%u", i + 1);
        sl_exposition_begin(x, "");
        sl_exposition_label(x, "rank", rank);
        sl_exposition_real(x, i < n ? keys[i].per_second : 0);
    }
}

static void add_alarms(struct sl_exposition *x, struct sl_alarms *alarms)
{
    struct sl_alarm_state states[SL_ALARMS];

    for (unsigned i = 0; i < SL_ALARMS; i++)
        states[i] = sl_alarm_read(alarms, (enum sl_alarm)i);
    sl_exposition_family(x, "sluice_alarm", "gauge",
                         "1 while an alarm lasts, else 0; docs/runbook.md says what to do.");
    for (unsigned i = 0; i < SL_ALARMS; i++) {
        sl_exposition_begin(x, "");
        sl_exposition_label(x, "kind", sl_alarm_name((enum sl_alarm)i));
        sl_exposition_int(x, states[i].raised);
    }
    sl_exposition_family(x, "sluice_alarms_raised", "counter", "Times an alarm began.");
    for (unsigned i = 0; i < SL_ALARMS; i++) {
        sl_exposition_begin(x, "_total");
        sl_exposition_label(x, "kind", sl_alarm_name((enum sl_alarm)i));
        sl_exposition_int(x, states[i].count);
    }
}

/* A candidate that runs beside the policy; the same rows while there is none. */
static void add_shadow(struct sl_exposition *x, const struct sl_server_hooks *hooks)
{
    static const char *const results[] = {"same", "newly_rejected", "newly_allowed"};
    struct sl_shadow_totals totals;

    hooks->shadow_totals(hooks->shadow_ctx, &totals);
    sl_exposition_gauge(x, "sluice_shadow_active", "1 while a candidate policy runs beside the live one.",
                        totals.active);
    sl_exposition_family(x, "sluice_shadow_decisions", "counter",
                         "Decisions that candidates decided too, and what they would have decided otherwise.");
    for (unsigned i = 0; i < 3; i++) {
        sl_exposition_begin(x, "_total");
        sl_exposition_label(x, "result", results[i]);
        sl_exposition_int(x, i == 0 ? totals.same : i == 1 ? totals.newly_rejected : totals.newly_allowed);
    }
    sl_exposition_counter(x, "sluice_shadow_dropped", "Decisions that were not shown to candidates, for want of room.",
                          totals.dropped);
}

static void add_instance(struct sl_exposition *x, struct sl_service *service)
{
    const char *region = sl_policy_region(sl_service_policy(service));

    sl_exposition_family(x, "sluice_instance", "info", "Where this daemon is: --region.");
    sl_exposition_begin(x, "_info");
    sl_exposition_label(x, "region", region ? region : "");
    sl_exposition_int(x, 1);
}

static void add_build(struct sl_exposition *x)
{
    sl_exposition_family(x, "sluice_build", "info", "The version of this daemon.");
    sl_exposition_begin(x, "_info");
    sl_exposition_label(x, "version", VERSION);
    sl_exposition_int(x, 1);
}

void sl_handle_metrics(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *out)
{
    struct sl_shared *shared = call->service->shared;
    struct sl_exposition x = {.out = &out->body, .open_metrics = wants_open_metrics(request)};

    out->content_type = x.open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                       : "text/plain; version=0.0.4; charset=utf-8";
    if (!add_limits(&x, shared) || (shared->fleet && !sl_expose_store(&x, shared->fleet))) {
        sl_problem(out, 500, "Out of memory.", NULL);
        return;
    }
    add_limiter(&x, shared);
    add_table(&x, shared->limiter);
    add_http(&x, shared);
    if (shared->top)
        add_hot(&x, shared->top);
    if (shared->see)
        sl_see_metrics(&x, shared->see);
    if (shared->alarms)
        add_alarms(&x, shared->alarms);
    if (shared->notices)
        sl_expose_notices(&x, shared->notices);
    if (shared->hooks.shadow_totals)
        add_shadow(&x, &shared->hooks);
    add_instance(&x, call->service);
    add_build(&x);
    sl_exposition_end(&x);
}
