/* Cluster: the map from slots to masters. Asked at the start, after the first failure of a call (of another server
 * than the one that failed), after MOVED, and every 30 s or so. A new map is taken whole or not at all; a server that
 * no longer owns a slot keeps its connection until what it owes has been answered. */
#include "store/client_state.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

#define POLL_US UINT64_C(30000000)

static const struct sl_word question[] = {SL_WORD("CLUSTER"), SL_WORD("SLOTS")};

/* The node at `master`, made when there is none; NULL when it cannot be. */
static struct sl_node *node_at(struct sl_client *client, const struct sl_endpoint *master)
{
    struct sl_node *node = sl_node_find(client, master);

    if (node)
        return node;
    node = sl_node_new(client, master, NULL);
    if (node)
        sl_conn_start(&node->conn);
    return node;
}

/* A node that owned slots and owns none any more, while another has its first slot, has been failed over. */
static void notice_failovers(struct sl_client *client, const uint16_t *new_map)
{
    bool told[SL_CLIENT_SHARDS_MAX] = {false};

    for (unsigned slot = 0; slot < SL_SLOTS; slot++) {
        uint16_t old = client->map[slot];
        char text[SL_ENDPOINT_TEXT_MAX + 32];

        if (old == SL_NO_NODE || told[old] || client->nodes[old]->owns_slots || new_map[slot] == SL_NO_NODE)
            continue;
        told[old] = true;
        snprintf(text, sizeof text, "it has taken over from %s", client->nodes[old]->name);
        sl_node_failover(client->nodes[new_map[slot]], text);
    }
}

/* Servers that own nothing leave when nothing is outstanding there, else at a later map. */
static void dismiss(struct sl_client *client)
{
    for (unsigned i = 0; i < client->n_nodes; i++) {
        struct sl_node *node = client->nodes[i];

        if (node && !node->owns_slots && sl_conn_quiet(&node->conn))
            sl_node_free(node);
    }
}

static void apply(struct sl_client *client, const struct sl_slot_range *ranges, int n)
{
    uint16_t map[SL_SLOTS];

    memset(map, 0xff, sizeof map);
    for (unsigned i = 0; i < client->n_nodes; i++) {
        if (client->nodes[i])
            client->nodes[i]->owns_slots = false;
    }
    for (int i = 0; i < n; i++) {
        struct sl_node *node = ranges[i].master.host[0] ? node_at(client, &ranges[i].master) : NULL;

        if (!node)
            continue;
        node->owns_slots = true;
        for (unsigned slot = ranges[i].from; slot <= ranges[i].to; slot++)
            map[slot] = node->index;
    }
    notice_failovers(client, map);
    memcpy(client->map, map, sizeof map);
    dismiss(client);
}

static bool take_answer(void *owner, const struct sl_reply *reply, const struct sl_endpoint *from)
{
    struct sl_client *client = owner;
    const struct sl_store_url *url = client->config.url;
    struct sl_endpoint servers[SL_ROVER_ENDPOINTS_MAX];
    struct sl_slot_range *ranges;
    unsigned n_servers;
    int n = sl_slots_read(reply, from, client->config.alloc, &ranges);

    if (n < 0)
        return false;
    if (n == 0) { /* a server that has been forgotten by its cluster, or not yet met it */
        sl_free(client->config.alloc, ranges);
        return false;
    }
    apply(client, ranges, n);
    sl_free(client->config.alloc, ranges);
    /* Whoever serves now can be asked next; the addresses from the start are kept for when all of those are gone. */
    n_servers = sl_slots_servers(reply, from, servers, SL_ROVER_ENDPOINTS_MAX - SL_URL_ENDPOINTS_MAX);
    memcpy(&servers[n_servers], url->endpoints, url->n_endpoints * sizeof *servers);
    sl_rover_set(&client->rover, servers, n_servers + url->n_endpoints);
    sl_client_settle(client);
    return true;
}

static void on_lost(void *owner, const char *why)
{
    char text[256];

    snprintf(text, sizeof text, "no server of the cluster tells its slots; the last one: %s", why);
    sl_client_lose(owner, text);
}

static int start(struct sl_client *client)
{
    const struct sl_store_url *url = client->config.url;
    struct sl_conn_config config = sl_client_conn_config(client);
    struct sl_rover *rover = &client->rover;

    config.login = &url->login;
    rover->words = question;
    rover->n_words = sizeof question / sizeof *question;
    rover->period_us = POLL_US;
    rover->take = take_answer;
    rover->lost = on_lost;
    rover->owner = client;
    if (sl_rover_init(rover, &config, url->endpoints, url->n_endpoints))
        return SL_ENOMEM;
    sl_rover_ask(rover, NULL);
    return 0;
}

static void trouble(struct sl_client *client, struct sl_node *node)
{
    sl_rover_ask(&client->rover, &node->conn.endpoint);
}

static void stop(struct sl_client *client)
{
    sl_rover_fini(&client->rover);
}

const struct sl_topology sl_topology_cluster = {start, trouble, stop};
