/* Logs through a policy in virtual time: what would have been rejected (SPEC section 9).
 *
 *     struct sl_replay_options options = sl_replay_defaults();
 *     options.policy = policy, options.paths = paths, options.n_paths = n;
 *     struct sl_replay_summary *summary;
 *     if (sl_replay_run(&options, &summary, why, sizeof why) == 0)
 *         sl_replay_print_text(summary, stdout);
 *     sl_replay_summary_free(&summary);
 *
 * Every event is decided by the code that decides live traffic, on a table of the replay's own and a clock that stands
 * at the event's time. The result depends on the bytes of the logs, the policies and the options only: not on threads,
 * machine or time of day. Memory depends on the number of keys and on how many events fall into one reorder window,
 * not on the length of the logs. Nothing here prints, but for the two print functions and the verdicts asked for. */
#ifndef SL_REPLAY_REPLAY_H
#define SL_REPLAY_REPLAY_H

#include "base/alloc.h"
#include "base/hash.h"
#include "policy/policy.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json_t;

#define SL_REPLAY_LINE_MAX (256u << 10)             /* bytes of a line without its end; a longer one is malformed */
#define SL_REPLAY_MALFORMED_SHOWN 10                /* malformed lines whose place and reason are kept */
#define SL_REPLAY_REORDER_DEFAULT_US 60000000       /* --reorder 60s */
#define SL_REPLAY_REORDER_MAX_US 86400000000        /* one day */
#define SL_REPLAY_REORDER_BYTES (UINT64_C(1) << 30) /* events waiting in the reorder window, all together */
#define SL_REPLAY_TABLE_KEYS 4000000                /* buckets of the replay's table */
#define SL_REPLAY_TALLY_KEYS 1000000                /* rejected keys that are counted one by one */
#define SL_REPLAY_WHY_MAX 512

enum sl_replay_format {
    SL_REPLAY_COMBINED, /* Apache's and nginx's combined format */
    SL_REPLAY_JSONL,    /* an object a line: replay/jsonl_line.h */
};

/* Where the replay stands. bytes_total is 0 when it cannot be known (standard input, a pipe); bytes are those of the
 * files as they lie on disk, compressed ones included. */
struct sl_replay_progress {
    uint64_t bytes_read, bytes_total, events;
};

struct sl_replay_options {
    enum sl_replay_format format;
    struct sl_policy *policy;  /* borrows; compiled with sl_replay_secret() */
    struct sl_policy *compare; /* borrows; NULL: no comparison. Also with sl_replay_secret() */
    const char *const *paths;  /* borrows; "-" is standard input; gzip is recognised by its first bytes */
    size_t n_paths;            /* at least 1; read one after the other as if they were one log */
    uint64_t reorder_us;       /* 0 ... SL_REPLAY_REORDER_MAX_US; 0 takes events as they come */
    uint64_t reorder_bytes;    /* when this much waits, the oldest is decided before its window has passed */
    uint64_t table_keys;       /* of each policy's table */
    uint64_t tally_keys;       /* rejections of keys beyond these are counted, but not by key */
    unsigned top;              /* keys in top_rejected and in the comparison */
    FILE *verdicts;            /* NULL: none. A JSON line per event, in the order decided */
    FILE *input;               /* what "-" reads; NULL: stdin */
    /* Called on the caller's thread now and then, and once at the end; may be NULL. */
    void (*progress)(void *ctx, const struct sl_replay_progress *progress);
    void *progress_ctx;
    struct sl_alloc alloc;
};

/* Combined format, 60 s, the sizes above, 10 keys, the system's allocator; no policy and no paths. */
struct sl_replay_options sl_replay_defaults(void);

/* The secret that the policies of a replay are compiled with (sl_policy_options.secret): fixed, so that runs agree. */
struct sl_secret sl_replay_secret(void);

struct sl_replay_count {
    uint64_t allowed, rejected;
};

/* A minute of the log, as Unix time in seconds divided by 60, and how many it had. 0 events: there was none. */
struct sl_replay_peak {
    uint64_t minute, n;
};

