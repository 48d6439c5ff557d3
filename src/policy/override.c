/* Lays overrides over a policy. */
#include "policy/override.h"

#include "base/err.h"
#include "policy/compiled.h"
#include "policy/variants.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the steps share. */
struct lay {
    struct sl_policy *policy; /* the new one, a copy of its base */
    struct sl_variants *v;
    const struct sl_overrides *overrides;
    struct sl_arena scratch;
    const struct sl_limit **keyed; /* limits that name a key and separate by it, by that key */
    size_t n_keyed;
    uint32_t *open; /* numbers of those that name none */
    size_t n_open;
    struct sl_name_set names; /* of limits, in file order: number - 1 is the index */
    uint32_t *kind_slots, kind_mask;
    bool nomem;
};

static const char *sentence(struct lay *lay, const char *format, ...) __attribute__((format(printf, 2, 3)));

static const char *sentence(struct lay *lay, const char *format, ...)
{
    char text[600];
    const char *copy;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    copy = sl_arena_strndup(&lay->policy->arena, text, strlen(text));
    lay->nomem |= !copy;
    return copy ? copy : "";
}

/* ---- the limits that could be overridden ------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    const struct sl_limit *x = *(const struct sl_limit *const *)a, *y = *(const struct sl_limit *const *)b;
    int order = strcmp(x->key, y->key);

    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static void find_candidates(struct lay *lay)
{
    const struct sl_policy *policy = lay->policy;

    lay->keyed = sl_arena_calloc(&lay->scratch, policy->n_limits + 1, sizeof(const struct sl_limit *));
    lay->open = sl_arena_calloc(&lay->scratch, policy->n_limits + 1, sizeof *lay->open);
    lay->nomem |= !lay->keyed || !lay->open || sl_name_set_init(&lay->names, &lay->scratch, policy->n_limits) != 0;
    for (size_t i = 0; !lay->nomem && i < policy->n_limits; i++) {
        const struct sl_limit *limit = &policy->limits[i];

        sl_name_set_add(&lay->names, limit->name, strlen(limit->name));
        if (!(limit->per & SL_PER_KEY) || limit->mode == SL_MODE_OFF)
            continue;
        if (limit->key)
            lay->keyed[lay->n_keyed++] = limit;
        else
            lay->open[lay->n_open++] = limit->index;
    }
    if (!lay->nomem && lay->n_keyed)
        qsort(lay->keyed, lay->n_keyed, sizeof(const struct sl_limit *), by_key);
}

static size_t first_keyed(const struct lay *lay, const char *key)
{
    size_t from = 0, to = lay->n_keyed;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (strcmp(lay->keyed[middle]->key, key) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------ */

static bool same_kind(const struct sl_override_kind *kind, const struct sl_override *o)
{
    return kind->rate.kind == o->rate.kind && kind->rate.count == o->rate.count &&
           kind->rate.period_us == o->rate.period_us && kind->burst == o->burst &&
           strcmp(kind->key_type, o->key_type) == 0;
}

static uint32_t kind_of(struct lay *lay, const struct sl_override *o)
{
    struct sl_variants *v = lay->v;
    uint64_t hash = ((uint64_t)o->rate.count << 2 | (uint64_t)o->rate.kind) ^ o->rate.period_us << 20 ^
                    (uint64_t)o->burst << 40 ^ (uint64_t)strlen(o->key_type) << 8;
    uint32_t i = (uint32_t)(hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) & lay->kind_mask;

    while (lay->kind_slots[i] && !same_kind(&v->kinds[lay->kind_slots[i]], o))
        i = (i + 1) & lay->kind_mask;
    if (!lay->kind_slots[i]) {
        v->kinds[++v->n_kinds] = (struct sl_override_kind){.rate = o->rate, .burst = o->burst, .key_type = o->key_type};
        lay->kind_slots[i] = v->n_kinds;
    }
    return lay->kind_slots[i];
}

/* ---- one override ----------------------------------------------------------------------------------------------- */

static bool takes_type(const struct sl_limit *limit, const char *key_type)
{
    return !limit->key_type || strcmp(limit->key_type, key_type) == 0;
}

static void add(struct lay *lay, uint32_t kind, const struct sl_limit *limit, struct sl_override_status *status)
{
    lay->nomem |= !sl_variants_add(lay->policy, lay->v, kind, limit, status);
}

