#include "store/client_state.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

#define CALL_BYTES_MAX (4u << 20)
#define CALL_BYTES_KEPT 1024u
#define AGAIN_US UINT64_C(2000)
/* A deadline noticed this late means that the loop stood still, not the store: what it has said meanwhile is read
 * first. */
#define LATE_US UINT64_C(3000)
#define LATE_TURN_US UINT64_C(1000)

static void on_done(struct sl_conn_call *base, enum sl_result result, const struct sl_reply *reply);
static unsigned on_write(struct sl_conn_call *base, struct sl_conn *conn, struct sl_out *out);

/* ---- taking and releasing */

static struct sl_call *take_call(struct sl_client *client)
{
    struct sl_link *link = sl_list_take(&client->free);
    struct sl_call *call;
    struct sl_out words;

    if (link) {
        call = SL_CONTAINER(link, struct sl_call, deadline);
        words = call->words;
    } else {
        call = sl_calloc(client->config.alloc, 1, sizeof *call);
        words = sl_out_make(client->config.alloc, CALL_BYTES_MAX);
    }
    if (!call)
        return NULL;
    sl_out_clear(&words);
    *call = (struct sl_call){.base = {.write = on_write, .done = on_done}, .client = client, .words = words};
    client->n_calls++;
    return call;
}

static void release(struct sl_call *call)
{
    struct sl_client *client = call->client;

    sl_list_remove(&call->base.link);
    sl_list_remove(&call->deadline);
    if (call->words.size > CALL_BYTES_KEPT)
        sl_out_fini(&call->words);
    client->n_calls--;
    sl_list_insert(&client->free, &call->deadline);
}

/* By time; most calls have the same time-out, so the place is at the end or close to it. */
static void set_deadline(struct sl_client *client, struct sl_call *call)
{
    struct sl_link *at = client->deadlines.prev;

    while (at != &client->deadlines && SL_CONTAINER(at, struct sl_call, deadline)->deadline_us > call->deadline_us)
        at = at->prev;
    sl_list_insert(at, &call->deadline);
    if (at == &client->deadlines)
        client->config.net->timer_set(client->deadline_timer, call->deadline_us);
}

/* ---- writing */

/* Loads the script in front of the call, unless a load is on its way on this connection. */
static unsigned write_load(const struct sl_client *client, struct sl_conn *conn, struct sl_out *out)
{
    const struct sl_client_config *config = &client->config;

    if (conn->load_seq > conn->head)
        return 0;
    sl_out_command(out,
                   (struct sl_word[]){SL_WORD("SCRIPT"), SL_WORD("LOAD"), {config->script, strlen(config->script)}}, 3);
    if (!out->failed)
        conn->load_seq = conn->tail + 1;
    return 1;
}

static unsigned on_write(struct sl_conn_call *base, struct sl_conn *conn, struct sl_out *out)
{
    struct sl_call *call = SL_CONTAINER(base, struct sl_call, base);
    const struct sl_client_config *config = &call->client->config;
    unsigned extra = 0;

    call->by_module = call->is_script && conn->has_module && !call->as_script;
    if (call->load && !call->by_module)
        extra += write_load(call->client, conn, out);
    if (call->asking) {
        sl_out_command(out, &SL_WORD("ASKING"), 1);
        extra++;
    }
    if (call->by_module) {
        sl_out_array(out, call->n_keys + 3);
        sl_out_word(out, config->module_command, strlen(config->module_command));
    } else if (call->is_script) {
        sl_out_array(out, call->n_keys + 4);
        sl_out_word(out, "EVALSHA", 7);
        sl_out_word(out, config->script_sha1, strlen(config->script_sha1));
    }
    sl_out_add(out, call->words.bytes, call->words.len);
    return extra;
}

/* ---- answering */

static void finish(struct sl_call *call, enum sl_result result, const struct sl_reply *reply)
{
    sl_client_done *done = call->done;
    void *ctx = call->ctx;

    release(call);
    done(ctx, result, reply);
}

/* The node is done with the call: breaker and counters hear of it. `verdict`: as the breaker sees it. */
static void leave_node(struct sl_call *call, enum sl_result result, enum sl_breaker_result verdict)
{
    struct sl_node *node = call->node;
    uint64_t duration_us = sl_client_now_us(call->client) - call->start_us;

    call->node = NULL;
    if (call->idle && result == SL_RESULT_ERROR)
        result = SL_RESULT_OK;
    if (verdict == SL_BREAKER_GOOD && duration_us > call->client->config.slow_us)
        verdict = SL_BREAKER_SLOW;
    sl_node_count(node, result, duration_us ? duration_us : 1);
    sl_node_report(node, call->generation, verdict);
    if (verdict == SL_BREAKER_FAILED || verdict == SL_BREAKER_TIMED_OUT)
        node->client->topology->trouble(node->client, node);
}

