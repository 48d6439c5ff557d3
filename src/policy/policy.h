/* A compiled policy: SPEC section 3, immutable, reference-counted.
 *
 * sl_policy_load turns YAML into one of these, or into a list of findings and nothing else. Resolution costs
 * O(dimensions): each layer keeps one hash table per combination of matched fields that occurs in it, tried from
 * the most specific; the number of limits does not matter. All reading functions may be called from any thread
 * while a reference is held; none allocates. */
#ifndef SL_POLICY_POLICY_H
#define SL_POLICY_POLICY_H

#include "base/alloc.h"
#include "base/hash.h"
#include "core/limits.h"
#include "core/shape.h"
#include "identity/address.h"
#include "identity/forwarded.h"
#include "policy/diag.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_LAYERS_MAX 8
#define SL_ITEMS_MAX (SL_LAYERS_MAX * SL_RATES_MAX)

struct sl_policy;
struct sl_rate_draft;

enum sl_mode { SL_MODE_ENFORCE, SL_MODE_DRY_RUN, SL_MODE_OFF };
enum sl_coordination {
    SL_COORD_AUTO,
    SL_COORD_LOCAL,
    SL_COORD_SHARED,
    SL_COORD_LEASED,
    SL_COORD_SPLIT,
    SL_COORD_SYNCED
};
enum sl_on_failure { SL_FAIL_LOCAL, SL_FAIL_OPEN, SL_FAIL_CLOSED };

/* Dimensions of `per`, as bits. */
#define SL_PER_KEY 1u
#define SL_PER_ADDRESS 2u
#define SL_PER_ENDPOINT 4u
#define SL_PER_SCOPE 8u
#define SL_PER_TIER 16u
#define SL_PER_LABEL 32u /* one or more labels: see per_labels */

struct sl_limit_region {
    const char *name;
    uint32_t share_ppm; /* parts per million of the limit */
};

/* What the shared tier needs of a limit beyond its shapes. */
struct sl_limit_shared {
    /* What is done: SL_COORD_AUTO only where it may turn to leases, else it is SL_COORD_SHARED; never SL_COORD_LOCAL */
    enum sl_coordination coordination;
    bool per_instance;                     /* the pre-filter is the limit divided by the live instances */
    struct sl_shape filters[SL_RATES_MAX]; /* pre-filter of each rate: a token bucket of local_factor x the limit; unset
                                              when per_instance */
    uint64_t lease_block;                  /* tokens; 0: 2 % of the burst divided by the instances */
    uint64_t lease_ttl_us, sync_interval_us;    /* defaults filled in */
    unsigned n_parts;                           /* `split` only, else 0 */
    const struct sl_shape *parts[SL_RATES_MAX]; /* of each rate: n_parts shapes that sum exactly to the limit */
};

/* One limit, as written and as compiled. Strings belong to the policy and are NUL-terminated. */
struct sl_limit {
    const char *name;
    unsigned index;        /* position in the file; UINT_MAX for the ceiling's own pseudo-limit, named "" */
    unsigned line, column; /* of its mapping in the file */
    const char *layer;
    unsigned layer_idx;
    /* matcher; NULL: any */
    const char *key, *endpoint, *tier, *key_type;
    const struct sluice_label *labels; /* values are globs */
    unsigned n_labels;
    /* buckets */
    unsigned per;                  /* SL_PER_... bits */
    const char *const *per_labels; /* sorted */
    unsigned n_per_labels;
    enum sl_algorithm algorithm;
    enum sl_rate_kind kind; /* as written; see `capped` */
    bool capped;            /* the ceiling lowered it, or gave an unlimited one its rate */
    unsigned n_rates;       /* effective rates, after ceiling and region; 0 when unlimited or blocked */
    struct sl_shape shapes[SL_RATES_MAX];
    struct sl_hash128
        seeds[SL_RATES_MAX]; /* fingerprint of (name, algorithm, per, region, rate index) under the policy's secret */
    /* the rest */
    int64_t cost; /* -1: not given */
    enum sl_mode mode;
    enum sl_coordination coordination;
    enum sl_on_failure on_store_failure;
    bool on_store_failure_given;        /* in the limit itself or in defaults */
    unsigned warn_at_percent;           /* 0: none */
    uint64_t lease_block, lease_ttl_us; /* 0: default */
    unsigned split;                     /* 0: default */
    uint64_t sync_interval_us;
    double local_factor; /* reports only; 0: default; -1: per_instance */
    const struct sl_limit_region *regions;
    unsigned n_regions;
    /* The share that counts here, and is in shapes and seeds. NULL without `regions`, and in a policy for no region: then
     * shapes are the whole limit. Not one of `regions` where they do not name this region. */
    const struct sl_limit_region *region;
    const char *note;
    /* NULL in a policy without a store, for limits without buckets and for coordination `local` */
    const struct sl_limit_shared *shared;
    /* The rate and burst that stand here for a key with an override (policy/override.h), in place of the file's. NULL: the
     * file's own. Such a variant has the name, index and buckets of its limit. */
    const struct sl_rate_draft *replaced;
};

