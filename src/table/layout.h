/* What the region looks like, byte by byte: the same in memory and in a file, and no pointer in it.
 *
 *   header      one page: what never changes (with a checksum), then the clock, the counters, the arena's lists
 *   stripes     locks for inserting, chosen by the tag
 *   processes   who has the region open, so that a lock of the dead can be told from a lock of the slow
 *   groups      eight slots each: a line of tags, two lines of states
 *   chunks      the arena of the sliding logs; numbered from 1, so that 0 means none
 *
 * A state word as kept in a slot is core's (core/state.h) with bits of the table's own in it:
 *
 *   claim   lo [1 | 0 | generation 4 | nonce 58]  hi [tag 64]   the slot is being given to `tag`
 *   other   hi, bits 30 31 62 63: generation, one more (mod 16) each time the slot is given to another key, so that
 *           a writer who slept meanwhile finds no state it knows. Core leaves these bits alone: counts, costs and
 *           fractions are below 2^30.
 *   log     hi [gen 2 | owner 30 | gen 2 | value 30]. Owner SL_OWNER_INLINE: the log is one hit, made at whole -
 *           PERIOD, and value is its cost. Else value is the chunk where the log begins, and owner is who has it
 *           locked, or 0. */
#ifndef SL_TABLE_LAYOUT_H
#define SL_TABLE_LAYOUT_H

#include "core/limits.h"
#include "core/state.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SL_REGION_MAGIC UINT64_C(0x4254454349554C53) /* "SLUICETB" */
#define SL_REGION_VERSION 1u
#define SL_HEADER_BYTES 4096u
#define SL_GROUP_SLOTS 8u
#define SL_STRIPES 1024u
#define SL_PROCESSES 1024u /* slot 0 is nobody's */

#define SL_TABLE_KEYS_MIN UINT64_C(1000)
#define SL_TABLE_KEYS_MAX (UINT64_C(1) << 32)
#define SL_TABLE_LOG_ENTRIES_MAX ((UINT64_C(1) << 32) - 2)

struct sl_group {
    _Alignas(64) uint64_t tags[SL_GROUP_SLOTS]; /* 0: never used */
    struct sl_state states[SL_GROUP_SLOTS];
};
static_assert(sizeof(struct sl_group) == 192, "24 bytes a slot");

struct sl_stripe {
    _Alignas(64) uint64_t lock; /* odd: held; a new value each time it is taken */
    uint64_t seen_us;           /* a bucket of this stripe that is created starts no earlier */
};

struct sl_process {
    uint64_t word;  /* [incarnation 32 | pid 32]; pid 0: free */
    uint64_t start; /* field 22 of /proc/PID/stat */
    uint64_t pid_ns;
    uint64_t pad;
};

/* The first chunk of a log; `first` and `last` are [chunk 32 | entry 32], the list is empty when they are equal. */
#define SL_HEAD_ENTRIES 2u
#define SL_MORE_ENTRIES 5u
struct sl_log_head {
    uint64_t tag;     /* whose log this is */
    uint64_t first;   /* the oldest entry */
    uint64_t last;    /* one past the newest */
    uint64_t seen_us; /* latest time at which entries were dropped */
    uint64_t t_us[SL_HEAD_ENTRIES];
    uint32_t cost[SL_HEAD_ENTRIES];
    uint32_t sum; /* of the costs from first to last */
    uint32_t next;
};

struct sl_log_more {
    uint64_t t_us[SL_MORE_ENTRIES];
    uint32_t cost[SL_MORE_ENTRIES];
    uint32_t next;
};

union sl_chunk {
    struct sl_log_head head;
    struct sl_log_more more;
    _Alignas(64) unsigned char bytes[64];
};
static_assert(sizeof(struct sl_log_head) == 64 && sizeof(struct sl_log_more) == 64, "a chunk is one line");
static_assert(offsetof(struct sl_log_head, next) == offsetof(struct sl_log_more, next), "any chunk can be linked");

/* Written once, at set-up, and covered by the checksum. */
struct sl_region_plan {
    uint64_t magic;
    uint32_t version, header_bytes;
    uint64_t keys, log_entries; /* as asked for */
    uint64_t n_groups, n_chunks;
    uint32_t n_stripes, n_processes;
    uint64_t stripes_at, processes_at, groups_at, chunks_at; /* offsets from the start of the region */
    uint64_t bytes;
    uint64_t k0, k1; /* the secret */
    uint64_t created_us;
};

