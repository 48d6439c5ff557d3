#include "lib/flying.h"

#include "base/err.h"

#include <assert.h>

static_assert(SLUICE_PENDING == SL_PENDING && SLUICE_OK == SL_DECIDED, "answers of the public header are the fleet's");
static_assert(SLUICE_PENDING_MAX <= SL_FLEET_FLIGHTS_MAX, "what is taken here the lane takes too");

/* Room for one more decision under way; else it must be decided without the store. */
static bool board(struct sl_tier *tier)
{
    if (atomic_fetch_add(&tier->pending, 1) < SLUICE_PENDING_MAX)
        return true;
    atomic_fetch_sub(&tier->pending, 1);
    atomic_fetch_add(&tier->pending_full, 1);
    return false;
}

/* ---- waited for */

static void on_waited(void *ctx)
{
    sl_wait_done(ctx);
}

static void fly(struct sl_ticket *ticket, struct sl_lane *lane)
{
    sl_lane_fly(lane, ((struct sl_flying *)ticket)->flight); /* the ticket is its first member */
}

int sl_flying_begin(struct sl_tier *tier, const struct sluice_request *request, struct sluice_verdict *ret_verdict,
                    struct sl_wait *wait, struct sl_flying *ret_flying)
{
    *ret_flying = (struct sl_flying){.ticket.go = fly};
    return sl_fleet_begin(tier->fleet, request, ret_verdict, NULL, NULL, NULL, on_waited, wait, &ret_flying->flight);
}

static void give_up(struct sl_flying *flying)
{
    sl_flight_give_up(flying->flight);
    flying->flight = NULL;
}

void sl_flying_send(struct sl_tier *tier, struct sl_flying *flying, size_t n)
{
    struct sl_ticket *first = NULL, **end = &first;

    for (size_t i = 0; i < n; i++) {
        if (!flying[i].flight)
            continue;
        if (board(tier)) {
            *end = &flying[i].ticket;
            end = &flying[i].ticket.next;
        } else {
            give_up(&flying[i]);
        }
    }
    if (!first || sl_tier_post(tier, first))
        return;
    for (size_t i = 0; i < n; i++)
        if (flying[i].flight) {
            atomic_fetch_sub(&tier->pending, 1);
            give_up(&flying[i]);
        }
}

/* The lane keeps the deadline of what it has begun. What it has not even begun by then (the background thread gets no
 * time, or a callback holds it up) is taken back and decided here. */
void sl_flying_wait(struct sl_tier *tier, struct sl_flying *flying, size_t n, struct sl_wait *wait)
{
    unsigned flown = 0;

    if (!sl_wait_for(wait, tier->timeout_us)) {
        for (size_t i = 0; i < n; i++)
            if (flying[i].flight && sl_mailbox_take_back(&tier->mailbox, &flying[i].ticket))
                sl_flight_give_up(flying[i].flight);
        sl_wait_for(wait, UINT64_MAX);
    }
    for (size_t i = 0; i < n; i++)
        flown += flying[i].flight != NULL;
    atomic_fetch_sub(&tier->pending, flown);
}

/* ---- told of later */

struct told_later {
    struct sl_ticket ticket;
    struct sl_flight *flight;
    struct sl_tier *tier;
    struct sl_later later;
    struct sl_completed *completed; /* room for it, so that the end needs no memory */
};

static void nobody_waits(void *ctx)
{
    (void)ctx;
}

static void told_free(struct sl_tier *tier, struct told_later *told)
{
    if (told)
        sl_free(&tier->alloc, told->completed);
    sl_free(&tier->alloc, told);
}

static struct told_later *told_new(struct sl_tier *tier, struct sl_flight *flight, const struct sl_later *later)
{
    struct told_later *told = sl_calloc(&tier->alloc, 1, sizeof *told);

    if (!told)
        return NULL;
    told->flight = flight;
    told->tier = tier;
    told->later = *later;
    if (!later->queue)
        return told;
    told->completed = sl_calloc(&tier->alloc, 1, sizeof *told->completed);
    if (!told->completed) {
        told_free(tier, told);
        return NULL;
    }
    told->completed->completion = (struct sluice_completion){.ctx = later->ctx, .verdict = later->verdict};
    return told;
}

static void on_told(void *ctx)
{
    struct told_later *told = ctx;
    struct sl_tier *tier = told->tier;
    struct sl_later later = told->later;

    if (later.queue) {
        struct sl_completed *completed = told->completed;

        told->completed = NULL;
        told_free(tier, told);
        sl_completions_add(later.queue, completed);
        return;
    }
    told_free(tier, told);
    atomic_fetch_sub(&tier->pending, 1);
    later.done(later.ctx);
}

static void fly_told(struct sl_ticket *ticket, struct sl_lane *lane)
{
    sl_lane_fly(lane, ((struct told_later *)ticket)->flight); /* the ticket is its first member */
}

/* True when it will be told. */
static bool send_told(struct sl_tier *tier, struct sl_flight *flight, const struct sl_later *later)
{
    struct told_later *told;

    if (!board(tier))
        return false;
    told = told_new(tier, flight, later);
    if (told) {
        told->ticket.go = fly_told;
        sl_flight_set_done(flight, on_told, told);
        if (sl_tier_post(tier, &told->ticket))
            return true;
        sl_flight_set_done(flight, nobody_waits, NULL);
    }
    told_free(tier, told);
    atomic_fetch_sub(&tier->pending, 1);
    return false;
}

int sl_later_begin(struct sl_tier *tier, const struct sluice_request *request, const struct sl_later *later)
{
    struct sl_flight *flight;
    int result = sl_fleet_begin(tier->fleet, request, later->verdict, NULL, NULL, NULL, nobody_waits, NULL, &flight);

    if (result == SL_PENDING && !send_told(tier, flight, later)) {
        sl_flight_give_up(flight);
        result = SL_DECIDED;
    }
    sl_tier_tend(tier);
    return result;
}

void sl_later_taken(struct sl_tier *tier, size_t n)
{
    atomic_fetch_sub(&tier->pending, (unsigned)n);
}
