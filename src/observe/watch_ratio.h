/* The alarms about what is decided: for each limit and for anonymous keys, whether their shares have changed
 * (observe/ratio.h).
 *
 *     sl_ratio_watch_look(watch, &traffic, now_us);        once a second
 *     sl_ratio_watch_shares(watch, rows, n, fn, ctx);      for the metrics, at any moment
 *
 * Limits are known by name: one that stays over a reload keeps what is usual for it. Rejections for want of a store are left
 * out of a limit's share: other alarms tell of them. A limit costs 2.5 KB once it has been asked; there are as many as the
 * limiter counts apart, SL_COUNT_ROWS_MAX.
 *
 * When the store has failed or another server has become its master (its alarms tell), counts may be lost, and rejections dip
 * until buckets are as empty as before. A fall that begins within SL_RATIO_WATCH_TROUBLE_US is excused where the limit is
 * shared, and what is seen then is not remembered; after a failover it is told as part of store_failover, which lasts as long
 * as the dip.
 *
 * rejection_ratio      of a limit: risen or fallen
 * all_rejected         of a limit: `all`; or one that came with a reload and has let hardly anything pass since
 * anonymous_everyone   `all` of: anonymous decisions of all, anonymous rejections, one address of all anonymous decisions
 * anonymous_nobody     `none` of the first two
 *
 * Time is an argument: microseconds that do not step back. Any thread; `say` is called with a lock held and must not call
 * back. */
#ifndef SL_OBSERVE_WATCH_RATIO_H
#define SL_OBSERVE_WATCH_RATIO_H

#include "limiter/limiter.h"
#include "observe/teller.h"

#define SL_RATIO_WATCH_TROUBLE_US UINT64_C(60000000)

struct sl_ratio_watch;

/* Returns 0 or SL_ENOMEM. The teller is copied. */
int sl_ratio_watch_new(const struct sl_alloc *alloc, const struct sl_teller *teller, uint64_t now_us,
                       struct sl_ratio_watch **ret_watch);
void sl_ratio_watch_free(struct sl_ratio_watch *watch); /* accepts NULL */

/* How things stand: what sl_limiter_counts and sl_limiter_stats tell. */
struct sl_ratio_traffic {
    const struct sl_limiter_count *rows;
    size_t n_rows;
    struct sl_limiter_stats stats;
    double hottest_address; /* the hottest address's share of anonymous decisions, 0 ... 1; negative: not known */
};

/* Raises and ends the alarms. When memory is out, limits that are new are not watched. */
void sl_ratio_watch_look(struct sl_ratio_watch *watch, const struct sl_ratio_traffic *traffic, uint64_t now_us);

/* The share of rejections of each row that is a limit, of the last ten seconds: from the looks before and `rows` as they are
 * now. */
void sl_ratio_watch_shares(struct sl_ratio_watch *watch, const struct sl_limiter_count *rows, size_t n_rows,
                           void (*fn)(void *ctx, const char *limit, double share), void *ctx);

/* The same of anonymous decisions. */
double sl_ratio_watch_anonymous(struct sl_ratio_watch *watch, const struct sl_limiter_stats *stats);

#endif
