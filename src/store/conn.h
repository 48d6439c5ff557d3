/* One connection to one server: dialled, greeted, kept, dialled again.
 *
 *     waiting -> dialling -> greeting -> ready -> waiting ...          idle: nobody wants it now
 *
 * Every new connection says who it is and what it wants, in this order: AUTH, SELECT, ROLE (when only a master will
 * do), COMMAND INFO (does the server have the module?) or PING. Only then is it ready; a refused AUTH or SELECT fails
 * the connection. Calls are written one behind another without waiting, and replies are matched by their order. A
 * call that is given up is forgotten, not its place: its late reply is matched to that place and dropped. What cannot
 * be matched (a reply nobody asked for, bytes that are none) ends the connection.
 *
 * Each call is answered exactly once: by its reply, or when the connection fails, unless it was forgotten before.
 * After a connection that worked, calls wait for the next one, which is dialled within the shortest wait; after one
 * that failed to come up they are refused at once until a later dial succeeds. One dial at a time, the waits in
 * between by store/backoff.h. One thread, the net's. */
#ifndef SL_STORE_CONN_H
#define SL_STORE_CONN_H

#include "base/alloc.h"
#include "store/backoff.h"
#include "store/command.h"
#include "store/list.h"
#include "store/net.h"
#include "store/reply.h"
#include "store/result.h"
#include "store/url.h"

enum sl_conn_state { SL_CONN_IDLE, SL_CONN_WAITING, SL_CONN_DIALLING, SL_CONN_GREETING, SL_CONN_READY };

struct sl_conn;

/* A call on a connection, embedded in the caller's object; zeroed before its first use. */
struct sl_conn_call {
    struct sl_link link; /* on the list of calls that wait for the connection */
    bool sent;
    uint64_t seq; /* its place, when sent */
    /* Writes the command; returns how many replies come before its own, to be dropped (at most SL_CONN_EXTRA_MAX). */
    unsigned (*write)(struct sl_conn_call *call, struct sl_conn *conn, struct sl_out *out);
    /* `reply` is borrowed for the call; NULL unless there was one. May send again, here or elsewhere. Must not free the
     * connection. */
    void (*done)(struct sl_conn_call *call, enum sl_result result, const struct sl_reply *reply);
};

#define SL_CONN_EXTRA_MAX 3u

struct sl_conn_config {
    const struct sl_net *net;
    const struct sl_alloc *alloc;
    const struct sl_tls_options *tls; /* NULL: none */
    const struct sl_login *login;     /* NULL: none */
    unsigned db;
    bool want_master;
    bool redial;                 /* dial again by itself after a failure */
    const char *module_command;  /* asked for in the greeting; NULL: do not ask */
    uint64_t connect_timeout_us; /* for name, connection, TLS and greeting together */
    uint64_t stall_us;           /* with a reply outstanding for longer than this the connection is given up */
    uint64_t backoff_base_us, backoff_cap_us;
    unsigned queue_max; /* calls that wait, and replies outstanding, each */
    size_t reply_max;   /* bytes of one reply; 0: SL_REPLY_BYTES_MAX */
    /* The state changed to or from ready, or a dial failed; may be NULL. Must not free the connection. */
    void (*changed)(void *owner, struct sl_conn *conn);
    /* What comes when no reply is outstanding, on a connection that has subscribed; NULL: a protocol error. */
    void (*pushed)(void *owner, const struct sl_reply *reply);
    void *owner;
};

struct sl_conn_place {
    struct sl_conn_call *call; /* NULL: forgotten, or a reply to drop */
    uint64_t sent_us;
};

enum sl_greeting { SL_GREET_AUTH, SL_GREET_SELECT, SL_GREET_ROLE, SL_GREET_MODULE, SL_GREET_PING };

struct sl_conn {
    struct sl_conn_config config; /* all that it points to is borrowed */
    struct sl_endpoint endpoint;
    enum sl_conn_state state;
    struct sl_stream *stream;
    uint64_t n_streams; /* tells a callback whether the stream it worked on is still there */
    struct sl_timer *timer, *flush;
    struct sl_backoff backoff;
    struct sl_reply_reader *reader;
    struct sl_out out;
    bool flushing;
    /* greeting */
    enum sl_greeting steps[5];
    unsigned n_steps, step;
    /* calls */
    struct sl_link waiting;
    unsigned n_waiting;
    struct sl_conn_place *places; /* a ring; size is a power of two */
    unsigned size;
    uint64_t head, tail; /* seq of the oldest outstanding place, and of the next */
    /* what is known of the server */
    bool has_module;
    bool worked;          /* a call was answered since it was ready */
    bool patient;         /* calls may wait for the dial to come */
    uint64_t load_seq;    /* place of the last SCRIPT LOAD + 1, for whoever writes one */
    enum sl_result cause; /* why it is not there */
    char why[192];        /* the same as a sentence; no secret is in it */
    uint64_t n_dials;
};

/* Sets up an idle connection. Returns 0 or SL_ENOMEM (then there is nothing to finish). */
int sl_conn_init(struct sl_conn *conn, const struct sl_conn_config *config, const struct sl_endpoint *endpoint);

/* Ends it; calls are answered SL_RESULT_CLOSED first. Not from inside a callback of this connection. */
void sl_conn_fini(struct sl_conn *conn);

/* Begins to dial, when idle. */
void sl_conn_start(struct sl_conn *conn);

/* Dials now instead of later, when waiting. */
void sl_conn_hurry(struct sl_conn *conn);

/* Goes elsewhere: drops the connection (calls are answered `result`) and is idle then. Not from inside its callbacks.
 */
void sl_conn_move(struct sl_conn *conn, const struct sl_endpoint *endpoint, enum sl_result result);

/* Sends, or lets the call wait for the connection. Returns SL_RESULT_OK when the answer will come by call->done; else
 * the reason, and done is not called. */
enum sl_result sl_conn_send(struct sl_conn *conn, struct sl_conn_call *call);

/* The call gives up: done will not be called. */
void sl_conn_forget(struct sl_conn *conn, struct sl_conn_call *call);

/* Gives the connection up when its oldest reply is overdue. For the owner to call when a call has timed out; not from
 * inside its callbacks. */
void sl_conn_check(struct sl_conn *conn);

/* Nothing is outstanding and nothing waits. */
bool sl_conn_quiet(const struct sl_conn *conn);

/* ---- between conn.c and greet.c */

void sl_greet_write(struct sl_conn *conn);
/* Takes the reply to the current step. Returns SL_RESULT_OK, or why the connection is of no use, with conn->why set. */
enum sl_result sl_greet_take(struct sl_conn *conn, const struct sl_reply *reply);

#endif
