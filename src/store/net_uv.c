#include "store/net_uv.h"

#include "base/err.h"
#include "store/list.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define OPTIONS_TEXT_MAX 4096u

enum stream_state { RESOLVING, CONNECTING, SECURING, OPEN };

/* A stream lives until its handle is closed and its name resolved; `abandoned` once nobody wants its events any more.
 */
struct sl_stream {
    struct sl_net_uv *net;
    const struct sl_stream_events *events;
    void *owner;
    enum stream_state state;
    bool abandoned, has_handle;
    struct sl_endpoint endpoint;
    const struct sl_tls_options *tls_options;
    struct sl_tls_end *tls;
    struct addrinfo *addresses, *first, *address; /* the list, where we began in it, where we are */
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    char why[192];
};

/* Bytes that did not go out at once. */
struct unsent {
    uv_write_t request;
    struct sl_alloc alloc;
    char bytes[];
};

static void try_address(struct sl_stream *stream);

/* ---- the end of a stream */

static void release(struct sl_stream *stream)
{
    struct sl_net_uv *net = stream->net;

    if (stream->addresses)
        uv_freeaddrinfo(stream->addresses);
    sl_tls_end_free(stream->tls);
    net->n_open--;
    sl_free(&net->alloc, stream);
}

static void tell_closed(struct sl_stream *stream)
{
    if (!stream->abandoned)
        stream->events->closed(stream->owner, stream->why);
    release(stream);
}

/* The address after this one, round the list; NULL when all were tried. */
static struct addrinfo *next_address(const struct sl_stream *stream)
{
    struct addrinfo *next = stream->address->ai_next ? stream->address->ai_next : stream->addresses;

    return next == stream->first ? NULL : next;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct sl_stream *stream = handle->data;

    stream->has_handle = false;
    if (!stream->abandoned && stream->state == CONNECTING && stream->address && next_address(stream)) {
        stream->address = next_address(stream);
        try_address(stream);
        return;
    }
    tell_closed(stream);
}

static void close_handle(struct sl_stream *stream)
{
    if (!uv_is_closing(&stream->uv.handle))
        uv_close(&stream->uv.handle, on_handle_closed);
}

static void fail(struct sl_stream *stream, const char *what, const char *reason)
{
    snprintf(stream->why, sizeof stream->why, "%s%s%s", what, reason[0] ? ": " : "", reason);
    close_handle(stream);
}

static void stream_close(struct sl_stream *stream)
{
    stream->abandoned = true;
    if (stream->state != OPEN)
        stream->net->unlucky++;
    if (stream->state == RESOLVING)
        uv_cancel((uv_req_t *)&stream->resolve); /* or it ends by itself; either way its callback comes */
    else
        close_handle(stream);
}

/* ---- writing */

static void on_written(uv_write_t *request, int status)
{
    struct unsent *unsent = SL_CONTAINER(request, struct unsent, request);
    struct sl_alloc alloc = unsent->alloc;

    (void)status; /* the read side hears of a broken connection */
    sl_free(&alloc, unsent);
}

/* As much at once as the kernel takes; the rest waits in a copy. */
static int write_raw(struct sl_stream *stream, const char *bytes, size_t len)
{
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    struct unsent *unsent;
    int sent;

    if (uv_stream_get_write_queue_size(&stream->uv.stream) + len > SL_NET_UV_UNSENT_MAX)
        return SL_EBUSY;
    sent = uv_try_write(&stream->uv.stream, &buf, 1);
    if (sent < 0 && sent != UV_EAGAIN)
        return SL_EIO;
    if (sent > 0) {
        bytes += sent;
        len -= (size_t)sent;
    }
    if (!len)
        return 0;
    unsent = stream->net->alloc.realloc(stream->net->alloc.ctx, NULL, sizeof *unsent + len);
    if (!unsent)
        return SL_ENOMEM;
    unsent->alloc = stream->net->alloc;
    memcpy(unsent->bytes, bytes, len);
    buf = uv_buf_init(unsent->bytes, (unsigned)len);
    if (uv_write(&unsent->request, &stream->uv.stream, &buf, 1, on_written) == 0)
        return 0;
    sl_free(&stream->net->alloc, unsent);
    return SL_EIO;
}

/* Sends the ciphertext that has come together. */
static int flush_tls(struct sl_stream *stream)
{
    char bytes[16384];
    size_t len;
    int err = 0;

    while (!err && (len = sl_tls_end_take(stream->tls, bytes, sizeof bytes)) > 0)
        err = write_raw(stream, bytes, len);
    return err;
}

static int stream_write(struct sl_stream *stream, const void *bytes, size_t len)
{
    int err;

    if (stream->state != OPEN || uv_is_closing(&stream->uv.handle))
        return SL_EIO;
    if (len > SL_NET_UV_UNSENT_MAX)
        return SL_EBUSY;
    if (!stream->tls)
        return write_raw(stream, bytes, len);
    err = sl_tls_end_write(stream->tls, bytes, len);
    return err ? err : flush_tls(stream);
}

