#include "shadow/shadow.h"

#include "base/err.h"
#include "policy/digest.h"
#include "shadow/run.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX ":shadow" /* so that rights on NAMESPACE:* are enough */
#define END_MS 2000u     /* that a start waits for the end of the one before */

int sl_shadow_namespace(const char *ns, char ret_ns[static SL_NAMESPACE_MAX + 1])
{
    char hash[65];
    int err;

    if (strlen(ns) + sizeof SUFFIX - 1 <= SL_NAMESPACE_MAX) {
        snprintf(ret_ns, SL_NAMESPACE_MAX + 1, "%s" SUFFIX, ns);
        return 0;
    }
    err = sl_digest(ns, strlen(ns), NULL, 0, hash);
    if (!err)
        snprintf(ret_ns, SL_NAMESPACE_MAX + 1, "shadow.%.24s", hash);
    return err;
}

void sl_shadow_say(const struct sl_shadow *shadow, enum sl_shadow_say severity, const char *format, ...)
{
    char line[640];
    va_list args;

    if (!shadow->config.say)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    shadow->config.say(shadow->config.ctx, severity, line);
}

/* ---- life */

int sl_shadow_new(const struct sl_shadow_config *config, struct sl_shadow **ret_shadow)
{
    struct sl_shadow *shadow = sl_calloc(config->alloc, 1, sizeof *shadow);
    int err;

    if (!shadow)
        return SL_ENOMEM;
    shadow->config = *config;
    shadow->alloc = *config->alloc;
    err = config->ns ? sl_shadow_namespace(config->ns, shadow->ns) : 0;
    if (!err)
        err = sl_comparison_init(&shadow->comparison, &shadow->alloc);
    if (err)
        sl_free(config->alloc, shadow);
    else
        *ret_shadow = shadow;
    return err;
}

/* Waits for the one that was stopped before: it may be in the middle of a resolver's call. */
static bool has_ended(struct sl_shadow *shadow, unsigned ms)
{
    if (shadow->ending && sl_shadow_run_join(shadow->ending, ms))
        shadow->ending = NULL;
    return !shadow->ending;
}

void sl_shadow_free(struct sl_shadow *shadow)
{
    struct sl_alloc alloc;

    if (!shadow)
        return;
    has_ended(shadow, 0);
    sl_shadow_stop(shadow);
    has_ended(shadow, 0);
    alloc = shadow->alloc;
    for (unsigned i = 0; i < SL_SHADOW_LOOPS_MAX; i++)
        sl_ring_free(atomic_load(&shadow->ways[i].ring));
    sl_overrides_unref(shadow->overrides);
    sl_comparison_fini(&shadow->comparison);
    sl_free(&alloc, shadow);
}

/* ---- on the serving loops */

static struct sl_ring *open_way(struct sl_shadow *shadow, unsigned loop)
{
    struct sl_ring *ring =
        sl_ring_new(&shadow->alloc, shadow->config.ring_bytes ? shadow->config.ring_bytes : SL_RING_BYTES);
    unsigned n = atomic_load(&shadow->n_ways);

    atomic_store_explicit(&shadow->ways[loop].ring, ring, memory_order_release);
    while (n <= loop && !atomic_compare_exchange_weak(&shadow->n_ways, &n, loop + 1))
        ;
    return ring;
}

