/* What the files of the table share: the handle of one process, and what each file offers the others. */
#ifndef SL_TABLE_INTERNAL_H
#define SL_TABLE_INTERNAL_H

#include "base/err.h"
#include "table/atomic.h"
#include "table/layout.h"
#include "table/table.h"

#define SL_SCAN_SEGMENTS 64u

/* Instants between two writes at which a test may stop or kill the process (see sl_table_set_probe). */
enum sl_point {
    SL_POINT_STRIPE_LOCKED, /* an insert holds its stripe */
    SL_POINT_SCANNED,       /* and knows that the key is absent */
    SL_POINT_CLAIMED,       /* the slot says whose it will be */
    SL_POINT_TAGGED,        /* and so does its tag */
    SL_POINT_FILLED,        /* the first state is in, the stripe still held */
    SL_POINT_LOG_LOCKED,
    SL_POINT_LOG_WRITTEN, /* an entry is in its chunk, not yet counted */
    SL_POINT_LOG_LINKED,  /* a new chunk hangs on the list, `last` does not know it */
    SL_POINT_LOG_COUNTED, /* the entry is in the list, not yet in the sum */
    SL_POINT_LOG_MOVED,   /* the oldest entry left the list, still in the sum */
    SL_POINT_LOG_UNLOCKED,
    SL_POINTS,
};

struct sl_table {
    /* read by every decision, written at opening and closing only */
    struct sl_group *groups;
    uint64_t n_groups;
    struct sl_region_header *header;
    struct sl_stripe *stripes;
    struct sl_process *processes;
    union sl_chunk *chunks; /* chunks[0] is number 1 */
    uint64_t n_chunks;
    struct sl_clock clock;
    uint64_t offset_us; /* now = offset_us + mono, modulo 2^64 */
    void (*probe)(void *ctx, enum sl_point point);
    void *probe_ctx;
    struct sl_alloc alloc;
    void *mapping;
    size_t mapping_bytes;
    struct sl_self *self; /* a page the kernel clears in a forked child */
    bool self_is_wiped;   /* false: the kernel does not, compare the pid */
    uint64_t pid_ns;
    uint32_t self_pid; /* who registered last; a forked child finds its parent's */
    uint32_t forks;    /* private regions: registrations so far, ancestors' included */
    int fd;            /* -1: anonymous and private to this process */
    /* one scanner at a time, guarded by self->scanning */
    uint64_t scan_at, scan_live;
    uint64_t segment_live[SL_SCAN_SEGMENTS];
};

/* Calls fn at every point from now on; NULL ends it. For tests; set it while nobody else uses the handle. */
void sl_table_set_probe(struct sl_table *table, void (*fn)(void *ctx, enum sl_point point), void *ctx);

static inline void sl_at(const struct sl_table *t, enum sl_point point)
{
    if (SL_UNLIKELY(t->probe != NULL))
        t->probe(t->probe_ctx, point);
}

static inline uint64_t sl_n_slots(const struct sl_table *t)
{
    return t->n_groups * SL_GROUP_SLOTS;
}

/* plan.c: the geometry. */

/* Fills the plan for a new region; `secret` and created_us are copied in. */
void sl_plan_make(struct sl_region_plan *ret_plan, uint64_t keys, uint64_t log_entries, struct sl_secret secret,
                  uint64_t created_us);
/* Writes a header for the plan with `complete` 0. */
void sl_plan_header(const struct sl_region_plan *plan, struct sl_region_header *ret_header);
/* NULL when the header is one of ours and whole; else why not: "has the wrong magic number" ... */
const char *sl_plan_refuse(const struct sl_region_header *header, uint64_t file_bytes);
/* Points the handle into the mapped region. */
void sl_plan_attach(struct sl_table *t, void *region);

/* file.c: a region in a file. Returns 0 or an error with the sentence in `why`. On success t->fd, mapping and attach
 * are done. */
