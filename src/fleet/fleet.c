#include "fleet/internal.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

#define DENY_SHARE 8 /* of the table's keys */
#define LEASE_SHARE 64

/* ---- life */

static size_t within(uint64_t n, size_t least, size_t most)
{
    return n < least ? least : n > most ? most : (size_t)n;
}

static int make_parts(struct sl_fleet *fleet)
{
    const struct sl_tiers_config tiers = {.alloc = &fleet->alloc, .ttl_us = fleet->config.tier_ttl_us};
    struct sl_table_stats stats;

    sl_table_stats(fleet->limiter->table, &stats);
    if (sl_deny_new(within(stats.slots / DENY_SHARE, 1024, 1u << 20), &fleet->alloc, &fleet->deny) != 0 ||
        sl_leases_new(within(stats.slots / LEASE_SHARE, 1024, 1u << 15), &fleet->alloc, &fleet->leases) != 0 ||
        sl_heat_new(&fleet->alloc, &fleet->heat) != 0 || sl_tiers_new(&tiers, &fleet->tiers) != 0)
        return SL_ENOMEM;
    return 0;
}

static int check_namespace(const char *ns, char *why, size_t why_size)
{
    size_t len = strlen(ns);

    if (len >= 1 && len <= SL_NAMESPACE_MAX && !strpbrk(ns, "{}"))
        return 0;
    snprintf(why, why_size, "the namespace must have 1 to %d bytes and no braces", SL_NAMESPACE_MAX);
    return SL_EINVALID;
}

static void fleet_fini(struct sl_fleet *fleet)
{
    struct sl_alloc alloc = fleet->alloc;

    sl_deny_free(fleet->deny);
    sl_leases_free(fleet->leases);
    sl_heat_free(fleet->heat);
    sl_tiers_free(fleet->tiers);
    for (unsigned i = 1; i < SL_STORES_MAX; i++) {
        if (fleet->stores[i])
            sl_store_url_fini(fleet->stores[i]);
        sl_free(&alloc, fleet->stores[i]);
        sl_free(&alloc, fleet->store_texts[i]);
    }
    sl_free(&alloc, (void *)fleet->stores[0]);
    pthread_mutex_destroy(&fleet->lock);
    sl_free(&alloc, fleet);
}

static int fleet_init(struct sl_fleet *fleet, const struct sl_fleet_config *config, char *why, size_t why_size)
{
    struct sl_secret random;

    snprintf(fleet->ns, sizeof fleet->ns, "%s", config->ns);
    snprintf(fleet->keys_ns, sizeof fleet->keys_ns, "%s", config->keys_ns ? config->keys_ns : config->ns);
    fleet->ns_len = strlen(fleet->ns);
    fleet->timeout_us = config->timeout_us ? config->timeout_us : SL_CLIENT_TIMEOUT_US;
    atomic_init(&fleet->instances, config->instances ? config->instances : 1);
    atomic_init(&fleet->n_stores, 1);
    fleet->stores[0] = sl_calloc(&fleet->alloc, 1, sizeof *fleet->stores[0]);
    if (!fleet->stores[0] || make_parts(fleet) != 0) {
        snprintf(why, why_size, "out of memory");
        return SL_ENOMEM;
    }
    *fleet->stores[0] = *config->store;
    if (sl_secret_random(&random) != 0) {
        snprintf(why, why_size, "the system gives no random bytes");
        return SL_EIO;
    }
    memcpy(&fleet->id, &random, sizeof fleet->id);
    return 0;
}

int sl_fleet_new(const struct sl_fleet_config *config, struct sl_fleet **ret_fleet, char *why, size_t why_size)
{
    struct sl_fleet *fleet;
    int err = check_namespace(config->ns, why, why_size);

    if (err != 0)
        return err;
    fleet = sl_calloc(config->alloc, 1, sizeof *fleet);
    if (!fleet) {
        snprintf(why, why_size, "out of memory");
        return SL_ENOMEM;
    }
    fleet->alloc = *config->alloc;
    fleet->limiter = config->limiter;
    fleet->config = *config;
    pthread_mutex_init(&fleet->lock, NULL);
    err = fleet_init(fleet, config, why, why_size);
    if (err != 0) {
        fleet_fini(fleet);
        return err;
    }
    sl_fleet_find_tiers(fleet, true);
    *ret_fleet = fleet;
    return 0;
}

