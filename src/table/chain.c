#include "table/chain.h"

/* An entry's place: the shape of log_head.first and .last. */
struct place {
    uint32_t chunk, at;
    uint64_t hops; /* chunks walked so far, so that a loop in a damaged list ends */
};

static struct place unpack(uint64_t word)
{
    return (struct place){.chunk = (uint32_t)(word >> 32), .at = (uint32_t)word};
}

static uint64_t pack(uint32_t chunk, uint32_t at)
{
    return (uint64_t)chunk << 32 | at;
}

static uint32_t room(const struct sl_chain *c, uint32_t chunk)
{
    return chunk == c->head ? SL_HEAD_ENTRIES : SL_MORE_ENTRIES;
}

static uint64_t *time_at(const struct sl_chain *c, struct place p)
{
    union sl_chunk *k = sl_chunk_at(c->t, p.chunk);

    return p.chunk == c->head ? &k->head.t_us[p.at] : &k->more.t_us[p.at];
}

static uint32_t *cost_at(const struct sl_chain *c, struct place p)
{
    union sl_chunk *k = sl_chunk_at(c->t, p.chunk);

    return p.chunk == c->head ? &k->head.cost[p.at] : &k->more.cost[p.at];
}

static uint32_t *next_of(const struct sl_chain *c, uint32_t chunk)
{
    return &sl_chunk_at(c->t, chunk)->more.next;
}

/* One past the newest entry, bounded by what a chunk can hold. */
static struct place end_of(const struct sl_chain *c)
{
    struct place end = unpack(c->h->last);

    if (end.at > room(c, end.chunk))
        end.at = room(c, end.chunk);
    return end;
}

/* Moves p on to an entry that exists: itself, or the first of the next chunk. False at the end of the list. */
static bool settle(const struct sl_chain *c, struct place *p)
{
    struct place end = end_of(c);

    for (;;) {
        if (!sl_chunk_at(c->t, p->chunk))
            return false;
        if (p->chunk == end.chunk)
            return p->at < end.at;
        if (p->at < room(c, p->chunk))
            return true;
        if (p->hops++ >= c->t->n_chunks)
            return false;
        p->chunk = sl_load32(next_of(c, p->chunk));
        p->at = 0;
    }
}

bool sl_chain_open(struct sl_table *t, uint32_t head, uint64_t tag, struct sl_chain *ret_chain)
{
    union sl_chunk *k = sl_chunk_at(t, head);

    if (!k || k->head.tag != tag)
        return false;
    *ret_chain = (struct sl_chain){.t = t, .head = head, .h = &k->head};
    return true;
}

uint32_t sl_chain_new(struct sl_table *t, uint64_t tag, const uint64_t t_us[2], const uint32_t cost[2])
{
    uint32_t head = sl_chunk_take(t);
    struct sl_log_head *h;

    if (head == 0)
        return 0;
    h = &t->chunks[head - 1].head;
    h->tag = tag;
    h->first = pack(head, 0);
    h->last = pack(head, 2);
    h->seen_us = 0;
    h->sum = cost[0] + cost[1];
    for (unsigned i = 0; i < 2; i++) {
        h->t_us[i] = t_us[i];
        h->cost[i] = cost[i];
    }
    return head;
}

bool sl_chain_is_empty(const struct sl_chain *c)
{
    struct place p = unpack(c->h->first);

    return !settle(c, &p);
}

/* The newest entry's place. False when the list is empty or `last` leads nowhere. */
static bool newest(const struct sl_chain *c, struct place *ret_place)
{
    struct place end = end_of(c);

    if (end.at == 0 || !sl_chunk_at(c->t, end.chunk) || sl_chain_is_empty(c))
        return false;
    end.at--;
    *ret_place = end;
    return true;
}

uint64_t sl_chain_newest_us(const struct sl_chain *c)
{
    struct place p;

    return newest(c, &p) ? *time_at(c, p) : 0;
}

static void set_sum(struct sl_chain *c, uint64_t sum)
{
    c->h->sum = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
}

void sl_chain_expire(struct sl_chain *c, const struct sl_shape *shape, uint64_t now_us)
{
    struct place p = unpack(c->h->first);

    while (settle(c, &p)) {
        struct place before = unpack(c->h->first);
        bool gone = !sl_log_in_force(shape, *time_at(c, p), now_us);
        uint32_t cost = *cost_at(c, p);

        if (gone && now_us > c->h->seen_us)
            c->h->seen_us = now_us;
        /* Off the list first, then free: killed in between, the chunk is lost and not in two lists. */
        sl_store(&c->h->first, pack(p.chunk, gone ? p.at + 1 : p.at));
        if (before.chunk != p.chunk && before.chunk != c->head)
            sl_chunk_give(c->t, before.chunk);
        if (!gone)
            return;
        sl_at(c->t, SL_POINT_LOG_MOVED);
        set_sum(c, c->h->sum > cost ? c->h->sum - cost : 0);
        p.at++;
    }
    c->h->sum = 0;
}

static void count_entry(struct sl_chain *c, uint32_t chunk, uint32_t n, uint32_t cost)
{
    sl_store(&c->h->last, pack(chunk, n));
    sl_at(c->t, SL_POINT_LOG_COUNTED);
    set_sum(c, (uint64_t)c->h->sum + cost);
}

static bool append_chunk(struct sl_chain *c, uint32_t after, uint64_t t_us, uint32_t cost)
{
    uint32_t chunk = sl_chunk_take(c->t);
    union sl_chunk *k = sl_chunk_at(c->t, chunk);

    if (!k)
        return false;
    k->more.t_us[0] = t_us;
    k->more.cost[0] = cost;
    sl_store32(next_of(c, after), chunk);
    sl_at(c->t, SL_POINT_LOG_LINKED);
    count_entry(c, chunk, 1, cost);
    return true;
}

