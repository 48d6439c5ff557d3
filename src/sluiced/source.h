/* Where the policy comes from, and how a new one takes the place of the old: whole, or not at all.
 *
 * It comes from the file; or, where instances share a store and its versions come first, from there: the file serves until
 * the first version is known, and is not taken any more after that.
 *
 * A reload reads the file, compiles it, and only then swaps; whatever is wrong with it, the policy in force stays and
 * the failure is logged with its places and counted. A file whose policy is the one in force (same hash) is no reload.
 * Reloads come from the watcher, from SIGHUP and from the admin listener, on different threads; a mutex puts them in
 * order. The work itself is done by a thread that gives way to the workers (gently.h), while the caller waits. */
#ifndef SL_SLUICED_SOURCE_H
#define SL_SLUICED_SOURCE_H

#include "control/versions.h"
#include "limiter/limiter.h"
#include "policy/override.h"
#include "sluiced/log.h"

#include <pthread.h>

/* At most this many findings of a broken policy are logged; the rest are counted in the last line. */
#define SL_SOURCE_FINDINGS_MAX 10

struct sl_source_config {
    const char *path;        /* borrowed, as the rest */
    const char *state_dir;   /* where the last good policy is kept; NULL: it is not */
    struct sl_secret secret; /* what policies are compiled under */
    bool has_store;          /* limits may be shared */
    const char *region;      /* what policies are compiled for; NULL or "": none */
    /* Versions on this store come before the file; NULL: the file is all there is. */
    const struct sl_store_url *versions;
    const char *ns;
    struct sl_log *log;
    /* The policy in force is compiled under another secret than before, since now. With the lock held, on the thread of
     * the reload; must not call back. NULL: nobody cares. */
    void (*keyed)(void *ctx, const struct sl_secret *secret);
    /* What a policy that was to be put in force, the file's or a version of the store, came to: NULL, it is; or the
     * first finding. Likewise. */
    void (*judged)(void *ctx, bool of_store, const char *finding);
    void *ctx;
};

/* Hashes, sorted. */
struct sl_source_marks {
    uint64_t *list;
    size_t n;
};

struct sl_source {
    struct sl_source_config config;
    struct sl_limiter *limiter; /* NULL until sl_source_attach */
    pthread_mutex_t lock;       /* what follows, and config.secret */
    struct sl_secret in_force;  /* what the policy in force is compiled under */
    char *text;                 /* the file as it was last good, NULL: it never was */
    size_t text_len;
    struct sl_pointer version; /* what is in force; number 0: the file */
    struct sl_version_text version_text;
    struct sl_overrides *overrides; /* what lies over the policy in force; NULL: nothing */
    struct sl_source_marks told;    /* of inactive overrides that the log has told of */
};

/* Returns 0, or SL_EIO with a sentence when the folder cannot be used. */
int sl_source_init(struct sl_source *source, const struct sl_source_config *config, char *why, size_t why_size);
void sl_source_fini(struct sl_source *source);

/* Compiles the policy for the start; the caller takes the reference. Where versions come first, that is the last
 * good one that was kept. Else it is the file; a broken one falls back to the last good one, with an error in the
 * log. Else returns SL_EPOLICY or SL_ENOMEM and one sentence: the first finding, and how many more there are. */
int sl_source_first(struct sl_source *source, struct sl_policy **ret_policy, bool *ret_fallen_back, char *why,
                    size_t why_size);

/* From here on reloads put their policy in force in `limiter` (borrowed). */
void sl_source_attach(struct sl_source *source, struct sl_limiter *limiter);

/* What a reload came to. */
enum sl_reload {
    SL_RELOAD_DONE,
    SL_RELOAD_SAME,
    SL_RELOAD_FAILED,
    SL_RELOAD_SHORT,   /* out of memory: nothing is wrong with it (sl_source_take) */
    SL_RELOAD_IGNORED, /* a version is in force: the file was not looked at */
};

/* Reads the file anew. `trigger` is for the log ("SIGHUP"). On failure `why` has the first finding; it may be NULL.
 * Any thread. */
enum sl_reload sl_source_reload(struct sl_source *source, const char *trigger, char *why, size_t why_size);

/* Puts a version in force, and keeps it. On success the texts are taken (and *text cleared). On failure everything
 * stays, the findings are logged, and `why` has the first. Any thread. */
enum sl_reload sl_source_take(struct sl_source *source, const struct sl_version *version, struct sl_version_text *text,
                              char *why, size_t why_size);

/* Would these texts be taken, and have they no warning of the `refused` ones? Returns 0, or SL_EPOLICY or SL_ENOMEM and the
 * first finding. Any thread. */
int sl_source_try(struct sl_source *source, const struct sl_version_text *text, const char *name,
                  enum sl_warnings refused, char *why, size_t why_size);

/* What is in force: a version; or number 0 and the hash of the file's policy. Any thread. */
struct sl_pointer sl_source_runs(struct sl_source *source);

/* From here on policies are compiled under this secret, beginning with the one in force: the file as it is now, else as
 * it was last good, else the copy that was kept. When none of them compiles, the policy in force stays as it is until a
 * reload succeeds. Any thread. */
enum sl_reload sl_source_rekey(struct sl_source *source, const struct sl_secret *secret);

/* ---- overrides: they lie over whatever policy is in force, and stay over it when another one is put in force */

/* Puts the list (borrowed; it takes a reference of its own) over the policy in force, or what is left of the same
 * list when one of them has ended. What is inactive is logged, once. Returns 0, or SL_ENOMEM: then everything stays.
 * Any thread. */
int sl_source_set_overrides(struct sl_source *source, struct sl_overrides *overrides);

/* Would this one have an effect everywhere it is meant for, among those there are? Returns 0; SL_EPOLICY and a
 * sentence; or SL_ENOMEM. Any thread. */
int sl_source_try_override(struct sl_source *source, const struct sl_override *override, char *why, size_t why_size);

/* ---- source_overrides.c: with the lock held */

/* Puts `policy` in force with the overrides over it. Takes no reference. Returns 0 or SL_ENOMEM. */
int sl_source_put(struct sl_source *source, struct sl_policy *policy);
/* Drops a policy that is not in force any more. Loops may hold it until their turn ends; they are waited for a moment, so that
 * none of them has to free megabytes in the middle of its work. */
void sl_source_retire(struct sl_policy *policy);
int sl_source_lay(struct sl_source *source, struct sl_overrides *overrides);
int sl_source_judge_override(struct sl_source *source, const struct sl_override *override, char *why, size_t why_size);
void sl_source_forget_overrides(struct sl_source *source);

#endif
