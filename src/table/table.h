/* The local tier's memory: a fixed number of 16-byte buckets in one flat, position-independent region.
 *
 * The region is anonymous memory or a file; several processes of one host may map the same file, and a daemon
 * restarted on it keeps its counts. Nothing in it is a pointer. Groups of eight slots: one line of eight 64-bit
 * tags, two lines of states, 24 bytes a slot; a fingerprint's `a` is the tag, the halves of its `b` choose two
 * groups.
 *
 * A charge of an algorithm of constant size is one 16-byte compare-and-swap; a rejection or a peek writes
 * nothing. Inserting a key takes a striped lock that another may take over after its deadline; the sliding log
 * takes a lock word per bucket that is recovered when its owner died. A SIGKILL at any instruction leaves the
 * table usable.
 *
 * Full of live buckets: the live slot of the two groups that will be whole soonest is evicted and counted, with
 * the debt that was forgiven (docs/table.md says why neither a flooder gains from that nor anybody is denied by
 * it).
 *
 * Time: the table owns the clock of the decisions made on it. sl_table_now is wall time at the table's creation
 * carried on by the clock's mono_us, never less than the latest reading; a file reopened after a reboot is
 * re-anchored to wall time. All functions may be called from any thread of any process that has the table open,
 * except where said. */
#ifndef SL_TABLE_TABLE_H
#define SL_TABLE_TABLE_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "core/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_table;

struct sl_table_options {
    uint64_t keys;        /* buckets to have room for, 1,000 ... 2^32; rounded up to whole groups. Default 1,000,000 */
    uint64_t log_entries; /* sliding-log entries in all buckets together, 0 ... 2^32-2. Default: keys */
    const char *path;     /* NULL: anonymous. Else a file, created with mode 0600 when missing or empty */
    bool resize;          /* file exists with another size: true starts anew (counted as a reset), false is SL_EBUSY */
    struct sl_secret *secret; /* NULL: random for a new table, from the file for an old one */
    struct sl_clock clock;
    struct sl_alloc alloc;
};

/* The defaults: system clock and allocator, 1,000,000 keys, anonymous. */
struct sl_table_options sl_table_defaults(void);

/* Opens or creates. On failure writes a sentence that names the file and the reason into ret_why (NUL-terminated,
 * at most why_size bytes) and returns SL_EINVALID, SL_EIO, SL_ENOMEM, SL_EFORMAT (foreign, damaged or of another
 * version: never trusted, never overwritten), SL_EBUSY (other geometry while another process has it open). */
int sl_table_open(const struct sl_table_options *options, struct sl_table **ret_table, char *ret_why, size_t why_size);

/* Unmaps; a file keeps its buckets. Clears *table; accepts NULL inside. No other thread may still use the handle. */
void sl_table_close(struct sl_table **table);

/* The secret under which fingerprints for this table are made; the same in every process that has it open. */
struct sl_secret sl_table_secret(const struct sl_table *table);

/* One reading of the decision clock, Unix microseconds, non-decreasing over all callers. */
uint64_t sl_table_now(struct sl_table *table);

/* Brings an event time into the table's order: returns max(t_us, latest) and counts when that differs (replay). */
uint64_t sl_table_clamp(struct sl_table *table, uint64_t t_us);

/* Starts loading what a decision on fp will touch. Never blocks, never faults on an open table. */
void sl_table_prefetch(const struct sl_table *table, struct sl_hash128 fp);
/* Second stage for batches: the tag line should be there by now; finds the slot and starts loading its state. False
 * when the bucket is not in its first group: then the second's tags are on their way, and a third stage,
 * sl_table_prefetch_second, finds the state there. */
bool sl_table_prefetch_state(const struct sl_table *table, struct sl_hash128 fp);
void sl_table_prefetch_second(const struct sl_table *table, struct sl_hash128 fp);

/* Judges without writing anything, whatever the outcome: decision->changed says whether a charge would write. */
void sl_table_look(struct sl_table *table, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                   uint32_t cost, struct sl_decision *ret_decision);

/* Judges and, when allowed, spends: atomic among all threads and processes. Cost 0 creates no bucket. */
void sl_table_charge(struct sl_table *table, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                     uint32_t cost, struct sl_decision *ret_decision);

/* Gives back a charge made on fp, safely (core/state.h, sl_refund); reads the clock itself for the elapsed time
 * unless the clock stands still. For the log: removes the cost from the entry of that instant. */
void sl_table_refund(struct sl_table *table, struct sl_hash128 fp, const struct sl_shape *shape,
                     const struct sl_decision *charge);

/* Forgets a bucket: it is whole again. Returns true when there was a live one. */
bool sl_table_reset(struct sl_table *table, struct sl_hash128 fp);

struct sl_table_stats {
    uint64_t slots, bytes;          /* bytes: the whole region */
    uint64_t live;                  /* buckets not whole now: counted by a scan that may lag (see sl_table_scan) */
    uint64_t evictions;             /* live buckets that had to make room */
    uint64_t forgiven_us;           /* the debt in time those had */
    uint64_t negative_elapsed;      /* clock readings or events earlier than the latest */
    uint64_t log_entries, log_used; /* sliding-log entries: room, and in use */
    uint64_t log_folded;            /* hits folded into the newest entry for want of room: stricter, never looser */
    uint64_t locks_recovered;       /* locks and half-made inserts of dead processes that were finished or taken over */
    uint64_t resets;                /* times the file was started anew with another size */
};

void sl_table_stats(struct sl_table *table, struct sl_table_stats *ret_stats);

/* Scans up to `slots` slots from where the last scan ended, to keep `live` current; call it from a timer, or with
 * UINT64_MAX for an exact count now. Returns the live buckets as known after it. Writes no bucket. */
uint64_t sl_table_scan(struct sl_table *table, uint64_t slots);

#endif
