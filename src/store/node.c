#include "store/client_state.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

const uint64_t sl_client_bounds_us[SL_CLIENT_DURATIONS - 1] = {100,   250,   500,   1000,   2500,   5000,
                                                               10000, 25000, 50000, 100000, 1000000};

/* Counters have one writer, the loop. */
static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

void sl_node_count(struct sl_node *node, enum sl_result result, uint64_t duration_us)
{
    unsigned i = 0;

    add(&node->counts.results[result], 1);
    if (!duration_us)
        return;
    while (i < SL_CLIENT_DURATIONS - 1 && duration_us > sl_client_bounds_us[i])
        i++;
    add(&node->counts.durations[i], 1);
    add(&node->counts.duration_sum_us, duration_us);
}

void sl_node_publish(struct sl_node *node, enum sl_breaker_state before)
{
    static const char *const texts[] = {
        [SL_BREAKER_CLOSED] = "the breaker is closed",
        [SL_BREAKER_HALF_OPEN] = "the breaker lets one call through",
        [SL_BREAKER_OPEN] = "the breaker is open",
    };
    enum sl_breaker_state state = node->breaker.state;

    if (state == before)
        return;
    atomic_store_explicit(&node->counts.breaker, (int)state, memory_order_relaxed);
    if (before == SL_BREAKER_CLOSED)
        node->client->config.net->timer_set(node->client->idle_timer,
                                            sl_client_now_us(node->client) + SL_CLIENT_IDLE_US);
    sl_client_tell(node->client, &(struct sl_client_event){.happening = SL_CLIENT_BREAKER,
                                                           .shard = node->name,
                                                           .breaker = state,
                                                           .good = state == SL_BREAKER_CLOSED,
                                                           .text = texts[state]});
}

void sl_node_report(struct sl_node *node, uint32_t generation, enum sl_breaker_result result)
{
    enum sl_breaker_state before = node->breaker.state;

    sl_breaker_report(&node->breaker, sl_client_now_us(node->client), generation, result,
                      sl_client_random(node->client));
    sl_node_publish(node, before);
}

void sl_node_failover(struct sl_node *node, const char *text)
{
    add(&node->counts.failovers, 1);
    sl_client_tell(node->client, &(struct sl_client_event){.happening = SL_CLIENT_FAILOVER,
                                                           .shard = node->name,
                                                           .breaker = node->breaker.state,
                                                           .good = true,
                                                           .text = text});
}

struct sl_conn_config sl_client_conn_config(struct sl_client *client)
{
    const struct sl_client_config *config = &client->config;

    return (struct sl_conn_config){
        .net = config->net,
        .alloc = config->alloc,
        .tls = config->url->tls ? &client->tls : NULL,
        .connect_timeout_us = config->connect_timeout_us,
        .stall_us = config->stall_us,
        .backoff_base_us = config->backoff_base_us,
        .backoff_cap_us = config->backoff_cap_us,
        .queue_max = config->calls_max,
        .reply_max = config->reply_max,
    };
}

/* Tells each change once: a server that stays away is dialled often, and is one event until another cause keeps it away. */
static void on_changed(void *owner, struct sl_conn *conn)
{
    struct sl_node *node = owner;
    bool up = conn->state == SL_CONN_READY;
    struct sl_client_event event = {.shard = node->name, .breaker = node->breaker.state};

    if (up && !node->up) {
        event.happening = SL_CLIENT_CONNECTED;
        event.good = true;
        event.text = conn->has_module ? "connected; the server has the module" : "connected";
        node->client->reached = true;
    } else if (!up && (node->up || !node->told_down || node->told_cause != conn->cause)) {
        event.happening = SL_CLIENT_DISCONNECTED;
        event.cause = conn->cause;
        event.text = conn->why;
        node->told_cause = conn->cause;
    }
    node->told_down = !up;
    node->up = up;
    if (event.text)
        sl_client_tell(node->client, &event);
    if (!up)
        node->client->topology->trouble(node->client, node);
}

