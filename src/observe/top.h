/* The hottest keys and the most rejected ones, in bounded memory, for people: who is it?
 *
 * A sample of the requests (sl_limiter_set_tap) is counted in a sketch for each reader slot, without a lock; a sample of the
 * rejections, which are only known when their verdicts are there, in one for each loop. Once a second somebody looks: takes
 * what was counted and keeps a rate for each key that counted, falling off within some seconds (SL_TOP_MEMORY_US). What is
 * told of a key is what it had for certain, so that many rare keys never look like a hot one.
 *
 *     sl_top_new(&alloc, limiter, &top);               while nobody decides
 *     sl_top_follow_rejections(top, n_loops);          likewise
 *     sl_top_rejected(top, loop, request);             each rejection, on its loop's thread, whichever tier said so
 *     sl_top_look(top, now_us);                        about once a second
 *     n = sl_top_read(top, SL_TOP_HOT, keys, 10);
 *     sl_top_free(top);                                while nobody decides
 *
 * Keys are shown as clients sent them, as far as they can be shown (observe/show.h): the first SL_SKETCH_KEY_MAX bytes,
 * then an ellipsis. Memory: 56 KB a slot and a loop, and twice 110 KB for the rates. sl_top_look and sl_top_read: any
 * thread. */
#ifndef SL_OBSERVE_TOP_H
#define SL_OBSERVE_TOP_H

#include "limiter/limiter.h"
#include "observe/sketch.h"

#define SL_TOP_MEMORY_US UINT64_C(5000000)
#define SL_TOP_KEYS_MAX 100u /* at once */
#define SL_TOP_LEAST_ADDRESSES 20.0

struct sl_top;

enum sl_top_kind { SL_TOP_HOT, SL_TOP_REJECTED, SL_TOP_KINDS };

struct sl_top_key {
    char key[3 * SL_SKETCH_KEY_MAX + 4]; /* UTF-8, NUL-terminated */
    char key_type[3 * SL_SKETCH_TYPE_MAX + 4];
    double per_second; /* requests, or rejections */
};

/* Borrows limiter and allocator until sl_top_free, and is the limiter's tap until then. Returns 0, SL_ENOMEM, or SL_EIO (no
 * randomness). */
int sl_top_new(const struct sl_alloc *alloc, struct sl_limiter *limiter, struct sl_top **ret_top);
void sl_top_free(struct sl_top *top); /* accepts NULL */

/* For so many loops. Returns 0 or SL_ENOMEM. Once, before the first sl_top_rejected. */
int sl_top_follow_rejections(struct sl_top *top, unsigned n_loops);

/* loop: below n_loops, and this thread's alone. One in SL_TAP_EVERY is counted, chosen at random. */
void sl_top_rejected(struct sl_top *top, unsigned loop, const struct sluice_request *request);

void sl_top_look(struct sl_top *top, uint64_t now_us);

/* How the last SL_TOP_SPAN looks were, all keys together. */
#define SL_TOP_SPAN 10u
struct sl_top_summary {
    double span_s; /* 0: there was no second look yet, and nothing is known */
    double allowed_per_second, rejected_per_second;
    double p50_us, p99_us; /* how long decisions took, from the limiter's histogram; -1: none was timed */
};
void sl_top_summarise(struct sl_top *top, struct sl_top_summary *ret_summary);

/* The first n keys (at most SL_TOP_KEYS_MAX), hottest first; returns how many there are. */
unsigned sl_top_read(struct sl_top *top, enum sl_top_kind kind, struct sl_top_key *ret_keys, unsigned n);

/* The share of the hottest address in the requests about keys of type address; -1 when there are fewer than
 * SL_TOP_LEAST_ADDRESSES a second. */
double sl_top_hottest_address(struct sl_top *top);

#endif
