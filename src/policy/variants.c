/* Variants of limits: made once for each kind of override that meets a limit, found by both. */
#include "policy/variants.h"

#include "policy/compiled.h"

#include <stdio.h>
#include <string.h>

/* ---- the table -------------------------------------------------------------------------------------------------- */

static uint32_t slot_hash(uint32_t kind, uint32_t limit)
{
    return (uint32_t)(((uint64_t)kind << 32 | limit) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static struct sl_variant_slot *find_slot(const struct sl_variants *v, uint32_t kind, uint32_t limit)
{
    uint32_t i = slot_hash(kind, limit) & v->mask;

    while (v->slots[i].kind && (v->slots[i].kind != kind || v->slots[i].limit != limit))
        i = (i + 1) & v->mask;
    return &v->slots[i];
}

/* What has become too small stays in the arena until all of it goes: as much as the last one at most. */
static bool grow_slots(struct sl_arena *arena, struct sl_variants *v)
{
    struct sl_variant_slot *old = v->slots, *slots;
    uint32_t n = old ? v->mask + 1 : 0;

    slots = sl_arena_calloc(arena, n ? 2 * (size_t)n : 16, sizeof *slots);
    if (!slots)
        return false;
    v->slots = slots;
    v->mask = n ? 2 * n - 1 : 15;
    for (uint32_t i = 0; i < n; i++)
        if (old[i].kind)
            *find_slot(v, old[i].kind, old[i].limit) = old[i];
    return true;
}

/* ---- one variant ------------------------------------------------------------------------------------------------ */

/* A block that is more than a lowered limit holds would make the limit useless: then it is the default. */
static bool fits(const struct sl_policy *policy, struct sl_limit *variant, struct sl_fault *fault)
{
    if (sl_limit_fits(policy, variant, true, true, fault))
        return true;
    if (fault->field != SL_LF_LEASE)
        return false;
    variant->lease_block = 0;
    return sl_limit_fits(policy, variant, true, true, fault);
}

static bool shape(const struct sl_policy *policy, struct sl_limit *variant, const struct sl_rate_draft *rate,
                  struct sl_fault *fault)
{
    if (variant->kind == SL_RATE_UNLIMITED)
        sl_limit_take_ceiling(policy, variant);
    if (variant->kind == SL_RATE_LIMITED && !sl_limit_add_rate(policy, variant, rate, fault))
        return false;
    return fits(policy, variant, fault);
}

static bool give_shared(struct sl_policy *policy, struct sl_limit *variant)
{
    struct sl_limit_shared *shared;

    variant->shared = NULL;
    if (!policy->has_store || !sl_limit_needs_store(variant))
        return true;
    shared = sl_arena_calloc(&policy->arena, 1, sizeof *shared);
    return shared && sl_limit_share(&policy->arena, variant, shared);
}

static const char *explain_fault(struct sl_policy *policy, const struct sl_limit *limit, const struct sl_fault *fault)
{
    char text[sizeof fault->text + SLUICE_NAME_MAX + 16];

    snprintf(text, sizeof text, "limit `%s`: %s", limit->name, fault->text);
    return sl_arena_strndup(&policy->arena, text, strlen(text));
}

/* Fills the slot: with a variant, or with why there is none. False: out of memory. */
static bool make_variant(struct sl_policy *policy, const struct sl_override_kind *kind, const struct sl_limit *limit,
                         struct sl_variant_slot *slot)
{
    struct sl_limit *variant = sl_arena_calloc(&policy->arena, 1, sizeof *variant);
    struct sl_rate_draft *rate = sl_arena_calloc(&policy->arena, 1, sizeof *rate);
    struct sl_fault fault;

    if (!variant || !rate)
        return false;
    *rate =
        (struct sl_rate_draft){.rate = kind->rate, .burst = sl_algorithm_is_bucket(limit->algorithm) ? kind->burst : 0};
    *variant = *limit;
    variant->kind = kind->rate.kind;
    variant->capped = false;
    variant->n_rates = 0;
    variant->replaced = rate;
    if (!shape(policy, variant, rate, &fault)) {
        slot->why = explain_fault(policy, limit, &fault);
        return slot->why != NULL;
    }
    sl_limit_seed(policy->secret, variant);
    slot->variant = variant;
    return give_shared(policy, variant);
}

/* ---- adding ----------------------------------------------------------------------------------------------------- */

static void note_refusal(struct sl_override_status *status, const struct sl_limit *limit, const char *why)
{
    status->n_refused++;
    if (status->why)
        return;
    status->why = why;
    status->refused = limit;
}

bool sl_variants_add(struct sl_policy *policy, struct sl_variants *v, uint32_t kind, const struct sl_limit *limit,
                     struct sl_override_status *status)
{
    struct sl_variant_slot *slot;

    if ((!v->slots || 2 * (v->n_slots + 1) > v->mask + 1) && !grow_slots(&policy->arena, v))
        return false;
    slot = find_slot(v, kind, limit->index);
    if (!slot->kind && v->n_slots == SL_OVERRIDE_VARIANTS_MAX) {
        note_refusal(status, limit, "the overrides meet too many limits, more than 65536 altogether: name the limit");
        return true;
    }
    if (!slot->kind) {
        *slot = (struct sl_variant_slot){.kind = kind, .limit = limit->index};
        v->n_slots++;
        if (!make_variant(policy, &v->kinds[kind], limit, slot))
            return false;
    }
    if (!slot->variant) {
        note_refusal(status, limit, slot->why);
        return true;
    }
    status->n_limits++;
    if (!status->first)
        status->first = slot->variant;
    return true;
}

/* ---- finding ---------------------------------------------------------------------------------------------------- */

static bool is_of_type(const char *key_type, const struct sluice_request *request)
{
    size_t len = strlen(key_type);

    return request->key_type ? request->key_type_len == len && memcmp(request->key_type, key_type, len) == 0
                             : strcmp(key_type, "api_key") == 0;
}

const struct sl_limit *sl_variants_find(const struct sl_variants *v, uint32_t key, const struct sluice_request *request,
                                        const struct sl_limit *limit, const struct sl_placed_override **ret_placed)
{
    for (uint32_t i = v->first[key]; i < v->first[key + 1]; i++) {
        const struct sl_placed_override *placed = &v->placed[i];
        const struct sl_limit *variant;

        if ((placed->limit != SL_ANY_LIMIT && placed->limit != limit->index) ||
            !is_of_type(v->kinds[placed->kind].key_type, request))
            continue;
        variant = find_slot(v, placed->kind, limit->index)->variant;
        if (!variant)
            continue;
        if (ret_placed)
            *ret_placed = placed;
        return variant;
    }
    return limit;
}

static const struct sl_limit *find_for(const struct sl_policy *policy, const struct sluice_request *request,
                                       const struct sl_limit *limit, const struct sl_placed_override **ret_placed)
{
    struct sl_hash128 hash;
    uint32_t key;

    if (!policy->variants || limit->index == UINT32_MAX)
        return limit;
    hash = sl_hash13(policy->secrets.key, request->key, request->key_len);
    key = sl_variants_key(policy->variants, hash, request->key, request->key_len);
    return key ? sl_variants_find(policy->variants, key, request, limit, ret_placed) : limit;
}

const struct sl_limit *sl_policy_limit_for(const struct sl_policy *policy, const struct sluice_request *request,
                                           const struct sl_limit *limit)
{
    return find_for(policy, request, limit, NULL);
}

const struct sl_override *sl_policy_override_for(const struct sl_policy *policy, const struct sluice_request *request,
                                                 const struct sl_limit *limit)
{
    const struct sl_placed_override *placed = NULL;

    find_for(policy, request, limit, &placed);
    return placed ? &policy->overrides->list[placed->index] : NULL;
}
