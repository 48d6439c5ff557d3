/* Traces: what was decided about one key, decision by decision, for who asks for it while it happens.
 *
 *     sl_traces_new(&alloc, &traces);
 *     sl_traces_set_switch(traces, turn, ctx);               told when the first is armed and when the last has ended
 *     sl_traces_arm(traces, &order, now_us, &id);            any thread
 *     if (sl_traces_want(traces, request))                   before a decision, on the thread that decides
 *         sl_traces_record(traces, request, &decision, now_us);    after it
 *     n = sl_traces_read(traces, id, after, list, 100, now_us, &state);
 *     sl_traces_disarm(traces, id);
 *     sl_traces_sweep(traces, now_us);                       about once a second
 *
 * A trace ends when it has its decisions, when its time is over, or when nobody has asked for them for SL_TRACE_IDLE_US; what it has
 * can still be read until nobody has asked for as long again. Bounded: SL_TRACES_MAX traces that hold SL_TRACES_DECISIONS decisions in all,
 * of 2.3 KB each. While none is armed nothing is asked; with one armed, each decision costs a hash of its key and a comparison.
 *
 * now_us: a clock that does not step back. Decisions carry wall-clock time. Any thread. */
#ifndef SL_OBSERVE_TRACES_H
#define SL_OBSERVE_TRACES_H

#include "base/alloc.h"
#include "limiter/limiter.h"
#include "observe/show.h"
#include "observe/who.h"

#define SL_TRACES_MAX 16u
#define SL_TRACE_DECISIONS_MAX 1000u /* of one */
#define SL_TRACES_DECISIONS 4096u    /* of all */
#define SL_TRACE_FOR_MAX_US UINT64_C(600000000)
#define SL_TRACE_IDLE_US UINT64_C(30000000)
#define SL_TRACE_SCOPE_MAX 160u
#define SL_TRACE_GLOB_MAX 256u
#define SL_TRACE_ITEMS_MAX 16u /* buckets of a decision that are told; n_items says how many there were */
#define SL_TRACE_VERDICT (1u << 31)

struct sl_traces;

struct sl_trace_order {
    struct sluice_request whom; /* key and key type */
    const char *glob;           /* of scopes; NULL: all */
    size_t glob_len;            /* at most SL_TRACE_GLOB_MAX */
    unsigned count;             /* decisions, 1 ... SL_TRACE_DECISIONS_MAX */
    uint64_t for_us;            /* at most SL_TRACE_FOR_MAX_US */
    bool log;                   /* its decisions go to the log; it does not end when nobody reads it */
};

struct sl_traced {
    uint64_t seq;   /* in its trace, from 1 */
    uint64_t at_us; /* wall clock */
    int64_t cost;   /* as asked for: SLUICE_COST_DEFAULT, or a number */
    struct sluice_verdict verdict;
    struct sl_report_item items[SL_TRACE_ITEMS_MAX];
    uint32_t
        overridden; /* bit i: an override stands in the place of items[i]'s limit; SL_TRACE_VERDICT: of the verdict's */
    unsigned n_items;                                      /* that there were; at most SL_TRACE_ITEMS_MAX are here */
    char tier[SLUICE_NAME_MAX], endpoint[SLUICE_NAME_MAX]; /* "" when none */
    char scope[SL_SHOWN_MAX(SL_TRACE_SCOPE_MAX)];
};

enum sl_trace_phase { SL_TRACE_ARMED, SL_TRACE_COMPLETE, SL_TRACE_EXPIRED };

struct sl_trace_state {
    uint64_t id;
    enum sl_trace_phase phase;
    unsigned count, recorded;
    uint64_t left_us; /* while armed */
    bool log;
    char key[SL_SHOWN_MAX(SLUICE_KEY_MAX)]; /* fit to be shown */
    char key_type[SL_SHOWN_MAX(SLUICE_NAME_MAX)];
    char glob[SL_SHOWN_MAX(SL_TRACE_GLOB_MAX)]; /* "" for all scopes */
};

/* Returns 0, SL_ENOMEM or SL_EIO (no randomness). */
int sl_traces_new(const struct sl_alloc *alloc, struct sl_traces **ret_traces);
void sl_traces_free(struct sl_traces *traces); /* accepts NULL */

/* Told, with the traces' lock held, when sl_traces_want begins and ceases to be worth asking. Before the first is armed. */
void sl_traces_set_switch(struct sl_traces *traces, void (*turn)(void *ctx, bool on), void *ctx);

/* ipv6_prefix: how keys that are addresses are cut, of the policy in force; for all traces from now on. Returns 0 and an id
 * that nobody can guess; SL_EBUSY: there are as many as there may be, or no room for so many decisions; SL_ENOMEM. */
int sl_traces_arm(struct sl_traces *traces, const struct sl_trace_order *order, unsigned ipv6_prefix, uint64_t now_us,
                  uint64_t *ret_id);

bool sl_traces_want(struct sl_traces *traces, const struct sluice_request *request);

/* Keeps it for every trace of that key and scope. `decision`: all but seq and scope. */
void sl_traces_record(struct sl_traces *traces, const struct sluice_request *request, const struct sl_traced *decision,
                      uint64_t now_us);

/* The decisions after number `after`, at most max, and what has become of the trace. Returns how many, or SL_ENOTFOUND. */
int sl_traces_read(struct sl_traces *traces, uint64_t id, uint64_t after, struct sl_traced *ret_list, unsigned max,
                   uint64_t now_us, struct sl_trace_state *ret_state);

/* Ends it for good. Returns 0 or SL_ENOTFOUND. What it has for the log is still given out. */
int sl_traces_disarm(struct sl_traces *traces, uint64_t id);

/* All that there are; room for SL_TRACES_MAX. */
unsigned sl_traces_list(struct sl_traces *traces, uint64_t now_us, struct sl_trace_state *ret_list);

/* How many record now. */
unsigned sl_traces_armed(struct sl_traces *traces);

/* Ends what has had its time. */
void sl_traces_sweep(struct sl_traces *traces, uint64_t now_us);

/* The next decision of a trace with `log` that has not been given out here, with its trace; false: there is none. */
bool sl_traces_next_to_log(struct sl_traces *traces, struct sl_traced *ret_decision, struct sl_trace_state *ret_state);

#endif