void sl_fleet_free(struct sl_fleet *fleet)
{
    if (!fleet)
        return;
    sl_fleet_find_tiers(fleet, false);
    fleet_fini(fleet);
}

/* ---- secret and instances */

static void compare_secrets(struct sl_fleet *fleet)
{
    atomic_store(&fleet->ready,
                 fleet->heard && fleet->policy_given &&
                     memcmp(&fleet->heard_secret, &fleet->policy_secret, sizeof fleet->heard_secret) == 0);
}

void sl_fleet_set_secret(struct sl_fleet *fleet, const struct sl_secret *secret)
{
    pthread_mutex_lock(&fleet->lock);
    fleet->policy_secret = *secret;
    fleet->policy_given = true;
    compare_secrets(fleet);
    pthread_mutex_unlock(&fleet->lock);
}

void sl_fleet_heard(struct sl_fleet *fleet, unsigned count, const struct sl_secret *secret)
{
    bool tell;

    if (count > 0)
        atomic_store(&fleet->instances, count < SL_FLEET_INSTANCES_MAX ? count : SL_FLEET_INSTANCES_MAX);
    pthread_mutex_lock(&fleet->lock);
    tell = !fleet->heard || memcmp(&fleet->heard_secret, secret, sizeof *secret) != 0;
    fleet->heard_secret = *secret;
    fleet->heard = true;
    compare_secrets(fleet);
    tell = tell && !atomic_load(&fleet->ready);
    pthread_mutex_unlock(&fleet->lock);
    if (tell && fleet->config.secret)
        fleet->config.secret(fleet->config.owner, secret);
}

bool sl_fleet_secret(struct sl_fleet *fleet, struct sl_secret *ret_secret)
{
    bool known;

    pthread_mutex_lock(&fleet->lock);
    known = fleet->heard;
    if (known)
        *ret_secret = fleet->heard_secret;
    pthread_mutex_unlock(&fleet->lock);
    return known;
}

uint64_t sl_fleet_id(const struct sl_fleet *fleet)
{
    return fleet->id;
}

unsigned sl_fleet_instances(const struct sl_fleet *fleet)
{
    return atomic_load_explicit(&fleet->instances, memory_order_relaxed);
}

/* ---- errands */

void sl_fleet_add_errand(struct sl_fleet *fleet, const struct sl_errand *errand)
{
    bool taken;

    pthread_mutex_lock(&fleet->lock);
    taken = fleet->n_errands < SL_ERRANDS_MAX;
    if (taken) {
        fleet->errands[fleet->n_errands++] = *errand;
        atomic_store(&fleet->has_errands, true);
    }
    pthread_mutex_unlock(&fleet->lock);
    if (!taken)
        sl_lease_failed(fleet->leases, errand->fp, errand->tokens, false);
}

bool sl_fleet_has_errands(const struct sl_fleet *fleet)
{
    return atomic_load_explicit(&fleet->has_errands, memory_order_relaxed) || sl_tiers_waiting(fleet->tiers);
}

void sl_fleet_forget(struct sl_fleet *fleet, struct sl_hash128 fp)
{
    sl_deny_forget(fleet->deny, fp);
    sl_lease_forget(fleet->leases, fp);
    sl_table_reset(fleet->limiter->table, sl_filter_name(fp));
    sl_table_reset(fleet->limiter->table, sl_degraded_name(fp));
}

/* ---- figures */

static bool is_reached(struct sl_fleet *fleet)
{
    bool reached = false;

    pthread_mutex_lock(&fleet->lock);
    for (unsigned i = 0; i < SL_FLEET_LANES_MAX; i++)
        reached = reached || (fleet->lanes[i] && atomic_load(&fleet->lanes[i]->reached));
    pthread_mutex_unlock(&fleet->lock);
    return reached;
}