void sl_shadow_offer(struct sl_shadow *shadow, unsigned loop, const struct sluice_request *request,
                     const struct sluice_verdict *verdict)
{
    struct sl_shadow_way *way = &shadow->ways[loop];
    struct sl_ring *ring = atomic_load_explicit(&way->ring, memory_order_relaxed);
    const struct sl_seen seen = {.t_us = sl_table_now(shadow->config.live),
                                 .request = request,
                                 .allowed = verdict->allowed,
                                 .source = verdict->source,
                                 .policy = verdict->policy};

    if (!ring)
        ring = open_way(shadow, loop);
    if (!ring || !sl_ring_put(ring, &seen)) /* one writer: no locked instruction is needed */
        atomic_store_explicit(&way->dropped, atomic_load_explicit(&way->dropped, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

/* ---- starting and stopping */

static uint64_t all_dropped(struct sl_shadow *shadow)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SL_SHADOW_LOOPS_MAX; i++)
        sum += atomic_load_explicit(&shadow->ways[i].dropped, memory_order_relaxed);
    return sum;
}

void sl_shadow_recount(struct sl_shadow *shadow)
{
    sl_comparison_clear(&shadow->comparison);
    atomic_store(&shadow->refused, 0);
    shadow->dropped_before = all_dropped(shadow);
}

int sl_shadow_start(struct sl_shadow *shadow, const struct sl_version_text *text, const char *name, char *why,
                    size_t why_size)
{
    int err = 0;

    if (shadow->run) {
        err = sl_shadow_run_change(shadow->run, text, name, why, why_size);
    } else if (!has_ended(shadow, END_MS)) {
        snprintf(why, why_size, "the shadow that was stopped has not come to its end yet; try again");
        return SL_EBUSY;
    } else {
        err = sl_shadow_run_new(shadow, text, name, &shadow->run, why, why_size);
    }
    if (err)
        return err;
    sl_shadow_recount(shadow);
    atomic_store(&shadow->active, true);
    return 0;
}

void sl_shadow_stop(struct sl_shadow *shadow)
{
    if (!shadow->run)
        return;
    atomic_store(&shadow->active, false);
    sl_shadow_run_stop(shadow->run);
    shadow->ending = shadow->run;
    shadow->run = NULL;
}

int sl_shadow_lay(struct sl_shadow *shadow, struct sl_overrides *overrides)
{
    int err = shadow->run ? sl_shadow_run_lay(shadow->run, overrides) : 0;

    if (err)
        return err;
    sl_overrides_unref(shadow->overrides);
    shadow->overrides = overrides ? sl_overrides_ref(overrides) : NULL;
    return 0;
}

bool sl_shadow_runs(const struct sl_shadow *shadow)
{
    return shadow->run != NULL;
}

/* ---- figures */

static uint64_t longest_of(const struct sl_policy *policy)
{
    uint64_t longest = 0;

    for (size_t i = 0; i < sl_policy_n_limits(policy); i++) {
        const struct sl_limit *limit = sl_policy_limit(policy, i);

        for (unsigned r = 0; r < limit->n_rates; r++) {
            const struct sl_shape *shape = &limit->shapes[r];
            uint64_t us =
                sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm) ? shape->cap_us : shape->period_us;

            longest = us > longest ? us : longest;
        }
    }
    return longest;
}

void sl_shadow_figures(struct sl_shadow *shadow, struct sl_shadow_figures *ret_figures)
{
    struct sl_policy *policy = sl_limiter_policy(shadow->run->limiter);
    struct sl_table_stats stats;

    sl_table_stats(sl_limiter_table(shadow->run->limiter), &stats);
    *ret_figures = (struct sl_shadow_figures){.n_limits = sl_policy_n_limits(policy),
                                              .longest_us = longest_of(policy),
                                              .dropped = all_dropped(shadow) - shadow->dropped_before,
                                              .refused = atomic_load(&shadow->refused),
                                              .evictions = stats.evictions};
    snprintf(ret_figures->hash, sizeof ret_figures->hash, "%s", sl_policy_hash(policy));
    sl_policy_unref(policy);
    sl_comparison_read(&shadow->comparison, &ret_figures->compared);
}

void sl_shadow_totals(struct sl_shadow *shadow, struct sl_shadow_totals *ret_totals)
{
    const atomic_uint_fast64_t *totals = shadow->totals;

    *ret_totals = (struct sl_shadow_totals){.active = atomic_load(&shadow->active),
                                            .same = atomic_load(&totals[SL_BOTH_ALLOWED]) +
                                                    atomic_load(&totals[SL_BOTH_REJECTED]),
                                            .newly_rejected = atomic_load(&totals[SL_NEWLY_REJECTED]),
                                            .newly_allowed = atomic_load(&totals[SL_NEWLY_ALLOWED]),
                                            .dropped = all_dropped(shadow)};
}

json_t *sl_shadow_json(struct sl_shadow *shadow)
{
    return sl_comparison_json(&shadow->comparison);
}

const struct sl_version_text *sl_shadow_text(const struct sl_shadow *shadow)
{
    return &shadow->run->text;
}
