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
 * The library keeps no global state, never prints and never exits, and allocates nothing while it decides alone. Every
 * function may be called from any thread at the same time, except sluice_close. Functions return 0 or a negative
 * SLUICE_E... code; being over a limit is a verdict, not an error. Results (ret_...) are written on success only,
 * except a ret_why, which is written on failure.
 *
 * Several limiters may be open at once; they share nothing, unless two of them (in one process or in several) open the
 * same table_path: then they count together; or the same store under the same namespace: then they agree, on any number
 * of hosts.
 *
 * With a store (options.store) a limiter has one background thread with its connections, in which no signal is handled.
 * What is answered out of leased tokens or by what is known here never waits. Where the store must be asked,
 * sluice_check waits, at most options.timeout_us; sluice_check_async and sluice_check_queued do not. When the store
 * does not answer in time, or is known to be down, the limit's own on_store_failure decides and the verdict's source is
 * SLUICE_DEGRADED.
 *
 * After fork(2) a child may only close the limiters it inherited, and open its own; to count together with its parent
 * it opens the same table_path or store. Closing an inherited limiter sends nothing: leases, connections and decisions
 * under way are the parent's, and done callbacks of decisions the parent had begun never come in the child. It leaves
 * some of their memory and descriptors as they are until the child execs (they are close-on-exec) or ends.
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
#define SLUICE_PENDING 1         /* no error: the verdict will come later */
#define SLUICE_ENOMEM (-1)       /* out of memory */
#define SLUICE_EINVALID (-2)     /* a request or an option is out of its range; nothing was charged */
#define SLUICE_EIO (-3)          /* a file could not be read or written, or the store did not answer */
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
    bool warning;                 /* a limit has used warn_at or more: see warning_policy */
    bool dry_run;                 /* a dry-run limit would have rejected: see dry_run_policy */
    uint8_t source;               /* enum sluice_source */
    uint8_t reason;               /* enum sluice_reason */
    uint8_t warn_at_percent;      /* of warning_policy, without a warning of the deciding limit; 0 when it has none */
    uint8_t warning_rate_idx;     /* with a warning: which of warning_policy's rates is meant */
    uint8_t warning_used_percent; /* ... and how much of it is used, rounded down */
    int64_t limit;                /* tokens; -1 unknown (unlimited, unmatched) */
    int64_t remaining;            /* tokens; -1 unknown */
    /* 0 when allowed, -1 never, else >= 1: the same request sent then is allowed if nothing came between */
    int64_t retry_after_ms;
    int64_t reset_after_ms;               /* until the limit is whole again; 0 when unknown */
    int64_t reset_at_ms;                  /* the same as Unix time in ms; -1 unknown */
    int64_t delay_ms;                     /* leaky_bucket: hold an admitted request this long */
    char policy[SLUICE_NAME_MAX];         /* the deciding limit's name, "" when unmatched */
    char dry_run_policy[SLUICE_NAME_MAX]; /* "" unless dry_run */
    int64_t dry_run_retry_after_ms;
    /* The limit that has used warn_at or more, "" without a warning. On a rejection only the deciding one is looked at;
     * else every limit that was met, and when several are past their marks each is named in its turn. */
    char warning_policy[SLUICE_NAME_MAX];
    int64_t warning_limit, warning_remaining; /* its tokens; -1 without a warning */
};

/* "local", "shared", "degraded"; "" for another number. */
SLUICE_API const char *sluice_source_name(int source);
/* "rate_limited", "cost_exceeds_limit", "store_unavailable", "blocked", "unmatched"; "" for none or another number. */
SLUICE_API const char *sluice_reason_name(int reason);

/* ---- opening --------------------------------------------------------------------------------------------------- */

struct sluice; /* a limiter: a policy in force, and a table of buckets */

#define SLUICE_WHY_MAX 512 /* bytes that hold any reason; longer ones are cut, always NUL-terminated */

