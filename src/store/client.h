/* The client of a store: takes one opaque call, finds the server that owns its keys, and answers within the deadline.
 *
 *     struct sl_client *client;
 *     sl_client_new(&config, &client, why, sizeof why);
 *     result = sl_client_script(client, &call, 0, done, ctx);       SL_RESULT_OK: done will be called, once
 *     ...
 *     sl_client_free(client);                                       what is still open is answered SL_RESULT_CLOSED
 *
 * A call is answered exactly once: by `done` with a reply, an error class (store/result.h) or SL_RESULT_TIMEOUT; or,
 * when it never started, by the value returned at once. It is sent again only when the store has certainly not
 * executed it: after NOSCRIPT (the script is loaded in front of it, once), an unknown module command (as a script),
 * MOVED, ASK and TRYAGAIN, all within its deadline. A lost reply is never a reason to send again.
 *
 * One client a loop; nothing here blocks, and there is no thread. A shard is a master: of Sentinel or a single server
 * the one there is, of a Cluster each that owns slots. Each has one connection, one breaker and its own counters. */
#ifndef SL_STORE_CLIENT_H
#define SL_STORE_CLIENT_H

#include "store/conn.h"

#define SL_CLIENT_TIMEOUT_US UINT64_C(10000)
#define SL_CLIENT_TIMEOUT_MIN_US UINT64_C(1000)
#define SL_CLIENT_TIMEOUT_MAX_US UINT64_C(60000000)
#define SL_CLIENT_BACKOFF_BASE_US UINT64_C(50000)
#define SL_CLIENT_BACKOFF_CAP_US UINT64_C(2000000)
#define SL_CLIENT_SHARDS_MAX 1000u
#define SL_CLIENT_DURATIONS 12u

struct sl_client;

enum sl_client_happening {
    SL_CLIENT_CONNECTED,    /* a shard's connection is ready */
    SL_CLIENT_DISCONNECTED, /* it was lost, or did not come up */
    SL_CLIENT_BREAKER,      /* a breaker changed its state */
    SL_CLIENT_FAILOVER,     /* another server is the master now */
    SL_CLIENT_TOPOLOGY,     /* nobody could say who the masters are, or again can */
};

struct sl_client_event {
    enum sl_client_happening happening;
    const char *shard;             /* "" for SL_CLIENT_TOPOLOGY */
    enum sl_breaker_state breaker; /* the shard's, now */
    bool good;                     /* connected, closed, or known again */
    enum sl_result cause;          /* of a bad one */
    const char *text;              /* one clause for the log; no secret is in it */
};

struct sl_client_config {
    const struct sl_net *net; /* borrowed, as all that is pointed to here, for the client's life */
    const struct sl_alloc *alloc;
    const struct sl_store_url *url;   /* not memory:; with its files read */
    const char *script, *script_sha1; /* the text, NUL-terminated, and its 40 hex digits */
    const char *module_command;       /* takes the script's words; used where a server has it. NULL: never */
    uint64_t timeout_us;              /* of a call; 0: SL_CLIENT_TIMEOUT_US */
    uint64_t slow_us;                 /* an answer later than this is a bad one to the breaker; 0: half the timeout */
    uint64_t connect_timeout_us;      /* 0: 1 s */
    uint64_t stall_us;                /* 0: 1 s */
    uint64_t backoff_base_us, backoff_cap_us; /* 0: the above */
    unsigned calls_max;                       /* open at once; 0: 16,384 */
    size_t reply_max;                         /* bytes; 0: SL_REPLY_BYTES_MAX */
    /* On the loop, from inside whatever noticed; may call the client, but not free it. NULL: nobody cares. */
    void (*happened)(void *owner, const struct sl_client_event *event);
    void *owner;
};

/* Begins to connect and returns at once. Returns 0; SL_EINVALID with a sentence (also for files of the address that
 * cannot be used); or SL_ENOMEM. */
int sl_client_new(const struct sl_client_config *config, struct sl_client **ret_client, char *why, size_t why_size);

/* Answers what is open and frees. Not from inside a callback. Accepts NULL. */
void sl_client_free(struct sl_client *client);

/* The reply is borrowed for the call, NULL unless the store answered. May start further calls. */
typedef void sl_client_done(void *ctx, enum sl_result result, const struct sl_reply *reply);

/* A call of the script: EVALSHA sha1 n key... ask, or MODULE_COMMAND n key... ask. All keys are in one slot. Bytes
 * are copied. */
struct sl_script_call {
    const struct sl_word *keys;
    unsigned n_keys; /* 1 ... */
    const void *ask;
    size_t ask_len;
};

/* timeout_us: 0 for the client's. Returns SL_RESULT_OK when `done` will be called (never before this returns), else
 * the reason. */
enum sl_result sl_client_script(struct sl_client *client, const struct sl_script_call *call, uint64_t timeout_us,
                                sl_client_done *done, void *ctx);

/* Any other command. `key` says where it goes; NULL: to any shard. It is sent again only after MOVED, ASK and
 * TRYAGAIN. */
enum sl_result sl_client_command(struct sl_client *client, const struct sl_word *words, size_t n,
                                 const struct sl_word *key, uint64_t timeout_us, sl_client_done *done, void *ctx);

/* A number for the group of keys that may travel in one call: the slot in a Cluster, else 0. */
unsigned sl_client_group(const struct sl_client *client, const char *key, size_t len);

/* How long until a call for this key may pass its shard's breaker; 0: now. */
uint64_t sl_client_wait_us(const struct sl_client *client, const char *key, size_t len);

/* At least one shard has been reached, and every one that is known is connected. */
bool sl_client_ready(const struct sl_client *client);

/* Every shard in turn; counters only grow. Those of servers that left a Cluster are added up under the name "former".
 */
struct sl_shard_stats {
    char name[SL_ENDPOINT_TEXT_MAX];
    uint64_t results[SL_RESULTS];
    uint64_t durations
        [SL_CLIENT_DURATIONS]; /* calls that took at most sl_client_bounds_us[i], the last: longer; not added up */
    uint64_t duration_sum_us;
    uint64_t failovers;
    enum sl_breaker_state breaker;
};

extern const uint64_t sl_client_bounds_us[SL_CLIENT_DURATIONS - 1];

/* Any thread, while the client lives. `visit` must not call the client. */
void sl_client_stats(struct sl_client *client, void (*visit)(void *ctx, const struct sl_shard_stats *stats), void *ctx);

#endif