bool sl_chain_append(struct sl_chain *c, uint64_t t_us, uint32_t cost)
{
    struct place p, end = end_of(c);

    if (!newest(c, &p))
        return false;
    if (*time_at(c, p) == t_us) {
        *cost_at(c, p) += cost;
        set_sum(c, (uint64_t)c->h->sum + cost);
        return true;
    }
    if (end.at < room(c, end.chunk)) {
        *time_at(c, end) = t_us;
        *cost_at(c, end) = cost;
        sl_at(c->t, SL_POINT_LOG_WRITTEN);
        count_entry(c, end.chunk, end.at + 1, cost);
        return true;
    }
    if (append_chunk(c, end.chunk, t_us, cost))
        return true;
    *time_at(c, p) = t_us;
    *cost_at(c, p) += cost;
    set_sum(c, (uint64_t)c->h->sum + cost);
    return false;
}

/* Takes the newest entry, which is left with nothing, off the list. */
static void drop_newest(struct sl_chain *c)
{
    struct place end = end_of(c), p = unpack(c->h->first);
    uint32_t before;

    if (end.at > 1 || end.chunk == p.chunk) {
        sl_store(&c->h->last, pack(end.chunk, end.at - 1));
        return;
    }
    for (before = p.chunk; p.hops++ < c->t->n_chunks && sl_chunk_at(c->t, before);) {
        uint32_t next = sl_load32(next_of(c, before));

        if (next == end.chunk) {
            sl_store(&c->h->last, pack(before, room(c, before)));
            sl_store32(next_of(c, before), 0);
            sl_chunk_give(c->t, end.chunk);
            return;
        }
        before = next;
    }
}

static bool find_entry(const struct sl_chain *c, uint64_t t_us, struct place *ret_place)
{
    struct place p;

    /* A charge is given back soon after it was made: it is among the newest. */
    if (newest(c, &p) && *time_at(c, p) == t_us) {
        *ret_place = p;
        return true;
    }
    for (p = unpack(c->h->first); settle(c, &p); p.at++) {
        if (*time_at(c, p) == t_us) {
            *ret_place = p;
            return true;
        }
    }
    return false;
}

void sl_chain_remove(struct sl_chain *c, uint64_t t_us, uint32_t cost)
{
    struct place p;
    uint32_t *left;

    if (!find_entry(c, t_us, &p))
        return;
    left = cost_at(c, p);
    if (cost > *left)
        cost = *left;
    *left -= cost;
    set_sum(c, c->h->sum > cost ? c->h->sum - cost : 0);
    while (newest(c, &p) && *cost_at(c, p) == 0)
        drop_newest(c);
}

void sl_chain_fit(const struct sl_chain *c, const struct sl_shape *shape, struct sl_decision *decision)
{
    uint64_t freed = 0;

    for (struct place p = unpack(c->h->first); settle(c, &p); p.at++) {
        if (sl_log_fit(shape, decision, &freed, *time_at(c, p), *cost_at(c, p)))
            return;
    }
}

/* Walks the chunks from the first entry's to the last that hangs on the list. Returns false when `last` is not
 * among them. */
static bool walk(struct sl_chain *c, bool (*mark)(void *, uint32_t), void *ctx, struct place *ret_end)
{
    struct place end = end_of(c);
    uint32_t chunk = unpack(c->h->first).chunk;

    *ret_end = (struct place){0};
    for (uint64_t hops = 0; hops <= c->t->n_chunks && sl_chunk_at(c->t, chunk); hops++) {
        if (mark && chunk != c->head && !mark(ctx, chunk))
            return false;
        *ret_end = (struct place){.chunk = chunk, .at = chunk == end.chunk ? end.at : room(c, chunk)};
        if (chunk == end.chunk) {
            /* A chunk hangs behind the last one: its holder was killed before it said so. It has one entry. */
            uint32_t next = sl_load32(next_of(c, chunk));

            if (end.at == room(c, chunk) && sl_chunk_at(c->t, next) && (!mark || mark(ctx, next)))
                *ret_end = (struct place){.chunk = next, .at = 1};
            return true;
        }
        chunk = sl_load32(next_of(c, chunk));
    }
    return false;
}

void sl_chain_recount(struct sl_chain *c, bool (*mark)(void *ctx, uint32_t chunk), void *ctx)
{
    struct place end;
    uint64_t sum = 0;

    if (!sl_chunk_at(c->t, unpack(c->h->first).chunk) || !sl_chunk_at(c->t, unpack(c->h->last).chunk))
        c->h->first = c->h->last = pack(c->head, 0);
    walk(c, mark, ctx, &end);
    if (end.chunk == 0) { /* not even the first chunk was ours */
        end = (struct place){.chunk = c->head};
        c->h->first = pack(c->head, 0);
    }
    sl_store(&c->h->last, pack(end.chunk, end.at));
    sl_store32(next_of(c, end.chunk), 0);
    for (struct place p = unpack(c->h->first); settle(c, &p); p.at++)
        sum += *cost_at(c, p);
    set_sum(c, sum);
}

void sl_chain_free(struct sl_chain *c)
{
    uint32_t chunk = unpack(c->h->first).chunk, last = unpack(c->h->last).chunk;

    c->h->tag = 0;
    for (uint64_t hops = 0; hops <= c->t->n_chunks && sl_chunk_at(c->t, chunk); hops++) {
        uint32_t next = sl_load32(next_of(c, chunk));

        if (chunk != c->head)
            sl_chunk_give(c->t, chunk);
        if (chunk == last)
            break;
        chunk = next;
    }
    sl_chunk_give(c->t, c->head);
}
