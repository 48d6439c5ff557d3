/* The daemon's side of shadow policies and dry runs: who is told of decisions, what the admin listener is asked about
 * candidates, and, where there is a store, the one candidate that all instances run.
 *
 *     sl_rehearsal_start(&rehearsal, &setting, why, sizeof why);    before the server; hooks.shadow..., witnesses
 *     sl_rehearsal_follow(&rehearsal);                              when the server runs
 *     ... the server is freed, the plane is stopped ...
 *     sl_rehearsal_stop(&rehearsal);
 *     sl_rehearsal_fini(&rehearsal);                                after the loop is closed
 *
 * With a store candidates are versions as policies are (control/versions.h), in a namespace of their own
 * (sl_shadow_namespace): a PUT pushes one, every instance follows, and a stop is a version too, whose text is
 * SL_REHEARSAL_NONE. `from` of such a version is the number of the policy's version beside which it was started. */
#ifndef SL_SLUICED_REHEARSAL_H
#define SL_SLUICED_REHEARSAL_H

#include "server/witness.h"
#include "shadow/dry.h"
#include "shadow/shadow.h"
#include "sluiced/plane.h"

#define SL_REHEARSAL_NONE "# no candidate\n"
#define SL_REHEARSAL_LOOK_MS 500u  /* between looks whether the policy in force is another one */
#define SL_REHEARSAL_TELL_MS 1000u /* between two times that an instance tells the store its counts */
#define SL_REHEARSAL_COUNTS_LIFE_MS "86400000"
#define SL_REHEARSAL_INSTANCES_MAX "1000"

/* Borrowed, all of it. */
struct sl_rehearsal_setting {
    const struct sl_config *config;
    struct sl_tier *tier;
    struct sl_plane *plane; /* started */
    struct sl_source *source;
    struct sl_limiter *limiter;
    struct sl_log *log;
    struct sl_witnesses *witnesses;
    uv_loop_t *loop;
};

struct sl_rehearsal {
    struct sl_rehearsal_setting set;
    struct sl_alloc alloc;
    bool started, shared; /* shared: candidates are versions on the store */
    struct sl_shadow *shadow;
    struct sl_dry *dry;
    struct sl_witness *all_seen, *dry_seen;
    uv_async_t asked;
    uv_timer_t look;
    pthread_mutex_t lock; /* the jobs that have come */
    struct sl_policy_job *jobs[64];
    unsigned n_jobs;
    /* The loop's. What runs: */
    struct sl_version version; /* number 0 without a store */
    struct sl_pointer against; /* the policy in force when it was started; no hash: not known here */
    char live[SL_HASH_HEX + 1];
    struct sl_policy *laid;          /* the one whose overrides were last laid over the candidate */
    uint64_t since_us, dry_since_us; /* Unix time */
    /* The store's part. */
    char ns[SL_NAMESPACE_MAX + 1];
    struct sl_versions_place place;
    struct sl_follow *follow;
    uint64_t told_ms; /* of uv_now */
    bool telling;
};

/* Returns 0; or SL_ENOMEM or SL_EIO with a sentence, and nothing left but handles of the loop. */
int sl_rehearsal_start(struct sl_rehearsal *rehearsal, const struct sl_rehearsal_setting *setting, char *why,
                       size_t why_size);
void sl_rehearsal_follow(struct sl_rehearsal *rehearsal);
void sl_rehearsal_stop(struct sl_rehearsal *rehearsal); /* accept one that was zeroed and never started */
void sl_rehearsal_fini(struct sl_rehearsal *rehearsal);

/* The server's hooks: any thread. */
void sl_rehearsal_job(void *rehearsal, struct sl_policy_job *job);
void sl_rehearsal_totals(void *rehearsal, struct sl_shadow_totals *ret_totals);

/* ---- among its files; on the loop */

/* Runs the candidate from now on, or stops what runs. `version` says whose it is. */
int sl_rehearsal_run(struct sl_rehearsal *rehearsal, const struct sl_version *version,
                     const struct sl_version_text *text, char *why, size_t why_size);
void sl_rehearsal_halt(struct sl_rehearsal *rehearsal, const struct sl_version *version);
/* Looks whether the policy in force is another one than before; then counts begin anew. */
void sl_rehearsal_note_live(struct sl_rehearsal *rehearsal);

/* Ends a job: with a sentence, or with a value, which is taken (NULL: out of memory). */
void sl_rehearsal_refuse(struct sl_policy_job *job, int status, const char *why);
void sl_rehearsal_answer(struct sl_policy_job *job, struct json_t *value);

/* rehearsal_report.c. What all instances counted, or what is known of it: `fleet` is taken, and may be NULL. */
struct json_t *sl_rehearsal_json(struct sl_rehearsal *rehearsal, bool with_text, struct json_t *fleet);
struct json_t *sl_rehearsal_dry_json(struct sl_rehearsal *rehearsal);

/* rehearsal_store.c. */
void sl_rehearsal_do_shared(struct sl_rehearsal *rehearsal, struct sl_policy_job *job);

/* rehearsal_fleet.c. Tells the store what was counted here; asks it for the sums, and answers the job with the
 * report. */
void sl_rehearsal_tell(struct sl_rehearsal *rehearsal);
void sl_rehearsal_report_shared(struct sl_rehearsal *rehearsal, struct sl_policy_job *job);

#endif
