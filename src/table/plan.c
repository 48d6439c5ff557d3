/* The geometry of a region, and whether a header describes one. */
#include "table/internal.h"

#include <string.h>

/* Slots for a key: 10/7, so that a table full of live keys is at a load of 0.70, where two choices of eight leave
 * next to nobody without a place (docs/table.md). 24 * 10/7 is 34.3 bytes a key. */
#define SLOTS_FOR_7_KEYS 10u

/* What checksums are made with: they are to find damage, not to withstand malice. */
static const struct sl_secret checksum_key = {UINT64_C(0x736c756963652074), UINT64_C(0x61626c652066696c)};

static uint64_t round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static void place_parts(struct sl_region_plan *p)
{
    p->n_groups = (p->keys * SLOTS_FOR_7_KEYS + 7 * SL_GROUP_SLOTS - 1) / (7 * SL_GROUP_SLOTS);
    p->n_chunks = (p->log_entries + SL_MORE_ENTRIES - 1) / SL_MORE_ENTRIES;
    p->n_stripes = SL_STRIPES;
    p->n_processes = SL_PROCESSES;
    p->stripes_at = SL_HEADER_BYTES;
    p->processes_at = p->stripes_at + SL_STRIPES * sizeof(struct sl_stripe);
    p->groups_at = p->processes_at + SL_PROCESSES * sizeof(struct sl_process);
    p->chunks_at = round_up(p->groups_at + p->n_groups * sizeof(struct sl_group), 64);
    p->bytes = round_up(p->chunks_at + p->n_chunks * sizeof(union sl_chunk), SL_HEADER_BYTES);
}

void sl_plan_make(struct sl_region_plan *ret_plan, uint64_t keys, uint64_t log_entries, struct sl_secret secret,
                  uint64_t created_us)
{
    *ret_plan = (struct sl_region_plan){
        .magic = SL_REGION_MAGIC,
        .version = SL_REGION_VERSION,
        .header_bytes = SL_HEADER_BYTES,
        .keys = keys,
        .log_entries = log_entries,
        .k0 = secret.k0,
        .k1 = secret.k1,
        .created_us = created_us,
    };
    place_parts(ret_plan);
}

static struct sl_hash128 checksum(const struct sl_region_plan *plan)
{
    return sl_hash13(checksum_key, plan, sizeof *plan);
}

void sl_plan_header(const struct sl_region_plan *plan, struct sl_region_header *ret_header)
{
    struct sl_hash128 sum = checksum(plan);

    memset(ret_header, 0, sizeof *ret_header);
    ret_header->plan = *plan;
    ret_header->checksum[0] = sum.a;
    ret_header->checksum[1] = sum.b;
}

const char *sl_plan_refuse(const struct sl_region_header *h, uint64_t file_bytes)
{
    struct sl_region_plan want = h->plan;
    struct sl_hash128 sum = checksum(&h->plan);

    if (h->plan.magic != SL_REGION_MAGIC)
        return "is not a table of sluice";
    if (h->plan.version != SL_REGION_VERSION)
        return "is a table of another version of sluice";
    if (sum.a != h->checksum[0] || sum.b != h->checksum[1])
        return "is damaged: the checksum of its header is wrong";
    if (want.keys < SL_TABLE_KEYS_MIN || want.keys > SL_TABLE_KEYS_MAX || want.log_entries > SL_TABLE_LOG_ENTRIES_MAX)
        return "is damaged: its size is out of range";
    place_parts(&want);
    if (memcmp(&want, &h->plan, sizeof want) != 0)
        return "is damaged: its parts do not fit its size";
    if (h->complete && file_bytes != h->plan.bytes)
        return file_bytes < h->plan.bytes ? "is truncated" : "is longer than its header says";
    return h->complete ? sl_anchor_refuse(h) : NULL;
}

void sl_plan_attach(struct sl_table *t, void *region)
{
    unsigned char *base = region;
    const struct sl_region_plan *p = &((struct sl_region_header *)region)->plan;

    t->header = region;
    t->stripes = (struct sl_stripe *)(void *)(base + p->stripes_at);
    t->processes = (struct sl_process *)(void *)(base + p->processes_at);
    t->groups = (struct sl_group *)(void *)(base + p->groups_at);
    t->n_groups = p->n_groups;
    t->chunks = (union sl_chunk *)(void *)(base + p->chunks_at);
    t->n_chunks = p->n_chunks;
}
