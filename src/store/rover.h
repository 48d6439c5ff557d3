/* Asks one question of whichever of several servers answers it: who the master is, who serves which slot.
 *
 * Asks the server that answered last; when that does not answer within its deadline, or not usefully, the next, and
 * so on round. Asks when told to (not more often than every 100 ms +- 50 %), and by itself now and then. A whole
 * round without an answer is told, and the rounds after it come slower. Own connection, one question at a time. */
#ifndef SL_STORE_ROVER_H
#define SL_STORE_ROVER_H

#include "store/conn.h"

#define SL_ROVER_ENDPOINTS_MAX 64u
#define SL_ROVER_ANSWER_US UINT64_C(500000)
#define SL_ROVER_GAP_US UINT64_C(100000)
#define SL_ROVER_ROUND_CAP_US UINT64_C(1000000)

enum sl_rover_state { SL_ROVER_RESTING, SL_ROVER_ASKING, SL_ROVER_NEXT };

struct sl_rover {
    const struct sl_net *net;
    struct sl_conn conn;
    struct sl_conn_call call;
    struct sl_timer *timer;
    enum sl_rover_state state;
    struct sl_endpoint endpoints[SL_ROVER_ENDPOINTS_MAX];
    unsigned n, index, failed; /* failed: in a row */
    bool again;                /* asked for while asking */
    uint64_t asked_us, period_us;
    struct sl_backoff rounds;
    const struct sl_word *words; /* the question; borrowed */
    size_t n_words;
    /* Takes an answer that is not an error; false: it is of no use, ask the next. May set the endpoints anew. */
    bool (*take)(void *owner, const struct sl_reply *reply, const struct sl_endpoint *from);
    /* Nobody had an answer. `why`: of the last. */
    void (*lost)(void *owner, const char *why);
    void *owner;
    bool on;
};

/* Set up: conn_config (its callbacks are ignored), the callbacks, words and period_us beforehand. Returns 0 or
 * SL_ENOMEM. */
int sl_rover_init(struct sl_rover *rover, const struct sl_conn_config *conn_config, const struct sl_endpoint *endpoints,
                  unsigned n);
void sl_rover_fini(struct sl_rover *rover); /* also when never initialised, but zeroed */

/* Asks soon. `avoid`, when not NULL: rather another than this one. */
void sl_rover_ask(struct sl_rover *rover, const struct sl_endpoint *avoid);

/* Other servers to ask from now on; goes on with the current one when it is among them. n >= 1. */
void sl_rover_set(struct sl_rover *rover, const struct sl_endpoint *endpoints, unsigned n);

#endif
