/* One loop's connections to the stores, and its timers. */
#include "fleet/internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "fleet/probe.h"
#include "store/script.h"

#include <stdio.h>
#include <string.h>

#define TICK_US UINT64_C(50000)
#define OPEN_AGAIN_US UINT64_C(5000000) /* a file of the address may be there by then */
#define STOP_GRACE_US UINT64_C(200000)  /* beyond the deadline of what is on its way */
#define MODULE_COMMAND "SLUICE.DECIDE"

/* ---- stores */

static void on_probed(void *owner, const struct sl_probe_result *result)
{
    struct sl_lane *lane = owner;
    struct sl_fleet *fleet = lane->fleet;
    char store[SL_ENDPOINT_TEXT_MAX * 2], text[512];
    struct sl_fleet_event event = {.finding = text, .store = store};

    lane->probing = false;
    sl_store_url_text(fleet->stores[0], store, sizeof store);
    for (unsigned i = 0; sl_probe_finding(result, i, text, sizeof text, &event.serious); i++)
        fleet->config.event(fleet->config.owner, &event);
}

/* Once for each connection of the keeper to the main store. What cannot be asked is not known. */
static void probe(struct sl_lane *lane)
{
    struct sl_fleet *fleet = lane->fleet;
    uint64_t timeout_us = fleet->timeout_us > SL_MEMBERS_TIMEOUT_US ? fleet->timeout_us : SL_MEMBERS_TIMEOUT_US;

    if (!lane->probing)
        lane->probing = sl_probe_start(lane->stores[0].client, lane->net, &fleet->alloc, MODULE_COMMAND, timeout_us,
                                       on_probed, lane) == 0;
}

static void on_client_event(void *owner, const struct sl_client_event *client_event)
{
    struct sl_lane_store *store = owner;
    struct sl_fleet *fleet = store->lane->fleet;
    char text[SL_ENDPOINT_TEXT_MAX * 2];
    struct sl_fleet_event event = {.client = client_event, .store = text};

    if (!fleet->config.event)
        return;
    sl_store_url_text(fleet->stores[store->index], text, sizeof text);
    fleet->config.event(fleet->config.owner, &event);
    if (client_event->happening == SL_CLIENT_CONNECTED && store->index == 0 && store->lane->members)
        probe(store->lane);
}

static int open_client(struct sl_lane_store *store, char *why, size_t why_size)
{
    struct sl_lane *lane = store->lane;
    struct sl_fleet *fleet = lane->fleet;
    size_t script_len;
    struct sl_client_config config = {
        .net = lane->net,
        .alloc = &fleet->alloc,
        .url = sl_fleet_store_url(fleet, store->index, why, why_size),
        .script = sl_script_text(&script_len),
        .script_sha1 = sl_script_sha1(),
        .module_command = MODULE_COMMAND,
        .timeout_us = fleet->timeout_us,
        .happened = on_client_event,
        .owner = store,
    };

    if (!config.url)
        return SL_EINVALID;
    return sl_client_new(&config, &store->client, why, why_size);
}

static void try_to_open(struct sl_lane_store *store)
{
    struct sl_fleet *fleet = store->lane->fleet;
    char why[256];
    int err;

    pthread_mutex_lock(&fleet->lock); /* sl_fleet_shards reads the clients */
    err = open_client(store, why, sizeof why);
    pthread_mutex_unlock(&fleet->lock);
    if (err == 0)
        return;
    store->again_us = sl_lane_now(store->lane) + OPEN_AGAIN_US;
    sl_fleet_tell_unusable(fleet, store->index, err == SL_ENOMEM ? "out of memory" : why);
}

struct sl_client *sl_lane_client(struct sl_lane *lane, unsigned store)
{
    struct sl_lane_store *mine;

    if (store >= SL_STORES_MAX)
        return NULL;
    mine = &lane->stores[store];
    if (!mine->client && !mine->closed && sl_lane_now(lane) >= mine->again_us)
        try_to_open(mine);
    return mine->client;
}

bool sl_lane_ready(const struct sl_lane *lane)
{
    return atomic_load(&lane->reached) && atomic_load(&lane->fleet->ready);
}

/* ---- the keeper: one lane looks after the leases and the heartbeat of all */

/* The answer has travelled for a while: the store's time is that much older than ours. */
static void compare_clocks(struct sl_lane *lane)
{
    struct sl_clock clock = sl_clock_system();
    struct sl_members_stats stats;

    sl_members_stats(lane->members, &stats);
    atomic_store(&lane->fleet->clock_apart_us, (int64_t)clock.wall_us(clock.ctx) - (int64_t)stats.store_us);
}

static void on_heard(void *owner, unsigned count, const struct sl_secret *secret, bool changed)
{
    struct sl_lane *lane = owner;

    (void)changed;
    compare_clocks(lane);
    sl_fleet_heard(lane->fleet, count, secret);
}

static void on_odd(void *owner, const char *text)
{
    struct sl_fleet *fleet = ((struct sl_lane *)owner)->fleet;

    if (fleet->config.odd)
        fleet->config.odd(fleet->config.owner, text);
}

