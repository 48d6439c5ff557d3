#include "server/metrics_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shards {
    unsigned n;
    struct sl_shard_stats rows[SL_METRICS_SHARDS_MAX + 1]; /* the last: "other" */
};

static void add(struct sl_shard_stats *to, const struct sl_shard_stats *from)
{
    for (unsigned i = 0; i < SL_RESULTS; i++)
        to->results[i] += from->results[i];
    for (unsigned i = 0; i < SL_CLIENT_DURATIONS; i++)
        to->durations[i] += from->durations[i];
    to->duration_sum_us += from->duration_sum_us;
    to->failovers += from->failovers;
    if (from->breaker > to->breaker)
        to->breaker = from->breaker;
}

static void take(void *ctx, const struct sl_shard_stats *stats)
{
    struct shards *shards = ctx;

    if (shards->n < SL_METRICS_SHARDS_MAX) {
        shards->rows[shards->n++] = *stats;
        return;
    }
    if (shards->n == SL_METRICS_SHARDS_MAX) {
        struct sl_shard_stats *other = &shards->rows[shards->n++];

        memset(other, 0, sizeof *other);
        snprintf(other->name, sizeof other->name, "other");
    }
    add(&shards->rows[SL_METRICS_SHARDS_MAX], stats);
}

static void begin(struct sl_exposition *x, const char *suffix, const struct sl_shard_stats *shard)
{
    sl_exposition_begin(x, suffix);
    sl_exposition_label(x, "shard", shard->name);
}

static void add_operations(struct sl_exposition *x, const struct shards *shards)
{
    sl_exposition_family(x, "sluice_store_operations", "counter", "Calls to the store, by what became of them.");
    for (unsigned i = 0; i < shards->n; i++)
        for (unsigned r = 0; r < SL_RESULTS; r++) {
            if (r != SL_RESULT_OK && r != SL_RESULT_TIMEOUT && !shards->rows[i].results[r])
                continue; /* most never happen */
            begin(x, "_total", &shards->rows[i]);
            sl_exposition_label(x, "result", sl_result_name((enum sl_result)r));
            sl_exposition_int(x, shards->rows[i].results[r]);
        }
}

static void add_durations(struct sl_exposition *x, const struct shards *shards)
{
    sl_exposition_family(x, "sluice_store_duration_seconds", "histogram",
                         "Time from sending a call to the store until its answer was there.");
    for (unsigned i = 0; i < shards->n; i++) {
        const struct sl_shard_stats *shard = &shards->rows[i];
        uint64_t below = 0;

        for (unsigned d = 0; d < SL_CLIENT_DURATIONS - 1; d++) {
            below += shard->durations[d];
            begin(x, "_bucket", shard);
            sl_exposition_bound(x, (double)sl_client_bounds_us[d] / 1e6);
            sl_exposition_int(x, below);
        }
        below += shard->durations[SL_CLIENT_DURATIONS - 1];
        begin(x, "_bucket", shard);
        sl_exposition_label(x, "le", "+Inf");
        sl_exposition_int(x, below);
        begin(x, "_sum", shard);
        sl_exposition_real(x, (double)shard->duration_sum_us / 1e6);
        begin(x, "_count", shard);
        sl_exposition_int(x, below);
    }
}

/* As the metric is defined, not as the enum happens to be ordered. */
static uint64_t breaker_number(enum sl_breaker_state state)
{
    return state == SL_BREAKER_CLOSED ? 0 : state == SL_BREAKER_HALF_OPEN ? 1 : 2;
}

static void add_shards(struct sl_exposition *x, const struct shards *shards)
{
    add_operations(x, shards);
    add_durations(x, shards);
    sl_exposition_family(x, "sluice_store_failovers", "counter", "Times another server became a shard's master.");
    for (unsigned i = 0; i < shards->n; i++) {
        begin(x, "_total", &shards->rows[i]);
        sl_exposition_int(x, shards->rows[i].failovers);
    }
    sl_exposition_family(x, "sluice_breaker_state", "gauge",
                         "A shard's breaker: 0 closed, 1 half-open, 2 open; the worst of all loops'.");
    for (unsigned i = 0; i < shards->n; i++) {
        begin(x, "", &shards->rows[i]);
        sl_exposition_int(x, breaker_number(shards->rows[i].breaker));
    }
}

static void add_totals(struct sl_exposition *x, const struct sl_fleet_stats *s)
{
    const struct {
        const char *name, *help;
        uint64_t value;
    } counters[] = {
        {"sluice_shared_unavailable", "Decisions about a bucket by its limit's on_store_failure.", s->degraded},
        {"sluice_near_rejections", "Requests rejected by pre-filter or deny cache, without the store.",
         s->near_rejected},
        {"sluice_leased_decisions", "Decisions about a bucket out of leased tokens.", s->leased},
        {"sluice_asked_decisions", "Decisions about a bucket by the store.", s->asked},
        {"sluice_store_groups", "Operations asked of the store: merged requests, renewals, returns, refunds.",
         s->operations},
        {"sluice_lease_renewals", "Blocks of tokens asked for.", s->renewals},
        {"sluice_lease_returns", "Blocks of unspent tokens given back.", s->returns},
        {"sluice_lease_tokens_lost", "Leased tokens that were never given back, or never confirmed.", s->tokens_lost},
        {"sluice_refunds", "Charges given back because another bucket rejected.", s->refunds},
        {"sluice_refunds_lost", "Such charges that could not be given back.", s->refunds_lost},
        {"sluice_store_foreign", "Decisions about a bucket whose key held something that is not ours.", s->foreign},
    };

    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        sl_exposition_counter(x, counters[i].name, counters[i].help, counters[i].value);
    sl_exposition_gauge(x, "sluice_leases_active", "Buckets with leased tokens here now.", s->leases_active);
    sl_exposition_gauge(x, "sluice_instances", "Instances that share the limits, as last heard.", s->instances);
    sl_exposition_gauge(x, "sluice_store_reached", "1 while a loop has a ready connection to the main store.",
                        s->reached);
    sl_exposition_gauge(x, "sluice_store_secret_known", "1 when the store has told the instances' secret.",
                        s->secret_known);
}

static void add_keys(struct sl_exposition *x, const struct sl_fleet_stats *s)
{
    sl_exposition_family(x, "sluice_keys_lookups", "counter",
                         "Keys looked up in the store for their tiers (keys_store), by what came of it.");
    for (unsigned i = 0; i < SL_TIERS_COUNTS; i++) {
        sl_exposition_begin(x, "_total");
        sl_exposition_label(x, "result", sl_tiers_count_names[i]);
        sl_exposition_int(x, s->key_lookups[i]);
    }
    sl_exposition_gauge(x, "sluice_keys_cached", "Keys of which it is remembered what the store says.", s->keys_cached);
}

bool sl_expose_store(struct sl_exposition *x, struct sl_fleet *fleet)
{
    struct shards *shards = malloc(sizeof *shards);
    struct sl_fleet_stats stats;

    if (!shards)
        return false;
    shards->n = 0;
    sl_fleet_shards(fleet, take, shards);
    sl_fleet_stats(fleet, &stats);
    add_shards(x, shards);
    add_totals(x, &stats);
    add_keys(x, &stats);
    free(shards);
    return true;
}
