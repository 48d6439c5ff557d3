/* Sentinel: three or more watchers know which server is the master. Asked at the start, when a call fails, and every
 * second or so; and one of them is listened to, because it says at once when the master changes. What a Sentinel says
 * is believed only as far as the server itself agrees that it is a master (ROLE, in the greeting): a Sentinel that
 * missed a failover is passed over for the next. */
#include "store/client_state.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLL_US UINT64_C(1000000)

static const struct sl_word question[] = {SL_WORD("SENTINEL"), SL_WORD("get-master-addr-by-name")};

static struct sl_node *the_node(struct sl_client *client)
{
    return client->nodes[client->map[0]];
}

static void follow_master(struct sl_client *client, const struct sl_endpoint *master)
{
    struct sl_node *node = the_node(client);
    bool first = !client->settled;
    char text[SL_ENDPOINT_TEXT_MAX + 32], address[SL_ENDPOINT_TEXT_MAX];

    if (!first && sl_endpoint_equal(&node->conn.endpoint, master))
        return;
    sl_node_move(node, master);
    if (!first) {
        snprintf(text, sizeof text, "the master is %s now", sl_endpoint_text(master, address));
        sl_node_failover(node, text);
    }
}

static bool read_port(const char *text, uint16_t *ret_port)
{
    char *end;
    unsigned long number;

    if (text[0] < '0' || text[0] > '9')
        return false;
    number = strtoul(text, &end, 10);
    *ret_port = (uint16_t)number;
    return !*end && number > 0 && number <= 65535;
}

static bool read_address(const struct sl_reply *host, const struct sl_reply *port, struct sl_endpoint *ret_endpoint)
{
    char text[8];

    *ret_endpoint = (struct sl_endpoint){.port = 0};
    return sl_reply_copy(host, ret_endpoint->host, sizeof ret_endpoint->host) && ret_endpoint->host[0] &&
           sl_reply_copy(port, text, sizeof text) && read_port(text, &ret_endpoint->port);
}

/* Listens where the last good answer came from. */
static void listen_to(struct sl_client *client, const struct sl_endpoint *sentinel)
{
    if (sl_endpoint_equal(&client->sub.endpoint, sentinel) && client->sub.state != SL_CONN_IDLE)
        return;
    sl_conn_move(&client->sub, sentinel, SL_RESULT_CLOSED);
    sl_conn_start(&client->sub);
}

static bool take_answer(void *owner, const struct sl_reply *reply, const struct sl_endpoint *from)
{
    struct sl_client *client = owner;
    struct sl_node *node = the_node(client);
    struct sl_endpoint master;

    if (!sl_reply_is_array(reply, 2) || !read_address(reply->elements[0], reply->elements[1], &master))
        return false; /* nil: it does not watch such a master */
    if (client->settled && sl_endpoint_equal(&master, &node->conn.endpoint) && node->conn.state != SL_CONN_READY &&
        node->conn.cause == SL_RESULT_READONLY)
        return false; /* that server says it is none */
    follow_master(client, &master);
    listen_to(client, from);
    sl_client_settle(client);
    return true;
}

static void on_lost(void *owner, const char *why)
{
    char text[256];

    snprintf(text, sizeof text, "no Sentinel names the master; the last one: %s", why);
    sl_client_lose(owner, text);
}

/* ---- listening: ["message", "+switch-master", "NAME old-host old-port new-host new-port"] */

static bool read_switch(const struct sl_reply *message, const char *name, struct sl_endpoint *ret_master)
{
    char text[2 * SL_HOST_MAX + SL_MASTER_NAME_MAX + 32], *words[5], *rest = text;

    if (!sl_reply_copy(message, text, sizeof text))
        return false;
    for (unsigned i = 0; i < 5; i++) {
        words[i] = strsep(&rest, " ");
        if (!words[i])
            return false;
    }
    *ret_master = (struct sl_endpoint){.port = 0};
    if (rest || strcmp(words[0], name) != 0 || !words[3][0] || strlen(words[3]) > SL_HOST_MAX ||
        !read_port(words[4], &ret_master->port))
        return false;
    memcpy(ret_master->host, words[3], strlen(words[3]) + 1);
    return true;
}

static void on_push(void *owner, const struct sl_reply *reply)
{
    struct sl_client *client = owner;
    struct sl_endpoint master;

    if (!sl_reply_is_array(reply, 3) || !sl_reply_is(reply->elements[1], "+switch-master") ||
        !read_switch(reply->elements[2], client->config.url->master, &master))
        return;
    follow_master(client, &master);
    sl_client_settle(client);
}

static unsigned write_subscribe(struct sl_conn_call *call, struct sl_conn *conn, struct sl_out *out)
{
    (void)call;
    (void)conn;
    sl_out_command(out, (struct sl_word[]){SL_WORD("SUBSCRIBE"), SL_WORD("+switch-master")}, 2);
    return 0;
}

static void ignore_answer(struct sl_conn_call *call, enum sl_result result, const struct sl_reply *reply)
{
    (void)call; /* without it the polling goes on */
    (void)result;
    (void)reply;
}

static void on_sub_changed(void *owner, struct sl_conn *conn)
{
    struct sl_client *client = owner;

    if (conn->state == SL_CONN_READY && !client->sub_call.sent)
        sl_conn_send(conn, &client->sub_call);
}

/* ---- start, trouble, stop */

static int start_rover(struct sl_client *client, const struct sl_conn_config *config)
{
    const struct sl_store_url *url = client->config.url;
    struct sl_word *words = sl_calloc(client->config.alloc, 3, sizeof *words);

    if (!words)
        return SL_ENOMEM;
    memcpy(words, question, sizeof question);
    words[2] = (struct sl_word){url->master, strlen(url->master)};
    client->rover.words = words;
    client->rover.n_words = 3;
    client->rover.period_us = POLL_US;
    client->rover.take = take_answer;
    client->rover.lost = on_lost;
    client->rover.owner = client;
    return sl_rover_init(&client->rover, config, url->endpoints, url->n_endpoints);
}

static int start(struct sl_client *client)
{
    const struct sl_store_url *url = client->config.url;
    struct sl_conn_config config = sl_client_conn_config(client);
    struct sl_conn_config sub_config;
    struct sl_node *node = sl_node_new(client, &url->endpoints[0], url->master);

    if (!node)
        return SL_ENOMEM;
    client->map[0] = node->index;
    config.login = &url->sentinel_login;
    if (start_rover(client, &config))
        return SL_ENOMEM;
    sub_config = config;
    sub_config.redial = true;
    sub_config.changed = on_sub_changed;
    sub_config.pushed = on_push;
    sub_config.owner = client;
    client->sub_call = (struct sl_conn_call){.write = write_subscribe, .done = ignore_answer};
    if (sl_conn_init(&client->sub, &sub_config, &url->endpoints[0]))
        return SL_ENOMEM;
    client->has_sub = true;
    sl_rover_ask(&client->rover, NULL);
    return 0;
}

static void trouble(struct sl_client *client, struct sl_node *node)
{
    (void)node;
    sl_rover_ask(&client->rover, NULL);
}

static void stop(struct sl_client *client)
{
    sl_rover_fini(&client->rover);
    sl_free(client->config.alloc, (void *)(uintptr_t)client->rover.words);
    if (client->has_sub)
        sl_conn_fini(&client->sub);
}

const struct sl_topology sl_topology_sentinel = {start, trouble, stop};
