/* A candidate beside a live limiter, without a store: decided at the live instant, on buckets of its own. */
#include "../limiter/kit.h"

#include "base/err.h"
#include "shadow/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIVE "limits:\n  - {name: free, rate: 10/m}\n"
#define STRICT "version: 1\nlimits:\n  - {name: strict, rate: 5/m}\n"
#define LOOSE "version: 1\nlimits:\n  - {name: loose, rate: 20/m}\n"

struct rig {
    struct sl_alloc alloc;
    struct kit kit;
    struct sl_shadow *shadow;
};

static void open_rig(struct rig *rig, unsigned ring_bytes)
{
    struct sl_shadow_config config = {.alloc = &rig->alloc, .table_keys = 10000, .table_log_entries = 10000};

    rig->alloc = sl_alloc_system();
    kit_open(&rig->kit, LIVE);
    config.live = sl_limiter_table(rig->kit.limiter);
    config.ring_bytes = ring_bytes;
    assert_int_equal(sl_shadow_new(&config, &rig->shadow), 0);
}

static void close_rig(struct rig *rig)
{
    sl_shadow_free(rig->shadow);
    kit_close(&rig->kit);
}

static int start(struct rig *rig, const char *policy, char why[static 512])
{
    const struct sl_version_text text = {.body = policy, .body_len = strlen(policy)};

    return sl_shadow_start(rig->shadow, &text, "candidate", why, 512);
}

static void must_start(struct rig *rig, const char *policy)
{
    char why[512] = "";

    if (start(rig, policy, why))
        fail_msg("%s", why);
}

/* As a door: decides, then tells. */
static bool check(struct rig *rig, unsigned loop, const char *key)
{
    struct sluice_request request = kit_request(key, NULL, 1);
    struct sluice_verdict verdict = kit_decide(&rig->kit, &request);

    sl_shadow_offer(rig->shadow, loop, &request, &verdict);
    return verdict.allowed;
}

static uint64_t sum(const struct sl_shadow_figures *figures)
{
    uint64_t n = figures->refused;

    for (unsigned i = 0; i < SL_OUTCOMES; i++)
        n += figures->compared.n[i];
    return n;
}

/* Until so many have been compared. */
static struct sl_shadow_figures wait_compared(struct rig *rig, uint64_t n)
{
    struct sl_shadow_figures figures;
    const struct timespec pause = {.tv_nsec = 1000000};

    for (unsigned i = 0; i < 20000; i++) {
        sl_shadow_figures(rig->shadow, &figures);
        if (sum(&figures) >= n)
            return figures;
        nanosleep(&pause, NULL);
    }
    fail_msg("%llu of %llu have been compared", (unsigned long long)sum(&figures), (unsigned long long)n);
    return figures;
}

static void assert_compared(const struct sl_shadow_figures *figures, unsigned both_allowed, unsigned both_rejected,
                            unsigned newly_rejected, unsigned newly_allowed)
{
    assert_int_equal(figures->compared.n[SL_BOTH_ALLOWED], both_allowed);
    assert_int_equal(figures->compared.n[SL_BOTH_REJECTED], both_rejected);
    assert_int_equal(figures->compared.n[SL_NEWLY_REJECTED], newly_rejected);
    assert_int_equal(figures->compared.n[SL_NEWLY_ALLOWED], newly_allowed);
}

static void a_candidate_that_rejects_more_and_one_that_rejects_less(void **state)
{
    struct rig rig;
    struct sl_shadow_figures figures;

    (void)state;
    open_rig(&rig, 0);
    must_start(&rig, STRICT);
    for (unsigned i = 0; i < 12; i++)
        assert_int_equal(check(&rig, 0, "k"), i < 10);
    figures = wait_compared(&rig, 12);
    assert_compared(&figures, 5, 2, 5, 0);
    assert_int_equal(figures.n_limits, 1);
    assert_int_equal(figures.longest_us, MINUTE_US);
    /* Another candidate: counts begin anew. */
    must_start(&rig, LOOSE);
    sl_shadow_figures(rig.shadow, &figures);
    assert_int_equal(sum(&figures), 0);
    for (unsigned i = 0; i < 12; i++)
        check(&rig, 0, "other");
    figures = wait_compared(&rig, 12);
    assert_compared(&figures, 10, 0, 0, 2);
    close_rig(&rig);
}

