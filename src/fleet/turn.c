/* What a lane asks within one turn of its loop: requests on the same buckets become one group, groups of one slot one call.
 *
 * The result is that of sending them one after another, as the store charges the requests of a group in order. */
#include "fleet/internal.h"

#include "base/err.h"

#include <assert.h>
#include <string.h>

/* ---- pools */

static struct sl_load *load_new(struct sl_lane *lane, enum sl_load_kind kind)
{
    struct sl_load *load = lane->free_loads;

    if (load)
        lane->free_loads = load->next;
    else if (!(load = sl_calloc(&lane->fleet->alloc, 1, sizeof *load)))
        return NULL;
    load->next = NULL;
    load->kind = kind;
    load->n = 1;
    load->policy = NULL;
    load->legs = NULL;
    load->last_leg = &load->legs;
    load->n_legs = 0;
    load->refunds = NULL;
    return load;
}

void sl_load_free(struct sl_lane *lane, struct sl_load *load)
{
    if (!load)
        return;
    sl_policy_unref(load->policy);
    sl_free(&lane->fleet->alloc, load->refunds);
    load->next = lane->free_loads;
    lane->free_loads = load;
}

static void free_loads(struct sl_lane *lane)
{
    for (struct sl_load *load; (load = lane->free_loads);) {
        lane->free_loads = load->next;
        sl_free(&lane->fleet->alloc, load);
    }
}

static struct sl_crate *crate_new(struct sl_lane *lane, unsigned store, unsigned slot, bool second)
{
    struct sl_crate *crate = lane->free_crates;

    if (crate)
        lane->free_crates = crate->next;
    else if (!(crate = sl_calloc(&lane->fleet->alloc, 1, sizeof *crate)))
        return NULL;
    *crate = (struct sl_crate){
        .lane = lane, .store = (uint16_t)store, .slot = slot, .second = second, .ask_size = SL_ASK_HEADER_MAX};
    crate->last_load = &crate->loads;
    *lane->last_crate = crate; /* behind the others: what was asked first is charged first */
    lane->last_crate = &crate->next;
    return crate;
}

static struct sl_crate *take_crates(struct sl_lane *lane)
{
    struct sl_crate *crates = lane->crates;

    lane->crates = NULL;
    lane->last_crate = &lane->crates;
    return crates;
}

void sl_crate_free(struct sl_crate *crate)
{
    struct sl_lane *lane = crate->lane;

    crate->next = lane->free_crates;
    lane->free_crates = crate;
}

/* ---- keys and slots */

size_t sl_lane_key(const struct sl_lane *lane, struct sl_hash128 fp, struct sl_hash128 owner,
                   char key[static SL_STORE_KEY_MAX])
{
    return sl_store_key(key, lane->fleet->ns, lane->fleet->ns_len, owner, fp.a - owner.a);
}

/* The buckets of a load, one after another. */
static size_t load_key(const struct sl_lane *lane, const struct sl_load *load, unsigned i,
                       char key[static SL_STORE_KEY_MAX])
{
    if (load->kind == SL_LOAD_LEGS) {
        const struct sl_part *part = &load->legs->flight->parts[load->legs->parts[i]];

        return sl_lane_key(lane, part->item.fp, part->owner, key);
    }
    if (load->kind == SL_LOAD_REFUND)
        return sl_lane_key(lane, load->refunds[i].fp, load->refunds[i].owner, key);
    return sl_lane_key(lane, load->errand.fp, load->errand.who, key);
}

static void set_flush(struct sl_lane *lane)
{
    if (lane->flush_set)
        return;
    lane->flush_set = true;
    lane->net->timer_set(lane->flush_timer, 0);
}

/* The crate of this turn for that slot with room for a group of n buckets, of `size` bytes at most. */
static struct sl_crate *crate_for(struct sl_lane *lane, unsigned store, unsigned slot, bool second, unsigned n,
                                  size_t size)
{
    for (struct sl_crate *crate = lane->crates; crate; crate = crate->next)
        if (crate->store == store && crate->slot == slot && crate->second == second &&
            crate->n_loads < SL_CRATE_LOADS_MAX && crate->n_keys + n <= SL_CRATE_KEYS_MAX &&
            crate->ask_size + size <= SL_CRATE_ASK_MAX)
            return crate;
    return crate_new(lane, store, slot, second);
}