int sl_file_open(struct sl_table *t, const struct sl_table_options *o, char *why, size_t why_size);
/* In a forked child: an open file description of its own, so that its liveness is its own. */
void sl_file_reopen(struct sl_table *t);
void sl_file_close(struct sl_table *t);

enum sl_file_byte { SL_BYTE_SETUP, SL_BYTE_USERS, SL_BYTE_REGISTER, SL_BYTE_PROCESS };
/* Takes (F_WRLCK, F_RDLCK) or drops (F_UNLCK) the lock of a byte far behind the file's end; false when another has
 * it. */
bool sl_file_lock(int fd, int type, unsigned byte);
/* The same, trying again for up to wait_ms. */
bool sl_file_lock_wait(int fd, int type, unsigned byte, unsigned wait_ms);
/* True when another open file description has it. */
bool sl_file_is_locked(int fd, unsigned byte);

/* anchor.c: the clock. */

/* Takes over the region's clock; `alone`: nobody else has the region open, so it may be anchored anew. */
void sl_anchor_init(struct sl_table *t, bool alone);
/* NULL, or why the clock fields of a region cannot be true. */
const char *sl_anchor_refuse(const struct sl_region_header *header);
/* now_us, or the table's reading of this moment when `ahead_us`, a time found in a state, is later than now_us: for
 * deciders whose own reading is older than another's. */
uint64_t sl_anchor_catch_up(struct sl_table *t, uint64_t now_us, uint64_t ahead_us);

/* process.c: who is alive. */
struct sl_self {
    uint32_t owner; /* 0: not registered (or a forked child); 1: being registered */
    uint32_t pid;
    uint32_t scanning; /* a scan is running */
};
int sl_self_init(struct sl_table *t);
void sl_self_fini(struct sl_table *t);
uint32_t sl_self_register(struct sl_table *t);
bool sl_owner_is_alive(struct sl_table *t, uint32_t owner);
/* Forgets all processes: nobody else has the region open. */
void sl_processes_clear(struct sl_table *t);

/* This process's mark in log locks, never 0 but when the region has no place for one more process. */
static inline uint32_t sl_self_owner(struct sl_table *t)
{
    uint32_t owner = __atomic_load_n(&t->self->owner, __ATOMIC_ACQUIRE);

    if (SL_LIKELY(owner > 1 && t->self_is_wiped))
        return owner;
    return sl_self_register(t);
}

/* wait.c: waiting for somebody else's few instructions, in real time. */
struct sl_wait {
    unsigned turns;
    uint64_t began_us;
};
/* One turn: spins at first, then yields, then sleeps. Returns how long this wait has lasted, in microseconds; 0
 * during the first spins. */
uint64_t sl_wait_turn(struct sl_wait *w);

/* stripe.c: the lock for inserting. */
#define SL_STEAL_US 20000u
struct sl_stripe *sl_stripe_of(const struct sl_table *t, uint64_t tag);
/* Returns the value that marks this holding. */
uint64_t sl_stripe_lock(struct sl_table *t, struct sl_stripe *s);
void sl_stripe_unlock(struct sl_stripe *s, uint64_t mine);

/* arena.c: chunks. A number is 1 ... n_chunks; 0 is none. */
uint32_t sl_chunk_take(struct sl_table *t);
void sl_chunk_give(struct sl_table *t, uint32_t chunk);

/* NULL for a number that was never handed out. */
static inline union sl_chunk *sl_chunk_at(const struct sl_table *t, uint32_t chunk)
{
    uint64_t fresh = __atomic_load_n(&t->header->fresh, __ATOMIC_RELAXED);

    if (SL_UNLIKELY(chunk == 0 || chunk > fresh || chunk > t->n_chunks))
        return NULL;
    return &t->chunks[chunk - 1];
}

/* repair.c: nobody else has the region: frees what the dead held, puts every log in order. */
int sl_repair(struct sl_table *t);

#endif
