#include "store/conn.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define FIRST_PLACES 64u
#define OUT_MAX (16u << 20)

static uint64_t now_us(const struct sl_conn *conn)
{
    return conn->config.net->now_us(conn->config.net->ctx);
}

static void fail(struct sl_conn *conn, enum sl_result result);

/* ---- places: replies outstanding, in order */

static struct sl_conn_place *place_at(struct sl_conn *conn, uint64_t seq)
{
    return &conn->places[seq & (conn->size - 1)];
}

/* Room for n more places; false when that is beyond the bound, or out of memory. */
static bool reserve_places(struct sl_conn *conn, unsigned n)
{
    unsigned used = (unsigned)(conn->tail - conn->head), size = conn->size ? conn->size : FIRST_PLACES;
    struct sl_conn_place *places;

    if (used + n > conn->config.queue_max + SL_CONN_EXTRA_MAX + 1)
        return false;
    if (used + n <= conn->size)
        return true;
    while (size < used + n)
        size *= 2;
    places = sl_calloc(conn->config.alloc, size, sizeof *places);
    if (!places)
        return false;
    for (uint64_t seq = conn->head; seq != conn->tail; seq++)
        places[seq & (size - 1)] = *place_at(conn, seq);
    sl_free(conn->config.alloc, conn->places);
    conn->places = places;
    conn->size = size;
    return true;
}

static void add_place(struct sl_conn *conn, struct sl_conn_call *call, uint64_t sent_us)
{
    *place_at(conn, conn->tail) = (struct sl_conn_place){.call = call, .sent_us = sent_us};
    if (call) {
        call->sent = true;
        call->seq = conn->tail;
    }
    conn->tail++;
}

static struct sl_conn_call *take_place(struct sl_conn *conn)
{
    struct sl_conn_call *call = place_at(conn, conn->head++)->call;

    if (call)
        call->sent = false;
    return call;
}

/* ---- sending */

static void flush_later(struct sl_conn *conn)
{
    if (conn->flushing)
        return;
    conn->flushing = true;
    conn->config.net->timer_set(conn->flush, 0);
}

static void on_flush(void *owner)
{
    struct sl_conn *conn = owner;
    int err;

    conn->flushing = false;
    if (!conn->stream || !conn->out.len)
        return;
    err = conn->config.net->write(conn->stream, conn->out.bytes, conn->out.len);
    sl_out_clear(&conn->out);
    if (!err)
        return;
    snprintf(conn->why, sizeof conn->why, "the server does not read what it is sent");
    fail(conn, SL_RESULT_LOST);
}

static enum sl_result write_call(struct sl_conn *conn, struct sl_conn_call *call)
{
    uint64_t now = now_us(conn);
    size_t before = conn->out.len;
    unsigned extra;

    if (!reserve_places(conn, SL_CONN_EXTRA_MAX + 1))
        return SL_RESULT_FULL;
    extra = call->write(call, conn, &conn->out);
    assert(extra <= SL_CONN_EXTRA_MAX);
    if (conn->out.failed) {
        conn->out.len = before;
        conn->out.failed = false;
        return SL_RESULT_FULL;
    }
    for (unsigned i = 0; i < extra; i++)
        add_place(conn, NULL, now);
    add_place(conn, call, now);
    flush_later(conn);
    return SL_RESULT_OK;
}

enum sl_result sl_conn_send(struct sl_conn *conn, struct sl_conn_call *call)
{
    if (conn->state == SL_CONN_READY)
        return write_call(conn, call);
    if (conn->state == SL_CONN_IDLE || (conn->state == SL_CONN_WAITING && !conn->patient))
        return conn->cause;
    if (conn->n_waiting >= conn->config.queue_max)
        return SL_RESULT_FULL;
    sl_list_append(&conn->waiting, &call->link);
    conn->n_waiting++;
    return SL_RESULT_OK;
}

void sl_conn_forget(struct sl_conn *conn, struct sl_conn_call *call)
{
    if (call->link.next) {
        sl_list_remove(&call->link);
        conn->n_waiting--;
    }
    if (call->sent)
        place_at(conn, call->seq)->call = NULL;
    call->sent = false;
}

bool sl_conn_quiet(const struct sl_conn *conn)
{
    return conn->n_waiting == 0 && conn->head == conn->tail;
}

/* ---- states */

/* Answers all that is outstanding or waits. What a callback sends meanwhile is not among it. */
static void answer_all(struct sl_conn *conn, enum sl_result sent, enum sl_result unsent, bool keep_waiting)
{
    uint64_t end = conn->tail;
    struct sl_link list, *link;

    while (conn->head != end) {
        struct sl_conn_call *call = take_place(conn);

        if (call)
            call->done(call, sent, NULL);
    }
    if (keep_waiting)
        return;
    sl_list_move(&list, &conn->waiting);
    while ((link = sl_list_take(&list))) {
        struct sl_conn_call *call = SL_CONTAINER(link, struct sl_conn_call, link);

        conn->n_waiting--;
        call->done(call, unsent, NULL);
    }
}

