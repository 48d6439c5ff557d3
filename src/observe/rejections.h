/* Recent rejections, for who asks later: why was I rejected at 12:03?
 *
 * Rejections of one key by one limit for one reason are joined into one entry: first, last, how often, and in which
 * minutes of the hour before the last, so that a flood takes one place and not everybody's. When there is no more room,
 * the entry goes whose last rejection lies furthest back, give or take an eighth of the entries. Each loop has a memory
 * of its own with a lock of its own, which only a reader contends for; readers join what several loops keep of the same.
 *
 *     sl_rejections_new(&alloc, n_loops, now_us, &rejections);
 *     sl_rejections_tell(rejections, loop, &rejected, now_us);      on that loop's thread
 *     n = sl_rejections_read(rejections, &query, list, 100, &reach);   any thread
 *     sl_rejections_free(rejections);
 *
 * Times are wall-clock microseconds. A clock that is set back makes an entry forget its minutes, not its count. Memory: SL_REJECTIONS_KEPT entries of half a kilobyte
 * a loop, at most SL_REJECTIONS_TOTAL in all, but SL_REJECTIONS_LEAST a loop. */
#ifndef SL_OBSERVE_REJECTIONS_H
#define SL_OBSERVE_REJECTIONS_H

#include "base/alloc.h"
#include "observe/show.h"
#include "observe/who.h"

#include <stdint.h>

#define SL_REJECTIONS_KEPT 2048u
#define SL_REJECTIONS_TOTAL 16384u
#define SL_REJECTIONS_LEAST 256u
/* An entry becomes the newest again when more than this part of all have come since it was that: where the same keys are
 * rejected again and again, its neighbours in the order, who lie elsewhere in memory, are left alone. */
#define SL_REJECTIONS_ROUGHLY 8u
#define SL_REJECTIONS_KEY_MAX 96u   /* bytes of a key that are kept; its hash tells longer ones apart */
#define SL_REJECTIONS_SCOPE_MAX 96u /* likewise of the last scope */
#define SL_REJECTIONS_MINUTES 64u   /* before the last rejection, of which it is known whether there was one */
#define SL_REJECTIONS_HASH_MAX 13u  /* of a policy's hash, with the NUL */

struct sl_rejections;

/* One rejection, as it happens; borrowed for the call. */
struct sl_rejected {
    const struct sl_who *who;
    const char *scope; /* NULL: none */
    size_t scope_len;
    int64_t cost; /* as asked for: SLUICE_COST_DEFAULT, or a number */
    const struct sluice_verdict *verdict;
    const char *policy_hash; /* of the policy in force; its beginning is kept */
    uint64_t policy_version; /* 0: it has no version */
};

/* One entry, as it is told. Texts are NUL-terminated and fit to be shown (observe/show.h). */
struct sl_rejection {
    uint64_t policy_version; /* in force at the last; 0: it has none */
    uint64_t key_id;         /* differs where keys differ behind what is shown */
    uint64_t first_us, last_us, count;
    uint64_t minutes; /* bit i: there was one in the i-th minute before the last one's */
    /* of the last */
    int64_t limit, remaining, retry_after_ms;
    int32_t cost;           /* as asked for; SLUICE_COST_DEFAULT: it named none */
    uint8_t reason, source; /* enum sluice_reason, sluice_source */
    bool certain;           /* false: of so long ago, only that it lies between first and last is known */
    char policy_hash[SL_REJECTIONS_HASH_MAX]; /* in force at the last */
    char policy[SLUICE_NAME_MAX];             /* the limit; "" when there was none */
    char key[SL_SHOWN_MAX(SL_REJECTIONS_KEY_MAX)];
    char key_type[SL_SHOWN_MAX(SLUICE_NAME_MAX)];
    char scope[SL_SHOWN_MAX(SL_REJECTIONS_SCOPE_MAX)]; /* of the last */
};

struct sl_rejections_query {
    const struct sl_who *who;    /* NULL: everybody's */
    bool any_type;               /* whatever the type of the key */
    uint64_t since_us, until_us; /* that happened then, both ends included */
};

/* How far back the memory reaches. */
struct sl_rejections_reach {
    uint64_t since_us; /* every rejection after this is in it: when it began, or the last that was dropped happened */
    uint64_t dropped;  /* entries that have been, for want of room */
    uint64_t kept;     /* entries now, on all loops */
    uint64_t matching; /* joined entries that answer the query, also those beyond `max` */
};

/* Returns 0, SL_ENOMEM or SL_EIO (no randomness). */
int sl_rejections_new(const struct sl_alloc *alloc, unsigned n_loops, uint64_t now_us,
                      struct sl_rejections **ret_rejections);
void sl_rejections_free(struct sl_rejections *rejections); /* accepts NULL */

/* loop: below n_loops, and this thread's alone. */
void sl_rejections_tell(struct sl_rejections *rejections, unsigned loop, const struct sl_rejected *rejected,
                        uint64_t now_us);

/* Fills the first `max` of those that match, the latest first; returns how many. Allocates meanwhile what all matching
 * ones take; when that cannot be had, *ret_n stays and SL_ENOMEM is returned, else 0. */
int sl_rejections_read(struct sl_rejections *rejections, const struct sl_rejections_query *query,
                       struct sl_rejection *ret_list, size_t max, size_t *ret_n, struct sl_rejections_reach *ret_reach);

/* All but `matching`. */
void sl_rejections_reach(struct sl_rejections *rejections, struct sl_rejections_reach *ret_reach);

#endif
