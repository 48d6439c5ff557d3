#include "replay/reorder.h"

#include "base/err.h"

#include <assert.h>
#include <string.h>

#define SLOT_MIN_US UINT64_C(1000000) /* what a log's time is usually whole in */
#define SLOTS_PER_WINDOW_MAX 3600

struct entry {
    uint64_t t_us, seq;
    struct sl_event *event;
};

struct entries {
    struct entry *list;
    size_t head, n, room; /* in use: head ... n - 1 */
    bool unsorted;
};

struct sl_reorder {
    struct sl_alloc alloc;
    uint64_t window_us, slot_us;
    size_t n_slots;
    uint64_t newest_us; /* latest time pushed */
    uint64_t given_us;  /* latest time given out */
    uint64_t near_slot; /* the last slot whose events are in `run` or `heap`, as time / slot_us */
    uint64_t seq;
    size_t waiting;
    struct entry late;
    bool has_late;
    struct entries run;  /* the near end: slots that came in order */
    struct entries heap; /* and whatever came otherwise */
    struct entries slots[];
};

static bool before(const struct entry *x, const struct entry *y)
{
    return x->t_us != y->t_us ? x->t_us < y->t_us : x->seq < y->seq;
}

int sl_reorder_new(const struct sl_alloc *alloc, uint64_t window_us, struct sl_reorder **ret_reorder)
{
    uint64_t slot_us = window_us / SLOTS_PER_WINDOW_MAX;
    struct sl_reorder *r;
    size_t n_slots;

    if (slot_us < SLOT_MIN_US)
        slot_us = SLOT_MIN_US;
    n_slots = (size_t)(window_us / slot_us) + 2;
    r = sl_calloc(alloc, 1, sizeof *r + n_slots * sizeof r->slots[0]);
    if (!r)
        return SL_ENOMEM;
    r->alloc = *alloc;
    r->window_us = window_us;
    r->slot_us = slot_us;
    r->n_slots = n_slots;
    *ret_reorder = r;
    return 0;
}

void sl_reorder_free(struct sl_reorder *reorder)
{
    struct sl_alloc alloc;

    if (!reorder)
        return;
    alloc = reorder->alloc;
    for (size_t i = 0; i < reorder->n_slots; i++)
        sl_free(&alloc, reorder->slots[i].list);
    sl_free(&alloc, reorder->run.list);
    sl_free(&alloc, reorder->heap.list);
    sl_free(&alloc, reorder);
}

static int append(const struct sl_alloc *alloc, struct entries *e, struct entry entry)
{
    if (e->n == e->room) {
        size_t room = e->room ? 2 * e->room : 64;
        struct entry *list = sl_reallocarray(alloc, e->list, room, sizeof *list);

        if (!list)
            return SL_ENOMEM;
        e->list = list;
        e->room = room;
    }
    assert(e->list);
    e->unsorted = e->n > e->head && (e->unsorted || entry.t_us < e->list[e->n - 1].t_us);
    e->list[e->n++] = entry;
    return 0;
}

