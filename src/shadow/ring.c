#include "shadow/ring.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ABSENT UINT16_MAX
#define N_TEXTS 5u
#define LINE 64

/* Then the lengths of the labels' names and values, and the bytes of everything in the same order, the limit's name
 * first. */
struct record {
    uint32_t size; /* to the next one, a multiple of 8; 0: the next one is at the ring's beginning */
    uint8_t allowed, source, policy_len, n_labels;
    uint64_t t_us;
    int64_t cost;
    uint16_t lens[N_TEXTS]; /* key, key type, scope, tier, address; ABSENT: there is none */
};

/* Positions only grow; what is in the ring is between tail and head. */
struct sl_ring {
    struct sl_alloc alloc;
    size_t mask;
    char apart_1[LINE]; /* the two do not share a line of the cache */
    atomic_size_t head; /* written by the writer */
    char apart_2[LINE];
    atomic_size_t tail; /* written by the reader */
    char apart_3[LINE];
    unsigned char bytes[];
};

struct text {
    const char *bytes;
    size_t len;
};

static_assert(SLUICE_NAME_MAX <= UINT8_MAX && SLUICE_SCOPE_MAX < ABSENT, "lengths fit into their fields");

struct sl_ring *sl_ring_new(const struct sl_alloc *alloc, size_t bytes)
{
    struct sl_ring *ring;

    assert((bytes & (bytes - 1)) == 0 && bytes >= 32768);
    ring = alloc->realloc(alloc->ctx, NULL, sizeof *ring + bytes); /* untouched pages cost nothing */
    if (!ring)
        return NULL;
    ring->alloc = *alloc;
    ring->mask = bytes - 1;
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    return ring;
}

void sl_ring_free(struct sl_ring *ring)
{
    struct sl_alloc alloc;

    if (!ring)
        return;
    alloc = ring->alloc;
    sl_free(&alloc, ring);
}

/* ---- writing */

static void list_texts(const struct sluice_request *r, struct text texts[static N_TEXTS])
{
    texts[0] = (struct text){r->key, r->key_len};
    texts[1] = (struct text){r->key_type, r->key_type_len};
    texts[2] = (struct text){r->scope, r->scope_len};
    texts[3] = (struct text){r->tier, r->tier_len};
    texts[4] = (struct text){r->address, r->address_len};
}

static size_t size_of(const struct sl_seen *seen, size_t policy_len)
{
    const struct sluice_request *r = seen->request;
    size_t size = sizeof(struct record) + r->n_labels * 2 * sizeof(uint16_t) + policy_len + r->key_len +
                  r->key_type_len + r->scope_len + r->tier_len + r->address_len;

    for (size_t i = 0; i < r->n_labels; i++)
        size += r->labels[i].name_len + r->labels[i].value_len;
    return (size + 7) & ~(size_t)7;
}

static unsigned char *append(unsigned char *to, const char *bytes, size_t len)
{
    if (len)
        memcpy(to, bytes, len);
    return to + len;
}

static void write_record(unsigned char *to, const struct sl_seen *seen, size_t size, size_t policy_len)
{
    const struct sluice_request *r = seen->request;
    struct text texts[N_TEXTS];
    struct record record = {.size = (uint32_t)size,
                            .allowed = seen->allowed,
                            .source = seen->source,
                            .policy_len = (uint8_t)policy_len,
                            .n_labels = (uint8_t)r->n_labels,
                            .t_us = seen->t_us,
                            .cost = r->cost};

    list_texts(r, texts);
    for (unsigned i = 0; i < N_TEXTS; i++)
        record.lens[i] = texts[i].bytes ? (uint16_t)texts[i].len : ABSENT;
    to = append(to, (const char *)&record, sizeof record);
    for (size_t i = 0; i < r->n_labels; i++) {
        uint16_t lens[2] = {(uint16_t)r->labels[i].name_len, (uint16_t)r->labels[i].value_len};

        to = append(to, (const char *)lens, sizeof lens);
    }
    to = append(to, seen->policy, policy_len);
    for (unsigned i = 0; i < N_TEXTS; i++)
        to = append(to, texts[i].bytes, texts[i].bytes ? texts[i].len : 0);
    for (size_t i = 0; i < r->n_labels; i++) {
        to = append(to, r->labels[i].name, r->labels[i].name_len);
        to = append(to, r->labels[i].value, r->labels[i].value_len);
    }
}

