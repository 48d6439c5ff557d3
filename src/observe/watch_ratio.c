#include "observe/watch_ratio.h"

#include "base/err.h"
#include "observe/ratio.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Samples before changes are judged. What depends on how full buckets are is not as usual right after a start. */
#define MATURE_LIMIT 30u
#define MATURE_CROWD 3u
#define ALL_LIMIT 0.99
#define ALL_CROWD 0.95
#define ALL_ADDRESS 0.90

/* A limit that came with a reload: how much it may have let pass, of how many, and for how long that is news. */
#define NEW_REJECTS 0.99
#define NEW_LEAST 100u
#define NEW_US UINT64_C(900000000)

struct row {
    char limit[SLUICE_NAME_MAX];
    bool came_later; /* with a reload */
    bool shared;     /* a store has decided, or was missed */
    bool dips;       /* since a failover */
    uint64_t since_us;
    struct sl_ratio *ratio; /* NULL: not asked yet */
};

/* Shares of all anonymous traffic. */
enum crowd {
    ANONYMOUS_OF_ALL,
    REJECTED_OF_ANONYMOUS,
    HOTTEST_OF_ANONYMOUS,
    CROWDS,
};

static const struct {
    unsigned mature;
    double all_at;
    const char *sentence;
} crowds[CROWDS] = {
    [ANONYMOUS_OF_ALL] = {MATURE_CROWD, ALL_CROWD, "of all decisions are about addresses"},
    [REJECTED_OF_ANONYMOUS] = {MATURE_LIMIT, ALL_CROWD, "of the decisions about addresses are rejections"},
    [HOTTEST_OF_ANONYMOUS] = {MATURE_CROWD, ALL_ADDRESS, "of the decisions about addresses are about a single one"},
};

struct sl_ratio_watch {
    struct sl_alloc alloc;
    struct sl_teller teller;
    pthread_mutex_t lock; /* what follows */
    bool looked;          /* ever */
    uint64_t looked_us;   /* last; else when it was made */
    struct row *rows;
    size_t n_rows;
    bool in_trouble;           /* with the store */
    bool dips;                 /* a row does */
    uint64_t failover_us;      /* the last; 0: none */
    uint64_t failover_told_us; /* when the alarm about it was last kept up from here */
    struct sl_ratio crowds[CROWDS];
    uint64_t anonymous_seen;  /* decisions about addresses, at the last look */
    double hottest_decisions; /* of the hottest address, added up */
};

int sl_ratio_watch_new(const struct sl_alloc *alloc, const struct sl_teller *teller, uint64_t now_us,
                       struct sl_ratio_watch **ret_watch)
{
    struct sl_ratio_watch *watch = sl_calloc(alloc, 1, sizeof *watch);

    if (!watch)
        return SL_ENOMEM;
    watch->alloc = *alloc;
    watch->teller = *teller;
    pthread_mutex_init(&watch->lock, NULL);
    watch->looked_us = now_us;
    for (unsigned i = 0; i < CROWDS; i++) {
        sl_ratio_init(&watch->crowds[i], crowds[i].mature, crowds[i].all_at, now_us);
        sl_ratio_feed(&watch->crowds[i], 0, 0, now_us);
    }
    *ret_watch = watch;
    return 0;
}

static void free_rows(const struct sl_alloc *alloc, struct row *rows, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++)
        sl_free(alloc, rows[i].ratio);
    sl_free(alloc, rows);
}

void sl_ratio_watch_free(struct sl_ratio_watch *watch)
{
    struct sl_alloc alloc;

    if (!watch)
        return;
    alloc = watch->alloc;
    free_rows(&alloc, watch->rows, watch->n_rows);
    pthread_mutex_destroy(&watch->lock);
    sl_free(&alloc, watch);
}

/* ---- rows */

static bool is_current(const struct sl_ratio_watch *watch, const struct sl_limiter_count *rows, size_t n)
{
    if (n != watch->n_rows)
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].limit, watch->rows[i].limit) != 0)
            return false;
    return true;
}