static int heap_push(const struct sl_alloc *alloc, struct entries *heap, struct entry entry)
{
    struct entry *list;
    size_t i = heap->n;
    int error = append(alloc, heap, entry);

    if (error)
        return error;
    list = heap->list;
    while (i > 0 && before(&entry, &list[(i - 1) / 2])) {
        list[i] = list[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    list[i] = entry;
    return 0;
}

static struct entry heap_pop(struct entries *heap)
{
    struct entry top = heap->list[0], last = heap->list[--heap->n];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < heap->n) {
        if (child + 1 < heap->n && before(&heap->list[child + 1], &heap->list[child]))
            child++;
        if (!before(&heap->list[child], &last))
            break;
        heap->list[i] = heap->list[child];
        i = child;
    }
    heap->list[i] = last;
    return top;
}

/* Appends a slot that came in order to the run, all of whose events are older. */
static int extend_run(struct sl_reorder *r, const struct entries *slot)
{
    struct entries *run = &r->run;

    if (run->head > run->n / 2) {
        memmove(run->list, run->list + run->head, (run->n - run->head) * sizeof *run->list);
        run->n -= run->head;
        run->head = 0;
    }
    for (size_t i = slot->head; i < slot->n; i++) {
        int error = append(&r->alloc, run, slot->list[i]);

        if (error)
            return error;
    }
    return 0;
}

/* Brings one slot to the near end: to the run when it came in order, else into the heap. */
static int bring_near(struct sl_reorder *r, struct entries *slot)
{
    int error = 0;

    if (slot->n == 0)
        return 0;
    if (r->run.head == r->run.n && !slot->unsorted) {
        struct entries used = r->run;

        r->run = *slot;
        *slot = used;
    } else if (!slot->unsorted) {
        error = extend_run(r, slot);
    } else {
        for (size_t i = slot->head; i < slot->n && !error; i++)
            error = heap_push(&r->alloc, &r->heap, slot->list[i]);
    }
    slot->head = slot->n = 0;
    slot->unsorted = false;
    return error;
}

/* The oldest time that is still in the window. */
static uint64_t window_start(const struct sl_reorder *r)
{
    return r->newest_us > r->window_us ? r->newest_us - r->window_us : 0;
}

/* Brings all slots up to `slot` to the near end. */
static int advance(struct sl_reorder *r, uint64_t slot)
{
    for (uint64_t n = 0; r->near_slot < slot && n < r->n_slots; n++) {
        int error = bring_near(r, &r->slots[(r->near_slot + 1) % r->n_slots]);

        if (error)
            return error;
        r->near_slot++;
    }
    if (r->near_slot < slot) /* a leap: what was waiting is near, and the slots between are empty */
        r->near_slot = slot;
    return 0;
}

int sl_reorder_push(struct sl_reorder *reorder, uint64_t t_us, struct sl_event *event)
{
    struct sl_reorder *r = reorder;
    struct entry entry = {t_us, r->seq, event};
    uint64_t slot = t_us / r->slot_us;
    int error = 0;

    if (t_us > r->newest_us) {
        r->newest_us = t_us;
        error = advance(r, window_start(r) / r->slot_us);
    }
    if (error)
        return error;
    if (t_us < window_start(r) || t_us < r->given_us) {
        r->late = entry;
        r->has_late = true;
    } else if (slot > r->near_slot) {
        error = append(&r->alloc, &r->slots[slot % r->n_slots], entry);
    } else {
        error = heap_push(&r->alloc, &r->heap, entry);
    }
    if (!error) {
        r->seq++;
        r->waiting++;
    }
    return error;
}

/* The oldest of the near end, or NULL. */
static const struct entry *oldest_near(const struct sl_reorder *r)
{
    const struct entry *run = r->run.head < r->run.n ? &r->run.list[r->run.head] : NULL;
    const struct entry *heap = r->heap.n > 0 ? &r->heap.list[0] : NULL;

    if (run && heap)
        return before(run, heap) ? run : heap;
    return run ? run : heap;
}

static void take_near(struct sl_reorder *r, const struct entry *oldest, struct sl_event **ret_event, uint64_t *ret_t_us)
{
    *ret_event = oldest->event;
    *ret_t_us = r->given_us = oldest->t_us;
    if (r->heap.n > 0 && oldest == r->heap.list)
        heap_pop(&r->heap);
    else
        r->run.head++;
    r->waiting--;
}

bool sl_reorder_pop(struct sl_reorder *reorder, struct sl_event **ret_event, uint64_t *ret_t_us, bool *ret_late)
{
    struct sl_reorder *r = reorder;
    const struct entry *oldest = oldest_near(r);

    *ret_late = false;
    if (oldest && oldest->t_us <= window_start(r)) {
        take_near(r, oldest, ret_event, ret_t_us);
        return true;
    }
    if (!r->has_late)
        return false;
    *ret_late = true;
    *ret_event = r->late.event;
    if (r->late.t_us > r->given_us)
        r->given_us = r->late.t_us;
    *ret_t_us = r->given_us;
    r->has_late = false;
    r->waiting--;
    return true;
}

bool sl_reorder_pop_early(struct sl_reorder *reorder, struct sl_event **ret_event, uint64_t *ret_t_us)
{
    const struct entry *oldest;

    while (!(oldest = oldest_near(reorder)) && reorder->waiting > 0) {
        if (bring_near(reorder, &reorder->slots[++reorder->near_slot % reorder->n_slots]))
            return false;
    }
    if (!oldest)
        return false;
    take_near(reorder, oldest, ret_event, ret_t_us);
    return true;
}

size_t sl_reorder_waiting(const struct sl_reorder *reorder)
{
    return reorder->waiting;
}
