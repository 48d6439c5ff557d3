/* A compiled policy from the inside: what compile_*.c builds, resolve.c reads and the reports print. Immutable once
 * built. */
#ifndef SL_POLICY_COMPILED_H
#define SL_POLICY_COMPILED_H

#include "policy/arena.h"
#include "policy/draft.h"
#include "policy/endpoints.h"
#include "policy/index.h"
#include "policy/keys.h"
#include "policy/names.h"
#include "policy/policy.h"

#include <stdatomic.h>

/* What the file said, where the compiled limit says something else. */
struct sl_limit_written {
    struct sl_rate_draft rates[SL_RATES_MAX]; /* before ceiling and region; nodes are gone */
    unsigned n_rates;
    uint32_t key_id, endpoint_id, tier_id, type_id; /* 0: any */
    uint64_t label_bits, exact_label_bits;          /* by number of the label's name */
    bool coordination_given;
};

/* Distinct label names in matchers and `per` of one policy: one bit each in a word. */
#define SL_LABEL_NAMES_MAX 63

/* Every dimension is hashed under a secret of its own, so that equal bytes of two kinds (a user and an address, a tier
 * and an endpoint) never meet. */
struct sl_dimension_secrets {
    struct sl_secret key, key_type, address, scope, endpoint, tier;
    struct sl_secret label[SL_LABEL_NAMES_MAX + 1]; /* by number of the name */
};

struct sl_policy {
    atomic_uint refs;
    struct sl_arena arena;
    bool has_store;
    char hash[65];
    char *file;
    char *region; /* NULL: none */
    struct sl_door door;

    struct sl_limit *limits;
    struct sl_limit_written *written;
    size_t n_limits;
    struct sl_layer layers[SL_LAYERS_MAX];
    unsigned n_layers;
    bool unmatched_deny;
    bool has_ceiling;
    struct sl_rate ceiling_rate;
    uint32_t ceiling_burst;
    struct sl_limit ceiling; /* the pseudo-limit for what is unmatched */

    struct sl_endpoints endpoints;
    struct sl_keys keys;
    struct sl_name_set tiers, key_types, labels;
    uint32_t tier_default, tier_anonymous; /* numbers of tiers, 0: none */
    enum sl_unknown unknown;
    bool keys_store;
    const char *keys_file;
    uint32_t type_api_key, type_address;
    struct sl_dedicated_draft *dedicated;
    size_t n_dedicated;

    struct sl_secret secret; /* what the seeds of limits are made under */
    struct sl_dimension_secrets secrets;
    struct sl_hash128 *tier_hashes, *type_hashes, *endpoint_hashes; /* by number; [0]: none */
    struct sl_hash128 label_absent[SL_LABEL_NAMES_MAX + 1];

    /* With overrides: a copy of the policy that they were laid over, which owns everything but them. NULL: none. */
    struct sl_policy *base;
    struct sl_variants *variants; /* NULL: no key has another limit than the file says */
    struct sl_overrides *overrides;
};

/* One load, from text to policy: what its steps share. */
struct sl_load {
    struct sl_reader reader; /* reader.arena is the policy's */
    struct sl_arena scratch; /* the tree, and what only the load needs */
    struct sl_draft draft;
    struct sl_policy *policy;
    const struct sl_policy_options *options;
    size_t errors_before;
    size_t n_parts; /* of split limits */
};

static inline bool sl_load_failed(const struct sl_load *load)
{
    return load->reader.nomem || load->reader.diags->n_errors > load->errors_before;
}

/* Findings about a field of a limit, at the place of its value: in the limit, else in `defaults`, else the limit
 * itself. The path names the limit. */
