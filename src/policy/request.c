/* A request against the ranges of SPEC section 5, brought into the form that resolution expects. */
#include "base/err.h"
#include "policy/compiled.h"
#include "policy/text.h"
#include "policy/variants.h"

#include <stdio.h>
#include <string.h>

struct fault {
    const char *field, *why;
};

static bool fails(struct fault *fault, bool wrong, const char *field, const char *why)
{
    if (wrong)
        *fault = (struct fault){field, why};
    return wrong;
}

/* The checks of one text: present text has 1 (or 0, where `empty` allows) ... max bytes, none of them a control
 * character. */
static bool text_fails(struct fault *fault, const char *field, const char *text, size_t len, size_t max, bool empty,
                       const char *too_long)
{
    return text &&
           (fails(fault, len == 0 && !empty, field, "must not be empty") || fails(fault, len > max, field, too_long) ||
            fails(fault, !sl_text_printable(text, len), field, "must not hold NUL or control characters"));
}

static bool label_fails(const struct sluice_label *labels, size_t i, struct sl_request_buffer *buffer,
                        struct fault *fault)
{
    const struct sluice_label *label = &labels[i];
    bool bad = fails(fault, !label->name, "name", "is missing") ||
               text_fails(fault, "name", label->name, label->name_len, SLUICE_LABEL_NAME_MAX, false,
                          "is longer than 64 bytes") ||
               fails(fault, !label->value && label->value_len, "value", "is missing") ||
               text_fails(fault, "value", label->value, label->value_len, SLUICE_LABEL_VALUE_MAX, true,
                          "is longer than 512 bytes");

    for (size_t j = 0; j < i && !bad; j++)
        bad =
            fails(fault, labels[j].name_len == label->name_len && !memcmp(labels[j].name, label->name, label->name_len),
                  "name", "stands twice");
    if (bad) {
        snprintf(buffer->field, sizeof buffer->field, "labels[%zu].%s", i, fault->field);
        fault->field = buffer->field;
    }
    return bad;
}

static bool labels_fail(const struct sluice_request *request, struct sl_request_buffer *buffer, struct fault *fault)
{
    if (fails(fault, request->n_labels > SLUICE_LABELS_MAX, "labels", "are more than 16") ||
        fails(fault, request->n_labels && !request->labels, "labels", "are missing"))
        return true;
    for (size_t i = 0; i < request->n_labels; i++)
        if (label_fails(request->labels, i, buffer, fault))
            return true;
    return false;
}

static bool texts_fail(const struct sluice_request *r, struct fault *fault)
{
    return fails(fault, !r->key, "key", "is missing") ||
           text_fails(fault, "key", r->key, r->key_len, SLUICE_KEY_MAX, false, "is longer than 512 bytes") ||
           text_fails(fault, "keyType", r->key_type, r->key_type_len, SLUICE_NAME_MAX - 1, false,
                      "is longer than 63 bytes") ||
           fails(fault, !r->scope && r->scope_len, "scope", "is missing") ||
           text_fails(fault, "scope", r->scope, r->scope_len, SLUICE_SCOPE_MAX, true, "is longer than 2048 bytes") ||
           text_fails(fault, "tier", r->tier, r->tier_len, SLUICE_NAME_MAX - 1, false, "is longer than 63 bytes") ||
           fails(fault, r->cost < SLUICE_COST_DEFAULT || r->cost > SLUICE_COST_MAX, "cost",
                 "must be a whole number from 0 to 1000000000");
}

static bool is_address_type(const struct sluice_request *request)
{
    return request->key_type && request->key_type_len == strlen("address") &&
           !memcmp(request->key_type, "address", strlen("address"));
}

/* Addresses get the one spelling under which they are counted. */
static bool addresses_fail(const struct sl_policy *policy, struct sluice_request *r, struct sl_request_buffer *buffer,
                           struct fault *fault)
{
    unsigned prefix = policy->door.ipv6_prefix;

    if (is_address_type(r)) {
        if (fails(fault, sl_address_normalise(r->key, r->key_len, prefix, buffer->key, &r->key_len) != 0, "key",
                  "is not an IP address, and its type is `address`"))
            return true;
        r->key = buffer->key;
    }
    if (r->address) {
        if (fails(fault,
                  sl_address_normalise(r->address, r->address_len, prefix, buffer->address, &r->address_len) != 0,
                  "address", "is not an IP address"))
            return true;
        r->address = buffer->address;
    }
    return false;
}

int sl_request_check(const struct sl_policy *policy, const struct sluice_request *request,
                     struct sluice_request *ret_request, struct sl_request_buffer *buffer, const char **ret_field,
                     const char **ret_why)
{
    struct sluice_request checked = *request;
    struct fault fault;

    if (texts_fail(&checked, &fault) || (checked.n_labels && labels_fail(&checked, buffer, &fault)) ||
        addresses_fail(policy, &checked, buffer, &fault)) {
        *ret_field = fault.field;
        *ret_why = fault.why;
        return SL_EINVALID;
    }
    *ret_request = checked;
    return 0;
}

bool sl_policy_asks_store(const struct sl_policy *policy, const struct sluice_request *request)
{
    struct sl_hash128 hash;

    if (__builtin_expect(!policy->keys_store, 1) || request->tier)
        return false;
    if (policy->keys.n_tiered == 0)
        return true;
    hash = sl_hash13(policy->secrets.key, request->key, request->key_len);
    return !policy->keys.list[sl_keys_find(&policy->keys, hash, request->key, request->key_len)].tier;
}

bool sl_policy_names_tier(const struct sl_policy *policy, const char *tier, size_t len)
{
    return sl_name_set_find(&policy->tiers, tier, len) != 0;
}

static const char *tier_name(const void *ctx, size_t i)
{
    return ((const struct sl_policy *)ctx)->tiers.list[i + 1].text;
}

const char *sl_policy_suggest_tier(const struct sl_policy *policy, const char *tier, size_t len)
{
    return sl_text_suggest(tier, len, tier_name, policy, policy->tiers.n);
}

bool sl_policy_has_keys_store(const struct sl_policy *policy)
{
    return policy->keys_store;
}

void sl_policy_each_key(const struct sl_policy *policy,
                        void (*fn)(void *ctx, const char *key, size_t len, const char *tier), void *ctx)
{
    for (uint32_t i = 1; i <= policy->keys.n; i++) {
        const struct sl_key_entry *entry = &policy->keys.list[i];

        if (entry->tier)
            fn(ctx, entry->key, entry->len, policy->tiers.list[entry->tier].text);
    }
}

bool sl_policy_plain_key(const struct sl_policy *policy, const struct sluice_request *request,
                         struct sl_hash128 *ret_hash)
{
    struct sl_hash128 hash;

    if (!request->key || request->key_len - 1 >= SLUICE_KEY_MAX || !sl_text_printable(request->key, request->key_len) ||
        is_address_type(request) || (policy->keys_store && !request->tier))
        return false;
    hash = sl_hash13(policy->secrets.key, request->key, request->key_len);
    if (policy->keys.n && sl_keys_find(&policy->keys, hash, request->key, request->key_len))
        return false;
    if (sl_variants_key(policy->variants, hash, request->key, request->key_len))
        return false;
    *ret_hash = hash;
    return true;
}
