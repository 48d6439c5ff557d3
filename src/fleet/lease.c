/* Leases: the table of them, and what the decision path calls. */
#include "fleet/lease_internal.h"

#include "base/err.h"
#include "base/power.h"
#include "core/span.h"

#define LEASES_MIN 64u
#define LEASES_MAX (UINT32_C(1) << 20)
#define RTT_GUESS_US 1000u /* until one is known */

/* ---- the table */

int sl_leases_new(size_t n, const struct sl_alloc *alloc, struct sl_leases **ret_leases)
{
    size_t n_sets = sl_power_of_two(n, LEASES_MIN, LEASES_MAX) / SL_LEASE_WAYS;
    struct sl_leases *leases = sl_calloc(alloc, 1, sizeof *leases);

    if (!leases)
        return SL_ENOMEM;
    leases->alloc = *alloc;
    leases->mask = n_sets - 1;
    leases->sets = sl_calloc(alloc, n_sets, sizeof *leases->sets);
    if (!leases->sets) {
        sl_leases_free(leases);
        return SL_ENOMEM;
    }
    *ret_leases = leases;
    return 0;
}

void sl_leases_free(struct sl_leases *leases)
{
    struct sl_alloc alloc;

    if (!leases)
        return;
    alloc = leases->alloc;
    sl_free(&alloc, leases->sets);
    sl_free(&alloc, leases);
}

struct sl_lease_set *sl_lease_set_of(struct sl_leases *leases, struct sl_hash128 fp)
{
    return &leases->sets[(size_t)(fp.a ^ fp.b) & leases->mask];
}

struct sl_lease *sl_lease_next(struct sl_lease_set *set, struct sl_hash128 fp, int *at)
{
    unsigned used = atomic_load_explicit(&set->used, memory_order_relaxed);

    for (int i = *at + 1; i < (int)SL_LEASE_WAYS; i++) {
        if (!(used >> i & 1) || set->tags[i] != fp.a || set->leases[i].fp.b != fp.b)
            continue;
        *at = i;
        return &set->leases[i];
    }
    return NULL;
}

/* The one that is alive. */
static struct sl_lease *find(struct sl_lease_set *set, struct sl_hash128 fp)
{
    struct sl_lease *l;
    int at = -1;

    while ((l = sl_lease_next(set, fp, &at)))
        if (!l->retired)
            return l;
    return NULL;
}

void sl_lease_lose(struct sl_leases *leases, uint64_t tokens)
{
    atomic_fetch_add_explicit(&leases->lost, tokens, memory_order_relaxed);
}

void sl_lease_retire(struct sl_leases *leases, struct sl_lease *l)
{
    if (l->retired)
        return;
    l->retired = true;
    sl_lots_set_aside(l, l->held);
    atomic_fetch_sub_explicit(&leases->active, 1, memory_order_relaxed);
}

void sl_lease_drop(struct sl_leases *leases, struct sl_lease_set *set, struct sl_lease *l)
{
    unsigned bit = 1u << (l - set->leases);

    if (!l->retired)
        atomic_fetch_sub_explicit(&leases->active, 1, memory_order_relaxed);
    atomic_fetch_and_explicit(&set->used, (unsigned char)~bit, memory_order_relaxed);
}

static struct sl_lease *begin_lease(struct sl_leases *leases, struct sl_lease_set *set,
                                    const struct sl_lease_bucket *bucket, const struct sl_lease_terms *terms,
                                    uint64_t now_us)
{
    unsigned used = atomic_load_explicit(&set->used, memory_order_relaxed), at = 0;
    struct sl_lease *l;

    while (at < SL_LEASE_WAYS && used >> at & 1)
        at++;
    if (at == SL_LEASE_WAYS)
        return NULL;
    l = &set->leases[at];
    *l = (struct sl_lease){.fp = bucket->fp,
                           .who = bucket->who,
                           .store = bucket->store,
                           .shape = *bucket->shape,
                           .terms = *terms,
                           .want = UINT32_MAX,
                           .begun_us = now_us,
                           .used_us = now_us,
                           .pace = {.since_us = now_us},
                           .cool_us = now_us,
                           .share = {.due_us = now_us + terms->interval_us}};
    set->tags[at] = bucket->fp.a;
    atomic_fetch_or_explicit(&set->used, (unsigned char)(1u << at), memory_order_relaxed);
    atomic_fetch_add_explicit(&leases->active, 1, memory_order_relaxed);
    return l;
}

/* ---- round trips */

