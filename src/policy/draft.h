/* A policy as written: every value read and in its range, nothing resolved yet. Lives from reading to compiling.
 *
 * Values are in the policy's arena, nodes (places for findings) in the load's. */
#ifndef SL_POLICY_DRAFT_H
#define SL_POLICY_DRAFT_H

#include "core/limits.h"
#include "policy/policy.h"
#include "policy/reader.h"

/* Index of each field of a limit in sl_limit_fields and in `given`. */
enum sl_limit_field {
    SL_LF_NAME,
    SL_LF_KEY,
    SL_LF_ENDPOINT,
    SL_LF_TIER,
    SL_LF_KEY_TYPE,
    SL_LF_LABELS,
    SL_LF_LAYER,
    SL_LF_PER,
    SL_LF_ALGORITHM,
    SL_LF_RATE,
    SL_LF_RATES,
    SL_LF_BURST,
    SL_LF_COST,
    SL_LF_MODE,
    SL_LF_COORDINATION,
    SL_LF_LEASE,
    SL_LF_SPLIT,
    SL_LF_SYNC,
    SL_LF_LOCAL_FACTOR,
    SL_LF_ON_STORE_FAILURE,
    SL_LF_WARN_AT,
    SL_LF_REGIONS,
    SL_LF_NOTE,
    SL_LIMIT_FIELDS,
};

struct sl_rate_draft {
    struct sl_rate rate;
    uint32_t burst; /* 0: not given */
    const struct sl_node *node;
};

struct sl_rates_draft {
    struct sl_rate_draft list[SL_RATES_MAX];
    unsigned n;
};

struct sl_labels_draft {
    struct sluice_label *list; /* sorted by name */
    unsigned n;
};

struct sl_per_draft {
    unsigned bits;
    const char **labels; /* sorted */
    unsigned n_labels;
};

struct sl_regions_draft {
    struct sl_limit_region *list;
    unsigned n;
};

struct sl_limit_draft {
    const struct sl_node *node; /* its mapping */
    struct sl_given given;      /* in the limit itself */
    const char *name, *key, *endpoint, *tier, *key_type, *layer, *note;
    struct sl_labels_draft labels;
    struct sl_per_draft per;
    int algorithm, mode, coordination, on_store_failure;
    struct sl_rate_draft rate;
    struct sl_rates_draft rates;
    uint32_t burst; /* 0: not given */
    int64_t cost;   /* -1: not given */
    struct {
        uint64_t block, ttl_us;
    } lease;
    uint32_t split;
    struct {
        uint64_t interval_us;
    } sync;
    double local_factor;
    uint32_t warn_at_percent;
    struct sl_regions_draft regions;
    unsigned index;
    bool sound; /* its rates compile: set by the checks */
};

struct sl_endpoint_draft {
    const char *name;
    struct sl_texts match;
    int64_t cost; /* -1: not given */
    const struct sl_node *node;
};

struct sl_header_draft {
    const char *key_type, *header; /* header in lower case */
    const struct sl_node *node;
};

struct sl_identity_draft {
    struct sl_given given;
    struct sl_texts order, trusted_headers;
    struct sl_header_draft *headers;
    size_t n_headers;
    struct sl_cidr *trusted;
    size_t n_trusted;
    const char *forwarded; /* lower case */
    uint32_t ipv6_prefix;
};

struct sl_key_draft {
    const char *key, *tier;
    size_t key_len;
    const char *file; /* the policy's or the keys_file's name */
    unsigned line, column;
};

enum sl_unknown { SL_UNKNOWN_DEFAULT, SL_UNKNOWN_ANONYMOUS, SL_UNKNOWN_DENY };

struct sl_tiers_draft {
    struct sl_given given;
    const char *default_tier, *anonymous;
    int unknown; /* enum sl_unknown */
    struct sl_key_draft *keys;
    size_t n_keys;
    const char *keys_file;
    bool keys_store;
};

struct sl_dedicated_draft {
    struct sl_texts keys;
    const char *store;
    const struct sl_node *store_node; /* NULL: not given rightly */
};