/* ---- TLS contexts */

static void drop_place(struct sl_net_uv *net, unsigned i)
{
    sl_tls_keys_free(net->keys[i].keys);
    sl_free(&net->alloc, net->keys[i].options);
    net->keys[i].keys = NULL;
    net->keys[i].options = NULL;
}

static const char *text_of(const struct sl_tls_options *options, char *buf, size_t size)
{
    snprintf(buf, size, "%d\n%s\n%s\n%s", options->insecure, options->ca ? options->ca : "",
             options->cert ? options->cert : "", options->key ? options->key : "");
    return buf;
}

/* Where the context of these options is; if nowhere, a free place, and if there is none, the first. */
static unsigned find_keys(const struct sl_net_uv *net, const char *text)
{
    unsigned spare = 0;

    for (unsigned i = 0; i < SL_NET_UV_KEYS_MAX; i++) {
        if (net->keys[i].options && strcmp(net->keys[i].options, text) == 0)
            return i;
        if (!net->keys[i].options)
            spare = i;
    }
    return spare;
}

static void drop_keys(struct sl_net_uv *net, const struct sl_tls_options *options)
{
    char text[OPTIONS_TEXT_MAX];
    unsigned i = find_keys(net, text_of(options, text, sizeof text));

    if (net->keys[i].options && strcmp(net->keys[i].options, text) == 0 &&
        net->net.now_us(net) - net->keys[i].made_us >= SL_NET_UV_KEYS_KEEP_US)
        drop_place(net, i);
}

static struct sl_tls_keys *keys_for(struct sl_net_uv *net, const struct sl_tls_options *options, char *why,
                                    size_t why_size)
{
    char text[OPTIONS_TEXT_MAX];
    unsigned i = find_keys(net, text_of(options, text, sizeof text));

    if (net->keys[i].options && strcmp(net->keys[i].options, text) == 0)
        return net->keys[i].keys;
    drop_place(net, i);
    net->keys[i].keys = sl_tls_keys_new(options, why, why_size);
    net->keys[i].made_us = net->net.now_us(net);
    if (net->keys[i].keys)
        net->keys[i].options = sl_strndup(&net->alloc, text, strlen(text));
    if (!net->keys[i].options)
        drop_place(net, i);
    return net->keys[i].keys;
}

/* ---- reading */

static bool is_live(const struct sl_stream *stream)
{
    return !stream->abandoned && !uv_is_closing(&stream->uv.handle);
}

static void open_up(struct sl_stream *stream)
{
    stream->state = OPEN;
    stream->events->opened(stream->owner);
}

/* Reads what can be read of the TLS session. */
static void pump_tls(struct sl_stream *stream)
{
    char *plain = stream->net->buf + SL_NET_UV_READ_SIZE;
    char why[160] = "TLS: the server closed the connection";
    long n;

    do {
        n = sl_tls_end_read(stream->tls, plain, SL_NET_UV_READ_SIZE, why, sizeof why);
        if (flush_tls(stream))
            n = SL_TLS_END_BROKEN;
        if (stream->state == SECURING && n >= 0 && sl_tls_end_ready(stream->tls))
            open_up(stream);
        if (n > 0 && is_live(stream))
            stream->events->data(stream->owner, plain, (size_t)n);
    } while (n > 0 && is_live(stream));
    if (n >= 0 || !is_live(stream))
        return;
    if (stream->state == SECURING)
        drop_keys(stream->net, stream->tls_options);
    fail(stream, why, "");
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct sl_stream *stream = handle->data;

    (void)suggested;
    *ret_buf = uv_buf_init(stream->net->buf, SL_NET_UV_READ_SIZE);
}

static void on_read(uv_stream_t *uv, ssize_t n, const uv_buf_t *buf)
{
    struct sl_stream *stream = uv->data;

    if (n == 0 || stream->abandoned)
        return;
    if (n < 0) {
        fail(stream, n == UV_EOF ? "the server closed the connection" : "the connection broke",
             n == UV_EOF ? "" : uv_strerror((int)n));
        return;
    }
    if (!stream->tls) {
        stream->events->data(stream->owner, buf->base, (size_t)n);
        return;
    }
    if (sl_tls_end_feed(stream->tls, buf->base, (size_t)n))
        fail(stream, "out of memory", "");
    else
        pump_tls(stream);
}

/* ---- opening */

static void secure(struct sl_stream *stream)
{
    char why[160] = "TLS: out of memory";
    struct sl_tls_keys *keys = keys_for(stream->net, stream->tls_options, why, sizeof why);

    stream->state = SECURING;
    if (keys)
        stream->tls = sl_tls_end_new(keys, stream->endpoint.host);
    if (stream->tls)
        pump_tls(stream);
    else
        fail(stream, why, "");
}

