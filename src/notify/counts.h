/* What became of notifications, for metrics: written by whoever did it, read by anyone. */
#ifndef SL_NOTIFY_COUNTS_H
#define SL_NOTIFY_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

/* name: the `event` of a notification, in its body and in the metric's label */
#define SL_NOTICE_MAP(X)              \
    X(LIMIT_WARNING, "limit_warning") \
    X(ALARM, "alarm")                 \
    X(TEST, "test")

enum sl_notice_kind {
#define X(id, name) SL_NOTICE_##id,
    SL_NOTICE_MAP(X)
#undef X
        SL_NOTICES
};

/* name, the `result` label: delivered and failed are counted once for each webhook, retried for each attempt that will be
 * repeated, dropped for want of room in a queue or of time at the end, deduplicated when another instance had told */
#define SL_NOTICE_RESULT_MAP(X) \
    X(DELIVERED, "delivered")   \
    X(RETRIED, "retried")       \
    X(FAILED, "failed")         \
    X(DROPPED, "dropped")       \
    X(DEDUPLICATED, "deduplicated")

enum sl_notice_result {
#define X(id, name) SL_NOTICE_##id,
    SL_NOTICE_RESULT_MAP(X)
#undef X
        SL_NOTICE_RESULTS
};

struct sl_notice_counts {
    atomic_uint_fast64_t n[SL_NOTICES][SL_NOTICE_RESULTS];
    atomic_uint_fast64_t queued; /* events that wait to be looked at, and deliveries that wait or are under way */
};

static inline const char *sl_notice_name(enum sl_notice_kind kind)
{
    static const char *const names[] = {
#define X(id, name) name,
        SL_NOTICE_MAP(X)
#undef X
    };

    return names[kind];
}

static inline const char *sl_notice_result_name(enum sl_notice_result result)
{
    static const char *const names[] = {
#define X(id, name) name,
        SL_NOTICE_RESULT_MAP(X)
#undef X
    };

    return names[result];
}

static inline void sl_notice_count(struct sl_notice_counts *counts, enum sl_notice_kind kind,
                                   enum sl_notice_result result)
{
    atomic_fetch_add_explicit(&counts->n[kind][result], 1, memory_order_relaxed);
}

#endif
