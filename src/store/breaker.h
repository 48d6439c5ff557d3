/* The breaker of one shard: stops asking a store that does not answer, and lets one call find out when it does again.
 *
 *   closed     every call passes. Opens at SL_BREAKER_TIMEOUTS timeouts in a row, or when of at least SL_BREAKER_CALLS
 *              calls within a second half or more failed or were slow.
 *   open       nothing passes until the next probe, 500 ms +- 20 % later.
 *   half-open  one call, the probe, has passed; nothing else does. Its success closes; anything else, also its silence
 *              past its own deadline, opens again.
 *
 * Every change begins a generation. A call carries the generation in which it passed, and its result counts in that one
 * alone: what was sent before the breaker opened can neither close nor reopen it. Time and randomness are arguments, so
 * nothing here can wait for anything: whatever gets lost, the next sl_breaker_ask after the deadline goes on.
 * The second is kept in ten parts of 100 ms; the oldest part leaves as a whole. One thread. */
#ifndef SL_STORE_BREAKER_H
#define SL_STORE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define SL_BREAKER_CALLS 20u
#define SL_BREAKER_TIMEOUTS 5u
#define SL_BREAKER_PROBE_US UINT64_C(500000)
#define SL_BREAKER_JITTER_PERCENT 20u
#define SL_BREAKER_PART_US UINT64_C(100000)
#define SL_BREAKER_PARTS 10u

/* In the order of the metric sluice_breaker_state. */
enum sl_breaker_state { SL_BREAKER_CLOSED, SL_BREAKER_HALF_OPEN, SL_BREAKER_OPEN };

enum sl_breaker_answer { SL_BREAKER_PASS, SL_BREAKER_PROBE, SL_BREAKER_REFUSE };

enum sl_breaker_result {
    SL_BREAKER_GOOD,
    SL_BREAKER_SLOW,
    SL_BREAKER_FAILED,
    SL_BREAKER_TIMED_OUT,
    SL_BREAKER_UNKNOWN, /* the call was given up before anything was learnt: counts for nothing, but ends a probe */
};

struct sl_breaker {
    enum sl_breaker_state state;
    uint32_t generation;
    uint32_t timeouts;          /* in a row */
    uint64_t next_probe_us;     /* when open */
    uint64_t probe_deadline_us; /* when half-open */
    uint64_t part;              /* number of the current part: time / SL_BREAKER_PART_US */
    struct {
        uint32_t calls, bad;
    } parts[SL_BREAKER_PARTS];
};

/* Closed, nothing known. */
void sl_breaker_init(struct sl_breaker *breaker);

/* Forgets everything, for another server in the old one's place: closed, a new generation. */
void sl_breaker_reset(struct sl_breaker *breaker);

/* May a call pass at now_us? `deadline_us` is when the call is given up at the latest, should it be the probe;
 * `random` any number. ret_generation is set unless refused. */
enum sl_breaker_answer sl_breaker_ask(struct sl_breaker *breaker, uint64_t now_us, uint64_t deadline_us,
                                      uint64_t random, uint32_t *ret_generation);

/* The result of a call that passed. Returns true when the state changed. */
bool sl_breaker_report(struct sl_breaker *breaker, uint64_t now_us, uint32_t generation, enum sl_breaker_result result,
                       uint64_t random);

/* How long until a call may pass, 0 when one may now. */
uint64_t sl_breaker_wait_us(const struct sl_breaker *breaker, uint64_t now_us);

#endif