static void on_connected(uv_connect_t *request, int status)
{
    struct sl_stream *stream = request->data;

    if (stream->abandoned || status == UV_ECANCELED)
        return; /* the handle's closing goes on from here */
    if (status) {
        fail(stream, "cannot connect", uv_strerror(status));
        return;
    }
    uv_read_start(&stream->uv.stream, on_alloc, on_read);
    if (stream->tls_options)
        secure(stream);
    else
        open_up(stream);
}

static void try_address(struct sl_stream *stream)
{
    int err = uv_tcp_init(stream->net->loop, &stream->uv.tcp);

    if (err) {
        snprintf(stream->why, sizeof stream->why, "cannot connect: %s", uv_strerror(err));
        tell_closed(stream);
        return;
    }
    stream->uv.handle.data = stream;
    stream->has_handle = true;
    stream->state = CONNECTING;
    uv_tcp_nodelay(&stream->uv.tcp, 1);
    uv_tcp_keepalive(&stream->uv.tcp, 1, 30);
    err = uv_tcp_connect(&stream->connect, &stream->uv.tcp, stream->address->ai_addr, on_connected);
    if (err)
        fail(stream, "cannot connect", uv_strerror(err));
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses)
{
    struct sl_stream *stream = request->data;
    unsigned n = 0, skip;

    stream->addresses = addresses;
    if (status || stream->abandoned || !addresses) {
        snprintf(stream->why, sizeof stream->why, "host %.80s: %s", stream->endpoint.host,
                 status ? uv_strerror(status) : "no address");
        tell_closed(stream);
        return;
    }
    for (struct addrinfo *a = addresses; a; a = a->ai_next)
        n++;
    stream->address = addresses;
    for (skip = stream->net->unlucky % n; skip; skip--)
        stream->address = stream->address->ai_next;
    stream->first = stream->address;
    try_address(stream);
}

static int start_tcp(struct sl_stream *stream)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];

    snprintf(port, sizeof port, "%u", stream->endpoint.port);
    stream->resolve.data = stream;
    return uv_getaddrinfo(stream->net->loop, &stream->resolve, on_resolved, stream->endpoint.host, port, &hints);
}

static int start_pipe(struct sl_stream *stream)
{
    int err = uv_pipe_init(stream->net->loop, &stream->uv.pipe, 0);

    if (err)
        return err;
    stream->uv.handle.data = stream;
    stream->has_handle = true;
    stream->state = CONNECTING;
    uv_pipe_connect(&stream->connect, &stream->uv.pipe, stream->endpoint.host, on_connected);
    return 0;
}

static struct sl_stream *stream_dial(void *ctx, const struct sl_endpoint *to, const struct sl_tls_options *tls,
                                     const struct sl_stream_events *events, void *owner)
{
    struct sl_net_uv *net = ctx;
    struct sl_stream *stream = sl_calloc(&net->alloc, 1, sizeof *stream);

    if (!stream)
        return NULL;
    stream->net = net;
    stream->events = events;
    stream->owner = owner;
    stream->endpoint = *to;
    stream->tls_options = tls;
    stream->connect.data = stream;
    net->n_open++;
    if ((to->is_unix ? start_pipe(stream) : start_tcp(stream)) == 0)
        return stream;
    release(stream);
    return NULL;
}

/* ---- clock, randomness, life */

static uint64_t net_now_us(void *ctx)
{
    (void)ctx;
    return uv_hrtime() / 1000;
}

/* SplitMix64 (Steele, Lea, Flood 2014): good enough to spread dials and probes. */
static uint64_t net_random(void *ctx)
{
    struct sl_net_uv *net = ctx;
    uint64_t x = net->seed += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

int sl_net_uv_init(struct sl_net_uv *net, uv_loop_t *loop, const struct sl_alloc *alloc)
{
    *net = (struct sl_net_uv){
        .net = {.now_us = net_now_us,
                .random = net_random,
                .dial = stream_dial,
                .write = stream_write,
                .close = stream_close,
                .timer_new = sl_timer_uv_new,
                .timer_set = sl_timer_uv_set,
                .timer_free = sl_timer_uv_free,
                .ctx = net},
        .loop = loop,
        .alloc = *alloc,
    };
    if (getrandom(&net->seed, sizeof net->seed, 0) != (ssize_t)sizeof net->seed)
        return SL_EIO;
    net->buf = sl_calloc(alloc, 2, SL_NET_UV_READ_SIZE);
    return net->buf ? 0 : SL_ENOMEM;
}

void sl_net_uv_fini(struct sl_net_uv *net)
{
    assert(net->n_open == 0);
    for (unsigned i = 0; i < SL_NET_UV_KEYS_MAX; i++)
        drop_place(net, i);
    sl_free(&net->alloc, net->buf);
    net->buf = NULL;
}