/* As realloc(3), but p == NULL allocates, and size == 0 frees p and returns NULL. Returns NULL when there is no memory.
 * Called from any thread that calls the library, never while it decides alone. With a store it is called on the
 * background thread and on one of libuv's pool too, and for each decision that asks the store. (The YAML parser, while a
 * policy is read, uses malloc(3) besides; so do sockets, TLS and the resolver of names.) */
typedef void *sluice_realloc_fn(void *ctx, void *p, size_t size);

/* Returns microseconds. Called from any thread, the background thread too, and in every decision: it should be
 * quick. */
typedef uint64_t sluice_clock_fn(void *ctx);

/* One message for a log, without newline. Called from any thread, the library's own too (what happens to the
 * store), never while the library decides. Must not call the library. */
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

    /* Where buckets live: "memory:" (default) is this table alone. Else what all instances agree on, Redis >= 6.2 or
     * Valkey:
     *     redis://[user:password@]host[:port][/db]            one server
     *     redis+unix://[user:password@]/path[?db=n]           one server on a UNIX socket
     *     redis+sentinel://[..@]h1[:port],h2,h3/master[/db]   the master that Sentinels name
     *     redis+cluster://[..@]h1[:port],h2,h3                a Cluster
     *     rediss://, rediss+sentinel://, rediss+cluster://    the same over TLS
     * with the options ?password_file=, ca=, cert=, key=, verify=no. More of the shared tier below. */
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

    /* The shared tier; without effect on "memory:", but checked. */
    /* What keys in the store begin with: 1 ... 32 bytes, no braces. Instances that are to agree have the same one.
     * Default: "sluice" */
    const char *store_namespace;
    uint64_t timeout_us; /* how long a decision may wait for the store, 1,000 ... 60,000,000. Default: 10,000 */
    uint32_t instances;  /* how many share the limits until the store has told, 1 ... 1,000. Default: 1 */
    /* sluice_open waits until the store has been reached, as a program that decides at once expects, but no longer than
     * this: then it succeeds all the same, decisions are degraded until the store is there, and the log says so.
     * SLUICE_NO_WAIT: not at all. At most 60,000. Default: 2,000. */
    int32_t store_wait_ms;

    /* Where this instance is, [a-z0-9._-], at most 63 bytes: limits with `regions` count this region's share, in buckets of
     * its own. Default: nowhere; such limits are counted whole, apart from the regions. */
    const char *region;

    /* Whose policy counts. SLUICE_POLICY_STORE (default): the store's current version (`sluice policy push`), as for every
     * instance; the policy given here serves until the store has one, and sluice_reload_... is refused after that. So all who
     * share the limits have the same ones. Each new version is put in force within a second; one with errors is refused,
     * told to log, and the policy in force stays; while the store is away it stays too. sluice_open waits, as for the
     * store, until its version is known.
     * SLUICE_POLICY_OWN: this policy, whatever the store has; what is ignored is told to log.
     * Overrides of single keys in the store count in both cases. */
    int policy_source; /* enum sluice_policy_source */
};

#define SLUICE_NO_WAIT (-1)
enum sluice_policy_source { SLUICE_POLICY_STORE, SLUICE_POLICY_OWN };