void sl_limit_error(struct sl_load *load, const struct sl_limit_draft *limit, enum sl_limit_field field,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
void sl_limit_warning(struct sl_load *load, const struct sl_limit_draft *limit, enum sl_limit_field field,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Findings at a place below one field of the document: "tiers.unknown". */
void sl_load_error(struct sl_load *load, const struct sl_node *node, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void sl_load_warning(struct sl_load *load, const struct sl_node *node, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The steps of compiling, in this order. Each adds findings; SL_ENOMEM shows as reader.nomem. */
void sl_compile_identity(struct sl_load *load);
void sl_check_keys(struct sl_load *load);      /* keys of type address in their one spelling; dedicated keys */
void sl_compile_names(struct sl_load *load);   /* layers, tiers, key types, labels, endpoints, keys; hashes */
void sl_compile_limits(struct sl_load *load);  /* rates under the ceiling and of the region, coordination, seeds */
void sl_compile_shared(struct sl_load *load);  /* what a shared store needs; only without errors */
void sl_check_limits(struct sl_load *load);    /* duplicate names and matchers, references */
void sl_compile_index(struct sl_load *load);   /* the tables of resolution; only without errors */
void sl_lint_settings(struct sl_load *load);   /* warnings about single settings */
void sl_lint_resolution(struct sl_load *load); /* warnings about limits that compete; only without errors */

/* What becomes of a rate as written, in this order: the ceiling caps it, the region takes its share. */
/* Returns whether the ceiling changed it. */
bool sl_rate_cap(const struct sl_policy *policy, const struct sl_limit *limit, struct sl_rate_draft *rate);
/* COUNT and burst become floor(share x ...), at least 1, and the burst at most what so slow a rate fills in 100 years. */
void sl_rate_share(uint32_t share_ppm, bool bucket, struct sl_rate_draft *rate);
/* The whole limit, over all regions: a rate of a limit that has buckets, under the ceiling. */
struct sl_rate_draft sl_limit_whole(const struct sl_policy *policy, const struct sl_limit *limit, unsigned rate_idx);

/* What every region has of it: "60%", "33.3333%". */
#define SL_SHARE_LINE_MAX 16
void sl_share_line(uint32_t share_ppm, char buf[SL_SHARE_LINE_MAX]);

/* What all regions that are named have together: at most COUNT and burst of the whole, but for shares below 1. */
struct sl_region_sum {
    uint64_t count, limit; /* limit: bursts of buckets, COUNT of windows */
};
void sl_sum_regions(const struct sl_limit *limit, const struct sl_rate_draft *whole, struct sl_region_sum *ret_sum);

/* Chooses limit->region. False when memory ran out. */
bool sl_choose_region(struct sl_load *load, struct sl_limit *limit);
/* Warnings about `regions`: no region, one that is not named, shares below 1. */
void sl_lint_regions(struct sl_load *load);

/* What is wrong with a limit's rates: a sentence, and the field that would have to change. */
struct sl_fault {
    enum sl_limit_field field;
    char text[400];
};

/* Adds a rate: the next shape, under the ceiling and of the region. False: it is out of range. */
bool sl_limit_add_rate(const struct sl_policy *policy, struct sl_limit *limit, const struct sl_rate_draft *written,
                       struct sl_fault *ret_fault);
/* What an unlimited limit is under a ceiling: a bucket as large as that. Without one nothing changes. */
void sl_limit_take_ceiling(const struct sl_policy *policy, struct sl_limit *limit);
/* Can its coordination honour its rates, as a whole and, with `regions`, in every region, wherever this is? A policy is good
 * for all of them, or for none. `split`: also look whether it can be split. */
bool sl_limit_fits(const struct sl_policy *policy, const struct sl_limit *limit, bool split, bool regions,
                   struct sl_fault *ret_fault);
/* Buckets are those of a name, an algorithm, a way of separating and a region: what stays over a reload while these do. */
void sl_limit_seed(struct sl_secret secret, struct sl_limit *limit);
static inline bool sl_limit_needs_store(const struct sl_limit *limit)
{
    return limit->n_rates > 0 && limit->coordination != SL_COORD_LOCAL;
}
/* Fills *shared, zeroed, and gives it to the limit. False when memory ran out. */
bool sl_limit_share(struct sl_arena *arena, struct sl_limit *limit, struct sl_limit_shared *shared);

/* Parts of a limit that is split. */
#define SL_SPLIT_DEFAULT 4u
static inline unsigned sl_limit_n_parts(const struct sl_limit *limit)
{
    return limit->split ? limit->split : SL_SPLIT_DEFAULT;
}

/* Part `at` of a shape in n: COUNT and burst of all parts sum exactly to the shape's, and differ by one at most. Returns 0,
 * or SL_EINVALID with *ret_why when a part is out of range. */
int sl_shape_split(const struct sl_shape *shape, unsigned n, unsigned at, struct sl_shape *ret_part,
                   const char **ret_why);

/* The fields of a matcher that a limit names, as bits. */
#define SL_NAMES_KEY 8u
#define SL_NAMES_ENDPOINT 4u
#define SL_NAMES_TIER 2u
#define SL_NAMES_KEY_TYPE 1u

static inline unsigned sl_limit_names(const struct sl_limit *limit)
{
    return (limit->key ? SL_NAMES_KEY : 0) | (limit->endpoint ? SL_NAMES_ENDPOINT : 0) |
           (limit->tier ? SL_NAMES_TIER : 0) | (limit->key_type ? SL_NAMES_KEY_TYPE : 0);
}

/* Order of precedence of a matcher: greater wins. More fields first, then key, endpoint, tier, key_type; equal numbers
 * are decided by file order. */
static inline unsigned sl_limit_rank(const struct sl_limit *limit)
{
    unsigned names = sl_limit_names(limit);

    return ((unsigned)__builtin_popcount(names) + limit->n_labels) * 16 + names;
}

/* What the labels of one limit are to those of another: can one request have both sets, and does every request with the
 * loser's have the winner's? */
enum sl_relation { SL_APART, SL_OVERLAPS, SL_COVERS };
enum sl_relation sl_limit_relate_labels(const struct sl_limit *winner, const struct sl_limit *loser);

/* Who decides the tier of a request: for explanations. */
enum sl_tier_source {
    SL_TIER_REQUEST,
    SL_TIER_KEYS,      /* keys or keys_file */
    SL_TIER_ANONYMOUS, /* the key's type is address */
    SL_TIER_UNKNOWN,   /* in no table: default, anonymous or deny */
};

#endif