static struct row *find(struct row *rows, size_t n, const char *limit)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].limit, limit) == 0)
            return &rows[i];
    return NULL;
}

/* After a reload: the rows as they are counted now, with what is known of those that stay. */
static void follow(struct sl_ratio_watch *watch, const struct sl_limiter_count *counts, size_t n, uint64_t now_us)
{
    struct row *rows;

    if (is_current(watch, counts, n))
        return;
    rows = sl_calloc(&watch->alloc, n, sizeof *rows);
    if (!rows)
        return;
    for (size_t i = 0; i < n; i++) {
        struct row *old = find(watch->rows, watch->n_rows, counts[i].limit);

        if (old) {
            rows[i] = *old;
            old->ratio = NULL;
            continue;
        }
        snprintf(rows[i].limit, sizeof rows[i].limit, "%s", counts[i].limit);
        rows[i].came_later = watch->looked;
        rows[i].since_us = now_us;
    }
    free_rows(&watch->alloc, watch->rows, watch->n_rows);
    watch->rows = rows;
    watch->n_rows = n;
}

/* Rejections by a failure mode say nothing about the limit. */
static uint64_t rejected(const struct sl_limiter_count *count)
{
    return count->checks_rejected > count->degraded_rejected ? count->checks_rejected - count->degraded_rejected : 0;
}

static uint64_t decided(const struct sl_limiter_count *count)
{
    return rejected(count) + count->checks_allowed;
}

static bool is_shared(const struct sl_limiter_count *count)
{
    return count->shared_allowed + count->shared_rejected + count->degraded_allowed + count->degraded_rejected > 0;
}

static void feed_row(struct sl_ratio_watch *watch, struct row *row, const struct sl_limiter_count *count,
                     uint64_t now_us)
{
    if (!row->limit[0])
        return; /* no limit: nothing is rejected by it */
    if (!row->ratio) {
        if (decided(count) == 0)
            return;
        row->ratio = sl_calloc(&watch->alloc, 1, sizeof *row->ratio);
        if (!row->ratio)
            return;
        sl_ratio_init(row->ratio, MATURE_LIMIT, ALL_LIMIT, now_us);
        sl_ratio_feed(row->ratio, 0, 0, watch->looked_us);
    }
    row->shared = row->shared || is_shared(count);
    sl_ratio_trouble(row->ratio, watch->in_trouble && row->shared ? SL_RATIO_FALLS : 0);
    sl_ratio_feed(row->ratio, rejected(count), decided(count), now_us);
}

/* A limit that is written to reject everything is none of these. */
static bool is_born_shut(const struct row *row, const struct sl_limiter_count *count, uint64_t now_us)
{
    return row->came_later && now_us - row->since_us < NEW_US && !count->blocked && decided(count) >= NEW_LEAST &&
           (double)rejected(count) >= (double)decided(count) * NEW_REJECTS;
}

static void tell_row(char *detail, size_t size, const struct row *row)
{
    const struct sl_ratio *ratio = row->ratio;

    snprintf(detail, size, "`%s` rejects %.1f %%", row->limit, ratio->now.share * 100);
    if (ratio->usual.n > 0)
        snprintf(detail + strlen(detail), size - strlen(detail), ", usually %.1f %% to %.1f %%", ratio->usual.low * 100,
                 ratio->usual.high * 100);
}

static double depth(const struct row *row)
{
    return row->ratio->usual.low - row->ratio->now.share;
}

