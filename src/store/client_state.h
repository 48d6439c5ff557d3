/* What the files of the store client share; see client.h. */
#ifndef SL_STORE_CLIENT_STATE_H
#define SL_STORE_CLIENT_STATE_H

#include "store/client.h"
#include "store/rover.h"
#include "store/slots.h"

#include <pthread.h>
#include <stdatomic.h>

#define SL_NO_NODE UINT16_MAX
#define SL_CALL_HOPS_MAX 5u

struct sl_counts {
    _Atomic uint64_t results[SL_RESULTS], durations[SL_CLIENT_DURATIONS], duration_sum_us, failovers;
    _Atomic int breaker;
};

/* A shard. */
struct sl_node {
    struct sl_client *client;
    uint16_t index;
    bool up; /* what was last told of its connection */
    bool told_down;
    enum sl_result told_cause;
    bool owns_slots; /* while a new map is made */
    char name[SL_ENDPOINT_TEXT_MAX];
    struct sl_conn conn;
    struct sl_breaker breaker;
    struct sl_counts counts; /* written on the loop, read anywhere */
};

/* A call, from the moment it is taken until it is answered. */
struct sl_call {
    struct sl_conn_call base; /* its link is also that of `homeless` and `later` */
    struct sl_link deadline;
    struct sl_client *client;
    struct sl_node *node; /* whose connection has it; NULL while it is on a list of the client */
    uint32_t generation;  /* of the node's breaker */
    uint64_t start_us, deadline_us;
    bool is_script, as_script; /* as_script: not by the module */
    bool by_module;            /* how it was sent */
    bool load, asking;
    bool any;  /* goes to whichever node */
    bool idle; /* our own, to an idle shard */
    uint16_t slot;
    unsigned hops;
    unsigned n_keys;
    struct sl_out words; /* a script: its keys and ask; else the command */
    sl_client_done *done;
    void *ctx;
};

/* How the masters are found. */
struct sl_topology {
    int (*start)(struct sl_client *client);
    /* A call to this node failed. From inside a callback of its connection. */
    void (*trouble)(struct sl_client *client, struct sl_node *node);
    void (*stop)(struct sl_client *client);
};

extern const struct sl_topology sl_topology_single, sl_topology_sentinel, sl_topology_cluster;

struct sl_client {
    struct sl_client_config config;
    struct sl_tls_options tls;
    const struct sl_topology *topology;
    bool closing;
    bool settled; /* it is known who the masters are */
    bool lost;    /* nobody could say so, the last time all were asked */
    bool reached; /* a shard was connected once */
    /* shards */
    pthread_mutex_t lock; /* the table of nodes, for sl_client_stats; only the loop writes */
    struct sl_node *nodes[SL_CLIENT_SHARDS_MAX];
    unsigned n_nodes; /* used part of the table; it may have holes */
    struct sl_shard_stats former;
    uint16_t map[SL_SLOTS]; /* slot to node; only [0] is used unless it is a Cluster */
    /* calls */
    unsigned n_calls;
    struct sl_link free, deadlines, homeless, later; /* homeless: nobody to send to is known; later: after TRYAGAIN */
    struct sl_timer *deadline_timer, *later_timer;
    struct sl_timer *idle_timer; /* runs while a breaker is not closed: see sl_calls_on_idle */
    uint64_t waited_for_us;      /* deadlines up to here have been given their extra turn */
    struct sl_rover rover;       /* asks a Sentinel or a Cluster's server */
    struct sl_conn sub;          /* listens to a Sentinel */
    struct sl_conn_call sub_call;
    bool has_sub;
};

static inline uint64_t sl_client_now_us(const struct sl_client *client)
{
    return client->config.net->now_us(client->config.net->ctx);
}

static inline uint64_t sl_client_random(const struct sl_client *client)
{
    return client->config.net->random(client->config.net->ctx);
}

#define SL_CLIENT_IDLE_US UINT64_C(500000) /* how long a due probe is left to the calls that may come */

/* ---- nodes (node.c) */

/* The connection's config but for login, db and callbacks. */
struct sl_conn_config sl_client_conn_config(struct sl_client *client);
/* A new node, not started; `name` NULL: its address. Returns NULL when out of memory or of room. */
struct sl_node *sl_node_new(struct sl_client *client, const struct sl_endpoint *endpoint, const char *name);
struct sl_node *sl_node_find(struct sl_client *client, const struct sl_endpoint *endpoint);
/* Not from inside a callback of its connection. */
void sl_node_free(struct sl_node *node);
/* The node's master is elsewhere now. Not from inside a callback of its connection. */
void sl_node_move(struct sl_node *node, const struct sl_endpoint *endpoint);
void sl_node_count(struct sl_node *node, enum sl_result result, uint64_t duration_us);
void sl_node_report(struct sl_node *node, uint32_t generation, enum sl_breaker_result result);
void sl_node_publish(struct sl_node *node, enum sl_breaker_state before);
void sl_node_failover(struct sl_node *node, const char *text);

/* ---- calls (calls.c) */

/* Sends what had no home. */
void sl_client_settle(struct sl_client *client);
/* Nobody can say who the masters are: what has no home is answered. */
void sl_client_lose(struct sl_client *client, const char *text);
void sl_calls_on_deadline(void *client);
void sl_calls_on_later(void *client);
/* Probes shards whose breaker waits for a probe that nobody brings: they would never be found well again. */
void sl_calls_on_idle(void *client);
/* Answers what is on the client's own lists. */
void sl_calls_close(struct sl_client *client);
void sl_calls_free(struct sl_client *client);

/* ---- events (client.c) */

void sl_client_tell(struct sl_client *client, const struct sl_client_event *event);

#endif