static inline struct sluice_options sluice_options_default(void)
{
    struct sluice_options options;

    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* Opens a limiter: loads the policy, opens the table. On failure writes a sentence about what and where into ret_why
 * (borrowed, may be NULL) and returns SLUICE_EINVALID (options), SLUICE_EPOLICY, SLUICE_EIO, SLUICE_EFORMAT,
 * SLUICE_EBUSY, SLUICE_ENOMEM or SLUICE_EUNSUPPORTED. A store that is not there is no failure. Close it with
 * sluice_close. */
SLUICE_API int sluice_open(const struct sluice_options *options, struct sluice **ret_limiter, char *ret_why,
                           size_t why_size);

/* Closes and clears *limiter; a table file keeps its buckets. No other thread may still use it, and it is not for
 * callbacks. With a store: leased tokens are given back, decisions under way end, each with its done callback before
 * this returns (completions that were not taken are forgotten), and all of that takes at most timeout_us and a second.
 * Accepts NULL and a pointer to NULL. */
SLUICE_API void sluice_close(struct sluice **limiter);

/* ---- deciding -------------------------------------------------------------------------------------------------- */

/* Decides one request, now: spends its cost from every bucket it meets, or from none. Returns 0 and a verdict, or
 * SLUICE_EINVALID for a request out of the ranges above (sluice_validate says why). With a store it may wait for it, at
 * most timeout_us; in a done callback, where nobody would end that wait, it is SLUICE_EBUSY. */
SLUICE_API int sluice_check(struct sluice *limiter, const struct sluice_request *request,
                            struct sluice_verdict *ret_verdict);

/* Decides n requests (0 ... SLUICE_BATCH_MAX) in order at one instant, faster than one by one when there are many keys.
 * One bad request, and none is decided: SLUICE_EINVALID, and its index in *ret_bad (n when there are too many
 * requests; may be NULL). With a store all that ask it do so at once and are waited for together; SLUICE_EBUSY as
 * above, and SLUICE_ENOMEM with nothing decided. */
SLUICE_API int sluice_check_batch(struct sluice *limiter, const struct sluice_request *requests, size_t n,
                                  struct sluice_verdict *ret_verdicts, size_t *ret_bad);

/* Only validates: 0, or SLUICE_EINVALID and in ret_why (may be NULL) the field and what is wrong with it. */
SLUICE_API int sluice_validate(struct sluice *limiter, const struct sluice_request *request, char *ret_why,
                               size_t why_size);

/* ---- deciding without waiting ---------------------------------------------------------------------------------- */

/* Called once for a decision that was SLUICE_PENDING, when its verdict is there. */
typedef void sluice_done_fn(void *ctx);

#define SLUICE_PENDING_MAX 16384 /* decisions of a limiter under way or not taken; one more is degraded at once */

/* As sluice_check, but never waits. Returns SLUICE_OK: decided, done is not called; SLUICE_PENDING: done(ctx) will be
 * called, once and within timeout_us or a little more, on the background thread (perhaps before this returns), and
 * *ret_verdict must stay until then; or SLUICE_EINVALID. The request's strings are not needed any more when this
 * returns.
 *
 * While done runs nothing else is decided by the store: it should hand the verdict on and return. It may call
 * sluice_check_async and sluice_check_queued. */
SLUICE_API int sluice_check_async(struct sluice *limiter, const struct sluice_request *request,
                                  struct sluice_verdict *ret_verdict, sluice_done_fn *done, void *ctx);

/* The same for event loops, each completion on the thread that takes it:
 *
 *     int fd = sluice_completions_fd(limiter);            watch it for reading, level-triggered
 *     sluice_check_queued(limiter, &request, &job->verdict, job);
 *     ...
 *     struct sluice_completion list[64];                  when fd is readable
 *     size_t n = sluice_completions_take(limiter, list, 64);
 *     for (size_t i = 0; i < n; i++)
 *         go_on_with(list[i].ctx);
 *
 * SLUICE_PENDING: ctx and ret_verdict will be in one completion; *ret_verdict must stay until it was taken. */
struct sluice_completion {
    void *ctx;
    struct sluice_verdict *verdict;
};
SLUICE_API int sluice_check_queued(struct sluice *limiter, const struct sluice_request *request,
                                   struct sluice_verdict *ret_verdict, void *ctx);

/* Takes up to max completions, oldest first; returns how many, 0 when there are none. Never waits. Any thread. */
SLUICE_API size_t sluice_completions_take(struct sluice *limiter, struct sluice_completion *ret_list, size_t max);

/* A descriptor that is readable while completions wait to be taken, the same at each call. It belongs to the limiter:
 * not to be read, written or closed. Limiters without a store have one too (nothing is ever pending there). Returns it,
 * or SLUICE_EIO when the process may have no more descriptors. */
SLUICE_API int sluice_completions_fd(struct sluice *limiter);

/* ---- the policy ------------------------------------------------------------------------------------------------ */

/* Puts another policy in force, whole or not at all. Decisions go on meanwhile, each under one of the two. Buckets keep
 * their state while their limit's name and algorithm stay. Every finding is passed to `finding` (may be NULL), also
 * the warnings of a policy that is taken. Returns 0, SLUICE_EPOLICY (also for a file that cannot be read),
 * SLUICE_ENOMEM, or SLUICE_EBUSY while a version of the store is in force (options.policy_source); then the policy that was
 * in force stays. */
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

/* Calls fn (may be NULL) for each bucket that a request of this key (and key type; scope, tier, address and labels
 * where limits separate by them) could meet and that is not whole, over all endpoints when it names no scope. Spends
 * nothing. With a store the buckets there are asked for, which waits as sluice_check does; of a limit that is split
 * each part is a bucket. Returns 0 and how many in *ret_n (may be NULL); SLUICE_EINVALID; SLUICE_EIO when the store did
 * not answer for all of them (the others were told); SLUICE_EBUSY in a done callback; or SLUICE_ENOMEM. */
SLUICE_API int sluice_inspect(struct sluice *limiter, const struct sluice_request *request, sluice_bucket_fn *fn,
                              void *ctx, size_t *ret_n);

/* Makes those of them whole again that belong to the key or to its address; buckets that others share stay. Returns 0
 * and how many there were in *ret_n (may be NULL), or an error as above; after SLUICE_EIO some may not be whole. Other
 * instances forget rejections they remember of such a bucket when those end. */
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

    /* The shared tier; 0 without a store. Counted in buckets, of which a request may meet several, but for the
     * first. */
    uint64_t near_rejected; /* requests rejected here, by pre-filter or a known rejection: the store was not asked */
    uint64_t leased;        /* decided out of leased tokens */
    uint64_t asked;         /* decided by the store */
    uint64_t degraded;      /* decided by on_store_failure */
    uint64_t
        store_operations; /* sent to the store: merged requests count once; renewals, returns and refunds count too */
    uint64_t renewals, returns, refunds;
    uint64_t tokens_lost;    /* leased ones that were never given back, or asked for without an answer */
    uint64_t refunds_lost;   /* charges that could not be given back */
    uint64_t foreign;        /* keys in the store that held something that is not ours */
    uint64_t leases;         /* buckets leased now */
    uint64_t instances;      /* that share the limits now: as last heard from the store, else as configured */
    uint64_t pending;        /* decisions under way or not taken, now */
    uint64_t pending_full;   /* decisions degraded because SLUICE_PENDING_MAX were under way */
    uint64_t store_reached;  /* 1: the store is connected, and decides */
    uint64_t store_breaker;  /* the worst of its shards': 0 closed, 1 half-open, 2 open */
    uint64_t policy_version; /* the store's version of the policy that is in force; 0: the program's own policy */
};

/* Fills the first stats_size bytes (sizeof(struct sluice_stats)) of it. Looks at every slot of the table, a few
 * nanoseconds each. Returns 0, or SLUICE_EINVALID for a size of 0. */
SLUICE_API int sluice_stats(struct sluice *limiter, struct sluice_stats *ret_stats, size_t stats_size);

/* What one limit of the policy in force did. Valid during the call; may grow at its end. */
struct sluice_limit_count {
    const char *policy; /* "" for requests that met none; "other" for all beyond the first 1,000 */
    uint64_t decided_allowed, decided_rejected;   /* verdicts that name it */
    uint64_t checks_allowed, checks_rejected;     /* consulted: it had room or not, whatever others said */
    uint64_t dry_allowed, dry_rejected;           /* the same in dry_run mode */
    uint64_t shared_allowed, shared_rejected;     /* of the decided ones, by the store ... */
    uint64_t degraded_allowed, degraded_rejected; /* ... and for want of it */
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