static uint64_t count_of(const struct sl_fleet *fleet, enum sl_fleet_count what)
{
    return atomic_load_explicit(&fleet->counts[what], memory_order_relaxed);
}

void sl_fleet_stats(struct sl_fleet *fleet, struct sl_fleet_stats *ret_stats)
{
    struct sl_leases_stats leases;
    struct sl_tiers_stats tiers;

    sl_leases_stats(fleet->leases, &leases);
    sl_tiers_stats(fleet->tiers, &tiers);
    *ret_stats = (struct sl_fleet_stats){
        .near_rejected = count_of(fleet, SL_FC_NEAR_REJECTED),
        .leased = count_of(fleet, SL_FC_LEASED),
        .asked = count_of(fleet, SL_FC_ASKED),
        .operations = count_of(fleet, SL_FC_OPERATIONS),
        .renewals = count_of(fleet, SL_FC_RENEWALS),
        .returns = count_of(fleet, SL_FC_RETURNS),
        .refunds = count_of(fleet, SL_FC_REFUNDS),
        .tokens_lost = count_of(fleet, SL_FC_TOKENS_LOST) + leases.lost,
        .refunds_lost = count_of(fleet, SL_FC_REFUNDS_LOST),
        .degraded = count_of(fleet, SL_FC_DEGRADED),
        .foreign = count_of(fleet, SL_FC_FOREIGN),
        .leases_active = leases.active,
        .instances = sl_fleet_instances(fleet),
        .clock_apart_us = atomic_load(&fleet->clock_apart_us),
        .answered = count_of(fleet, SL_FC_ANSWERED),
        .refused = count_of(fleet, SL_FC_REFUSED),
        .secret_known = atomic_load(&fleet->ready),
        .reached = is_reached(fleet),
        .keys_cached = tiers.entries,
    };
    memcpy(ret_stats->key_lookups, tiers.lookups, sizeof ret_stats->key_lookups);
}

/* ---- shards, summed over the lanes */

#define SHARDS_MAX 256u

struct gather {
    struct sl_shard_stats *shards;
    unsigned n;
};

static void add_shard(void *ctx, const struct sl_shard_stats *stats)
{
    struct gather *g = ctx;
    struct sl_shard_stats *sum = NULL;

    for (unsigned i = 0; i < g->n && !sum; i++)
        if (strcmp(g->shards[i].name, stats->name) == 0)
            sum = &g->shards[i];
    if (!sum) {
        if (g->n < SHARDS_MAX)
            g->shards[g->n++] = *stats;
        return;
    }
    for (unsigned i = 0; i < SL_RESULTS; i++)
        sum->results[i] += stats->results[i];
    for (unsigned i = 0; i < SL_CLIENT_DURATIONS; i++)
        sum->durations[i] += stats->durations[i];
    sum->duration_sum_us += stats->duration_sum_us;
    /* Each lane sees each failover. */
    if (stats->failovers > sum->failovers)
        sum->failovers = stats->failovers;
    if (stats->breaker > sum->breaker)
        sum->breaker = stats->breaker;
}

void sl_fleet_shards(struct sl_fleet *fleet, void (*visit)(void *ctx, const struct sl_shard_stats *stats), void *ctx)
{
    struct gather g = {.shards = sl_calloc(&fleet->alloc, SHARDS_MAX, sizeof *g.shards)};

    if (!g.shards)
        return;
    pthread_mutex_lock(&fleet->lock);
    for (unsigned i = 0; i < SL_FLEET_LANES_MAX; i++)
        for (unsigned s = 0; fleet->lanes[i] && s < SL_STORES_MAX; s++)
            if (fleet->lanes[i]->stores[s].client)
                sl_client_stats(fleet->lanes[i]->stores[s].client, add_shard, &g);
    pthread_mutex_unlock(&fleet->lock);
    for (unsigned i = 0; i < g.n; i++)
        visit(ctx, &g.shards[i]);
    sl_free(&fleet->alloc, g.shards);
}