/* Called with the fleet's lock held. */
static void become_keeper(struct sl_lane *lane)
{
    struct sl_fleet *fleet = lane->fleet;
    struct sl_members_config config = {
        .net = lane->net,
        .alloc = &fleet->alloc,
        .client = lane->stores[0].client,
        .ns = fleet->ns,
        .id = fleet->id,
        .secret = fleet->heard          ? &fleet->heard_secret
                  : fleet->policy_given ? &fleet->policy_secret
                                        : NULL,
        .timeout_us = fleet->timeout_us,
        .instances = sl_fleet_instances(fleet),
        .heard = on_heard,
        .odd = on_odd,
        .owner = lane,
    };

    if (sl_members_new(&config, &lane->members) == 0)
        fleet->keeper = lane;
}

static void try_to_keep(struct sl_lane *lane)
{
    struct sl_fleet *fleet = lane->fleet;

    pthread_mutex_lock(&fleet->lock);
    if (!fleet->keeper && !lane->stopping)
        become_keeper(lane);
    pthread_mutex_unlock(&fleet->lock);
}

static void give_back(void *ctx, const struct sl_lease_bucket *bucket, uint32_t tokens,
                      const struct sl_decision *charge)
{
    struct sl_errand errand = {
        .fp = bucket->fp, .who = bucket->who, .store = bucket->store, .tokens = tokens, .shape = *bucket->shape};

    sl_lane_give_back(ctx, &errand, charge);
}

static void debit(void *ctx, const struct sl_lease_bucket *bucket, const struct sl_lease_terms *terms, uint32_t tokens)
{
    struct sl_errand errand = {.fp = bucket->fp,
                               .who = bucket->who,
                               .store = bucket->store,
                               .tokens = tokens,
                               .shape = *bucket->shape,
                               .terms = *terms};

    sl_lane_debit(ctx, &errand);
}

/* Returns how many leases are left. */
static size_t sweep(struct sl_lane *lane, bool all)
{
    const struct sl_lease_errands errands = {.give_back = give_back, .debit = debit, .ctx = lane};

    return sl_leases_sweep(lane->fleet->leases, sl_table_now(lane->fleet->limiter->table), all, &errands);
}

void sl_lane_tend(struct sl_lane *lane)
{
    struct sl_fleet *fleet = lane->fleet;
    struct sl_errand errand;
    bool found = true;

    while (found) {
        pthread_mutex_lock(&fleet->lock);
        found = fleet->n_errands > 0;
        if (found)
            errand = fleet->errands[--fleet->n_errands];
        else
            atomic_store(&fleet->has_errands, false);
        pthread_mutex_unlock(&fleet->lock);
        if (found)
            sl_lane_debit(lane, &errand);
    }
    sl_lane_look_up(lane);
}

/* ---- timers */

static void on_flush(void *owner)
{
    sl_lane_flush(owner);
}

static bool is_done(const struct sl_lane *lane)
{
    bool busy = lane->n_flights > 0 || lane->n_crates_out > 0 || lane->crates || lane->debits || lane->leaving ||
                lane->n_leases_left > 0;

    return !busy || sl_lane_now(lane) >= lane->stop_by_us;
}

static void on_tick(void *owner)
{
    struct sl_lane *lane = owner;
    struct sl_fleet *fleet = lane->fleet;

    lane->net->timer_set(lane->tick_timer, sl_lane_now(lane) + TICK_US);
    atomic_store(&lane->reached, lane->stores[0].client && sl_client_ready(lane->stores[0].client));
    if (lane->stopping) {
        void (*stopped)(void *ctx) = lane->stopped;

        if (lane->last)
            lane->n_leases_left = sweep(lane, true);
        if (stopped && is_done(lane)) {
            lane->stopped = NULL;
            stopped(lane->stopped_ctx); /* which may free the lane */
        }
        return;
    }
    sl_fleet_tell_crowded(fleet);
    if (fleet->keeper != lane)
        try_to_keep(lane);
    if (fleet->keeper == lane)
        sweep(lane, false);
    if (sl_fleet_has_errands(fleet))
        sl_lane_tend(lane);
}

/* ---- life */

static int lane_init(struct sl_lane *lane, char *why, size_t why_size)
{
    const struct sl_net *net = lane->net;
    size_t scratch = SL_CRATE_ASK_MAX + SL_CRATE_KEYS_MAX * SL_STORE_KEY_MAX;

    for (unsigned i = 0; i < SL_STORES_MAX; i++)
        lane->stores[i] = (struct sl_lane_store){.lane = lane, .index = (uint16_t)i};
    lane->last_crate = &lane->crates;
    lane->last_debit = &lane->debits;
    lane->ask_bytes = sl_calloc(&lane->fleet->alloc, 1, scratch);
    lane->flush_timer = net->timer_new(net->ctx, on_flush, lane);
    lane->tick_timer = net->timer_new(net->ctx, on_tick, lane);
    if (!lane->ask_bytes || !lane->flush_timer || !lane->tick_timer || sl_lane_init_looks(lane) != 0) {
        snprintf(why, why_size, "out of memory");
        return SL_ENOMEM;
    }
    return open_client(&lane->stores[0], why, why_size);
}

