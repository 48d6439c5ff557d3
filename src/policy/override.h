/* Overrides: another rate and burst for one key, laid over a compiled policy.
 *
 *     sl_overrides_new(&alloc, list, n, revision, &overrides);
 *     sl_policy_override(policy, overrides, now_us, &over);      over: what decides; policy: what the file says
 *
 * An override that names a limit replaces that limit's rate and burst for its key; one that names none does so for every
 * limit that wins for the key and separates by key. A limit that many keys share is never overridden. Of two that meet,
 * the one that names the limit comes first, then the newer one. A limit of several `rates` gets the one rate; the burst
 * of an override counts for buckets, windows have none. Ceiling and region come after it, as they do after the file.
 *
 * Nothing is compiled again: the result shares everything with the policy below it, and adds a variant of each limit
 * that is overridden. A variant has the name, index and fingerprints of its limit, so a bucket keeps its state when an
 * override comes or goes, as it does over a reload: a debt, capped at the new full debt; a window its count.
 *
 * An override never breaks a policy. What cannot be done with it (no such limit, one that is shared by many keys, a rate
 * that the limit's algorithm or coordination cannot honour) makes it inactive there, with a sentence that says so; the
 * limit itself stays in force. Immutable once made; any thread. */
#ifndef SL_POLICY_OVERRIDE_H
#define SL_POLICY_OVERRIDE_H

#include "base/alloc.h"
#include "core/rate.h"
#include "policy/policy.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_OVERRIDES_MAX 10000u
#define SL_OVERRIDE_VARIANTS_MAX 65536u
#define SL_OVERRIDE_AUTHOR_MAX 128u
#define SL_OVERRIDE_COMMENT_MAX 1024u

/* Key, key type and limit are what it is known by: setting the same again replaces it. */
struct sl_override {
    const char *key; /* 1 ... SLUICE_KEY_MAX bytes of UTF-8 without control characters, NUL-terminated */
    size_t key_len;
    const char *key_type; /* never NULL */
    const char *limit;    /* NULL: every limit that wins for the key and separates by it */
    struct sl_rate rate;
    uint32_t burst;    /* 0: COUNT */
    uint64_t until_us; /* Unix time; not in force from then on. 0: until it is removed */
    uint64_t set_us;   /* when it was set, Unix time */
    const char *author, *comment;
};

/* ---- a list of them: immutable, counted */

struct sl_overrides {
    atomic_uint refs;
    struct sl_alloc alloc;
    uint64_t revision;        /* of the list; 0: nobody has ever set one */
    struct sl_override *list; /* by key, key type, limit (none first); texts belong to the list */
    size_t n;
};

/* Copies a list. Of two with the same key, key type and limit the later in the list stays. Returns 0 or SL_ENOMEM. */
int sl_overrides_new(const struct sl_alloc *alloc, const struct sl_override *list, size_t n, uint64_t revision,
                     struct sl_overrides **ret_overrides);
struct sl_overrides *sl_overrides_ref(struct sl_overrides *overrides);
void sl_overrides_unref(struct sl_overrides *overrides); /* accepts NULL */

/* < 0, 0, > 0 by what they are known by. */
int sl_override_compare(const struct sl_override *x, const struct sl_override *y);

/* The one that is known by the same as `like`, or NULL. */
const struct sl_override *sl_overrides_find(const struct sl_overrides *overrides, const struct sl_override *like);

/* The list with `changed` in the place of the one that is known by the same, or added; or, with `remove`, without that
 * one; and without those that are over at now_us. `overrides` may be NULL: empty. Returns 0 or SL_ENOMEM. */
int sl_overrides_with(const struct sl_alloc *alloc, const struct sl_overrides *overrides,
                      const struct sl_override *changed, bool remove, uint64_t now_us, uint64_t revision,
                      struct sl_overrides **ret_overrides);

static inline bool sl_override_is_over(const struct sl_override *override, uint64_t now_us)
{
    return override->until_us && override->until_us <= now_us;
}

/* When the next one of those in force at now_us is over; UINT64_MAX: never. */
uint64_t sl_overrides_next_end(const struct sl_overrides *overrides, uint64_t now_us);

/* What is wrong with an override by itself, whatever the policy: ranges of SPEC sections 2 and 5. Returns NULL, or a
 * sentence in static storage, and the member at fault ("key", "burst"). */
const char *sl_override_check(const struct sl_override *override, const char **ret_field);

/* ---- over a policy */

/* Lays the list (NULL: nothing) over the policy. Overrides that `policy` already has are not part of the result. Takes no
 * references but its own. Returns 0 and a policy with one reference, or SL_ENOMEM. */
int sl_policy_override(struct sl_policy *policy, struct sl_overrides *overrides, uint64_t now_us,
                       struct sl_policy **ret_policy);

/* Is it the same policy below the overrides? */
bool sl_policy_same_base(const struct sl_policy *x, const struct sl_policy *y);

/* The list that lies over the policy, borrowed; NULL: none. */
struct sl_overrides *sl_policy_overrides(const struct sl_policy *policy);
/* How many of them have an effect, so that a limit is another than the file says. */
size_t sl_policy_n_active_overrides(const struct sl_policy *policy);

/* What became of one (by its index in the list). */
struct sl_override_status {
    bool over;                    /* its time has come */
    size_t n_limits;              /* that it replaces */
    const struct sl_limit *first; /* the first of them, as replaced; NULL: none. Lives as long as the policy */
    const char
        *why; /* inactive, or inactive for `refused`: a sentence. Lives as long as the policy; NULL: all is well */
    const struct sl_limit *refused; /* the first limit that could not take it; NULL: none */
    size_t n_refused;
};
void sl_policy_override_status(const struct sl_policy *policy, size_t index, struct sl_override_status *ret_status);

/* The limit that stands in this one's place for the (accepted) request's key: a variant, or the limit itself. */
const struct sl_limit *sl_policy_limit_for(const struct sl_policy *policy, const struct sluice_request *request,
                                           const struct sl_limit *limit);

/* Which override makes it a variant; NULL: none does. */
const struct sl_override *sl_policy_override_for(const struct sl_policy *policy, const struct sluice_request *request,
                                                 const struct sl_limit *limit);

#endif