static void put_into(struct sl_crate *crate, struct sl_load *load, size_t size)
{
    *crate->last_load = load;
    crate->last_load = &load->next;
    crate->n_loads++;
    crate->n_keys += load->n;
    crate->ask_size += size;
    set_flush(crate->lane);
}

/* ---- legs */

static struct sl_part *part_of(const struct sl_leg *leg, unsigned i)
{
    return &leg->flight->parts[leg->parts[i]];
}

static bool same_buckets(const struct sl_load *load, const struct sl_leg *leg)
{
    if (load->kind != SL_LOAD_LEGS || load->n != leg->n)
        return false;
    for (unsigned i = 0; i < leg->n; i++) {
        const struct sl_item *mine = &part_of(leg, i)->item, *its = &part_of(load->legs, i)->item;

        if (mine->fp.a != its->fp.a || mine->fp.b != its->fp.b ||
            (mine->shape != its->shape && !sl_shape_equal(mine->shape, its->shape)))
            return false;
    }
    return true;
}

static void add_leg(struct sl_load *load, struct sl_leg *leg)
{
    leg->next = NULL;
    *load->last_leg = leg;
    load->last_leg = &leg->next;
    load->n_legs++;
}

/* Joins a group of this turn on the same buckets. */
static bool join(struct sl_lane *lane, unsigned store, unsigned slot, struct sl_leg *leg)
{
    size_t size = 2 + 16 * (size_t)leg->n;

    for (struct sl_crate *crate = lane->crates; crate; crate = crate->next) {
        if (crate->store != store || crate->slot != slot || crate->second != leg->second ||
            crate->ask_size + size > SL_CRATE_ASK_MAX)
            continue;
        for (struct sl_load *load = crate->loads; load; load = load->next)
            if (load->n_legs < SL_GROUP_RUNS_MAX && same_buckets(load, leg)) {
                add_leg(load, leg);
                crate->ask_size += size;
                return true;
            }
    }
    return false;
}

void sl_lane_ask(struct sl_lane *lane, struct sl_leg *leg)
{
    const struct sl_part *first = part_of(leg, 0);
    struct sl_client *client = sl_lane_client(lane, first->store);
    size_t size = SL_GROUP_SIZE(leg->n, 1), len;
    char key[SL_STORE_KEY_MAX];
    struct sl_crate *crate;
    struct sl_load *load;
    uint64_t wait_us;
    unsigned slot;

    if (!client) {
        sl_leg_failed(leg, 0);
        return;
    }
    len = sl_lane_key(lane, first->item.fp, first->owner, key);
    wait_us = sl_client_wait_us(client, key, len);
    if (wait_us > 0) {
        sl_leg_failed(leg, wait_us);
        return;
    }
    slot = sl_client_group(client, key, len);
    if (join(lane, first->store, slot, leg))
        return;
    load = load_new(lane, SL_LOAD_LEGS); /* before the call: one without a group must not be left */
    crate = load ? crate_for(lane, first->store, slot, leg->second, leg->n, size) : NULL;
    if (!crate) {
        sl_load_free(lane, load);
        sl_leg_failed(leg, 0);
        return;
    }
    load->n = leg->n;
    load->policy = sl_policy_ref(leg->flight->policy);
    for (unsigned i = 0; i < leg->n; i++)
        load->shapes[i] = part_of(leg, i)->item.shape;
    add_leg(load, leg);
    put_into(crate, load, size);
}

/* ---- debits and what is given back */

/* The call of this turn for an errand's slot; NULL when its store cannot be asked now. */
static struct sl_crate *crate_for_errand(struct sl_lane *lane, const struct sl_errand *errand, size_t size)
{
    struct sl_client *client = sl_lane_client(lane, errand->store);
    char key[SL_STORE_KEY_MAX];
    size_t len = sl_lane_key(lane, errand->fp, errand->who, key);

    if (!client || sl_client_wait_us(client, key, len) > 0)
        return NULL;
    return crate_for(lane, errand->store, sl_client_group(client, key, len), false, 1, size);
}

void sl_lane_debit(struct sl_lane *lane, const struct sl_errand *errand)
{
    struct sl_load *load = lane->stopping ? NULL : load_new(lane, SL_LOAD_DEBIT);

    if (!load) {
        sl_lease_failed(lane->fleet->leases, errand->fp, errand->tokens, false);
        return;
    }
    load->errand = *errand;
    sl_lease_shape(&errand->shape, &errand->terms, &load->debit_shape);
    *lane->last_debit = load;
    lane->last_debit = &load->next;
    set_flush(lane);
}

