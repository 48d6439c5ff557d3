#include "cli/hdr.h"

#include <string.h>

void hdr_init(struct hdr *hdr)
{
    memset(hdr, 0, sizeof *hdr);
    hdr->least = UINT64_MAX;
}

/* Values below HDR_STEPS have a slot each; above, the top HDR_STEP_BITS + 1 bits choose it. */
static unsigned slot_of(uint64_t value)
{
    unsigned shift;

    if (value < HDR_STEPS)
        return (unsigned)value;
    shift = 63u - (unsigned)__builtin_clzll(value) - HDR_STEP_BITS;
    return (shift + 1) * HDR_STEPS + (unsigned)((value >> shift) - HDR_STEPS);
}

static uint64_t highest_of(unsigned slot)
{
    unsigned shift;

    if (slot < HDR_STEPS)
        return slot;
    shift = slot / HDR_STEPS - 1;
    return ((uint64_t)(HDR_STEPS + slot % HDR_STEPS) << shift) + ((UINT64_C(1) << shift) - 1);
}

void hdr_record(struct hdr *hdr, uint64_t value)
{
    hdr->slots[slot_of(value)]++;
    hdr->n++;
    hdr->sum += (double)value;
    if (value < hdr->least)
        hdr->least = value;
    if (value > hdr->most)
        hdr->most = value;
}

void hdr_merge(struct hdr *hdr, const struct hdr *other)
{
    for (unsigned i = 0; i < HDR_SLOTS; i++)
        hdr->slots[i] += other->slots[i];
    hdr->n += other->n;
    hdr->sum += other->sum;
    if (other->least < hdr->least)
        hdr->least = other->least;
    if (other->most > hdr->most)
        hdr->most = other->most;
}

uint64_t hdr_percentile(const struct hdr *hdr, unsigned parts)
{
    /* The rank is rounded up: p50 of two values is the first, p51 the second. */
    uint64_t rank = (uint64_t)(((unsigned __int128)hdr->n * parts + 99999) / 100000), seen = 0;

    if (rank == 0)
        rank = 1;
    for (unsigned i = 0; i < HDR_SLOTS; i++) {
        seen += hdr->slots[i];
        if (seen >= rank)
            return highest_of(i) < hdr->most ? highest_of(i) : hdr->most;
    }
    return 0;
}

double hdr_mean(const struct hdr *hdr)
{
    return hdr->n ? hdr->sum / (double)hdr->n : 0;
}
