/* What was decided, decided once more under the candidate, and compared. On the shadow's thread. */
#include "shadow/run.h"

#include "base/err.h"

#include <string.h>

#define SHARE 512u /* decisions between two looks at the loop's sockets and timers */

/* ---- comparing */

static void count(struct sl_shadow_run *run, unsigned generation, const struct sluice_request *request,
                  const struct sl_decided *live, const struct sluice_verdict *verdict)
{
    struct sl_shadow *shadow = run->shadow;
    const struct sl_decided candidate = {verdict->allowed, verdict->policy};
    enum sl_outcome outcome;

    if (verdict->source == SLUICE_DEGRADED) {
        sl_comparison_undecided(&shadow->comparison, generation);
        return;
    }
    sl_comparison_add(&shadow->comparison, generation, request, live, &candidate, &outcome);
    atomic_fetch_add_explicit(&shadow->totals[outcome], 1, memory_order_relaxed);
}

/* ---- in the table alone, at the instant of the live decision */

static void decide_here(struct sl_shadow_run *run, const struct sl_told *told)
{
    const struct sl_decided live = {told->allowed, told->policy};
    unsigned generation = sl_comparison_generation(&run->shadow->comparison);
    struct sluice_verdict verdict;

    if (sl_limiter_check_at(run->limiter, told->t_us, &told->request, &verdict, NULL, NULL, NULL))
        atomic_fetch_add_explicit(&run->shadow->refused, 1, memory_order_relaxed);
    else
        count(run, generation, &told->request, &live, &verdict);
}

/* ---- by the store */

int sl_shadow_run_open_flights(struct sl_shadow_run *run)
{
    run->flights = sl_calloc(&run->alloc, SL_SHADOW_FLYING_MAX, sizeof *run->flights);
    if (!run->flights)
        return SL_ENOMEM;
    for (unsigned i = 0; i < SL_SHADOW_FLYING_MAX; i++) {
        run->flights[i].run = run;
        run->flights[i].next = run->spare;
        run->spare = &run->flights[i];
    }
    return 0;
}

/* The key, to be shown; the rest of the request is not needed any more. */
static void keep(struct sl_shadow_flight *flight, const struct sl_told *told)
{
    const struct sluice_request *r = &told->request;
    size_t type_len = r->key_type_len < sizeof flight->key_type ? r->key_type_len : sizeof flight->key_type;
    size_t key_len = r->key_len < sizeof flight->key ? r->key_len : sizeof flight->key;

    flight->allowed = told->allowed;
    memcpy(flight->policy, told->policy, sizeof flight->policy);
    memcpy(flight->key, r->key, key_len);
    if (r->key_type)
        memcpy(flight->key_type, r->key_type, type_len);
    flight->request = (struct sluice_request){.key = flight->key,
                                              .key_len = key_len,
                                              .key_type = r->key_type ? flight->key_type : NULL,
                                              .key_type_len = r->key_type ? type_len : 0};
}

static void land(struct sl_shadow_flight *flight)
{
    struct sl_shadow_run *run = flight->run;

    flight->next = run->spare;
    run->spare = flight;
}

static void compare(struct sl_shadow_flight *flight)
{
    const struct sl_decided live = {flight->allowed, flight->policy};

    count(flight->run, flight->generation, &flight->request, &live, &flight->verdict);
    land(flight);
}

static void on_done(void *ctx)
{
    compare(ctx);
}

static void decide_there(struct sl_shadow_run *run, const struct sl_told *told)
{
    struct sl_shadow_flight *flight = run->spare;
    const char *field, *why;

    run->spare = flight->next;
    keep(flight, told);
    flight->generation = sl_comparison_generation(&run->shadow->comparison);
    switch (sl_lane_check(run->lane, &told->request, &flight->verdict, NULL, &field, &why, on_done, flight)) {
    case SL_PENDING:
        break;
    case SL_DECIDED:
        compare(flight);
        break;
    default:
        atomic_fetch_add_explicit(&run->shadow->refused, 1, memory_order_relaxed);
        land(flight);
    }
}

/* ---- out of the rings */

/* The ring whose oldest decision is the oldest of all; NULL: they are empty. */
static struct sl_ring *next_ring(struct sl_shadow *shadow)
{
    unsigned n = atomic_load_explicit(&shadow->n_ways, memory_order_acquire);
    struct sl_ring *next = NULL;
    uint64_t t_us, least = UINT64_MAX;

    for (unsigned i = 0; i < n; i++) {
        struct sl_ring *ring = atomic_load_explicit(&shadow->ways[i].ring, memory_order_acquire);

        if (ring && sl_ring_next_at(ring, &t_us) && (!next || t_us < least)) {
            next = ring;
            least = t_us;
        }
    }
    return next;
}

/* A live verdict that the store did not give says nothing about the candidate. */
static void decide(struct sl_shadow_run *run, const struct sl_told *told)
{
    if (told->source == SLUICE_DEGRADED)
        sl_comparison_undecided(&run->shadow->comparison, sl_comparison_generation(&run->shadow->comparison));
    else if (run->lane)
        decide_there(run, told);
    else
        decide_here(run, told);
}

bool sl_shadow_run_drain(struct sl_shadow_run *run)
{
    struct sl_ring *ring;

    for (unsigned i = 0; i < SHARE; i++) {
        if (run->lane && !run->spare)
            return false;
        ring = next_ring(run->shadow);
        if (!ring)
            return false;
        sl_ring_peek(ring, &run->told);
        decide(run, &run->told);
        sl_ring_drop(ring);
    }
    return true;
}