/* ---- sending */

static struct sl_node *any_node(struct sl_client *client)
{
    unsigned start = client->n_nodes ? (unsigned)(sl_client_random(client) % client->n_nodes) : 0;
    struct sl_node *found = NULL;

    for (unsigned i = 0; i < client->n_nodes; i++) {
        struct sl_node *node = client->nodes[(start + i) % client->n_nodes];

        if (node && node->conn.state == SL_CONN_READY)
            return node;
        found = found ? found : node;
    }
    return found;
}

static struct sl_node *route(struct sl_call *call)
{
    struct sl_client *client = call->client;
    uint16_t index = client->map[call->slot];

    if (!client->settled)
        return NULL;
    if (!call->any && index != SL_NO_NODE)
        return client->nodes[index];
    return any_node(client); /* a slot nobody is known to serve: any server will say who does */
}

/* Returns SL_RESULT_OK when the node has the call. */
static enum sl_result send_to(struct sl_call *call, struct sl_node *node)
{
    struct sl_client *client = call->client;
    enum sl_breaker_state before = node->breaker.state;
    enum sl_breaker_answer answer = sl_breaker_ask(&node->breaker, sl_client_now_us(client), call->deadline_us,
                                                   sl_client_random(client), &call->generation);
    enum sl_result result;

    sl_node_publish(node, before);
    if (answer == SL_BREAKER_REFUSE) {
        sl_node_count(node, SL_RESULT_BREAKER, 0);
        return SL_RESULT_BREAKER;
    }
    if (answer == SL_BREAKER_PROBE)
        sl_conn_hurry(&node->conn);
    call->node = node;
    result = sl_conn_send(&node->conn, &call->base);
    if (result != SL_RESULT_OK) {
        call->node = NULL;
        sl_node_count(node, result, 0);
        sl_node_report(node, call->generation, sl_result_breaker(result));
    }
    return result;
}

/* Returns SL_RESULT_OK when the call has found a place, be it to wait in. */
static enum sl_result place(struct sl_call *call)
{
    struct sl_client *client = call->client;
    struct sl_node *node = route(call);

    if (node)
        return send_to(call, node);
    if (client->lost || client->settled)
        return SL_RESULT_UNREACHABLE;
    sl_list_append(&client->homeless, &call->base.link);
    return SL_RESULT_OK;
}

static void place_or_finish(struct sl_call *call)
{
    enum sl_result result = place(call);

    if (result != SL_RESULT_OK)
        finish(call, result, NULL);
}

void sl_client_settle(struct sl_client *client)
{
    struct sl_link list, *link;

    client->settled = true;
    if (client->lost) {
        client->lost = false;
        sl_client_tell(client, &(struct sl_client_event){.happening = SL_CLIENT_TOPOLOGY,
                                                         .shard = "",
                                                         .good = true,
                                                         .text = "it is known again who the masters are"});
    }
    sl_list_move(&list, &client->homeless);
    while ((link = sl_list_take(&list)))
        place_or_finish(SL_CONTAINER(link, struct sl_call, base.link));
}

static void finish_all(struct sl_link *from, enum sl_result result)
{
    struct sl_link list, *link;

    sl_list_move(&list, from);
    while ((link = sl_list_take(&list)))
        finish(SL_CONTAINER(link, struct sl_call, base.link), result, NULL);
}

void sl_client_lose(struct sl_client *client, const char *text)
{
    bool was_lost = client->lost;

    client->lost = true;
    finish_all(&client->homeless, SL_RESULT_UNREACHABLE);
    if (!was_lost)
        sl_client_tell(client,
                       &(struct sl_client_event){
                           .happening = SL_CLIENT_TOPOLOGY, .shard = "", .cause = SL_RESULT_UNREACHABLE, .text = text});
}

void sl_calls_on_later(void *owner)
{
    struct sl_client *client = owner;
    struct sl_link list, *link;

    sl_list_move(&list, &client->later);
    while ((link = sl_list_take(&list)))
        place_or_finish(SL_CONTAINER(link, struct sl_call, base.link));
}

void sl_calls_close(struct sl_client *client)
{
    finish_all(&client->homeless, SL_RESULT_CLOSED);
    finish_all(&client->later, SL_RESULT_CLOSED);
}

void sl_calls_free(struct sl_client *client)
{
    struct sl_link *link;

    while ((link = sl_list_take(&client->free))) {
        struct sl_call *call = SL_CONTAINER(link, struct sl_call, deadline);

        sl_out_fini(&call->words);
        sl_free(client->config.alloc, call);
    }
}