uint64_t sl_lease_rtt_us(const struct sl_leases *leases)
{
    uint64_t rtt = atomic_load_explicit(&leases->rtt, memory_order_relaxed);

    return rtt ? (rtt >> 32) + 4 * (uint64_t)(uint32_t)rtt : RTT_GUESS_US;
}

/* As TCP estimates its time-outs (RFC 6298). A sample that is lost in a race is no loss. */
void sl_leases_note_rtt(struct sl_leases *leases, uint64_t rtt_us)
{
    uint64_t old = atomic_load_explicit(&leases->rtt, memory_order_relaxed);
    int64_t sample = (int64_t)(rtt_us < SL_SECOND_US ? rtt_us : SL_SECOND_US), average = sample, deviation = sample / 2;

    if (old) {
        int64_t off = sample - (int64_t)(old >> 32);

        average = (int64_t)(old >> 32) + off / 8;
        deviation = (int64_t)(uint32_t)old;
        deviation += ((off < 0 ? -off : off) - deviation) / 4;
    }
    if (average < 1)
        average = 1;
    atomic_store_explicit(&leases->rtt, (uint64_t)average << 32 | (uint64_t)deviation, memory_order_relaxed);
}

/* ---- spending */

static void adopt_terms(struct sl_lease *l, const struct sl_lease_terms *terms)
{
    uint32_t most;

    l->terms = *terms;
    if (l->terms.block > l->shape.limit)
        l->terms.block = l->shape.limit;
    if (l->terms.block < 1)
        l->terms.block = 1;
    if (l->terms.interval_us && l->terms.ttl_us < 2 * l->terms.interval_us)
        l->terms.ttl_us = 2 * l->terms.interval_us; /* its tokens must last from one reconciliation to the next */
    most = l->terms.block > l->in_flight ? l->terms.block - l->in_flight : 0;
    if (l->held > most)
        sl_lots_set_aside(l, l->held - most);
}

/* What a verdict is told from; copied under the lock, worked out after it. */
struct told {
    struct sl_lease_view view;
    uint32_t usable;
    uint64_t wait_us, next_us; /* WAIT: until the cost is there; until something is */
};