static void drop_stream(struct sl_conn *conn)
{
    if (conn->stream)
        conn->config.net->close(conn->stream);
    conn->stream = NULL;
    conn->n_streams++;
    sl_out_clear(&conn->out);
    conn->load_seq = 0;
    conn->has_module = false;
}

static void wait_for_dial(struct sl_conn *conn)
{
    const struct sl_net *net = conn->config.net;
    uint64_t delay;

    conn->patient = conn->worked;
    conn->state = SL_CONN_WAITING;
    if (conn->worked) {
        sl_backoff_reset(&conn->backoff);
        delay = sl_net_between(net, 0, conn->backoff.base_us);
    } else {
        delay = sl_backoff_next_us(&conn->backoff, net->random(net->ctx));
    }
    conn->worked = false;
    net->timer_set(conn->timer, now_us(conn) + delay);
}

/* The connection is over: `result` is why. conn->why has been set. */
static void fail(struct sl_conn *conn, enum sl_result result)
{
    bool was_ready = conn->state == SL_CONN_READY;

    drop_stream(conn);
    conn->cause =
        was_ready && (result == SL_RESULT_LOST || result == SL_RESULT_PROTOCOL) ? SL_RESULT_UNREACHABLE : result;
    if (conn->config.redial) {
        wait_for_dial(conn);
    } else {
        conn->state = SL_CONN_IDLE;
        conn->patient = false;
        conn->config.net->timer_set(conn->timer, UINT64_MAX);
    }
    answer_all(conn, result == SL_RESULT_PROTOCOL ? result : SL_RESULT_LOST, conn->cause, conn->patient);
    if (conn->config.changed)
        conn->config.changed(conn->config.owner, conn);
}

static void become_ready(struct sl_conn *conn)
{
    struct sl_link list, *link;

    conn->state = SL_CONN_READY;
    conn->config.net->timer_set(conn->timer, UINT64_MAX);
    sl_list_move(&list, &conn->waiting);
    while ((link = sl_list_take(&list))) {
        struct sl_conn_call *call = SL_CONTAINER(link, struct sl_conn_call, link);
        enum sl_result result;

        conn->n_waiting--;
        result = write_call(conn, call);
        if (result != SL_RESULT_OK)
            call->done(call, result, NULL);
    }
    if (conn->config.changed)
        conn->config.changed(conn->config.owner, conn);
}

/* ---- receiving */

static void take_reply(struct sl_conn *conn, const struct sl_reply *reply)
{
    struct sl_conn_call *call;
    enum sl_result result = SL_RESULT_OK;

    if (conn->head == conn->tail) {
        if (conn->config.pushed) {
            conn->config.pushed(conn->config.owner, reply);
            return;
        }
        snprintf(conn->why, sizeof conn->why, "a reply that nobody asked for");
        fail(conn, SL_RESULT_PROTOCOL);
        return;
    }
    if (reply->type == SL_REPLY_ERROR)
        result = sl_result_of_error(reply->text, reply->n);
    call = take_place(conn);
    conn->worked |= sl_result_breaker(result) == SL_BREAKER_GOOD;
    if (call)
        call->done(call, result, reply);
    /* Another server may answer at this address by now, or to another password. */
    if (conn->state == SL_CONN_READY &&
        (result == SL_RESULT_READONLY || result == SL_RESULT_NOAUTH || result == SL_RESULT_WRONGPASS)) {
        snprintf(conn->why, sizeof conn->why, "%s", sl_result_meaning(result));
        fail(conn, result);
    }
}

static void take_greeting(struct sl_conn *conn, const struct sl_reply *reply)
{
    enum sl_result result = sl_greet_take(conn, reply);

    if (result != SL_RESULT_OK)
        fail(conn, result);
    else if (conn->step == conn->n_steps)
        become_ready(conn);
}

static void on_data(void *owner, const char *bytes, size_t len)
{
    struct sl_conn *conn = owner;
    uint64_t stream = conn->n_streams;
    const struct sl_reply *reply;
    const char *why = "out of memory";
    int found = sl_reply_feed(conn->reader, bytes, len);

    while (!found) {
        found = sl_reply_next(conn->reader, &reply, &why);
        if (found <= 0)
            break;
        if (conn->state == SL_CONN_GREETING)
            take_greeting(conn, reply);
        else
            take_reply(conn, reply);
        if (conn->n_streams != stream)
            return;
        found = 0;
    }
    if (!found)
        return;
    snprintf(conn->why, sizeof conn->why, "not a reply: %.150s", why);
    fail(conn, SL_RESULT_PROTOCOL);
}