/* ---- sending again: only what the store has certainly not executed */

/* Always true: whatever comes of it, the call has been seen to. */
static bool send_again(struct sl_call *call)
{
    enum sl_result result = sl_conn_send(&call->node->conn, &call->base);

    if (result == SL_RESULT_OK)
        return true;
    leave_node(call, result, sl_result_breaker(result));
    finish(call, result, NULL);
    return true;
}

static bool follow(struct sl_call *call, enum sl_result result, const struct sl_reply *reply)
{
    struct sl_client *client = call->client;
    struct sl_endpoint endpoint;
    struct sl_node *node;
    unsigned slot;

    if (call->hops++ >= SL_CALL_HOPS_MAX || client->topology != &sl_topology_cluster ||
        sl_slots_redirect(reply->text, reply->n, &call->node->conn.endpoint, &slot, &endpoint))
        return false;
    node = sl_node_find(client, &endpoint);
    if (!node) {
        node = sl_node_new(client, &endpoint, NULL);
        if (!node)
            return false;
        sl_conn_start(&node->conn);
    }
    if (result == SL_RESULT_MOVED) {
        client->map[slot] = node->index;
        sl_rover_ask(&client->rover, NULL);
    }
    call->asking = result == SL_RESULT_ASK;
    call->load = false;
    leave_node(call, result, SL_BREAKER_GOOD);
    result = send_to(call, node);
    if (result != SL_RESULT_OK)
        finish(call, result, NULL);
    return true;
}

/* Half of the keys are still on their way: the same again in a moment, within the deadline. */
static bool try_later(struct sl_call *call)
{
    struct sl_client *client = call->client;

    if (client->topology != &sl_topology_cluster || sl_client_now_us(client) + AGAIN_US >= call->deadline_us)
        return false;
    leave_node(call, SL_RESULT_TRYAGAIN, SL_BREAKER_GOOD);
    call->asking = false;
    if (sl_list_empty(&client->later))
        client->config.net->timer_set(client->later_timer, sl_client_now_us(client) + AGAIN_US);
    sl_list_append(&client->later, &call->base.link);
    return true;
}

/* The server has no such command, or the user no right to it. */
static bool without_module(struct sl_call *call, const struct sl_reply *reply)
{
    static const char unknown[] = "ERR unknown command";

    if (!call->by_module || call->as_script ||
        (sl_result_of_error(reply->text, reply->n) != SL_RESULT_NOPERM &&
         strncmp(reply->text, unknown, sizeof unknown - 1) != 0))
        return false;
    call->node->conn.has_module = false;
    call->as_script = true;
    return send_again(call);
}

static bool with_script(struct sl_call *call)
{
    if (!call->is_script || call->load)
        return false;
    call->load = true;
    sl_node_count(call->node, SL_RESULT_NOSCRIPT, 0);
    return send_again(call);
}

/* True when the call goes on. */
static bool again(struct sl_call *call, enum sl_result result, const struct sl_reply *reply)
{
    switch (result) {
    case SL_RESULT_NOSCRIPT:
        return with_script(call);
    case SL_RESULT_ERROR:
    case SL_RESULT_NOPERM:
        return without_module(call, reply);
    case SL_RESULT_MOVED:
    case SL_RESULT_ASK:
        return follow(call, result, reply);
    case SL_RESULT_TRYAGAIN:
        return try_later(call);
    default:
        return false;
    }
}

static void on_done(struct sl_conn_call *base, enum sl_result result, const struct sl_reply *reply)
{
    struct sl_call *call = SL_CONTAINER(base, struct sl_call, base);

    if (reply && !call->client->closing && again(call, result, reply))
        return;
    leave_node(call, result, sl_result_breaker(result));
    finish(call, result, reply);
}

/* True when the loop comes so late that it has not looked at its connections yet: the deadlines wait a turn, once. */
static bool let_loop_read(struct sl_client *client, uint64_t now)
{
    const struct sl_call *first = SL_CONTAINER(client->deadlines.next, struct sl_call, deadline);

    if (sl_list_empty(&client->deadlines) || now < first->deadline_us + LATE_US ||
        first->deadline_us <= client->waited_for_us)
        return false;
    client->waited_for_us = now;
    client->config.net->timer_set(client->deadline_timer, now + LATE_TURN_US);
    return true;
}

