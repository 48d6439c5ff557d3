/* What can become of a call to a store: one table, for the counters, the breaker, the logs and the failure policy. */
#ifndef SL_STORE_RESULT_H
#define SL_STORE_RESULT_H

#include "store/breaker.h"

#include <stdbool.h>
#include <stddef.h>

/* name (also the label of sluice_store_operations_total), the error word that means it ("": none), what the breaker
 * makes of it, whether the store may have executed the call nevertheless, meaning */
#define SL_RESULT_MAP(X)                                                                                         \
    X(OK, "ok", "", GOOD, true, "answered")                                                                      \
    X(TIMEOUT, "timeout", "", TIMED_OUT, true, "no answer within the deadline")                                  \
    X(LOST, "lost", "", FAILED, true, "the connection was lost after the call was sent")                         \
    X(PROTOCOL, "protocol", "", FAILED, true, "the store sent something that is no reply")                       \
    X(UNREACHABLE, "unreachable", "", FAILED, false, "no connection to the store")                               \
    X(BREAKER, "breaker_open", "", UNKNOWN, false, "not sent: the breaker is open")                              \
    X(FULL, "queue_full", "", UNKNOWN, false, "not sent: too many calls wait for an answer")                     \
    X(CLOSED, "closed", "", UNKNOWN, true, "the client was closed")                                              \
    X(NOMEM, "nomem", "", UNKNOWN, false, "not sent: out of memory")                                             \
    X(READONLY, "readonly", "READONLY", FAILED, false, "the server is a replica")                                \
    X(LOADING, "loading", "LOADING", FAILED, false, "the server is loading its data")                            \
    X(OOM, "oom", "OOM", GOOD, false, "the store's memory is full")                                              \
    X(BUSY, "busy", "BUSY", FAILED, false, "the server is busy with a script")                                   \
    X(NOSCRIPT, "noscript", "NOSCRIPT", FAILED, false, "the server does not keep the script")                    \
    X(NOAUTH, "noauth", "NOAUTH", FAILED, false, "the server wants a password, or another one")                  \
    X(WRONGPASS, "wrongpass", "WRONGPASS", FAILED, false, "user or password are wrong")                          \
    X(NOPERM, "noperm", "NOPERM", FAILED, false, "the user may not do this")                                     \
    X(MASTERDOWN, "masterdown", "MASTERDOWN", FAILED, false, "the replica has lost its master")                  \
    X(MISCONF, "misconf", "MISCONF", FAILED, false, "the server refuses writes: it cannot save")                 \
    X(NOREPLICAS, "noreplicas", "NOREPLICAS", FAILED, false, "the server refuses writes: too few replicas")      \
    X(CLUSTERDOWN, "clusterdown", "CLUSTERDOWN", FAILED, false, "the cluster does not serve this slot")          \
    X(MOVED, "moved", "MOVED", GOOD, false, "the slot is elsewhere, and following did not end")                  \
    X(ASK, "ask", "ASK", GOOD, false, "the slot is on its way, and following did not end")                       \
    X(TRYAGAIN, "tryagain", "TRYAGAIN", GOOD, false, "the keys of this call are on their way to another server") \
    X(CROSSSLOT, "crossslot", "CROSSSLOT", GOOD, false, "the keys of this call are in several slots")            \
    X(WRONGTYPE, "wrongtype", "WRONGTYPE", GOOD, true, "foreign data under a key")                               \
    X(ERROR, "error", "ERR", GOOD, true, "the store answered with an error")

enum sl_result {
#define X(id, name, word, breaker, executed, meaning) SL_RESULT_##id,
    SL_RESULT_MAP(X)
#undef X
        SL_RESULTS
};

const char *sl_result_name(enum sl_result result);    /* the metric's label */
const char *sl_result_meaning(enum sl_result result); /* a clause for people */
enum sl_breaker_result sl_result_breaker(enum sl_result result);

/* False when the store has certainly not executed the call, so that it may be sent again. */
bool sl_result_ambiguous(enum sl_result result);

/* The result of an error reply, told by its first word; SL_RESULT_ERROR for words not in the table. */
enum sl_result sl_result_of_error(const char *text, size_t len);

#endif