static struct sl_load *take_debits(struct sl_lane *lane)
{
    struct sl_load *debits = lane->debits;

    lane->debits = NULL;
    lane->last_debit = &lane->debits;
    return debits;
}

static void load_debits(struct sl_lane *lane)
{
    for (struct sl_load *load = take_debits(lane), *next; load; load = next) {
        struct sl_crate *crate = crate_for_errand(lane, &load->errand, SL_GROUP_SIZE(1, 1));

        next = load->next;
        load->next = NULL;
        if (crate) {
            put_into(crate, load, SL_GROUP_SIZE(1, 1));
            sl_fleet_add(lane->fleet, SL_FC_RENEWALS, 1);
        } else {
            sl_lease_failed(lane->fleet->leases, load->errand.fp, load->errand.tokens, false);
            sl_load_free(lane, load);
        }
    }
}

void sl_lane_give_back(struct sl_lane *lane, const struct sl_errand *errand, const struct sl_decision *charge)
{
    struct sl_load *load = load_new(lane, SL_LOAD_GIVE_BACK);
    struct sl_crate *crate = load ? crate_for_errand(lane, errand, SL_REFUND_SIZE(1)) : NULL;

    if (!crate) {
        sl_load_free(lane, load);
        sl_fleet_add(lane->fleet, SL_FC_TOKENS_LOST, errand->tokens);
        return;
    }
    load->errand = *errand;
    load->charge = *charge;
    put_into(crate, load, SL_REFUND_SIZE(1));
    sl_fleet_add(lane->fleet, SL_FC_RETURNS, 1);
}

/* The charges of a leg's `n` buckets that were charged something. */
static struct sl_load *load_refunds(struct sl_lane *lane, const struct sl_leg *leg, unsigned n)
{
    struct sl_load *load = load_new(lane, SL_LOAD_REFUND);

    if (!load)
        return NULL;
    load->refunds = sl_calloc(&lane->fleet->alloc, n, sizeof *load->refunds);
    if (!load->refunds) {
        sl_load_free(lane, load);
        return NULL;
    }
    load->n = n;
    for (unsigned i = 0, k = 0; i < leg->n; i++) {
        const struct sl_part *part = part_of(leg, i);

        if (part->item.cost > 0)
            load->refunds[k++] = (struct sl_refund_bucket){
                .fp = part->item.fp, .owner = part->owner, .shape = *part->item.shape, .charge = part->decision};
    }
    return load;
}

void sl_lane_refund(struct sl_lane *lane, const struct sl_leg *leg)
{
    const struct sl_part *first = part_of(leg, 0);
    struct sl_client *client = sl_lane_client(lane, first->store);
    struct sl_load *load = NULL;
    struct sl_crate *crate = NULL;
    char key[SL_STORE_KEY_MAX];
    size_t len = sl_lane_key(lane, first->item.fp, first->owner, key);
    unsigned n = 0;

    for (unsigned i = 0; i < leg->n; i++)
        n += part_of(leg, i)->item.cost > 0;
    if (n == 0)
        return;
    if (client && sl_client_wait_us(client, key, len) == 0)
        load = load_refunds(lane, leg, n);
    if (load)
        crate = crate_for(lane, first->store, sl_client_group(client, key, len), false, n, SL_REFUND_SIZE(n));
    if (!crate) {
        sl_load_free(lane, load);
        sl_fleet_add(lane->fleet, SL_FC_REFUNDS_LOST, n);
        return;
    }
    put_into(crate, load, SL_REFUND_SIZE(n));
    sl_fleet_add(lane->fleet, SL_FC_REFUNDS, n);
}

/* ---- sending */

static void write_legs(struct sl_ask *ask, const struct sl_load *load)
{
    int err = sl_ask_group(ask, load->shapes, load->n);

    for (const struct sl_leg *leg = load->legs; leg && err == 0; leg = leg->next) {
        uint32_t costs[SL_ITEMS_MAX];

        for (unsigned i = 0; i < leg->n; i++)
            costs[i] = part_of(leg, i)->item.cost;
        err = sl_ask_request(ask, costs);
    }
    assert(err == 0); /* crate_for and join have seen to the room */
}

