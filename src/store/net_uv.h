/* The store client's net (store/net.h) on a libuv loop: TCP by name or address, UNIX sockets, TLS. libuv is spoken to
 * from net_uv.c and timer_uv.c alone.
 *
 *     struct sl_net_uv net;
 *     sl_net_uv_init(&net, loop, &alloc);
 *     ... give &net.net to clients, free those ...
 *     while (net.n_open)
 *         uv_run(loop, UV_RUN_ONCE);                what was closed goes within a turn or two
 *     sl_net_uv_fini(&net);
 *
 * Belongs to the loop's thread, in which SIGPIPE must be ignored or blocked: libuv writes to sockets that may be
 * closed. Names are resolved in libuv's thread pool; everything else stays on the loop. */
#ifndef SL_STORE_NET_UV_H
#define SL_STORE_NET_UV_H

#include "base/alloc.h"
#include "store/net.h"
#include "store/tls.h"

#include <uv.h>

#define SL_NET_UV_READ_SIZE 65536u
#define SL_NET_UV_UNSENT_MAX (8u << 20)
#define SL_NET_UV_KEYS_MAX 8u
#define SL_NET_UV_KEYS_KEEP_US UINT64_C(10000000)

struct sl_net_uv {
    struct sl_net net;
    uv_loop_t *loop;
    struct sl_alloc alloc;
    unsigned n_open;  /* streams and timers that are not gone yet */
    unsigned unlucky; /* dials given up before they opened: the next one begins with another address of the name */
    uint64_t seed;
    /* TLS contexts, by the options they were made of, written out; one whose handshake failed is made anew, from the
     * files as they are then, but not while it is young: reading all of a system's certificates holds the loop up */
    struct {
        char *options; /* NULL: a free place */
        uint64_t made_us;
        struct sl_tls_keys *keys;
    } keys[SL_NET_UV_KEYS_MAX];
    char *buf; /* SL_NET_UV_READ_SIZE, for reading; another as large for TLS behind it */
};

/* Borrows loop and alloc's functions. Returns 0, SL_ENOMEM, or SL_EIO when the system gives no random bytes. */
int sl_net_uv_init(struct sl_net_uv *net, uv_loop_t *loop, const struct sl_alloc *alloc);

/* When n_open is 0. */
void sl_net_uv_fini(struct sl_net_uv *net);

/* ---- timer_uv.c */

struct sl_timer *sl_timer_uv_new(void *ctx, void (*fire)(void *owner), void *owner);
void sl_timer_uv_set(struct sl_timer *timer, uint64_t at_us);
void sl_timer_uv_free(struct sl_timer *timer);

#endif