static void lane_fini(struct sl_lane *lane)
{
    const struct sl_net *net = lane->net;

    for (unsigned i = 0; i < SL_STORES_MAX; i++) {
        struct sl_client *client = lane->stores[i].client;

        lane->stores[i].client = NULL; /* what its end answers asks for nothing any more */
        lane->stores[i].closed = true;
        sl_client_free(client);
    }
    sl_members_free(lane->members);
    sl_lane_unload(lane);
    net->timer_free(lane->flush_timer);
    net->timer_free(lane->tick_timer);
    sl_lane_fini_looks(lane);
    sl_free(&lane->fleet->alloc, lane->ask_bytes);
    sl_free(&lane->fleet->alloc, lane);
}

static int join_fleet(struct sl_lane *lane, char *why, size_t why_size)
{
    struct sl_fleet *fleet = lane->fleet;
    int err = SL_EBUSY;

    snprintf(why, why_size, "more than %u loops", SL_FLEET_LANES_MAX);
    pthread_mutex_lock(&fleet->lock);
    for (unsigned i = 0; i < SL_FLEET_LANES_MAX && err; i++)
        if (!fleet->lanes[i]) {
            fleet->lanes[i] = lane;
            fleet->n_running++;
            err = 0;
        }
    if (err == 0 && !fleet->keeper)
        become_keeper(lane);
    pthread_mutex_unlock(&fleet->lock);
    return err;
}

int sl_lane_new(struct sl_fleet *fleet, const struct sl_net *net, struct sl_lane **ret_lane, char *why, size_t why_size)
{
    struct sl_lane *lane = sl_calloc(&fleet->alloc, 1, sizeof *lane);
    int err;

    if (!lane) {
        snprintf(why, why_size, "out of memory");
        return SL_ENOMEM;
    }
    lane->fleet = fleet;
    lane->net = net;
    err = lane_init(lane, why, why_size);
    if (err == 0)
        err = join_fleet(lane, why, why_size);
    if (err != 0) {
        lane_fini(lane);
        return err;
    }
    net->timer_set(lane->tick_timer, sl_lane_now(lane) + TICK_US);
    *ret_lane = lane;
    return 0;
}

/* ---- stopping */

static void on_left(void *owner)
{
    struct sl_lane *lane = owner;

    lane->leaving = false;
    sl_lane_look_done(lane);
}

/* Whoever waits is told from a timer, never from inside a call of his or a callback of the client's. */
void sl_lane_look_done(struct sl_lane *lane)
{
    if (lane->stopping && lane->stopped && is_done(lane))
        lane->net->timer_set(lane->tick_timer, 0);
}

/* Gives up what this lane does for the whole fleet. Returns true when it is the last one running. */
static bool leave_duties(struct sl_lane *lane)
{
    struct sl_fleet *fleet = lane->fleet;
    bool last;

    pthread_mutex_lock(&fleet->lock);
    last = !lane->stopping && --fleet->n_running == 0;
    lane->stopping = true;
    if (!last && fleet->keeper == lane) { /* another lane finds out at its next tick */
        fleet->keeper = NULL;
        sl_members_free(lane->members);
        lane->members = NULL;
    } else if (last && !fleet->keeper) {
        become_keeper(lane);
    }
    pthread_mutex_unlock(&fleet->lock);
    return last;
}

void sl_lane_stop(struct sl_lane *lane, void (*stopped)(void *ctx), void *ctx)
{
    lane->stopped = stopped;
    lane->stopped_ctx = ctx;
    lane->stop_by_us = sl_lane_now(lane) + lane->fleet->timeout_us + STOP_GRACE_US;
    lane->last = leave_duties(lane);
    if (lane->last) {
        sl_lane_tend(lane); /* calls off what is not on its way yet */
        lane->n_leases_left = sweep(lane, true);
        if (lane->members) {
            lane->leaving = true;
            sl_members_leave(lane->members, on_left, lane);
        }
    }
    lane->net->timer_set(lane->tick_timer, 0);
}

void sl_lane_free(struct sl_lane *lane)
{
    struct sl_fleet *fleet;

    if (!lane)
        return;
    fleet = lane->fleet;
    lane->stopped = NULL;
    if (!lane->stopping) /* else its goodbye may still be under way, and ends with the client */
        leave_duties(lane);
    pthread_mutex_lock(&fleet->lock);
    if (fleet->keeper == lane)
        fleet->keeper = NULL;
    for (unsigned i = 0; i < SL_FLEET_LANES_MAX; i++)
        if (fleet->lanes[i] == lane)
            fleet->lanes[i] = NULL;
    pthread_mutex_unlock(&fleet->lock);
    lane_fini(lane);
}