/* A month's traffic in a moment: the candidate decides at the live decision's time, not when its thread comes to it. */
static void time_is_that_of_the_live_decision(void **state)
{
    struct rig rig;
    struct sl_shadow_figures figures;

    (void)state;
    open_rig(&rig, 0);
    must_start(&rig, "version: 1\nlimits:\n  - {name: free, rate: 10/m}\n");
    for (unsigned i = 0; i < 3000; i++) {
        rig.kit.now_us += 1000 * (uint64_t)(i * 7919 % 5000);
        check(&rig, i % 3, "k");
    }
    figures = wait_compared(&rig, 3000);
    assert_int_equal(figures.compared.n[SL_NEWLY_REJECTED] + figures.compared.n[SL_NEWLY_ALLOWED], 0);
    assert_true(figures.compared.n[SL_BOTH_REJECTED] > 500 && figures.compared.n[SL_BOTH_ALLOWED] > 500);
    close_rig(&rig);
}

/* The live limiter decides as without a shadow, to the last field, and keeps the same buckets. */
static void live_decisions_are_not_touched(void **state)
{
    struct rig with;
    struct kit without;

    (void)state;
    open_rig(&with, 0);
    kit_open(&without, LIVE);
    must_start(&with, STRICT);
    for (unsigned i = 0; i < 500; i++) {
        struct sluice_request request;
        struct sluice_verdict one, other;
        char key[16];

        with.kit.now_us += 37000;
        without.now_us = with.kit.now_us;
        snprintf(key, sizeof key, "k%u", i % 7);
        request = kit_request(key, NULL, i % 3);
        one = kit_decide(&with.kit, &request);
        sl_shadow_offer(with.shadow, 0, &request, &one);
        other = kit_decide(&without, &request);
        assert_int_equal(one.allowed, other.allowed);
        assert_int_equal(one.remaining, other.remaining);
        assert_int_equal(one.retry_after_ms, other.retry_after_ms);
        assert_int_equal(one.reset_after_ms, other.reset_after_ms);
        assert_string_equal(one.policy, other.policy);
    }
    wait_compared(&with, 500);
    assert_int_equal(kit_live(&with.kit), kit_live(&without));
    assert_int_equal(kit_count(&with.kit, "strict").checks_allowed, 0);
    kit_close(&without);
    close_rig(&with);
}

static void a_full_ring_drops_and_counts(void **state)
{
    struct rig rig;
    struct sl_shadow_figures figures;
    struct sl_shadow_totals totals;
    unsigned n = 0;

    (void)state;
    open_rig(&rig, 32768);
    for (; n < 2000; n++) /* nothing reads yet */
        assert_int_equal(check(&rig, 0, "k"), n < 10);
    sl_shadow_totals(rig.shadow, &totals);
    assert_in_range(totals.dropped, 1, 1999);
    must_start(&rig, STRICT); /* what was before the start is not rehearsed, nor counted */
    sl_shadow_figures(rig.shadow, &figures);
    assert_int_equal(figures.dropped, 0);
    for (n = 0; n < 20000; n++)
        check(&rig, 0, "k");
    sl_shadow_figures(rig.shadow, &figures);
    figures = wait_compared(&rig, n - figures.dropped);
    assert_int_equal(sum(&figures) + figures.dropped, n);
    close_rig(&rig);
}

static void a_broken_candidate_changes_nothing(void **state)
{
    struct rig rig;
    struct sl_shadow_figures figures;
    char why[512] = "";

    (void)state;
    open_rig(&rig, 0);
    assert_int_equal(start(&rig, "version: 1\nlimits:\n  - {name: x, rat: 5/m}\n", why), SL_EPOLICY);
    assert_non_null(strstr(why, "candidate:3:"));
    assert_non_null(strstr(why, "rat"));
    assert_false(sl_shadow_runs(rig.shadow));
    must_start(&rig, STRICT);
    check(&rig, 0, "k");
    wait_compared(&rig, 1);
    assert_int_equal(start(&rig, "limits: [", why), SL_EPOLICY);
    figures = wait_compared(&rig, 1);
    assert_compared(&figures, 1, 0, 0, 0); /* the one that ran goes on, with its counts */
    close_rig(&rig);
}

static char *many_limits(unsigned n)
{
    size_t size = 64 + (size_t)n * 80, used;
    char *text = malloc(size);

    assert_non_null(text);
    used = (size_t)snprintf(text, size, "version: 1\nlimits:\n");
    for (unsigned i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, size - used, "  - {name: l%u, key: k%u, rate: 5/m}\n", i, i);
    return text;
}

static void a_shadow_of_10000_limits(void **state)
{
    struct rig rig;
    struct sl_shadow_figures figures;
    char *text = many_limits(10000), key[16];

    (void)state;
    open_rig(&rig, 0);
    must_start(&rig, text);
    free(text);
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(key, sizeof key, "k%u", i % 200);
        check(&rig, i % 2, key);
    }
    figures = wait_compared(&rig, 2000);
    assert_int_equal(figures.n_limits, 10000);
    assert_compared(&figures, 1000, 0, 1000, 0);
    close_rig(&rig);
}

