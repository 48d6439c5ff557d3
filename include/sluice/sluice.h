/* sluice: a rate limiter to embed.
 *
 *     struct sluice_options options = sluice_options_default();
 *     options.policy_file = "policy.yaml";
 *     struct sluice *limiter;
 *     char why[SLUICE_WHY_MAX];
 *     if (sluice_open(&options, &limiter, why, sizeof why) != 0)
 *         return complain(why);
 *
 *     struct sluice_request request = SLUICE_REQUEST_INIT;
 *     request.key = "acct_8812", request.key_len = 9;
 *     struct sluice_verdict verdict;
 *     if (sluice_check(limiter, &request, &verdict) == 0 && !verdict.allowed)
 *         reply_429(verdict.retry_after_ms);
 *
 *     sluice_close(&limiter);
 *
 * The library keeps no global state, never prints and never exits, and allocates nothing while it decides. Every
 * function may be called from any thread at the same time, except sluice_close. Functions return 0 or a negative
 * SLUICE_E... code; being over a limit is a verdict, not an error. Results (ret_...) are written on success only,
 * except a ret_why, which is written on failure.
 *
 * Several limiters may be open at once; they share nothing, unless two of them (in one process or in several) open the
 * same table_path: then they count together.
 *
 * After fork(2) a child may only close the limiters it inherited, and open its own; to count together with its parent
 * it opens the same table_path.
 *
 * Copyright: Apache-2.0. */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

#define SLUICE_VERSION_MAJOR 0
#define SLUICE_VERSION_MINOR 1
#define SLUICE_VERSION_PATCH 0

/* ---- errors
 * ---------------------------------------------------------------------------------------------------- */

#define SLUICE_OK 0
#define SLUICE_ENOMEM (-1)       /* out of memory */
#define SLUICE_EINVALID (-2)     /* a request or an option is out of its range; nothing was charged */
#define SLUICE_EIO (-3)          /* a file could not be read or written */
#define SLUICE_EPOLICY (-4)      /* the policy has errors; the one in force stays in force */
#define SLUICE_EFORMAT (-5)      /* the table file is foreign or damaged */
#define SLUICE_EBUSY (-6)        /* in use in an incompatible way */
#define SLUICE_ENOTFOUND (-7)    /* no such thing */
#define SLUICE_EUNSUPPORTED (-8) /* not supported on this machine */

/* ---- requests and verdicts
 * ------------------------------------------------------------------------------------- */

#define SLUICE_KEY_MAX 512         /* bytes of a key, at least 1 */
#define SLUICE_SCOPE_MAX 2048      /* bytes of a scope */
#define SLUICE_LABELS_MAX 16       /* labels of a request */
#define SLUICE_LABEL_NAME_MAX 64   /* bytes of a label's name, at least 1 */
#define SLUICE_LABEL_VALUE_MAX 512 /* bytes of a label's value */
#define SLUICE_NAME_MAX 64         /* bytes of a limit's, tier's or key type's name, NUL included */
#define SLUICE_COST_MAX 1000000000 /* cost: 0 ... 10^9 */
#define SLUICE_COST_DEFAULT (-1)   /* take the limit's cost, else the endpoint's, else 1 */
#define SLUICE_BATCH_MAX 1000      /* requests in one batch */

struct sluice_label {
    const char *name;
    size_t name_len;
    const char *value;
    size_t value_len;
};

/* A request. Strings are borrowed for the call, need no NUL, and are opaque bytes; NUL and control characters
 * (0x00-0x1f, 0x7f) are refused. An absent optional string has a NULL pointer. */
struct sluice_request {
    const char *key; /* required */
    size_t key_len;
    const char *key_type; /* default "api_key". "address": the key must be an IP address, and is normalised */
    size_t key_type_len;
    const char *scope; /* what is asked for; default "" */
    size_t scope_len;
    const char *tier; /* overrides the policy's tier tables */
    size_t tier_len;
    const char
        *address; /* client address, for limits by address; normalised. Default: the key, when its type is "address" */
    size_t address_len;
    const struct sluice_label *labels;
    size_t n_labels;
    int64_t cost; /* SLUICE_COST_DEFAULT, or 0 ... SLUICE_COST_MAX; 0 is a peek that spends nothing */
};