static void write_refund(struct sl_ask *ask, const struct sl_load *load)
{
    const struct sl_shape *shapes[SL_ITEMS_MAX];
    struct sl_decision charges[SL_ITEMS_MAX];
    int err;

    for (unsigned i = 0; i < load->n; i++) {
        shapes[i] = &load->refunds[i].shape;
        charges[i] = load->refunds[i].charge;
    }
    err = sl_ask_refund(ask, shapes, charges, load->n);
    assert(err == 0);
    (void)err;
}

static void write_load(struct sl_ask *ask, const struct sl_load *load)
{
    const struct sl_shape *shape = load->kind == SL_LOAD_DEBIT ? &load->debit_shape : &load->errand.shape;
    int err = 0;

    switch (load->kind) {
    case SL_LOAD_LEGS:
        write_legs(ask, load);
        break;
    case SL_LOAD_REFUND:
        write_refund(ask, load);
        break;
    case SL_LOAD_DEBIT:
        err = sl_ask_group(ask, &shape, 1);
        err = err ? err : sl_ask_request(ask, &load->errand.tokens);
        break;
    case SL_LOAD_GIVE_BACK:
        err = sl_ask_refund(ask, &shape, &load->charge, 1);
        break;
    }
    assert(err == 0);
    (void)err;
}

/* What is left of the deadline of second tries. */
static uint64_t time_left(const struct sl_crate *crate, uint64_t now_us)
{
    const struct sl_lane *lane = crate->lane;
    uint64_t by_us = UINT64_MAX;

    if (!crate->second)
        return lane->fleet->timeout_us;
    for (const struct sl_load *load = crate->loads; load; load = load->next)
        for (const struct sl_leg *leg = load->legs; leg; leg = leg->next)
            if (leg->flight->begun_us + lane->fleet->timeout_us < by_us)
                by_us = leg->flight->begun_us + lane->fleet->timeout_us;
    return by_us > now_us ? by_us - now_us : 1;
}

static void send(struct sl_crate *crate)
{
    struct sl_lane *lane = crate->lane;
    char(*key_bytes)[SL_STORE_KEY_MAX] = (char(*)[SL_STORE_KEY_MAX])(lane->ask_bytes + SL_CRATE_ASK_MAX);
    struct sl_word keys[SL_CRATE_KEYS_MAX];
    struct sl_ask ask;
    struct sl_script_call call = {.keys = keys, .n_keys = crate->n_keys, .ask = lane->ask_bytes};
    unsigned k = 0;
    enum sl_result result;

    sl_ask_start(&ask, lane->ask_bytes, SL_CRATE_ASK_MAX);
    for (const struct sl_load *load = crate->loads; load; load = load->next) {
        write_load(&ask, load);
        for (unsigned i = 0; i < load->n; i++, k++)
            keys[k] = (struct sl_word){key_bytes[k], load_key(lane, load, i, key_bytes[k])};
    }
    call.ask_len = ask.len;
    crate->asked_us = sl_table_now(lane->fleet->limiter->table);
    crate->sent_us = sl_lane_now(lane);
    lane->n_crates_out++;
    sl_fleet_add(lane->fleet, SL_FC_OPERATIONS, crate->n_loads);
    result = sl_client_script(sl_lane_client(lane, crate->store), &call, time_left(crate, crate->sent_us),
                              sl_crate_done, crate);
    if (result != SL_RESULT_OK)
        sl_crate_done(crate, result, NULL);
}

void sl_lane_flush(struct sl_lane *lane)
{
    struct sl_crate *crates, *next;

    load_debits(lane);
    lane->flush_set = false;
    /* What answers ask for anew while this goes on is for a flush of its own, which they set. */
    crates = take_crates(lane);
    for (; crates; crates = next) {
        next = crates->next;
        send(crates);
    }
}

void sl_lane_unload(struct sl_lane *lane)
{
    load_debits(lane); /* in vain: there is no client any more */
    for (struct sl_crate *crate = take_crates(lane), *next; crate; crate = next) {
        next = crate->next;
        lane->n_crates_out++;
        sl_crate_done(crate, SL_RESULT_CLOSED, NULL);
    }
    for (struct sl_crate *crate; (crate = lane->free_crates);) {
        lane->free_crates = crate->next;
        sl_free(&lane->fleet->alloc, crate);
    }
    free_loads(lane);
}