bool sl_ring_put(struct sl_ring *ring, const struct sl_seen *seen)
{
    size_t policy_len = strnlen(seen->policy, SLUICE_NAME_MAX - 1), size = size_of(seen, policy_len);
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t used = head - atomic_load_explicit(&ring->tail, memory_order_acquire);
    size_t at = head & ring->mask, left = ring->mask + 1 - at, skipped = size > left ? left : 0;

    if (seen->request->n_labels > SLUICE_LABELS_MAX || used + skipped + size > ring->mask + 1)
        return false;
    if (skipped) {
        memset(ring->bytes + at, 0, sizeof(uint32_t)); /* the record's size; there are 8 bytes at least */
        at = 0;
    }
    write_record(ring->bytes + at, seen, size, policy_len);
    atomic_store_explicit(&ring->head, head + skipped + size, memory_order_release);
    return true;
}

/* ---- reading */

/* Where the oldest record begins; NULL: there is none. */
static const unsigned char *oldest(const struct sl_ring *ring, size_t *ret_tail)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed), at = tail & ring->mask;
    uint32_t size;

    if (tail == atomic_load_explicit(&ring->head, memory_order_acquire))
        return NULL;
    memcpy(&size, ring->bytes + at, sizeof size);
    if (size == 0) {
        tail += ring->mask + 1 - at;
        at = 0;
    }
    *ret_tail = tail;
    return ring->bytes + at;
}

bool sl_ring_next_at(const struct sl_ring *ring, uint64_t *ret_t_us)
{
    size_t tail;
    const unsigned char *from = oldest(ring, &tail);

    if (from)
        memcpy(ret_t_us, from + offsetof(struct record, t_us), sizeof *ret_t_us);
    return from != NULL;
}

static const char *take(const char **from, size_t len)
{
    const char *text = *from;

    *from += len;
    return text;
}

static void take_text(const char **from, uint16_t len, const char **ret_text, size_t *ret_len)
{
    *ret_text = len == ABSENT ? NULL : take(from, len);
    *ret_len = len == ABSENT ? 0 : len;
}

bool sl_ring_peek(struct sl_ring *ring, struct sl_told *told)
{
    size_t tail;
    const char *from = (const char *)oldest(ring, &tail), *lens;
    struct sluice_request *r = &told->request;
    struct record record;

    if (!from)
        return false;
    memcpy(&record, from, sizeof record);
    lens = from + sizeof record;
    from = lens + record.n_labels * 2 * sizeof(uint16_t);
    told->t_us = record.t_us;
    told->allowed = record.allowed;
    told->source = record.source;
    snprintf(told->policy, sizeof told->policy, "%.*s", (int)record.policy_len, take(&from, record.policy_len));
    *r = (struct sluice_request){.cost = record.cost, .n_labels = record.n_labels};
    take_text(&from, record.lens[0], &r->key, &r->key_len);
    take_text(&from, record.lens[1], &r->key_type, &r->key_type_len);
    take_text(&from, record.lens[2], &r->scope, &r->scope_len);
    take_text(&from, record.lens[3], &r->tier, &r->tier_len);
    take_text(&from, record.lens[4], &r->address, &r->address_len);
    for (size_t i = 0; i < record.n_labels; i++) {
        struct sluice_label *label = &told->labels[i];
        uint16_t pair[2];

        memcpy(pair, lens + i * sizeof pair, sizeof pair);
        take_text(&from, pair[0], &label->name, &label->name_len);
        take_text(&from, pair[1], &label->value, &label->value_len);
    }
    r->labels = record.n_labels ? told->labels : NULL;
    return true;
}

void sl_ring_drop(struct sl_ring *ring)
{
    size_t tail;
    const unsigned char *from = oldest(ring, &tail);
    uint32_t size;

    assert(from);
    memcpy(&size, from, sizeof size);
    atomic_store_explicit(&ring->tail, tail + size, memory_order_release);
}

void sl_ring_clear(struct sl_ring *ring)
{
    atomic_store_explicit(&ring->tail, atomic_load_explicit(&ring->head, memory_order_acquire), memory_order_release);
}