/* One limit, in file order, also when no event met it. */
struct sl_replay_limit {
    char name[SLUICE_NAME_MAX]; /* "" is the ceiling's own bucket for unmatched requests */
    bool dry_run;
    struct sl_replay_count count;   /* had the limit itself room, whatever other layers said; for all its rates */
    uint64_t decided;               /* rejections that this limit's verdict explains */
    struct sl_replay_peak checked;  /* its busiest minute */
    struct sl_replay_peak rejected; /* the minute in which it had no room most often */
};

struct sl_replay_key {
    char *key; /* NUL-terminated; as counted: addresses normalised */
    size_t key_len;
    char key_type[SLUICE_NAME_MAX];
    uint64_t rejected;
};

struct sl_replay_malformed {
    char *path;
    uint64_t line; /* from 1, in its file */
    char *reason;
};

/* How the second policy differs from the first, over the same events. */
struct sl_replay_diff_limit {
    char name[SLUICE_NAME_MAX]; /* the limit whose verdict rejects: the second's for newly_rejected, else the first's */
    uint64_t newly_rejected, newly_allowed;
};

struct sl_replay_diff_key {
    char *key;
    size_t key_len;
    char key_type[SLUICE_NAME_MAX];
    uint64_t newly_rejected, newly_allowed;
};

struct sl_replay_compare {
    uint64_t allowed, rejected;             /* the second policy's */
    uint64_t newly_rejected, newly_allowed; /* events decided otherwise */
    struct sl_replay_diff_limit *limits;    /* those with differences, most first */
    size_t n_limits;
    struct sl_replay_diff_key *keys; /* most differences first, at most options.top */
    size_t n_keys;
    uint64_t untallied; /* differences of keys beyond tally_keys */
    uint64_t evictions;
};

struct sl_replay_summary {
    uint64_t lines, events, allowed, rejected, malformed; /* lines == events + malformed */
    uint64_t late;      /* older than the reorder window, or than what was decided; decided at the latest time */
    uint64_t early;     /* decided before their window had passed because reorder_bytes were waiting */
    uint64_t unmatched; /* events that no enforcing limit matched */
    uint64_t dry_run;   /* allowed events that a dry-run limit would have rejected */
    uint64_t first_us, last_us; /* times of the first and the last event decided; 0 when there were none */
    struct sl_replay_limit *limits;
    size_t n_limits;
    struct sl_replay_key *top_rejected; /* most first; equals in order of key */
    size_t n_top_rejected;
    uint64_t rejected_keys; /* keys rejected at least once, among those tallied */
    uint64_t untallied;     /* rejections of keys beyond tally_keys */
    struct sl_replay_peak events_peak, rejected_peak;
    struct sl_replay_malformed malformed_shown[SL_REPLAY_MALFORMED_SHOWN];
    size_t n_malformed_shown;
    uint64_t
        evictions; /* live buckets that made room: above 0 the figures are not exact, and table_keys is too small */
    struct sl_replay_compare *compare; /* NULL without a second policy */
    struct sl_alloc alloc;
};

/* Runs the logs through. Returns 0 and a summary to free; else SL_EINVALID (options), SL_EIO (a file that cannot be
 * opened, read, inflated or written), SL_ENOMEM, and a sentence that names the file in ret_why. */
int sl_replay_run(const struct sl_replay_options *options, struct sl_replay_summary **ret_summary, char *ret_why,
                  size_t why_size);

/* Clears *summary; accepts NULL inside. */
void sl_replay_summary_free(struct sl_replay_summary **summary);

/* The object of `sluice replay --json`: events, allowed, rejected, malformed, late, limits {name: {allowed, rejected}},
 * top_rejected [{key, rejected}], and more beside them. A new reference; NULL when out of memory. */
struct json_t *sl_replay_summary_json(const struct sl_replay_summary *summary);

/* For reading: totals, each limit, the most rejected keys, peaks, malformed lines, the comparison. Plain text. */
void sl_replay_print_text(const struct sl_replay_summary *summary, FILE *out);

#endif