#define SLUICE_REQUEST_INIT                                     \
    {                                                           \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, SLUICE_COST_DEFAULT \
    }

enum sluice_source { SLUICE_LOCAL, SLUICE_SHARED, SLUICE_DEGRADED };

enum sluice_reason {
    SLUICE_REASON_NONE, /* allowed */
    SLUICE_REASON_RATE_LIMITED,
    SLUICE_REASON_COST_EXCEEDS_LIMIT,
    SLUICE_REASON_STORE_UNAVAILABLE,
    SLUICE_REASON_BLOCKED,
    SLUICE_REASON_UNMATCHED
};

struct sluice_verdict {
    bool allowed;
    bool warning;            /* the deciding limit has used warn_at or more */
    bool dry_run;            /* a dry-run limit would have rejected: see the last two fields */
    uint8_t source;          /* enum sluice_source */
    uint8_t reason;          /* enum sluice_reason */
    uint8_t warn_at_percent; /* of the deciding limit; 0 when it has none */
    int64_t limit;           /* tokens; -1 unknown (unlimited, unmatched) */
    int64_t remaining;       /* tokens; -1 unknown */
    /* 0 when allowed, -1 never, else >= 1: the same request sent then is allowed if nothing came between */
    int64_t retry_after_ms;
    int64_t reset_after_ms;               /* until the limit is whole again; 0 when unknown */
    int64_t reset_at_ms;                  /* the same as Unix time in ms; -1 unknown */
    int64_t delay_ms;                     /* leaky_bucket: hold an admitted request this long */
    char policy[SLUICE_NAME_MAX];         /* the deciding limit's name, "" when unmatched */
    char dry_run_policy[SLUICE_NAME_MAX]; /* "" unless dry_run */
    int64_t dry_run_retry_after_ms;
};

/* "local", "shared", "degraded"; "" for another number. */
SLUICE_API const char *sluice_source_name(int source);
/* "rate_limited", "cost_exceeds_limit", "store_unavailable", "blocked", "unmatched"; "" for none or another number. */
SLUICE_API const char *sluice_reason_name(int reason);

/* ---- opening --------------------------------------------------------------------------------------------------- */

struct sluice; /* a limiter: a policy in force, and a table of buckets */

#define SLUICE_WHY_MAX 512 /* bytes that hold any reason; longer ones are cut, always NUL-terminated */

/* As realloc(3), but p == NULL allocates, and size == 0 frees p and returns NULL. Returns NULL when there is no memory.
 * Called from any thread that calls the library, never while it decides. (The YAML parser, while a policy is read,
 * uses malloc(3) besides.) */
typedef void *sluice_realloc_fn(void *ctx, void *p, size_t size);

/* Returns microseconds. Called from any thread, and in every decision: it should be quick. */
typedef uint64_t sluice_clock_fn(void *ctx);

/* One message for a log, without newline. Called from any thread, never while the library decides. */
enum sluice_log_level { SLUICE_LOG_ERROR, SLUICE_LOG_WARNING, SLUICE_LOG_INFO };
typedef void sluice_log_fn(void *ctx, int level, const char *message);

/* Something wrong (an error: the policy is refused) or odd (a warning) with a policy. Valid during the call. */
enum sluice_severity { SLUICE_WARNING, SLUICE_ERROR };
struct sluice_finding {
    int severity;        /* enum sluice_severity */
    const char *file;    /* the policy or a file it names */
    unsigned line;       /* from 1; 0: the whole file */
    unsigned column;     /* from 1; 0: the whole line */
    const char *field;   /* "limits[2].rate", "" when none */
    const char *message; /* what is wrong, and what would be right */
    const char *text;    /* all of it in one line, as a compiler would write it */
};
typedef void sluice_finding_fn(void *ctx, const struct sluice_finding *finding);

/* Zero, or NULL, is the default of every field but struct_size. Strings are borrowed for the call. */
struct sluice_options {
    size_t struct_size; /* sizeof(struct sluice_options): set by sluice_options_default */

