/* What the store client needs of the world, handed in: byte streams, timers, a clock and randomness.
 *
 * store/net_uv.h gives the real one on a libuv loop; a simulator or a test brings its own. Everything belongs to one
 * thread, the loop's, and callbacks come from that loop, never from inside a call to one of these functions. */
#ifndef SL_STORE_NET_H
#define SL_STORE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_HOST_MAX 255
#define SL_ENDPOINT_TEXT_MAX (SL_HOST_MAX + 9)

/* Where a server listens. */
struct sl_endpoint {
    bool is_unix;
    uint16_t port;              /* 0 for a UNIX socket */
    char host[SL_HOST_MAX + 1]; /* a name, an IPv4 or IPv6 address without brackets, or the path of a UNIX socket */
};

/* "host:port", "[v6]:port" or the path. Returns buf. */
const char *sl_endpoint_text(const struct sl_endpoint *endpoint, char buf[static SL_ENDPOINT_TEXT_MAX]);
bool sl_endpoint_equal(const struct sl_endpoint *a, const struct sl_endpoint *b);

/* How a stream is encrypted. NULL or empty strings are absent. */
struct sl_tls_options {
    const char *ca;         /* file of PEM certificates to trust instead of the system's */
    const char *cert, *key; /* client certificate and key, PEM */
    bool insecure;          /* neither chain nor name are checked */
};

struct sl_stream;
struct sl_timer;

/* What happens to a stream. `opened` comes at most once, after name resolution, connecting and the TLS handshake;
 * `data` any number of times after it; `closed` at most once and last: the stream is gone then. */
struct sl_stream_events {
    void (*opened)(void *owner);
    void (*data)(void *owner, const char *bytes, size_t len); /* bytes: borrowed for the call */
    void (*closed)(void *owner, const char *why);             /* one sentence, borrowed for the call */
};

struct sl_net {
    /* Microseconds that never step back. */
    uint64_t (*now_us)(void *ctx);
    /* 64 random bits. */
    uint64_t (*random)(void *ctx);
    /* Starts to open a stream; tls: NULL for none, borrowed until `closed` or close. Returns NULL when out of memory.
     */
    struct sl_stream *(*dial)(void *ctx, const struct sl_endpoint *to, const struct sl_tls_options *tls,
                              const struct sl_stream_events *events, void *owner);
    /* Sends after what was sent before. Returns 0, or SL_EBUSY when the peer has left too much unread, SL_ENOMEM,
     * SL_EIO: then the caller closes it. */
    int (*write)(struct sl_stream *stream, const void *bytes, size_t len);
    /* No event comes after this. */
    void (*close)(struct sl_stream *stream);
    struct sl_timer *(*timer_new)(void *ctx, void (*fire)(void *owner), void *owner); /* NULL: out of memory */
    /* Fires once, not before at_us; a time that is past means before the loop waits again; UINT64_MAX stops it. */
    void (*timer_set)(struct sl_timer *timer, uint64_t at_us);
    void (*timer_free)(struct sl_timer *timer); /* accepts NULL */
    void *ctx;
};

/* A random number in [from, to]. */
static inline uint64_t sl_net_between(const struct sl_net *net, uint64_t from, uint64_t to)
{
    uint64_t span = to - from + 1;

    return span ? from + net->random(net->ctx) % span : net->random(net->ctx);
}

#endif