static void sweep(struct lay *lay, uint32_t kind)
{
    struct sl_override_kind *k = &lay->v->kinds[kind];

    if (k->swept)
        return;
    k->swept = true;
    for (size_t i = 0; i < lay->n_open && !lay->nomem; i++) {
        const struct sl_limit *limit = &lay->policy->limits[lay->open[i]];

        if (takes_type(limit, k->key_type))
            add(lay, kind, limit, &k->of_sweep);
    }
}

static void meet_all(struct lay *lay, uint32_t kind, const char *key, struct sl_override_status *status)
{
    sweep(lay, kind);
    *status = lay->v->kinds[kind].of_sweep;
    for (size_t i = first_keyed(lay, key); i < lay->n_keyed && strcmp(lay->keyed[i]->key, key) == 0; i++)
        if (takes_type(lay->keyed[i], lay->v->kinds[kind].key_type))
            add(lay, kind, lay->keyed[i], status);
    if (!status->n_limits && !status->why)
        status->why = "no limit of the policy separates by key and could win for this one";
}

static const char *why_not(struct lay *lay, const struct sl_limit *limit, const struct sl_override *o, const char *key)
{
    if (!(limit->per & SL_PER_KEY))
        return sentence(lay, "limit `%s` does not separate by key: others share its buckets", limit->name);
    if (limit->mode == SL_MODE_OFF)
        return sentence(lay, "limit `%s` is off", limit->name);
    if (limit->key && strcmp(limit->key, key) != 0)
        return sentence(lay, "limit `%s` is for another key", limit->name);
    if (!takes_type(limit, o->key_type))
        return sentence(lay, "limit `%s` is for keys of type `%s`", limit->name, limit->key_type);
    if (o->burst && !sl_algorithm_is_bucket(limit->algorithm))
        return sentence(lay, "limit `%s`: a %s counts in windows and has no burst", limit->name,
                        sl_algorithm_name(limit->algorithm));
    return NULL;
}

static uint32_t meet_named(struct lay *lay, const struct sl_override *o, uint32_t kind, const char *key,
                           struct sl_override_status *status)
{
    uint32_t number = sl_name_set_find(&lay->names, o->limit, strlen(o->limit));
    const struct sl_limit *limit = number ? &lay->policy->limits[number - 1] : NULL;

    if (!limit) {
        status->why = sentence(lay, "the policy has no limit `%s`", o->limit);
        return SL_ANY_LIMIT;
    }
    status->why = why_not(lay, limit, o, key);
    if (!status->why)
        add(lay, kind, limit, status);
    return limit->index;
}

/* The key as requests have it: an address in its one spelling. NULL: it is no address, or memory ran out. */
static const char *request_key(struct lay *lay, const struct sl_override *o, size_t *ret_len)
{
    char text[SL_ADDRESS_TEXT_MAX];
    const char *copy;

    *ret_len = o->key_len;
    if (strcmp(o->key_type, "address") != 0)
        return o->key;
    if (sl_address_normalise(o->key, o->key_len, lay->policy->door.ipv6_prefix, text, ret_len) != 0)
        return NULL;
    copy = sl_arena_strndup(&lay->policy->arena, text, *ret_len);
    lay->nomem |= !copy;
    return copy;
}