void sl_calls_on_deadline(void *owner)
{
    struct sl_client *client = owner;
    uint64_t now = sl_client_now_us(client);

    if (let_loop_read(client, now))
        return;
    while (!sl_list_empty(&client->deadlines)) {
        struct sl_call *call = SL_CONTAINER(client->deadlines.next, struct sl_call, deadline);
        struct sl_node *node = call->node;
        enum sl_result result = SL_RESULT_UNREACHABLE;

        if (call->deadline_us > now) {
            client->config.net->timer_set(client->deadline_timer, call->deadline_us);
            return;
        }
        if (node) {
            result = call->base.sent ? SL_RESULT_TIMEOUT : SL_RESULT_UNREACHABLE;
            sl_conn_forget(&node->conn, &call->base);
            leave_node(call, result, SL_BREAKER_TIMED_OUT);
        }
        finish(call, result, NULL);
        if (node)
            sl_conn_check(&node->conn);
    }
}

/* ---- the door */

static enum sl_result begin(struct sl_client *client, struct sl_call *call, uint64_t timeout_us)
{
    enum sl_result result;

    if (call->words.failed) {
        release(call);
        return SL_RESULT_NOMEM;
    }
    call->start_us = sl_client_now_us(client);
    call->deadline_us = call->start_us + (timeout_us ? timeout_us : client->config.timeout_us);
    result = place(call);
    if (result == SL_RESULT_OK)
        set_deadline(client, call);
    else
        release(call);
    return result;
}

static enum sl_result open_call(struct sl_client *client, sl_client_done *done, void *ctx, struct sl_call **ret_call)
{
    struct sl_call *call;

    if (client->closing)
        return SL_RESULT_CLOSED;
    if (client->n_calls >= client->config.calls_max)
        return SL_RESULT_FULL;
    call = take_call(client);
    if (!call)
        return SL_RESULT_NOMEM;
    call->done = done;
    call->ctx = ctx;
    *ret_call = call;
    return SL_RESULT_OK;
}

enum sl_result sl_client_script(struct sl_client *client, const struct sl_script_call *script, uint64_t timeout_us,
                                sl_client_done *done, void *ctx)
{
    struct sl_call *call;
    enum sl_result result = open_call(client, done, ctx, &call);
    char number[16];

    if (result != SL_RESULT_OK)
        return result;
    call->is_script = true;
    call->n_keys = script->n_keys;
    call->slot = (uint16_t)sl_client_group(client, script->keys[0].bytes, script->keys[0].len);
    sl_out_word(&call->words, number, (size_t)snprintf(number, sizeof number, "%u", script->n_keys));
    for (unsigned i = 0; i < script->n_keys; i++)
        sl_out_word(&call->words, script->keys[i].bytes, script->keys[i].len);
    sl_out_word(&call->words, script->ask, script->ask_len);
    return begin(client, call, timeout_us);
}

enum sl_result sl_client_command(struct sl_client *client, const struct sl_word *words, size_t n,
                                 const struct sl_word *key, uint64_t timeout_us, sl_client_done *done, void *ctx)
{
    struct sl_call *call;
    enum sl_result result = open_call(client, done, ctx, &call);

    if (result != SL_RESULT_OK)
        return result;
    call->any = !key;
    call->slot = key ? (uint16_t)sl_client_group(client, key->bytes, key->len) : 0;
    sl_out_command(&call->words, words, n);
    return begin(client, call, timeout_us);
}

/* ---- shards that nobody asks */

static void on_probed(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    (void)ctx; /* the breaker has heard of it */
    (void)result;
    (void)reply;
}

/* What callers would send, without a key and with nothing asked: a server that answers PING and refuses scripts is not
 * back. That the script finds it wrong is the answer of one that is. */
static void probe(struct sl_client *client, struct sl_node *node)
{
    struct sl_call *call;

    if (open_call(client, on_probed, NULL, &call) != SL_RESULT_OK)
        return;
    call->is_script = call->idle = call->any = true;
    sl_out_word(&call->words, "0", 1);
    sl_out_word(&call->words, "", 0);
    call->start_us = sl_client_now_us(client);
    call->deadline_us = call->start_us + client->config.timeout_us;
    if (!call->words.failed && send_to(call, node) == SL_RESULT_OK)
        set_deadline(client, call);
    else
        release(call);
}

void sl_calls_on_idle(void *owner)
{
    struct sl_client *client = owner;
    uint64_t now = sl_client_now_us(client);
    bool waiting = false;

    for (unsigned i = 0; i < client->n_nodes; i++) {
        struct sl_node *node = client->nodes[i];

        if (!node || node->breaker.state == SL_BREAKER_CLOSED)
            continue;
        if (now > SL_CLIENT_IDLE_US && sl_breaker_wait_us(&node->breaker, now - SL_CLIENT_IDLE_US) == 0)
            probe(client, node);
        waiting = waiting || node->breaker.state != SL_BREAKER_CLOSED;
    }
    if (waiting)
        client->config.net->timer_set(client->idle_timer, now + SL_CLIENT_IDLE_US / 2);
}