/* identity and http, as the doors need them. */
#define SL_KEY_TYPES_MAX 16

struct sl_identity_rule {
    const char *key_type;
    const char *header; /* lower case; NULL for `address` */
    bool trusted_only;  /* read only from trusted peers */
};

enum sl_header_style { SL_HEADERS_CLASSIC, SL_HEADERS_X, SL_HEADERS_DRAFT };

struct sl_door {
    struct sl_identity_rule order[SL_KEY_TYPES_MAX]; /* the first one present is the key */
    unsigned n_order;
    const struct sl_cidr *trusted;
    size_t n_trusted;
    const char *forwarded_header; /* lower case */
    enum sl_forwarded_kind forwarded_kind;
    unsigned ipv6_prefix;
    enum sl_header_style headers;
    bool problem_errors; /* errors: problem */
    int closed_status;
};

struct sl_policy_options {
    struct sl_secret secret; /* the table's; a policy used only for reading may leave it zero */
    struct sl_alloc alloc;
    bool has_store; /* false: warn about fields that only a shared store can honour */
    /* Is this the address of a store for `dedicated`? 0, or a sentence without secrets. NULL: only its scheme is looked at. */
    int (*check_store)(const char *text, char *why, size_t why_size);
    /* The text does not come from a file, and no file is read: its keys_file is keys_text (borrowed for the call; NULL: one
     * that is named is an error). */
    bool detached;
    const char *keys_text;
    size_t keys_len;
    /* Where the instance is: limits with `regions` become this region's share, in buckets of their own. NULL or "": nowhere,
     * and limits are whole. A region's name (sl_region_is_valid). */
    const char *region;
    bool any_region; /* no region, and on purpose: the policy is looked at for all. No warning that none is given */
};

/* [a-z0-9._-], at most 63. */
bool sl_region_is_valid(const char *name);

/* Compiles text (len bytes; `file` names it in findings and is the base of a relative keys_file, which is read
 * here). Returns 0 and a policy with one reference, or SL_EPOLICY with at least one error in `diags`, or
 * SL_ENOMEM. Warnings are added in both cases. */
int sl_policy_parse(const char *text, size_t len, const char *file, const struct sl_policy_options *options,
                    struct sl_policy **ret_policy, struct sl_diags *diags);

/* Reads a regular file (following links; at most SL_POLICY_BYTES_MAX) and compiles it. An unreadable or empty
 * file is an error finding. */
#define SL_POLICY_BYTES_MAX (64u << 20)
int sl_policy_load(const char *path, const struct sl_policy_options *options, struct sl_policy **ret_policy,
                   struct sl_diags *diags);

struct sl_policy *sl_policy_ref(struct sl_policy *policy);
void sl_policy_unref(struct sl_policy *policy); /* accepts NULL */
/* Nobody else has a reference, so that the caller's sl_policy_unref frees it. For a policy that nobody takes any more. */
bool sl_policy_is_alone(const struct sl_policy *policy);

const struct sl_door *sl_policy_door(const struct sl_policy *policy);
/* What it was compiled for; NULL: no region. */
const char *sl_policy_region(const struct sl_policy *policy);
size_t sl_policy_n_limits(const struct sl_policy *policy);
const struct sl_limit *sl_policy_limit(const struct sl_policy *policy, size_t index); /* file order */
/* The pseudo-limit that stands for unmatched requests under a ceiling; NULL when there is none. */
const struct sl_limit *sl_policy_ceiling(const struct sl_policy *policy);
/* SHA-256 of body and keys_file, 64 hex digits. */
const char *sl_policy_hash(const struct sl_policy *policy);
/* The keys_file as written, relative to the policy's folder unless it begins with a slash; NULL when there is none. */
const char *sl_policy_keys_file(const struct sl_policy *policy);

/* One bucket to consult. */
struct sl_item {
    const struct sl_limit *limit;
    const struct sl_shape *shape;
    struct sl_hash128 fp;
    uint32_t cost;
    uint16_t rate_idx;
};

/* What a policy says of one request. Not zeroed: only the first n are set. */
struct sl_resolution {
    unsigned n_items, n_dry;
    /* enforcing buckets, in file order of layers and rates; dry-run winners after them in `dry` */
    struct sl_item items[SL_ITEMS_MAX];
    struct sl_item dry[SL_ITEMS_MAX];
    const struct sl_limit *blocked;   /* an enforcing `blocked` limit that won its layer, else NULL */
    const struct sl_limit *unlimited; /* the first that won its layer with no bucket, else NULL */
    const struct sl_limit *dry_blocked;
    bool unmatched;       /* no layer had an enforcing match */
    bool denied;          /* ... and `unmatched: deny`; or an unknown key under `unknown: deny` */
    const char *tier;     /* "" when none, or when the request names one that the policy does not */
    const char *endpoint; /* "" when none */
    const struct sl_limit *winners[SL_LAYERS_MAX]; /* by layer_idx, NULL where nothing matched */
    /* In a policy with a store: whom buckets belong to (see sl_item_owner), and the key's own store: 0 the main one, else
     * 1 + its index in `dedicated`. address_hash is set when a limit in items or dry separates by address. */
    struct sl_hash128 key_hash, address_hash;
    unsigned store;
};