static void on_opened(void *owner)
{
    struct sl_conn *conn = owner;

    conn->state = SL_CONN_GREETING;
    sl_out_clear(&conn->out);
    sl_greet_write(conn);
    flush_later(conn);
}

static void on_closed(void *owner, const char *why)
{
    struct sl_conn *conn = owner;

    conn->stream = NULL; /* it is gone by itself */
    snprintf(conn->why, sizeof conn->why, "%.190s", why);
    fail(conn, conn->state == SL_CONN_READY ? SL_RESULT_LOST : SL_RESULT_UNREACHABLE);
}

static const struct sl_stream_events events = {.opened = on_opened, .data = on_data, .closed = on_closed};

static void dial(struct sl_conn *conn)
{
    const struct sl_net *net = conn->config.net;

    conn->state = SL_CONN_DIALLING;
    conn->n_dials++;
    net->timer_set(conn->timer, now_us(conn) + conn->config.connect_timeout_us);
    sl_reply_reader_free(conn->reader);
    conn->reader = sl_reply_reader_new(conn->config.alloc, conn->config.reply_max);
    if (conn->reader)
        conn->stream = net->dial(net->ctx, &conn->endpoint, conn->config.tls, &events, conn);
    if (conn->stream)
        return;
    snprintf(conn->why, sizeof conn->why, "out of memory");
    fail(conn, SL_RESULT_NOMEM);
}

static void on_timer(void *owner)
{
    struct sl_conn *conn = owner;

    if (conn->state == SL_CONN_WAITING) {
        dial(conn);
        return;
    }
    if (conn->state != SL_CONN_DIALLING && conn->state != SL_CONN_GREETING)
        return;
    snprintf(conn->why, sizeof conn->why, "no %s within %llu ms",
             conn->state == SL_CONN_DIALLING ? "connection" : "answer to the greeting",
             (unsigned long long)(conn->config.connect_timeout_us / 1000));
    fail(conn, SL_RESULT_UNREACHABLE);
}

void sl_conn_start(struct sl_conn *conn)
{
    if (conn->state == SL_CONN_IDLE)
        dial(conn);
}

void sl_conn_hurry(struct sl_conn *conn)
{
    if (conn->state != SL_CONN_WAITING)
        return;
    conn->config.net->timer_set(conn->timer, UINT64_MAX);
    dial(conn);
}

void sl_conn_check(struct sl_conn *conn)
{
    if (conn->state != SL_CONN_READY || conn->head == conn->tail ||
        now_us(conn) - place_at(conn, conn->head)->sent_us < conn->config.stall_us)
        return;
    snprintf(conn->why, sizeof conn->why, "no answer for %llu ms", (unsigned long long)(conn->config.stall_us / 1000));
    conn->worked = false; /* it may accept connections without ever answering */
    fail(conn, SL_RESULT_LOST);
}

void sl_conn_move(struct sl_conn *conn, const struct sl_endpoint *endpoint, enum sl_result result)
{
    conn->config.net->timer_set(conn->timer, UINT64_MAX);
    drop_stream(conn);
    conn->state = SL_CONN_IDLE;
    conn->endpoint = *endpoint;
    conn->cause = SL_RESULT_UNREACHABLE;
    conn->worked = conn->patient = false;
    sl_backoff_reset(&conn->backoff);
    answer_all(conn, result, result, false);
}

int sl_conn_init(struct sl_conn *conn, const struct sl_conn_config *config, const struct sl_endpoint *endpoint)
{
    const struct sl_net *net = config->net;

    *conn = (struct sl_conn){.config = *config, .endpoint = *endpoint, .cause = SL_RESULT_UNREACHABLE};
    conn->backoff = (struct sl_backoff){.base_us = config->backoff_base_us, .cap_us = config->backoff_cap_us};
    conn->out = sl_out_make(config->alloc, OUT_MAX);
    sl_list_init(&conn->waiting);
    snprintf(conn->why, sizeof conn->why, "not dialled yet");
    conn->timer = net->timer_new(net->ctx, on_timer, conn);
    conn->flush = net->timer_new(net->ctx, on_flush, conn);
    if (conn->timer && conn->flush && reserve_places(conn, 1))
        return 0;
    net->timer_free(conn->timer);
    net->timer_free(conn->flush);
    sl_free(config->alloc, conn->places);
    return SL_ENOMEM;
}

void sl_conn_fini(struct sl_conn *conn)
{
    const struct sl_net *net = conn->config.net;

    drop_stream(conn);
    conn->state = SL_CONN_IDLE;
    conn->cause = SL_RESULT_CLOSED;
    answer_all(conn, SL_RESULT_CLOSED, SL_RESULT_CLOSED, false);
    net->timer_free(conn->timer);
    net->timer_free(conn->flush);
    sl_reply_reader_free(conn->reader);
    sl_out_fini(&conn->out);
    sl_free(conn->config.alloc, conn->places);
    conn->places = NULL;
}