    /* The policy: exactly one of policy_file and policy_text. */
    const char *policy_file;
    const char *policy_text; /* YAML; relative keys_file in it are looked for beside policy_name */
    size_t policy_text_len;
    const char *policy_name; /* what findings call policy_text. Default: "policy" */

    /* Where buckets live: "memory:" (default), the only store there is so far; another is SLUICE_EUNSUPPORTED. */
    const char *store;

    /* The table of buckets. It takes its memory when it is opened, about 36 bytes a key, and never more. */
    const char
        *table_path;     /* file to keep it in, created when missing; survives restarts, shared by processes. Default:
                                   private memory */
    uint64_t table_keys; /* buckets to have room for, 1,000 ... 2^32. Default: 1,000,000 */
    uint64_t table_log_entries; /* entries of all sliding_window_log buckets together. Default: table_keys */
    bool table_resize;          /* an existing file of another size: start anew instead of SLUICE_EBUSY */

    /* The clock: both or neither. wall_us is Unix time, read when a table is made; mono_us carries it on and should
     * not step back (readings that do are taken as the latest). Default: the system's. */
    sluice_clock_fn *wall_us;
    sluice_clock_fn *mono_us;
    void *clock_ctx;

    sluice_realloc_fn *realloc; /* default: malloc(3) and free(3) */
    void *realloc_ctx;

    sluice_log_fn *log; /* default: silence */
    void *log_ctx;

    sluice_finding_fn *finding; /* every finding about the policy while opening. Default: warnings go to log */
    void *finding_ctx;
};