static void place(struct lay *lay, uint32_t index, uint64_t now_us)
{
    struct sl_variants *v = lay->v;
    const struct sl_override *o = &lay->overrides->list[index];
    struct sl_override_status *status = &v->status[index];
    uint32_t kind, limit = SL_ANY_LIMIT;
    const char *key;
    size_t len;

    if (sl_override_is_over(o, now_us)) {
        *status = (struct sl_override_status){.over = true, .why = "its time is over"};
        return;
    }
    key = request_key(lay, o, &len);
    if (!key) {
        status->why = "the key is no IP address, but its type is `address`";
        return;
    }
    kind = kind_of(lay, o);
    if (o->limit)
        limit = meet_named(lay, o, kind, key, status);
    else
        meet_all(lay, kind, key, status);
    if (!status->n_limits || lay->nomem)
        return;
    v->n_active++;
    v->placed[v->n_placed++] = (struct sl_placed_override){
        .key = sl_keys_add(&v->keys, sl_hash13(lay->policy->secrets.key, key, len), key, len),
        .kind = kind,
        .limit = limit,
        .index = index};
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

/* By key; of one key those that name a limit first, then the newer first. The list is given, so that it is total. */
static int by_precedence(const void *a, const void *b, void *ctx)
{
    const struct sl_placed_override *x = a, *y = b;
    const struct sl_override *list = ctx;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if ((x->limit == SL_ANY_LIMIT) != (y->limit == SL_ANY_LIMIT))
        return x->limit == SL_ANY_LIMIT ? 1 : -1;
    if (list[x->index].set_us != list[y->index].set_us)
        return list[x->index].set_us > list[y->index].set_us ? -1 : 1;
    return x->index > y->index ? -1 : 1;
}

static void sort_placed(struct lay *lay)
{
    struct sl_variants *v = lay->v;
    uint32_t key = 0;

    v->first = sl_arena_calloc(&lay->policy->arena, (size_t)v->keys.n + 2, sizeof *v->first);
    if (!v->first) {
        lay->nomem = true;
        return;
    }
    if (v->n_placed)
        qsort_r(v->placed, v->n_placed, sizeof *v->placed, by_precedence, lay->overrides->list);
    for (size_t i = 0; i < v->n_placed; i++)
        while (key < v->placed[i].key)
            v->first[++key] = (uint32_t)i;
    while (key <= v->keys.n)
        v->first[++key] = (uint32_t)v->n_placed;
}

static void make_room(struct lay *lay)
{
    struct sl_arena *arena = &lay->policy->arena;
    size_t n = lay->overrides->n, slots = 4;

    while (slots < 2 * (n + 1))
        slots *= 2;
    lay->v = sl_arena_calloc(arena, 1, sizeof *lay->v);
    if (!lay->v || sl_keys_init(&lay->v->keys, arena, n) != 0) {
        lay->nomem = true;
        return;
    }
    lay->v->placed = sl_arena_calloc(arena, n + 1, sizeof *lay->v->placed);
    lay->v->kinds = sl_arena_calloc(arena, n + 1, sizeof *lay->v->kinds);
    lay->v->status = sl_arena_calloc(arena, n + 1, sizeof *lay->v->status);
    lay->kind_slots = sl_arena_calloc(&lay->scratch, slots, sizeof *lay->kind_slots);
    lay->kind_mask = (uint32_t)slots - 1;
    lay->nomem = !lay->v->placed || !lay->v->kinds || !lay->v->status || !lay->kind_slots;
}

static bool lay_over(struct sl_policy *policy, uint64_t now_us)
{
    struct lay lay = {.policy = policy, .overrides = policy->overrides};

    sl_arena_init(&lay.scratch, policy->arena.alloc);
    make_room(&lay);
    if (!lay.nomem)
        find_candidates(&lay);
    for (uint32_t i = 0; !lay.nomem && i < lay.overrides->n; i++)
        place(&lay, i, now_us);
    if (!lay.nomem)
        sort_placed(&lay);
    policy->variants = lay.v;
    sl_arena_fini(&lay.scratch);
    return !lay.nomem;
}

int sl_policy_override(struct sl_policy *policy, struct sl_overrides *overrides, uint64_t now_us,
                       struct sl_policy **ret_policy)
{
    struct sl_policy *base = policy->base ? policy->base : policy, *over;

    if (!overrides) {
        *ret_policy = sl_policy_ref(base);
        return 0;
    }
    over = sl_calloc(&base->arena.alloc, 1, sizeof *over);
    if (!over)
        return SL_ENOMEM;
    /* All but the references, which others count meanwhile. */
    memcpy((char *)over + offsetof(struct sl_policy, arena), (const char *)base + offsetof(struct sl_policy, arena),
           sizeof *over - offsetof(struct sl_policy, arena));
    atomic_init(&over->refs, 1);
    sl_arena_init(&over->arena, base->arena.alloc);
    over->base = sl_policy_ref(base);
    over->overrides = sl_overrides_ref(overrides);
    if (!lay_over(over, now_us)) {
        sl_policy_unref(over);
        return SL_ENOMEM;
    }
    *ret_policy = over;
    return 0;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

bool sl_policy_same_base(const struct sl_policy *x, const struct sl_policy *y)
{
    return (x->base ? x->base : x) == (y->base ? y->base : y);
}

struct sl_overrides *sl_policy_overrides(const struct sl_policy *policy)
{
    return policy->overrides;
}

size_t sl_policy_n_active_overrides(const struct sl_policy *policy)
{
    return policy->variants ? policy->variants->n_active : 0;
}

void sl_policy_override_status(const struct sl_policy *policy, size_t index, struct sl_override_status *ret_status)
{
    *ret_status = policy->variants->status[index];
}
