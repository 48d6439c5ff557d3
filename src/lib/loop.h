/* The background thread of a shared tier, and what may outlive the limiter: a name that is being resolved cannot be
 * interrupted, and closing does not wait for it. So all of this is of malloc(3), and the thread frees it when nobody
 * does. */
#ifndef SL_LIB_LOOP_H
#define SL_LIB_LOOP_H

#include "lib/tier.h"
#include "lib/versions.h"
#include "store/net_uv.h"

#include <pthread.h>
#include <signal.h>
#include <uv.h>

struct sl_loop {
    struct sl_tier *tier; /* not touched after `released` */
    struct sl_alloc alloc;
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t beat;
    struct sl_net_uv net;
    struct sl_lib_versions versions;
    unsigned n_ending; /* of lane and versions, once they are being stopped */
    pthread_t thread;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    bool ready;    /* the store decides */
    bool hurry;    /* somebody waits for that */
    bool released; /* the limiter is not touched any more */
    bool ended;    /* the thread is about to return */
    bool orphan;   /* nobody waits for that */
};

/* Opens the loop and the tier's lane. Returns 0, or an error with a sentence. */
int sl_loop_new(struct sl_tier *tier, struct sl_loop **ret_loop, char *ret_why, size_t why_size);

/* Starts the thread. Returns 0, or SL_EBUSY: then the loop is gone, and the lane. */
int sl_loop_start(struct sl_loop *loop, char *ret_why, size_t why_size);

/* Waits until the store decides, at most for_ms. */
bool sl_loop_wait_ready(struct sl_loop *loop, unsigned for_ms);

/* The mailbox is closed: waits until the thread is done with the limiter, and a little for its end. Frees. */
void sl_loop_stop(struct sl_loop *loop);

/* Any thread, before it is stopped. */
static inline void sl_loop_wake(struct sl_loop *loop)
{
    uv_async_send(&loop->wake);
}

#endif
