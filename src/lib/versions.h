/* The versions of the policy on the store (control/versions.h) and the overrides there (control/overrides.h), as an
 * instance of the library follows them: on the background thread's loop, with a connection of its own, so that a
 * large policy on its way never stands in front of a decision. A version is compiled by a thread of libuv's pool:
 * the loop, on which decisions come and go, does not stand still for it. */
#ifndef SL_LIB_VERSIONS_H
#define SL_LIB_VERSIONS_H

#include "control/follow.h"
#include "control/overrides.h"
#include "lib/tier.h"

#include <uv.h>

#define SL_LIB_VERSIONS_TIMEOUT_US UINT64_C(1000000) /* of each command, unless a decision may take longer */

/* A version that is being compiled. */
struct sl_taking {
    uv_work_t work;
    struct sl_version version;
    struct sl_version_text text;
    struct sl_secret secret;  /* under which */
    struct sl_policy *policy; /* what came of it */
    int err;
    char why[SLUICE_WHY_MAX];
};

struct sl_lib_versions {
    struct sl_tier *tier;
    uv_loop_t *uv;
    struct sl_client *client;
    struct sl_follow *follow;
    struct sl_overrides_follow *overrides;
    struct sl_taking taking;
    char host[SL_HOST_TEXT_MAX + 1];
    bool busy;        /* `taking` is at work */
    bool looked;      /* the store has been looked at, and the version it has is done */
    bool looked_over; /* likewise its overrides */
    bool stopped;     /* nothing is taken any more */
    void (*ended)(void *ctx);
    void *ended_ctx;
};

/* Begins to connect. On the thread that opens, before the loop runs. `host` is what the history calls this instance
 * by. Returns 0, or an error with a sentence; stop it in both cases (a zeroed one is stopped). */
int sl_lib_versions_start(struct sl_lib_versions *versions, struct sl_tier *tier, uv_loop_t *uv,
                          const struct sl_net *net, char *why, size_t why_size);

/* Ends what is on its way. Returns true when all is over; else `ended` will be called on the loop, when a
 * compilation that cannot be interrupted is over. On the loop's thread, not from a callback of the store's client. */
bool sl_lib_versions_stop(struct sl_lib_versions *versions, void (*ended)(void *ctx), void *ctx);

/* On the loop, now and then: what the program has reloaded is told to the others. */
void sl_lib_versions_beat(struct sl_lib_versions *versions);

#endif