/* The stores of `dedicated`, as written. */
size_t sl_policy_n_dedicated(const struct sl_policy *policy);
const char *sl_policy_dedicated_store(const struct sl_policy *policy, size_t index);

/* Resolves a request that sl_request_check has accepted. Never fails. */
void sl_policy_resolve(const struct sl_policy *policy, const struct sluice_request *request,
                       struct sl_resolution *ret_resolution);

/* Validates a request against SPEC section 5 and normalises it: *ret_request borrows from *request and from
 * `buffer` (address keys). Returns 0, or SL_EINVALID with *ret_field ("key", "cost", "labels[3].name") and
 * *ret_why; static storage except that ret_field may point into the buffer. */
struct sl_request_buffer {
    char key[SL_ADDRESS_TEXT_MAX];
    char address[SL_ADDRESS_TEXT_MAX];
    char field[48];
};
int sl_request_check(const struct sl_policy *policy, const struct sluice_request *request,
                     struct sluice_request *ret_request, struct sl_request_buffer *buffer, const char **ret_field,
                     const char **ret_why);

/* What an accepted request costs under a limit: its own cost, else the limit's, else its endpoint's, else 1. Of the request
 * only cost and scope count. */
int64_t sl_policy_cost(const struct sl_policy *policy, const struct sluice_request *request,
                       const struct sl_limit *limit);

/* True when the tier of an accepted request is the store's to say (`keys_store`): the request names none, and its key is in
 * no table. A tier that the store names counts when sl_policy_names_tier says so; then the request resolves as if it named
 * that tier itself. */
bool sl_policy_asks_store(const struct sl_policy *policy, const struct sluice_request *request);

/* True when a limit or a table of the policy names this tier. */
bool sl_policy_names_tier(const struct sl_policy *policy, const char *tier, size_t len);

/* The tier that it names and that looks most like this one; NULL: none does. */
const char *sl_policy_suggest_tier(const struct sl_policy *policy, const char *tier, size_t len);

/* Does anybody look into the store for tiers of keys (`keys_store`)? */
bool sl_policy_has_keys_store(const struct sl_policy *policy);

/* Calls fn for each key that a table (keys, keys_file) puts into a tier. */
void sl_policy_each_key(const struct sl_policy *policy,
                        void (*fn)(void *ctx, const char *key, size_t len, const char *tier), void *ctx);

/* For batches. True when the request's key is valid, is not named by the policy and not of type `address`, and its
 * tier is not the store's to say; then *ret_hash is its hash. Accepted requests without labels that differ in nothing but such keys resolve alike, but for
 * the fingerprints of the buckets that separate by key: sl_item_rekey turns those of one request into another's. */
bool sl_policy_plain_key(const struct sl_policy *policy, const struct sluice_request *request,
                         struct sl_hash128 *ret_hash);

/* A fingerprint is a sum in which the key's hash is one term. */
static inline void sl_item_rekey(struct sl_item *item, struct sl_hash128 from, struct sl_hash128 to)
{
    if (item->limit->per & SL_PER_KEY) {
        item->fp.a += to.a - from.a;
        item->fp.b += to.b - from.b;
    }
}

/* Whom the item's bucket belongs to, which chooses the store's slot: the key where the limit separates by key, else the
 * address, else the bucket itself. The hashes are the resolution's. */
static inline struct sl_hash128 sl_item_owner(const struct sl_item *item, struct sl_hash128 key_hash,
                                              struct sl_hash128 address_hash)
{
    if (item->limit->per & SL_PER_KEY)
        return key_hash;
    return item->limit->per & SL_PER_ADDRESS ? address_hash : item->fp;
}

/* For inspection and reset: the fingerprint of the bucket that `limit` keeps for an accepted request under this
 * endpoint and tier ("" when none, as in struct sl_resolution), whether or not the limit would win there. Returns
 * false when it separates by address and the request has none. */
bool sl_policy_bucket(const struct sl_policy *policy, const struct sl_limit *limit, unsigned rate_idx,
                      const struct sluice_request *request, const char *endpoint, const char *tier,
                      struct sl_hash128 *ret_fp);

/* Likewise, in a policy with a store: whose bucket that is, and its store (as in struct sl_resolution). `fp` is its
 * fingerprint. */
bool sl_policy_bucket_owner(const struct sl_policy *policy, const struct sl_limit *limit,
                            const struct sluice_request *request, const struct sl_hash128 *fp,
                            struct sl_hash128 *ret_owner, unsigned *ret_store);

/* Names of the tables behind resolution, for `show`, metrics and inspection. */
size_t sl_policy_n_endpoints(const struct sl_policy *policy);
const char *sl_policy_endpoint_name(const struct sl_policy *policy, size_t index);
size_t sl_policy_n_layers(const struct sl_policy *policy);
const char *sl_policy_layer_name(const struct sl_policy *policy, size_t index);

#endif
