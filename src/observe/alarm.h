/* Alarms: what an operator should be woken by, as few states as there are things to do about them.
 *
 * An alarm is raised as soon as its condition is seen, and ends when the condition has not been there for its hold: one
 * that comes and goes is one alarm, not a hundred. What each means and what to do is in docs/runbook.md, under its
 * name. The alarms that ended last are kept, SL_ALARM_HISTORY of them.
 *
 *     sl_alarms_set_sink(&alarms, on_news, ctx);            before anybody raises one
 *     sl_alarm_raise(&alarms, SL_ALARM_TABLE_FULL, "901 of 1000 slots are live", now_us);
 *     sl_alarm_rest(&alarms, SL_ALARM_TABLE_FULL, now_us);  every now and then, when it is not so
 *
 * Time is an argument: any clock that does not step back; the daemon's is CLOCK_MONOTONIC. Any thread. */
#ifndef SL_OBSERVE_ALARM_H
#define SL_OBSERVE_ALARM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* name (the label of sluice_alarm, and the heading in docs/runbook.md), hold in seconds, meaning */
#define SL_ALARM_MAP(X)                                                                                                \
    X(STORE_UNAVAILABLE, "store_unavailable", 5,                                                                       \
      "the store is not reached or refuses what it is asked, or the fleet's secret is not known: limits "              \
      "that are shared are decided by their failure modes")                                                            \
    X(BREAKER_OPEN, "breaker_open", 5,                                                                                 \
      "a shard of the store fails or is too slow, and is not asked until it recovers")                                 \
    X(STORE_FAILOVER, "store_failover", 60,                                                                            \
      "another server has become the master: counts it had not yet received are lost")                                 \
    X(STORE_SLOW, "store_slow", 30,                                                                                    \
      "more than one call of the store in a hundred takes nearly as long as the "                                      \
      "deadline allows")                                                                                               \
    X(DECISION_SLOW, "decision_slow", 60,                                                                              \
      "more than one decision in a hundred takes longer than its budget, --latency-budget")                            \
    X(CLOCKS_APART, "clocks_apart", 30, "this machine's clock and the store's are more than a second apart")           \
    X(TABLE_FULL, "table_full", 120, "the table of buckets is nearly full, or live buckets are thrown out of it")      \
    X(POLICY_REJECTED, "policy_rejected", 5, "the latest policy was refused, and the one before it is still in force") \
    X(METERING_DROPPING, "metering_dropping", 60, "usage events are thrown away: what they tell of is not metered")    \
    X(REJECTION_RATIO, "rejection_ratio", 60, "a limit's share of rejections has left the range it usually lies in")   \
    X(ALL_REJECTED, "all_rejected", 30, "a limit rejects everything, and did not before")                              \
    X(ANONYMOUS_EVERYONE, "anonymous_everyone", 60,                                                                    \
      "all traffic has become anonymous, or all that is anonymous has become one "                                     \
      "address or is rejected: is a proxy's header read as it should be?")                                             \
    X(ANONYMOUS_NOBODY, "anonymous_nobody", 60,                                                                        \
      "no traffic is anonymous any more, or none of it is rejected: is a proxy's "                                     \
      "header read as it should be?")

enum sl_alarm {
#define X(id, name, hold_s, meaning) SL_ALARM_##id,
    SL_ALARM_MAP(X)
#undef X
        SL_ALARMS
};

#define SL_ALARM_DETAIL_MAX 256u   /* with NUL; what is longer is cut */
#define SL_ALARM_SENTENCE_MAX 512u /* meaning and detail */
#define SL_ALARM_HISTORY 100u

const char *sl_alarm_name(enum sl_alarm alarm);
const char *sl_alarm_meaning(enum sl_alarm alarm); /* a clause for people */
const char *sl_alarm_runbook(enum sl_alarm alarm); /* "docs/runbook.md#table_full" */

struct sl_alarm_state {
    bool raised;
    uint64_t since_us;                /* of the last change; 0: never raised */
    uint64_t seen_us;                 /* when its condition was last seen */
    uint64_t count;                   /* times raised */
    char began[SL_ALARM_DETAIL_MAX];  /* what was seen when it was raised last, "": nothing to add */
    char latest[SL_ALARM_DETAIL_MAX]; /* ... and since, last */
};

/* One that is over. */
struct sl_alarm_past {
    enum sl_alarm alarm;
    uint64_t from_us, to_us;
    char detail[SL_ALARM_DETAIL_MAX]; /* what was seen when it began */
};

/* What a sink is told; all texts are borrowed for the call. */
struct sl_alarm_news {
    enum sl_alarm alarm;
    bool raised;          /* it begins; false: it is over */
    uint64_t since_us;    /* when it began */
    uint64_t at_us;       /* when this came about: since_us, or when it was over */
    const char *kind;     /* sl_alarm_name */
    const char *sentence; /* for people: its meaning and, after ": ", what was seen when it began */
    const char *detail;   /* the latter alone, "": nothing to add */
    const char *runbook;  /* sl_alarm_runbook */
};

/* Told once of each beginning and each end, in order. With the alarms' lock held: must not block, nor call back. */
typedef void sl_alarm_sink(void *ctx, const struct sl_alarm_news *news);

struct sl_alarms {
    pthread_mutex_t lock; /* what follows */
    sl_alarm_sink *sink;
    void *sink_ctx;
    struct sl_alarm_state states[SL_ALARMS];
    uint64_t n_past; /* ever; the ring keeps the last ones */
    struct sl_alarm_past past[SL_ALARM_HISTORY];
};

void sl_alarms_init(struct sl_alarms *alarms);
void sl_alarms_fini(struct sl_alarms *alarms);

/* The one who is told from here on; NULL: nobody, and nobody is being told any more when this returns. */
void sl_alarms_set_sink(struct sl_alarms *alarms, sl_alarm_sink *sink, void *ctx);

/* The condition is there now. detail: what was seen, a clause; NULL or "" for nothing to add. Returns true when that raises
 * the alarm. */
bool sl_alarm_raise(struct sl_alarms *alarms, enum sl_alarm alarm, const char *detail, uint64_t now_us);

/* The condition is not there now. Returns true when that ends the alarm: when it has been gone for the hold. To be
 * called every now and then. */
bool sl_alarm_rest(struct sl_alarms *alarms, enum sl_alarm alarm, uint64_t now_us);

struct sl_alarm_state sl_alarm_read(struct sl_alarms *alarms, enum sl_alarm alarm);

/* The last n that ended (at most SL_ALARM_HISTORY), the latest first. Returns how many there are. */
unsigned sl_alarms_past(struct sl_alarms *alarms, struct sl_alarm_past *ret_past, unsigned n);

#endif
