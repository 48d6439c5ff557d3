/* The daemon's side of the control plane: follows the versions of the policy on the store, says what runs here, and does what
 * the admin listener is asked about versions. All of it on the daemon's own loop, with a connection of its own: a large
 * policy on its way never stands in front of a decision, and compiling one never holds a worker up.
 *
 *     sl_plane_start(&plane, &config, loop, why, sizeof why);   memory: is a plane that does nothing
 *     hooks.policy = sl_plane_job;                              where there is a store
 *     sl_plane_follow(&plane, server);                          when the server runs
 *     ... the loop ends, the server is freed ...
 *     sl_plane_stop(&plane);                                    then the loop is closed
 *     sl_plane_fini(&plane); */
#ifndef SL_SLUICED_PLANE_H
#define SL_SLUICED_PLANE_H

#include "control/follow.h"
#include "server/policy_job.h"
#include "server/server.h"
#include "sluiced/source.h"
#include "sluiced/tier.h"
#include "store/net_uv.h"

#define SL_PLANE_TIMEOUT_US UINT64_C(1000000) /* of each command, unless a decision may take longer */
#define SL_PLANE_PATIENCE_MS 2000             /* /readyz waits so long for the first look at the store */

/* What is asked of the store before an instance is ready. */
#define SL_PLANE_POLICY 1u
#define SL_PLANE_OVERRIDES 2u

struct sl_plane {
    const struct sl_config *config; /* borrowed, as the rest */
    struct sl_tier *tier;
    struct sl_source *source;
    struct sl_log *log;
    struct sl_server *server; /* NULL before sl_plane_follow */
    struct sl_alloc alloc;
    char host[SL_HOST_TEXT_MAX + 1];
    bool started, from_file;
    struct sl_net_uv net;
    struct sl_client *client;
    struct sl_versions_place place;
    struct sl_follow *follow;
    uv_async_t asked;
    uv_timer_t patience;
    unsigned awaited;     /* SL_PLANE_..., before the instance is ready */
    pthread_mutex_t lock; /* the jobs that have come */
    struct sl_policy_job *jobs[64];
    unsigned n_jobs;
};

/* Begins to connect. Returns 0; or SL_EINVALID, SL_EIO or SL_ENOMEM with a sentence and nothing left but handles of the loop,
 * which whoever closes all of it closes. */
int sl_plane_start(struct sl_plane *plane, const struct sl_config *config, struct sl_tier *tier,
                   struct sl_source *source, struct sl_log *log, uv_loop_t *loop, char *why, size_t why_size);

/* From here on the store's version is taken, and /readyz is right when the store has been heard or patience has ended.
 * Without a store it is right at once. */
void sl_plane_follow(struct sl_plane *plane, struct sl_server *server);

/* The store has answered about one of what is awaited. On the loop. */
void sl_plane_heard(struct sl_plane *plane, unsigned what);

/* Looks at the store now, and tries anew what was refused. Returns false when there is nothing to look at. On the loop. */
bool sl_plane_hurry(struct sl_plane *plane);

/* hooks.policy: any thread. */
void sl_plane_job(void *plane, struct sl_policy_job *job);

/* After the server, before the loop is closed; and after that. */
void sl_plane_stop(struct sl_plane *plane);
void sl_plane_fini(struct sl_plane *plane);

/* ---- plane_jobs.c */

/* Does it, on the loop. */
void sl_plane_do(struct sl_plane *plane, struct sl_policy_job *job);

#endif
