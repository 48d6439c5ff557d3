#include "store/client_state.h"

#include "base/err.h"
#include "store/tls.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void sl_client_tell(struct sl_client *client, const struct sl_client_event *event)
{
    if (client->config.happened && !client->closing)
        client->config.happened(client->config.owner, event);
}

/* ---- the simplest topology: one server, known from the start */

static int start_single(struct sl_client *client)
{
    struct sl_node *node = sl_node_new(client, &client->config.url->endpoints[0], NULL);

    if (!node)
        return SL_ENOMEM;
    client->map[0] = node->index;
    sl_client_settle(client);
    sl_conn_start(&node->conn);
    return 0;
}

static void ignore_trouble(struct sl_client *client, struct sl_node *node)
{
    (void)client; /* there is no other server to turn to */
    (void)node;
}

static void stop_nothing(struct sl_client *client)
{
    (void)client;
}

const struct sl_topology sl_topology_single = {start_single, ignore_trouble, stop_nothing};

/* ---- life */

static void set_default(uint64_t *value, uint64_t preset)
{
    if (!*value)
        *value = preset;
}

static void set_defaults(struct sl_client_config *config)
{
    set_default(&config->timeout_us, SL_CLIENT_TIMEOUT_US);
    set_default(&config->slow_us, config->timeout_us / 2);
    set_default(&config->connect_timeout_us, 1000000);
    set_default(&config->stall_us, 1000000);
    set_default(&config->backoff_base_us, SL_CLIENT_BACKOFF_BASE_US);
    set_default(&config->backoff_cap_us, SL_CLIENT_BACKOFF_CAP_US);
    if (!config->calls_max)
        config->calls_max = 16384;
}

static const struct sl_topology *topology_of(enum sl_store_kind kind)
{
    switch (kind) {
    case SL_STORE_SENTINEL:
        return &sl_topology_sentinel;
    case SL_STORE_CLUSTER:
        return &sl_topology_cluster;
    default:
        return &sl_topology_single;
    }
}

static int check(const struct sl_client_config *config, char *why, size_t why_size)
{
    const char *problem = NULL;

    if (config->url->kind == SL_STORE_MEMORY)
        problem = "memory: is no server";
    else if (config->timeout_us < SL_CLIENT_TIMEOUT_MIN_US || config->timeout_us > SL_CLIENT_TIMEOUT_MAX_US)
        problem = "the timeout must be 1 ms to 60 s";
    else if (config->slow_us > config->timeout_us)
        problem = "an answer cannot be slower than the timeout";
    else if (config->backoff_base_us > config->backoff_cap_us)
        problem = "the shortest wait before dialling is longer than the longest";
    if (!problem)
        return 0;
    snprintf(why, why_size, "store: %s", problem);
    return SL_EINVALID;
}

/* They are read again whenever a connection is made: a certificate may be renewed. But one that cannot be used from the
 * start is a mistake in the address. */
static int check_files(const struct sl_tls_options *tls, char *why, size_t why_size)
{
    struct sl_tls_keys *keys;
    char reason[256];

    if (!tls->ca[0] && !tls->cert[0] && !tls->key[0])
        return 0;
    keys = sl_tls_keys_new(tls, reason, sizeof reason);
    if (!keys) {
        snprintf(why, why_size, "store: %s", reason);
        return SL_EINVALID;
    }
    sl_tls_keys_free(keys);
    return 0;
}

static int set_up(struct sl_client *client)
{
    const struct sl_net *net = client->config.net;

    client->topology = topology_of(client->config.url->kind);
    sl_list_init(&client->free);
    sl_list_init(&client->deadlines);
    sl_list_init(&client->homeless);
    sl_list_init(&client->later);
    for (unsigned i = 0; i < SL_SLOTS; i++)
        client->map[i] = SL_NO_NODE;
    client->deadline_timer = net->timer_new(net->ctx, sl_calls_on_deadline, client);
    client->later_timer = net->timer_new(net->ctx, sl_calls_on_later, client);
    client->idle_timer = net->timer_new(net->ctx, sl_calls_on_idle, client);
    if (!client->deadline_timer || !client->later_timer || !client->idle_timer)
        return SL_ENOMEM;
    return client->topology->start(client);
}

int sl_client_new(const struct sl_client_config *config, struct sl_client **ret_client, char *why, size_t why_size)
{
    struct sl_client *client = sl_calloc(config->alloc, 1, sizeof *client);
    const struct sl_store_url *url = config->url;
    int err;

    snprintf(why, why_size, "store: out of memory");
    if (!client)
        return SL_ENOMEM;
    client->config = *config;
    set_defaults(&client->config);
    pthread_mutex_init(&client->lock, NULL);
    client->tls = (struct sl_tls_options){.ca = url->ca, .cert = url->cert, .key = url->key, .insecure = url->insecure};
    err = check(&client->config, why, why_size);
    err = err ? err : check_files(&client->tls, why, why_size);
    if (err) {
        pthread_mutex_destroy(&client->lock);
        sl_free(config->alloc, client);
        return err;
    }
    err = set_up(client);
    if (err) {
        sl_client_free(client);
        return err;
    }
    *ret_client = client;
    return 0;
}

void sl_client_free(struct sl_client *client)
{
    struct sl_alloc alloc;

    if (!client)
        return;
    alloc = *client->config.alloc;
    client->closing = true;
    client->topology->stop(client);
    for (unsigned i = 0; i < client->n_nodes; i++) {
        if (client->nodes[i])
            sl_node_free(client->nodes[i]);
    }
    sl_calls_close(client);
    assert(sl_list_empty(&client->deadlines));
    sl_calls_free(client);
    client->config.net->timer_free(client->deadline_timer);
    client->config.net->timer_free(client->later_timer);
    client->config.net->timer_free(client->idle_timer);
    pthread_mutex_destroy(&client->lock);
    sl_free(&alloc, client);
}

/* ---- what is known */

unsigned sl_client_group(const struct sl_client *client, const char *key, size_t len)
{
    return client->topology == &sl_topology_cluster ? sl_slot_of(key, len) : 0;
}

uint64_t sl_client_wait_us(const struct sl_client *client, const char *key, size_t len)
{
    uint16_t index = client->map[sl_client_group(client, key, len)];

    if (index == SL_NO_NODE)
        return 0;
    return sl_breaker_wait_us(&client->nodes[index]->breaker, sl_client_now_us(client));
}

bool sl_client_ready(const struct sl_client *client)
{
    if (!client->settled || !client->reached)
        return false;
    for (unsigned i = 0; i < client->n_nodes; i++) {
        if (client->nodes[i] && client->nodes[i]->conn.state != SL_CONN_READY)
            return false;
    }
    return true;
}
