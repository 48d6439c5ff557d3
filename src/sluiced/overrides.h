/* The daemon's side of overrides: where the list is kept, when it changes, what the admin listener asks about it. On the
 * daemon's own loop.
 *
 *     sl_overrides_start(&desk, &config, loop);     lays what was kept over the policy
 *     hooks.overrides = sl_overrides_take_job;
 *     sl_overrides_begin(&desk);                    when the server runs: follows the store
 *     ... the loop ends, the server and the plane's client are freed ...
 *     sl_overrides_stop(&desk);
 *     sl_overrides_fini(&desk);                     after the loop is closed
 *
 * With a store the list is the store's, and the state folder has the last good one; an instance that is cut off keeps what
 * it has. Without a store the list is the state folder's; without that too it is in memory, and its answers say so. When
 * the next of them ends, the others are laid over the policy anew: an override is not in force after its end, whether the
 * store can be reached or not, and never again after a restart. */
#ifndef SL_SLUICED_OVERRIDES_H
#define SL_SLUICED_OVERRIDES_H

#include "control/overrides.h"
#include "server/override_job.h"
#include "sluiced/source.h"
#include "store/url.h"

#include <uv.h>

struct json_t;

struct sl_overrides_config {
    struct sl_source *source; /* borrowed, as the rest */
    struct sl_log *log;
    const char *state_dir;                 /* NULL: none */
    const struct sl_versions_place *place; /* the plane's; NULL: without a store */
    const struct sl_store_url *url;        /* with `place`: whose list is kept in the state folder */
    const char *ns;
    void (*looked)(void *ctx); /* the store has been asked for the first time; with `place` */
    void *ctx;
};

struct sl_override_desk {
    struct sl_overrides_config config;
    struct sl_alloc alloc;
    bool started;
    uv_async_t asked;
    uv_timer_t ending;
    struct sl_overrides *list;   /* what there is, also what has ended meanwhile */
    struct sl_revision revision; /* of the store's list; its text is empty without one */
    struct json_t *log;          /* without a store: records of changes, the newest first */
    struct sl_overrides_follow *follow;
    pthread_mutex_t lock; /* the jobs that have come */
    struct sl_override_job *jobs[64];
    unsigned n_jobs;
};

/* Returns 0, or SL_ENOMEM and nothing left but handles of the loop. */
int sl_overrides_start(struct sl_override_desk *desk, const struct sl_overrides_config *config, uv_loop_t *loop);
void sl_overrides_begin(struct sl_override_desk *desk);
/* After the client of `place`, before the loop is closed; and after that. Both accept a zeroed one. */
void sl_overrides_stop(struct sl_override_desk *desk);
void sl_overrides_fini(struct sl_override_desk *desk);

/* hooks.overrides: any thread. */
void sl_overrides_take_job(void *desk, struct sl_override_job *job);

/* ---- between the files of this header: on the loop */

void sl_overrides_do(struct sl_override_desk *desk, struct sl_override_job *job);

/* Puts a list in force, whose reference it takes, keeps it, and waits for its next end. Returns 0 or SL_ENOMEM: then what
 * was stays. */
int sl_overrides_adopt(struct sl_override_desk *desk, struct sl_overrides *list);

/* ---- keep_overrides.c: one file, JSON: the revision, the records and, without a store, the log */

struct sl_kept_overrides {
    struct sl_overrides *list; /* a reference; NULL: there are none */
    struct sl_revision revision;
    struct json_t *log; /* a reference */
};

/* url NULL: without a store. Returns 0, or SL_EIO or SL_ENOMEM with a sentence. */
int sl_keep_overrides(const char *dir, const struct sl_store_url *url, const char *ns, const struct sl_overrides *list,
                      const struct sl_revision *revision, const struct json_t *log, char *why, size_t why_size);
/* Finds them again: 0; SL_ENOTFOUND; or SL_EIO, SL_EFORMAT or SL_ENOMEM with a sentence. A file that cannot be read is put
 * aside under a name that ends in ".unreadable". */
int sl_keep_find_overrides(const char *dir, const struct sl_store_url *url, const char *ns,
                           struct sl_kept_overrides *ret_kept, char *why, size_t why_size);

#endif
