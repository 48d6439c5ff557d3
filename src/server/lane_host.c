#include "server/lane_host.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>

int sl_lane_host_open(struct sl_lane_host *host, uv_loop_t *loop, struct sl_fleet *fleet, char *ret_why,
                      size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    int e = sl_net_uv_init(&host->net, loop, &alloc);

    if (e) {
        snprintf(ret_why, why_size, "cannot speak to the store: %s", sl_err_text(e));
        return e;
    }
    host->has_net = true;
    return sl_lane_new(fleet, &host->net.net, &host->lane, ret_why, why_size);
}

static void on_stopped(void *ctx)
{
    struct sl_lane_host *host = ctx;

    host->stopped = true;
    host->again(host->ctx);
}

bool sl_lane_host_stop(struct sl_lane_host *host, void (*again)(void *ctx), void *ctx)
{
    if (host->lane && !host->stopping) {
        host->stopping = true;
        host->again = again;
        host->ctx = ctx;
        sl_lane_stop(host->lane, on_stopped, host);
    }
    if (host->lane && host->stopped)
        sl_lane_host_drop(host);
    return !host->lane;
}

void sl_lane_host_drop(struct sl_lane_host *host)
{
    sl_lane_free(host->lane);
    host->lane = NULL;
}

void sl_lane_host_fini(struct sl_lane_host *host)
{
    assert(!host->lane);
    if (!host->has_net)
        return;
    assert(host->net.n_open == 0);
    sl_net_uv_fini(&host->net);
    host->has_net = false;
}
