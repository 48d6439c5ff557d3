/* A candidate policy beside the live one: decides the same requests, after their verdicts, on buckets of its own,
 * and compares.
 *
 *     sl_shadow_new(&config, &shadow);
 *     sl_shadow_offer(shadow, loop, &request, &verdict);         on a serving loop, after the verdict: into its ring
 *     sl_shadow_start(shadow, &text, "candidate.yaml", why, ...) from now on; again: another candidate takes its place
 *     value = sl_shadow_json(shadow);
 *     sl_shadow_stop(shadow);
 *     sl_shadow_free(shadow);                                    nobody offers any more
 *
 * One background thread of the lowest priority takes decisions out of the rings in the order of their time and
 * decides each under the candidate. What finds no room in its ring is dropped and counted: the shadow never holds a
 * loop up, and knows no lock that one takes. Without a store it decides at the instant the live table decided, in a
 * table of its own. With one it has a lane and buckets of its own under another namespace (sl_shadow_namespace), so
 * that instances that each see a part of the traffic rehearse what they would decide together.
 *
 * A candidate that takes another's place finds its buckets, as on a reload; counts begin anew. After a stop the
 * table is gone, and buckets in the store expire. */
#ifndef SL_SHADOW_SHADOW_H
#define SL_SHADOW_SHADOW_H

#include "control/versions.h"
#include "limiter/limiter.h"
#include "shadow/compare.h"
#include "store/codec.h"

#define SL_SHADOW_LOOPS_MAX 257u
#define SL_SHADOW_TABLE_KEYS_MAX 1000000u
#define SL_SHADOW_TIMEOUT_US UINT64_C(1000000) /* of a decision by the store, unless live ones may take longer */
#define SL_SHADOW_FLYING_MAX 4096u             /* decisions that wait for the store */
#define SL_SHADOW_TICK_MS 5u                   /* between looks into empty rings */

struct sl_shadow;
struct sl_overrides;

enum sl_shadow_say { SL_SHADOW_ERROR, SL_SHADOW_WARNING, SL_SHADOW_INFO };

/* All that is pointed to is borrowed for the shadow's life. */
struct sl_shadow_config {
    const struct sl_alloc *alloc;
    struct sl_table *live;            /* for its clock */
    const struct sl_store_url *store; /* NULL: the shadow decides in its table alone */
    const char *ns;                   /* the live one */
    uint64_t timeout_us;              /* of a live decision */
    unsigned instances;
    const char *region; /* as in sl_policy_options, as check_store */
    int (*check_store)(const char *text, char *why, size_t why_size);
    uint64_t table_keys, table_log_entries; /* the live table's; at most SL_SHADOW_TABLE_KEYS_MAX are taken */
    unsigned ring_bytes;                    /* of each loop; 0: SL_RING_BYTES */
    void (*say)(void *ctx, enum sl_shadow_say severity, const char *line); /* any thread; NULL: silence */
    void *ctx;
};

/* Returns 0, SL_ENOMEM or SL_EIO (no randomness). Starts nothing. */
int sl_shadow_new(const struct sl_shadow_config *config, struct sl_shadow **ret_shadow);
/* Stops, and waits for the end. Accepts NULL. */
void sl_shadow_free(struct sl_shadow *shadow);

/* Each loop's own thread, loop < SL_SHADOW_LOOPS_MAX; at any time, also while nothing runs. */
void sl_shadow_offer(struct sl_shadow *shadow, unsigned loop, const struct sluice_request *request,
                     const struct sluice_verdict *verdict);

/* The following: one thread.
 *
 * Compiles the candidate and rehearses it from now on; `name` stands for it in findings. Returns 0; or SL_EPOLICY (a
 * finding), SL_ENOMEM, SL_EIO, SL_EINVALID, or SL_EBUSY (the one that was stopped has not come to its end), with a
 * sentence; then all stays as it was. */
int sl_shadow_start(struct sl_shadow *shadow, const struct sl_version_text *text, const char *name, char *why,
                    size_t why_size);
/* Begins to end, and returns at once. */
void sl_shadow_stop(struct sl_shadow *shadow);
/* The overrides that lie over the live policy lie over the candidate too, this one and those to come. A reference is
 * kept; NULL: none. Returns 0, or SL_ENOMEM and those of before stay. */
int sl_shadow_lay(struct sl_shadow *shadow, struct sl_overrides *overrides);
bool sl_shadow_runs(const struct sl_shadow *shadow);

/* Counts anew: the policy that is compared with has changed. */
void sl_shadow_recount(struct sl_shadow *shadow);

/* Only while it runs. */
struct sl_shadow_figures {
    char hash[65]; /* the candidate's */
    size_t n_limits;
    uint64_t
        longest_us; /* the longest time one of its limits takes to be whole again: counts that are younger favour it */
    struct sl_compared compared;
    uint64_t dropped, refused; /* not compared: no room; not a request under the candidate (keys, addresses) */
    uint64_t evictions;        /* of the shadow's own table: it is too small for this traffic */
};
void sl_shadow_figures(struct sl_shadow *shadow, struct sl_shadow_figures *ret_figures);

/* Any thread: since the shadow was made, over all candidates. */
struct sl_shadow_totals {
    bool active;
    uint64_t same, newly_rejected, newly_allowed, dropped;
};
void sl_shadow_totals(struct sl_shadow *shadow, struct sl_shadow_totals *ret_totals);

/* sl_comparison_json of what runs; NULL: out of memory. Only while it runs. */
struct json_t *sl_shadow_json(struct sl_shadow *shadow);

/* The texts of what runs; valid until the next start or stop. */
const struct sl_version_text *sl_shadow_text(const struct sl_shadow *shadow);

/* NAMESPACE:shadow or, where that is too long, `shadow.` and the beginning of the namespace's SHA-256. Returns 0 or
 * SL_ENOMEM. */
int sl_shadow_namespace(const char *ns, char ret_ns[static SL_NAMESPACE_MAX + 1]);

#endif