/* Each part on lines of its own: what all read is not beside what some write. */
struct sl_region_header {
    struct sl_region_plan plan;
    uint64_t checksum[2];
    uint64_t complete; /* 0 while the set-up runs */
    uint64_t resets;   /* times the file was started anew with another size */
    uint64_t pad_plan[5];

    /* now = wall + (mono - mono then); changes only while one process alone has the region */
    uint64_t anchor_wall_us, anchor_mono_us;
    uint64_t boot_id[2];
    uint64_t pad_anchor[4];

    uint64_t latest_us; /* no reading was later by more than a heartbeat, none will be earlier */
    uint64_t pad_latest[7];

    uint64_t negative_elapsed;
    uint64_t evictions, forgiven_us, locks_recovered, log_folded;
    uint64_t pad_counters[3];

    uint64_t free_list; /* [tag 32 | chunk 32] */
    uint64_t fresh;     /* chunks 1 ... fresh were used at some time */
    uint64_t chunks_used;
    uint64_t pad_arena[5];
};
static_assert(offsetof(struct sl_region_header, anchor_wall_us) % 64 == 0 &&
                  offsetof(struct sl_region_header, latest_us) % 64 == 0 &&
                  offsetof(struct sl_region_header, negative_elapsed) % 64 == 0 &&
                  offsetof(struct sl_region_header, free_list) % 64 == 0,
              "lines of their own");
static_assert(sizeof(struct sl_region_header) <= SL_HEADER_BYTES, "the header is one page");

#define SL_GEN_BITS (UINT64_C(3) << 30 | UINT64_C(3) << 62)
#define SL_VALUE_MASK ((UINT64_C(1) << 30) - 1)
#define SL_CLAIM_NONCE_MASK ((UINT64_C(1) << 58) - 1)
static_assert(SL_COUNT_MAX < (1u << 30) && SL_COST_MAX < (1 << 30), "the generation has its bits to itself");

#define SL_OWNER_SLOT_BITS 10
#define SL_OWNER_INCARNATION_MASK ((UINT32_C(1) << 20) - 1)
#define SL_OWNER_INLINE ((uint32_t)(SL_OWNER_INCARNATION_MASK << SL_OWNER_SLOT_BITS)) /* slot 0: no process */

static inline unsigned sl_state_gen(struct sl_state s)
{
    return (unsigned)((s.hi >> 30 & 3) | (s.hi >> 62) << 2);
}

static inline uint64_t sl_gen_bits(unsigned gen)
{
    return (uint64_t)(gen & 3) << 30 | (uint64_t)(gen >> 2 & 3) << 62;
}

static inline bool sl_state_is_claim(struct sl_state s)
{
    return s.lo & SL_STATE_CLAIM;
}

static inline struct sl_state sl_claim_make(uint64_t nonce, unsigned gen, uint64_t tag)
{
    return (struct sl_state){.lo = SL_STATE_CLAIM | (uint64_t)(gen & 15) << 58 | (nonce & SL_CLAIM_NONCE_MASK),
                             .hi = tag};
}

static inline unsigned sl_claim_gen(struct sl_state s)
{
    return (unsigned)(s.lo >> 58) & 15;
}

/* True when the slot says nothing at now_us: nobody's, or whole again. Not for claims. */
static inline bool sl_state_is_free(struct sl_state s, uint64_t now_us)
{
    return sl_state_is_dead(s, now_us) || sl_state_whole_us(s) == 0;
}

static inline bool sl_state_is_log(struct sl_state s)
{
    return (s.lo & (SL_STATE_CLAIM | SL_STATE_LOG)) == SL_STATE_LOG;
}

static inline uint32_t sl_log_owner(struct sl_state s)
{
    return (uint32_t)(s.hi >> 32 & SL_VALUE_MASK);
}

static inline uint32_t sl_log_value(struct sl_state s)
{
    return (uint32_t)(s.hi & SL_VALUE_MASK);
}

static inline bool sl_log_is_inline(struct sl_state s)
{
    return sl_log_owner(s) == SL_OWNER_INLINE;
}

static inline bool sl_log_is_locked(struct sl_state s)
{
    return sl_log_owner(s) != 0 && !sl_log_is_inline(s);
}

static inline struct sl_state sl_log_with_owner(struct sl_state s, uint32_t owner)
{
    s.hi = (s.hi & ~(SL_VALUE_MASK << 32)) | (uint64_t)owner << 32;
    return s;
}

#endif
