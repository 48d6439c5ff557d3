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
 * function may be called from any thread at the same time, except where said. Functions return 0 or a negative
 * SLUICE_E... code; being over a limit is a verdict, not an error.
 *
 * Copyright: Apache-2.0. */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    SLUICE_REASON_UNMATCHED,
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
/* "rate_limited", "cost_exceeds_limit", "store_unavailable", "blocked", "unmatched"; "" for none or another
 * number. */
SLUICE_API const char *sluice_reason_name(int reason);

#ifdef __cplusplus
}
#endif

#endif