struct sl_node *sl_node_new(struct sl_client *client, const struct sl_endpoint *endpoint, const char *name)
{
    struct sl_conn_config config = sl_client_conn_config(client);
    struct sl_node *node = sl_calloc(client->config.alloc, 1, sizeof *node);
    unsigned i = 0;

    while (i < client->n_nodes && client->nodes[i])
        i++;
    config.login = &client->config.url->login;
    config.db = client->config.url->db;
    config.want_master = client->topology == &sl_topology_sentinel;
    config.module_command = client->config.module_command;
    config.redial = true;
    config.changed = on_changed;
    config.owner = node;
    if (!node || i == SL_CLIENT_SHARDS_MAX || sl_conn_init(&node->conn, &config, endpoint)) {
        sl_free(client->config.alloc, node);
        return NULL;
    }
    node->client = client;
    node->index = (uint16_t)i;
    sl_breaker_init(&node->breaker);
    if (name)
        snprintf(node->name, sizeof node->name, "%s", name);
    else
        sl_endpoint_text(endpoint, node->name);
    pthread_mutex_lock(&client->lock);
    client->nodes[i] = node;
    if (i == client->n_nodes)
        client->n_nodes++;
    pthread_mutex_unlock(&client->lock);
    return node;
}

struct sl_node *sl_node_find(struct sl_client *client, const struct sl_endpoint *endpoint)
{
    for (unsigned i = 0; i < client->n_nodes; i++) {
        if (client->nodes[i] && sl_endpoint_equal(&client->nodes[i]->conn.endpoint, endpoint))
            return client->nodes[i];
    }
    return NULL;
}

static void read_counts(struct sl_counts *counts, struct sl_shard_stats *stats)
{
    for (unsigned i = 0; i < SL_RESULTS; i++)
        stats->results[i] += atomic_load_explicit(&counts->results[i], memory_order_relaxed);
    for (unsigned i = 0; i < SL_CLIENT_DURATIONS; i++)
        stats->durations[i] += atomic_load_explicit(&counts->durations[i], memory_order_relaxed);
    stats->duration_sum_us += atomic_load_explicit(&counts->duration_sum_us, memory_order_relaxed);
    stats->failovers += atomic_load_explicit(&counts->failovers, memory_order_relaxed);
    stats->breaker = (enum sl_breaker_state)atomic_load_explicit(&counts->breaker, memory_order_relaxed);
}

void sl_node_free(struct sl_node *node)
{
    struct sl_client *client = node->client;

    sl_conn_fini(&node->conn);
    pthread_mutex_lock(&client->lock);
    client->nodes[node->index] = NULL;
    snprintf(client->former.name, sizeof client->former.name, "former");
    read_counts(&node->counts, &client->former);
    client->former.breaker = SL_BREAKER_CLOSED;
    pthread_mutex_unlock(&client->lock);
    sl_free(client->config.alloc, node);
}

void sl_node_move(struct sl_node *node, const struct sl_endpoint *endpoint)
{
    enum sl_breaker_state before = node->breaker.state;

    sl_conn_move(&node->conn, endpoint, SL_RESULT_LOST);
    node->up = node->told_down = false;
    sl_breaker_reset(&node->breaker);
    sl_node_publish(node, before);
    sl_conn_start(&node->conn);
}

void sl_client_stats(struct sl_client *client, void (*visit)(void *ctx, const struct sl_shard_stats *stats), void *ctx)
{
    pthread_mutex_lock(&client->lock);
    for (unsigned i = 0; i < client->n_nodes; i++) {
        struct sl_shard_stats stats = {.name = ""};

        if (!client->nodes[i])
            continue;
        memcpy(stats.name, client->nodes[i]->name, sizeof stats.name);
        read_counts(&client->nodes[i]->counts, &stats);
        visit(ctx, &stats);
    }
    if (client->former.name[0])
        visit(ctx, &client->former);
    pthread_mutex_unlock(&client->lock);
}