static void *offer_for_long(void *ctx)
{
    struct rig *rig = ctx;

    for (unsigned i = 0; i < 20000; i++)
        check(rig, 1, "k");
    return NULL;
}

/* Starts, changes and stops while decisions come, and ends in the middle of it. */
static void starts_and_stops_while_decisions_come(void **state)
{
    struct rig rig;
    struct sl_shadow_totals totals;
    pthread_t thread;

    (void)state;
    open_rig(&rig, 0);
    assert_int_equal(pthread_create(&thread, NULL, offer_for_long, &rig), 0);
    for (unsigned i = 0; i < 12; i++) {
        must_start(&rig, i % 2 ? LOOSE : STRICT);
        check(&rig, 0, "k");
        if (i % 3 == 2)
            sl_shadow_stop(rig.shadow);
        sl_shadow_recount(rig.shadow);
    }
    must_start(&rig, STRICT);
    pthread_join(thread, NULL);
    sl_shadow_totals(rig.shadow, &totals);
    assert_true(totals.active);
    close_rig(&rig);
}

struct scarce {
    unsigned left;
    bool on;
};

static void *scarce_realloc(void *ctx, void *p, size_t size)
{
    struct scarce *scarce = ctx;

    if (size > 0 && scarce->on && scarce->left-- == 0) {
        scarce->left = 0; /* once it has ended, memory has ended */
        return NULL;
    }
    if (size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, size);
}

/* Whatever allocation fails: a start says so, leaves nothing, and what ran goes on. */
static void a_start_without_memory(void **state)
{
    struct scarce scarce = {.on = false};
    struct rig rig;
    struct sl_shadow_config config = {.alloc = &rig.alloc, .table_keys = 1000, .table_log_entries = 1000};
    char why[512];
    unsigned n = 0;
    int err;

    (void)state;
    rig.alloc = (struct sl_alloc){.realloc = scarce_realloc, .ctx = &scarce};
    kit_open(&rig.kit, LIVE);
    config.live = sl_limiter_table(rig.kit.limiter);
    assert_int_equal(sl_shadow_new(&config, &rig.shadow), 0);
    do {
        scarce = (struct scarce){.left = n++, .on = true};
        err = start(&rig, STRICT, why);
        scarce.on = false;
        assert_true(err == 0 || err == SL_ENOMEM);
        assert_int_equal(sl_shadow_runs(rig.shadow), err == 0);
        assert_true(err == 0 || why[0]);
    } while (err);
    assert_in_range(n, 10, 10000);
    for (unsigned i = 0; i < n; i++) { /* and while it runs */
        scarce = (struct scarce){.left = i, .on = true};
        err = start(&rig, LOOSE, why);
        scarce.on = false;
        assert_true(sl_shadow_runs(rig.shadow));
        if (err == 0)
            break;
        assert_int_equal(err, SL_ENOMEM);
    }
    check(&rig, 0, "k");
    wait_compared(&rig, 1);
    close_rig(&rig);
}

/* A namespace of its own, whatever the length of the live one. */
static void the_live_namespace_is_never_used(void **state)
{
    static const char long_ns[] = "a-namespace-of-thirty-two-bytes!";
    char ns[SL_NAMESPACE_MAX + 1], other[SL_NAMESPACE_MAX + 1];

    (void)state;
    assert_int_equal(sl_shadow_namespace("sluice", ns), 0);
    assert_string_equal(ns, "sluice:shadow");
    assert_int_equal(sl_shadow_namespace(long_ns, ns), 0);
    assert_int_equal(strlen(long_ns), SL_NAMESPACE_MAX);
    assert_true(strlen(ns) <= SL_NAMESPACE_MAX && strcmp(ns, long_ns) != 0);
    assert_int_equal(sl_shadow_namespace("b-namespace-of-thirty-two-bytes!", other), 0);
    assert_string_not_equal(ns, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_candidate_that_rejects_more_and_one_that_rejects_less),
        cmocka_unit_test(time_is_that_of_the_live_decision),
        cmocka_unit_test(live_decisions_are_not_touched),
        cmocka_unit_test(a_full_ring_drops_and_counts),
        cmocka_unit_test(a_broken_candidate_changes_nothing),
        cmocka_unit_test(a_shadow_of_10000_limits),
        cmocka_unit_test(starts_and_stops_while_decisions_come),
        cmocka_unit_test(a_start_without_memory),
        cmocka_unit_test(the_live_namespace_is_never_used),
    };

    return cmocka_run_group_tests_name("shadow run", tests, NULL, NULL);
}