static void look_at_limits(struct sl_ratio_watch *watch, const struct sl_ratio_traffic *traffic, uint64_t now_us)
{
    char changed[SL_TELLER_DETAIL_MAX] = "", shut[SL_TELLER_DETAIL_MAX] = "";

    for (size_t i = 0; i < watch->n_rows; i++) {
        struct row *row = &watch->rows[i];

        feed_row(watch, row, &traffic->rows[i], now_us);
        if (!row->ratio)
            continue;
        if (!*changed && (row->ratio->state.risen || row->ratio->state.fallen))
            tell_row(changed, sizeof changed, row);
        if (!*shut && (row->ratio->state.all || is_born_shut(row, &traffic->rows[i], now_us)))
            tell_row(shut, sizeof shut, row);
    }
    sl_teller_set(&watch->teller, SL_ALARM_REJECTION_RATIO, *changed, changed, now_us);
    sl_teller_set(&watch->teller, SL_ALARM_ALL_REJECTED, *shut, shut, now_us);
}

/* ---- trouble with the store */

static bool is_recent(uint64_t at_us, uint64_t now_us)
{
    return at_us && (now_us < at_us || now_us - at_us < SL_RATIO_WATCH_TROUBLE_US);
}

/* Keeping the alarm up for the sake of a dip is no other failover. */
static void look_for_trouble(struct sl_ratio_watch *watch, uint64_t now_us)
{
    struct sl_alarms *alarms = watch->teller.alarms;
    uint64_t failover_us = sl_alarm_read(alarms, SL_ALARM_STORE_FAILOVER).seen_us;

    if (failover_us > watch->failover_told_us)
        watch->failover_us = failover_us;
    watch->in_trouble = is_recent(watch->failover_us, now_us) ||
                        is_recent(sl_alarm_read(alarms, SL_ALARM_STORE_UNAVAILABLE).seen_us, now_us) ||
                        is_recent(sl_alarm_read(alarms, SL_ALARM_BREAKER_OPEN).seen_us, now_us);
}

static void tell_dip(struct sl_ratio_watch *watch, const struct row *row, uint64_t now_us)
{
    char detail[SL_TELLER_DETAIL_MAX] = "counts were lost and fill up again: ", line[SL_TELLER_DETAIL_MAX + 32];

    tell_row(detail + strlen(detail), sizeof detail - strlen(detail), row);
    sl_teller_set(&watch->teller, SL_ALARM_STORE_FAILOVER, true, detail, now_us);
    watch->failover_told_us = now_us;
    if (!watch->dips) {
        snprintf(line, sizeof line, "after the failover %s", detail);
        watch->teller.say(watch->teller.ctx, false, line);
    }
}

/* A dip begins soon after the failover, and is one for as long as it lasts. */
static void look_for_dips(struct sl_ratio_watch *watch, uint64_t now_us)
{
    const struct row *deepest = NULL;

    for (size_t i = 0; i < watch->n_rows; i++) {
        struct row *row = &watch->rows[i];
        bool low = row->ratio && sl_ratio_is_excused_fall(row->ratio);

        row->dips = low && (row->dips || is_recent(watch->failover_us, now_us));
        if (row->dips && (!deepest || depth(row) > depth(deepest)))
            deepest = row;
    }
    if (deepest)
        tell_dip(watch, deepest, now_us);
    watch->dips = deepest != NULL;
}

/* ---- anonymous traffic */

static void feed_crowds(struct sl_ratio_watch *watch, const struct sl_ratio_traffic *traffic, uint64_t now_us)
{
    const struct sl_limiter_stats *stats = &traffic->stats;
    struct sl_ratio *rejected_share = &watch->crowds[REJECTED_OF_ANONYMOUS];
    uint64_t anonymous = stats->anonymous_allowed + stats->anonymous_rejected;

    sl_ratio_feed(&watch->crowds[ANONYMOUS_OF_ALL], anonymous, stats->allowed + stats->rejected, now_us);
    /* Here those for want of a store are not told apart. */
    sl_ratio_trouble(rejected_share, watch->in_trouble ? SL_RATIO_FALLS | SL_RATIO_ALL : 0);
    sl_ratio_feed(rejected_share, stats->anonymous_rejected, anonymous, now_us);
    if (traffic->hottest_address >= 0) {
        if (anonymous > watch->anonymous_seen)
            watch->hottest_decisions += traffic->hottest_address * (double)(anonymous - watch->anonymous_seen);
        sl_ratio_feed(&watch->crowds[HOTTEST_OF_ANONYMOUS], (uint64_t)watch->hottest_decisions, anonymous, now_us);
    }
    watch->anonymous_seen = anonymous;
}