struct sl_draft {
    struct sl_given given;
    struct sl_limit_draft defaults;
    struct sl_identity_draft identity;
    struct {
        int headers, errors;
        uint32_t closed_status;
    } http;
    struct sl_tiers_draft tiers;
    struct sl_endpoint_draft *endpoints;
    size_t n_endpoints;
    struct sl_limit_draft *limits;
    size_t n_limits;
    struct {
        struct sl_given given;
        struct sl_rate_draft rate;
        uint32_t burst; /* 0: not given */
    } ceiling;
    int unmatched; /* 0 allow, 1 deny */
    struct sl_dedicated_draft *dedicated;
    size_t n_dedicated;
};

#define SL_POLICY_LIMITS_MAX 100000
#define SL_POLICY_ENDPOINTS_MAX 100000
#define SL_POLICY_DEDICATED_MAX 15u /* as many as an instance can have connections to, beside the main store */

/* Index of each field of the document, of `identity`, of `tiers` and of `ceiling` in their tables. */
enum sl_policy_field {
    SL_PF_VERSION,
    SL_PF_DEFAULTS,
    SL_PF_IDENTITY,
    SL_PF_HTTP,
    SL_PF_TIERS,
    SL_PF_ENDPOINTS,
    SL_PF_LIMITS,
    SL_PF_CEILING,
    SL_PF_UNMATCHED,
    SL_PF_DEDICATED,
    SL_POLICY_FIELDS,
};
enum sl_identity_field {
    SL_IF_ORDER,
    SL_IF_HEADERS,
    SL_IF_TRUSTED_HEADERS,
    SL_IF_TRUSTED_PROXIES,
    SL_IF_FORWARDED,
    SL_IF_IPV6_PREFIX,
    SL_IDENTITY_FIELDS,
};
enum sl_tiers_field {
    SL_TF_DEFAULT,
    SL_TF_ANONYMOUS,
    SL_TF_UNKNOWN,
    SL_TF_KEYS,
    SL_TF_KEYS_FILE,
    SL_TF_KEYS_STORE,
    SL_TIERS_FIELDS,
};
enum sl_ceiling_field { SL_CF_RATE, SL_CF_BURST, SL_CEILING_FIELDS };

/* The tables, for reading and for the reference in docs/policy.md (a test holds the two together). */
extern const struct sl_fields sl_policy_fields, sl_limit_fields, sl_identity_fields, sl_http_fields, sl_tiers_fields,
    sl_endpoint_fields, sl_ceiling_fields, sl_dedicated_fields, sl_lease_fields, sl_sync_fields, sl_rate_fields;

/* Words of the enumerations, in the order of their C enums, ended by NULL. */
extern const char *const sl_mode_words[], *const sl_coordination_words[], *const sl_on_failure_words[],
                                                                              *const sl_algorithm_words[],
                                                                                  *const sl_header_style_words[],
                                                                                      *const sl_unknown_words[];

/* Reads the whole document; findings go to r->diags. */
void sl_draft_read(struct sl_reader *r, const struct sl_node *root, struct sl_draft *ret_draft);

/* Reading functions that tables in other files use. */
sl_read_fn sl_read_defaults, sl_read_identity, sl_read_tiers, sl_read_rate;

/* Reads the list of limits over the defaults, which must have been read. */
bool sl_read_limits(struct sl_reader *r, const struct sl_node *value, struct sl_draft *draft);

/* A limit as it is before anything is read. */
void sl_limit_draft_init(struct sl_limit_draft *limit);

/* True when the field's value in force is right: neither given wrongly nor misspelt in the limit, nor in `defaults` where
 * that is what holds. */
bool sl_limit_draft_knows(const struct sl_draft *draft, const struct sl_limit_draft *limit, enum sl_limit_field field);

/* Reads a keys_file (`key,tier` a line) into the draft's keys, its findings under its own name and lines. `node` is the
 * field that names it. */
void sl_keys_file_parse(struct sl_reader *r, const char *text, size_t len, const char *file,
                        struct sl_tiers_draft *tiers);

#endif