static inline struct sluice_options sluice_options_default(void)
{
    struct sluice_options options;

    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* Opens a limiter: loads the policy, opens the table. On failure writes a sentence about what and where into ret_why
 * (borrowed, may be NULL) and returns SLUICE_EINVALID (options), SLUICE_EPOLICY, SLUICE_EIO, SLUICE_EFORMAT,
 * SLUICE_EBUSY, SLUICE_ENOMEM or SLUICE_EUNSUPPORTED. Close it with sluice_close. */
SLUICE_API int sluice_open(const struct sluice_options *options, struct sluice **ret_limiter, char *ret_why,
                           size_t why_size);

/* Closes and clears *limiter; a table file keeps its buckets. No other thread may still use it. Accepts NULL and a
 * pointer to NULL. */
SLUICE_API void sluice_close(struct sluice **limiter);

/* ---- deciding -------------------------------------------------------------------------------------------------- */

/* Decides one request, now: spends its cost from every bucket it meets, or from none. Returns 0 and a verdict, or
 * SLUICE_EINVALID for a request out of the ranges above (sluice_validate says why). */
SLUICE_API int sluice_check(struct sluice *limiter, const struct sluice_request *request,
                            struct sluice_verdict *ret_verdict);

/* Decides n requests (0 ... SLUICE_BATCH_MAX) in order at one instant, faster than one by one when there are many keys.
 * One bad request, and none is decided: SLUICE_EINVALID, and its index in *ret_bad (n when there are too many
 * requests; may be NULL). */
SLUICE_API int sluice_check_batch(struct sluice *limiter, const struct sluice_request *requests, size_t n,
                                  struct sluice_verdict *ret_verdicts, size_t *ret_bad);

/* Only validates: 0, or SLUICE_EINVALID and in ret_why (may be NULL) the field and what is wrong with it. */
SLUICE_API int sluice_validate(struct sluice *limiter, const struct sluice_request *request, char *ret_why,
                               size_t why_size);

/* ---- the policy ------------------------------------------------------------------------------------------------ */

/* Puts another policy in force, whole or not at all. Decisions go on meanwhile, each under one of the two. Buckets keep
 * their state while their limit's name and algorithm stay. Every finding is passed to `finding` (may be NULL), also
 * the warnings of a policy that is taken. Returns 0, SLUICE_EPOLICY (also for a file that cannot be read) or
 * SLUICE_ENOMEM; then the policy that was in force stays. */
SLUICE_API int sluice_reload_file(struct sluice *limiter, const char *path, sluice_finding_fn *finding,
                                  void *finding_ctx);

/* The same from memory; `name` is what findings call it, and NULL is "policy". */
SLUICE_API int sluice_reload_text(struct sluice *limiter, const char *text, size_t text_len, const char *name,
                                  sluice_finding_fn *finding, void *finding_ctx);

/* ---- looking in, and resetting --------------------------------------------------------------------------------- */

/* One bucket that is not whole. Valid during the call; may grow at its end in later versions. */
struct sluice_bucket {
    const char *policy;   /* the limit's name, "" for the ceiling of unmatched requests */
    const char *endpoint; /* when the limit separates by endpoint, else "" */
    unsigned rate_idx;    /* which of the limit's rates */
    bool dry_run;
    int64_t limit, remaining; /* tokens */
    int64_t period_ms;
    int64_t reset_after_ms; /* until it is whole */
};
typedef void sluice_bucket_fn(void *ctx, const struct sluice_bucket *bucket);

/* Calls fn for each bucket that a request of this key (and key type; scope, tier, address and labels where limits
 * separate by them) could meet and that is not whole, over all endpoints when it names no scope. Spends nothing.
 * Returns 0 and how many in *ret_n (may be NULL), or SLUICE_EINVALID. */
SLUICE_API int sluice_inspect(struct sluice *limiter, const struct sluice_request *request, sluice_bucket_fn *fn,
                              void *ctx, size_t *ret_n);

/* Makes those of them whole again that belong to the key or to its address; buckets that others share stay. Returns 0
 * and how many there were in *ret_n (may be NULL), or SLUICE_EINVALID. */
SLUICE_API int sluice_reset(struct sluice *limiter, const struct sluice_request *request, size_t *ret_n);

/* ---- counters -------------------------------------------------------------------------------------------------- */

/* Since the limiter was opened, except table_...: of the whole table, whoever uses it. May grow at its end. */
struct sluice_stats {
    uint64_t allowed, rejected; /* decisions */
    uint64_t unmatched;         /* of them, those that met no limit */
    uint64_t reloads;           /* policies put in force after the first */
    uint64_t table_bytes, table_slots;
    uint64_t table_live;             /* buckets that are not whole */
    uint64_t table_evictions;        /* live buckets that had to make room: the table is too small */
    uint64_t table_negative_elapsed; /* clock readings earlier than the latest */
    uint64_t table_log_entries, table_log_used;
    uint64_t table_log_folded; /* hits that found no room in the log: counted with the newest one, stricter */
};

/* Fills the first stats_size bytes (sizeof(struct sluice_stats)) of it. Looks at every slot of the table, a few
 * nanoseconds each. Returns 0, or SLUICE_EINVALID for a size of 0. */
SLUICE_API int sluice_stats(struct sluice *limiter, struct sluice_stats *ret_stats, size_t stats_size);

/* What one limit of the policy in force did. Valid during the call; may grow at its end. */
struct sluice_limit_count {
    const char *policy; /* "" for requests that met none; "other" for all beyond the first 1,000 */
    uint64_t decided_allowed, decided_rejected; /* verdicts that name it */
    uint64_t checks_allowed, checks_rejected;   /* consulted: it had room or not, whatever others said */
    uint64_t dry_allowed, dry_rejected;         /* the same in dry_run mode */
};
typedef void sluice_limit_count_fn(void *ctx, const struct sluice_limit_count *count);

/* Calls fn for each. Counts survive a reload while the limit's name stays. Returns 0 or SLUICE_ENOMEM. */
SLUICE_API int sluice_limit_counts(struct sluice *limiter, sluice_limit_count_fn *fn, void *ctx);

/* ---- the library ----------------------------------------------------------------------------------------------- */

/* "0.1.0": of the library that is linked, which may be newer than this header. */
SLUICE_API const char *sluice_version(void);

/* The meaning of a code, for people; never NULL. */
SLUICE_API const char *sluice_error_text(int code);

#ifdef __cplusplus
}
#endif

#endif
