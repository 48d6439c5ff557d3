/* What resolution knows of one request: shared by the hot path and the reports. */
#ifndef SL_POLICY_RESOLVE_H
#define SL_POLICY_RESOLVE_H

#include "policy/compiled.h"

/* A request as numbers and hashes. Not zeroed: hashes of scope, address and labels are made when first needed. Borrows
 * the policy and the request. */
struct sl_subject {
    const struct sl_policy *policy;
    const struct sluice_request *request;
    const char *address; /* the request's, else the key when its type is address; NULL: none */
    size_t address_len;
    uint32_t key, endpoint, tier, type; /* numbers; 0: none, or not one the policy names */
    uint32_t overridden;                /* the key's number among those with overrides; 0: it has none */
    enum sl_tier_source tier_source;
    bool denied; /* an unknown key under `unknown: deny` */
    bool have_scope, have_address;
    struct sl_hash128 key_hash, scope_hash, address_hash;
    uint64_t present, hashed_labels; /* by number of the label's name */
    uint8_t label_at[SL_LABEL_NAMES_MAX + 1];
    struct sl_hash128 label_hashes[SL_LABEL_NAMES_MAX + 1];
};

void sl_subject_init(struct sl_subject *subject, const struct sl_policy *policy, const struct sluice_request *request);

/* The tier's number and where it came from. */
uint32_t sl_resolve_tier(const struct sl_policy *policy, const struct sluice_request *request, uint32_t key_number,
                         uint32_t type_number, enum sl_tier_source *ret_source, bool *ret_denied);

/* The sum of the hashes of the limit's `per` dimensions: the fingerprint without the limit's seed. */
struct sl_hash128 sl_subject_bucket(struct sl_subject *subject, const struct sl_limit *limit);

/* The request's cost under a limit: its own, the limit's, the endpoint's, else 1. */
int64_t sl_subject_cost(const struct sl_subject *subject, const struct sl_limit *limit);

#endif
