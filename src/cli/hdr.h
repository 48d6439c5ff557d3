/* A histogram of durations with a fixed relative error, after Tene's HdrHistogram: each power of two is divided into
 * HDR_STEPS equal steps, so a value is known to within 1 / HDR_STEPS of itself whether it is 80 ns or 8 s, in a fixed
 * 46 KiB and without an allocation per value.
 *
 * Any unit; values from 0 to 2^64 - 1. Not thread-safe: one histogram a thread, merged afterwards. */
#ifndef SL_CLI_HDR_H
#define SL_CLI_HDR_H

#include <stdint.h>

#define HDR_STEP_BITS 7
#define HDR_STEPS (1u << HDR_STEP_BITS)
#define HDR_SLOTS ((64 - HDR_STEP_BITS + 1) * HDR_STEPS)

struct hdr {
    uint64_t slots[HDR_SLOTS];
    uint64_t n, least, most;
    double sum;
};

void hdr_init(struct hdr *hdr);
void hdr_record(struct hdr *hdr, uint64_t value);
void hdr_merge(struct hdr *hdr, const struct hdr *other);

/* The value below or at which `parts` in 100,000 of all values lie (99,000: p99): the highest value of its slot, never
 * more than the most recorded. 0 when there are none. */
uint64_t hdr_percentile(const struct hdr *hdr, unsigned parts);

double hdr_mean(const struct hdr *hdr);

#endif