static int64_t later(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static void tell(const struct told *told, const struct sl_shape *shape, uint64_t now_us, struct sl_numbers *ret_numbers)
{
    struct sl_decision peek;

    sl_view_peek(&told->view, shape, now_us, &peek);
    sl_decision_numbers(shape, &peek, ret_numbers);
    ret_numbers->remaining += told->usable;
    if (ret_numbers->remaining > ret_numbers->limit)
        ret_numbers->remaining = ret_numbers->limit;
}

static void tell_wait(const struct told *told, const struct sl_shape *shape, uint64_t now_us, uint32_t cost,
                      struct sl_numbers *ret_numbers)
{
    tell(told, shape, now_us, ret_numbers);
    if (ret_numbers->remaining >= cost) /* the store may have some again; but not for us, we have ours */
        ret_numbers->remaining = cost - 1;
    ret_numbers->retry_after_ms = later((int64_t)sl_ms_ceil(told->wait_us), 1);
    ret_numbers->next_token_ms = later((int64_t)sl_ms_ceil(told->next_us), 1);
    ret_numbers->reset_after_ms = later(ret_numbers->reset_after_ms, ret_numbers->retry_after_ms);
}

static enum sl_lease_answer spend(struct sl_lease *l, uint64_t now_us, uint32_t cost, struct told *ret_told)
{
    uint32_t usable = sl_lots_usable(l, now_us);

    ret_told->view = l->view;
    ret_told->usable = usable;
    if (usable >= cost) {
        sl_lots_spend(l, now_us, cost);
        ret_told->usable = usable - cost;
        return SL_LEASE_TAKEN;
    }
    if (usable > 0 || l->held < cost)
        return SL_LEASE_NONE;
    ret_told->wait_us = sl_since(sl_lots_usable_from_us(l, cost), now_us);
    ret_told->next_us = sl_since(sl_lots_usable_from_us(l, 1), now_us);
    return SL_LEASE_WAIT;
}

/* The bucket's lease under its present shape and in its present store; one under another is over. */
static struct sl_lease *find_or_begin(struct sl_leases *leases, struct sl_lease_set *set,
                                      const struct sl_lease_bucket *bucket, const struct sl_lease_terms *terms,
                                      uint64_t now_us, bool begin)
{
    struct sl_lease *l = find(set, bucket->fp);

    if (l && (l->store != bucket->store || !sl_shape_equal(&l->shape, bucket->shape))) {
        sl_lease_retire(leases, l);
        l = NULL;
    }
    return l || !begin ? l : begin_lease(leases, set, bucket, terms, now_us);
}

static uint32_t add(uint32_t x, uint32_t y)
{
    return UINT32_MAX - x > y ? x + y : UINT32_MAX;
}

enum sl_lease_answer sl_lease_take(struct sl_leases *leases, const struct sl_lease_bucket *bucket,
                                   const struct sl_lease_terms *terms, uint64_t now_us, uint32_t cost, bool begin,
                                   struct sl_numbers *ret_numbers, uint32_t *ret_debit)
{
    struct sl_lease_set *set = sl_lease_set_of(leases, bucket->fp);
    enum sl_lease_answer answer = SL_LEASE_NONE;
    struct told told = {0};
    struct sl_lease *l;

    *ret_debit = 0;
    sl_spin_lock(&set->lock);
    l = find_or_begin(leases, set, bucket, terms, now_us, begin);
    if (l) {
        adopt_terms(l, terms);
        l->used_us = now_us;
        l->decisions = add(l->decisions, 1);
        l->share.demand = add(l->share.demand, cost);
        sl_pace_add(&l->pace, now_us, cost);
        sl_lots_expire(l, now_us);
        answer = spend(l, now_us, cost, &told);
        *ret_debit = sl_lease_renew(leases, l, now_us, cost);
    }
    sl_spin_unlock(&set->lock);
    if (answer == SL_LEASE_TAKEN)
        tell(&told, bucket->shape, now_us, ret_numbers);
    else if (answer == SL_LEASE_WAIT)
        tell_wait(&told, bucket->shape, now_us, cost, ret_numbers);
    return answer;
}

bool sl_lease_take_last(struct sl_leases *leases, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                        uint32_t cost, struct sl_numbers *ret_numbers)
{
    struct sl_lease_set *set = sl_lease_set_of(leases, fp);
    struct told told = {0};
    struct sl_lease *l;
    bool taken = false;

    sl_spin_lock(&set->lock);
    l = find(set, fp);
    if (l && sl_shape_equal(&l->shape, shape)) {
        l->used_us = now_us;
        sl_lots_expire(l, now_us);
        taken = spend(l, now_us, cost, &told) == SL_LEASE_TAKEN;
    }
    sl_spin_unlock(&set->lock);
    if (taken)
        tell(&told, shape, now_us, ret_numbers);
    return taken;
}

bool sl_lease_put_back(struct sl_leases *leases, struct sl_hash128 fp, uint32_t cost, uint64_t taken_us)
{
    struct sl_lease_set *set = sl_lease_set_of(leases, fp);
    struct sl_lease *l;
    bool back = false;

    sl_spin_lock(&set->lock);
    l = find(set, fp);
    if (l && taken_us >= l->begun_us && (!l->window_store_us || taken_us >= l->window_since_us)) {
        uint32_t owned = l->held + l->in_flight, room = l->terms.block > owned ? l->terms.block - owned : 0;

        room = room < cost ? room : cost;
        sl_lots_add_first(l, taken_us, l->spent_got_us, room);
        l->back += cost - room; /* a renewal has taken its place */
        back = true;
    }
    if (!back)
        sl_lease_lose(leases, cost);
    sl_spin_unlock(&set->lock);
    return back;
}

void sl_lease_forget(struct sl_leases *leases, struct sl_hash128 fp)
{
    struct sl_lease_set *set = sl_lease_set_of(leases, fp);
    struct sl_lease *l;
    int at = -1;

    sl_spin_lock(&set->lock);
    while ((l = sl_lease_next(set, fp, &at)))
        sl_lease_drop(leases, set, l);
    sl_spin_unlock(&set->lock);
}

void sl_leases_stats(struct sl_leases *leases, struct sl_leases_stats *ret_stats)
{
    struct sl_leases_stats stats = {.active = atomic_load_explicit(&leases->active, memory_order_relaxed),
                                    .lost = atomic_load_explicit(&leases->lost, memory_order_relaxed)};

    for (size_t i = 0; i <= leases->mask; i++) {
        struct sl_lease_set *set = &leases->sets[i];

        if (!atomic_load_explicit(&set->used, memory_order_relaxed))
            continue;
        sl_spin_lock(&set->lock);
        for (unsigned at = 0; at < SL_LEASE_WAYS; at++)
            if (atomic_load_explicit(&set->used, memory_order_relaxed) >> at & 1)
                stats.held += set->leases[at].held + set->leases[at].back;
        sl_spin_unlock(&set->lock);
    }
    *ret_stats = stats;
}
