/* A loop's part in the shared tier: its lane, and the net the lane speaks through. Without a fleet there is none. */
#ifndef SL_SERVER_LANE_HOST_H
#define SL_SERVER_LANE_HOST_H

#include "fleet/fleet.h"
#include "store/net_uv.h"

struct sl_lane_host {
    struct sl_net_uv net;
    struct sl_lane *lane; /* NULL: none, or gone */
    bool has_net, stopping, stopped;
    void (*again)(void *ctx);
    void *ctx;
};

/* Before the loop runs, on the thread that will hand it over. Returns 0, or an error with a sentence and nothing left but
 * handles of the loop that are closing. */
int sl_lane_host_open(struct sl_lane_host *host, uv_loop_t *loop, struct sl_fleet *fleet, char *ret_why,
                      size_t why_size);

/* Begins to stop the lane, or goes on with it. Returns true when the lane is gone; false: `again` will be called, from
 * which this must be called anew, but not from inside it. */
bool sl_lane_host_stop(struct sl_lane_host *host, void (*again)(void *ctx), void *ctx);

/* Drops the lane at once. Not from a callback of it. */
void sl_lane_host_drop(struct sl_lane_host *host);

/* After the lane is gone and the loop has closed its last handle. */
void sl_lane_host_fini(struct sl_lane_host *host);

#endif
