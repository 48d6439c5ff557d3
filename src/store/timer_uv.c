#include "store/net_uv.h"

struct sl_timer {
    uv_timer_t uv;
    struct sl_net_uv *net;
    void (*fire)(void *owner);
    void *owner;
    uint64_t at_us;
};

struct sl_timer *sl_timer_uv_new(void *ctx, void (*fire)(void *owner), void *owner)
{
    struct sl_net_uv *net = ctx;
    struct sl_timer *timer = sl_calloc(&net->alloc, 1, sizeof *timer);

    if (!timer)
        return NULL;
    timer->net = net;
    timer->fire = fire;
    timer->owner = owner;
    uv_timer_init(net->loop, &timer->uv);
    timer->uv.data = timer;
    net->n_open++;
    return timer;
}

/* libuv counts whole milliseconds from the time it last looked; what fires early by that is set again. */
static void on_timer(uv_timer_t *uv)
{
    struct sl_timer *timer = uv->data;

    if (timer->at_us > timer->net->net.now_us(timer->net)) {
        uv_update_time(timer->net->loop);
        sl_timer_uv_set(timer, timer->at_us);
        return;
    }
    timer->fire(timer->owner);
}

void sl_timer_uv_set(struct sl_timer *timer, uint64_t at_us)
{
    uint64_t now;

    timer->at_us = at_us;
    if (at_us == UINT64_MAX) {
        uv_timer_stop(&timer->uv);
        return;
    }
    now = at_us ? timer->net->net.now_us(timer->net) : 0;
    uv_timer_start(&timer->uv, on_timer, at_us > now ? (at_us - now + 999) / 1000 : 0, 0);
}

static void on_closed(uv_handle_t *handle)
{
    struct sl_timer *timer = handle->data;

    timer->net->n_open--;
    sl_free(&timer->net->alloc, timer);
}

void sl_timer_uv_free(struct sl_timer *timer)
{
    if (timer)
        uv_close((uv_handle_t *)&timer->uv, on_closed);
}