static void tell_crowd(const struct sl_ratio_watch *watch, char *detail, size_t size, enum crowd crowd)
{
    const struct sl_ratio *ratio = &watch->crowds[crowd];

    snprintf(detail, size, "%.1f %% %s, usually %.1f %% to %.1f %%", ratio->now.share * 100, crowds[crowd].sentence,
             ratio->usual.low * 100, ratio->usual.high * 100);
}

static void look_at_crowds(struct sl_ratio_watch *watch, const struct sl_ratio_traffic *traffic, uint64_t now_us)
{
    char everyone[SL_TELLER_DETAIL_MAX] = "", nobody[SL_TELLER_DETAIL_MAX] = "";

    feed_crowds(watch, traffic, now_us);
    for (unsigned i = 0; i < CROWDS; i++) {
        const struct sl_ratio_state *state = &watch->crowds[i].state;

        if (state->all && !*everyone)
            tell_crowd(watch, everyone, sizeof everyone, (enum crowd)i);
        if (state->none && i != HOTTEST_OF_ANONYMOUS && !*nobody)
            tell_crowd(watch, nobody, sizeof nobody, (enum crowd)i);
    }
    sl_teller_set(&watch->teller, SL_ALARM_ANONYMOUS_EVERYONE, *everyone, everyone, now_us);
    sl_teller_set(&watch->teller, SL_ALARM_ANONYMOUS_NOBODY, *nobody, nobody, now_us);
}

/* ---- the door */

void sl_ratio_watch_look(struct sl_ratio_watch *watch, const struct sl_ratio_traffic *traffic, uint64_t now_us)
{
    pthread_mutex_lock(&watch->lock);
    follow(watch, traffic->rows, traffic->n_rows, now_us);
    look_for_trouble(watch, now_us);
    if (is_current(watch, traffic->rows, traffic->n_rows)) {
        look_at_limits(watch, traffic, now_us);
        look_for_dips(watch, now_us);
    }
    look_at_crowds(watch, traffic, now_us);
    watch->looked = true;
    watch->looked_us = now_us;
    pthread_mutex_unlock(&watch->lock);
}

void sl_ratio_watch_shares(struct sl_ratio_watch *watch, const struct sl_limiter_count *rows, size_t n_rows,
                           void (*fn)(void *ctx, const char *limit, double share), void *ctx)
{
    static const struct sl_ratio unknown;

    pthread_mutex_lock(&watch->lock);
    for (size_t i = 0; i < n_rows; i++) {
        const struct row *row = i < watch->n_rows && strcmp(watch->rows[i].limit, rows[i].limit) == 0
                                    ? &watch->rows[i]
                                    : find(watch->rows, watch->n_rows, rows[i].limit);
        const struct sl_ratio *ratio = row && row->ratio ? row->ratio : &unknown;

        if (rows[i].limit[0])
            fn(ctx, rows[i].limit, sl_ratio_share(ratio, rejected(&rows[i]), decided(&rows[i])));
    }
    pthread_mutex_unlock(&watch->lock);
}

double sl_ratio_watch_anonymous(struct sl_ratio_watch *watch, const struct sl_limiter_stats *stats)
{
    double share;

    pthread_mutex_lock(&watch->lock);
    share = sl_ratio_share(&watch->crowds[REJECTED_OF_ANONYMOUS], stats->anonymous_rejected,
                           stats->anonymous_allowed + stats->anonymous_rejected);
    pthread_mutex_unlock(&watch->lock);
    return share;
}
