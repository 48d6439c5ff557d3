/* The bounds of leases, held by whole fleets in virtual time: for every window, whatever the load, the network, crashes. */
#include "sim.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#define ROUNDS 60
#define REQUESTS 30000u

static uint64_t seed;

static struct sl_shape some_shape(enum sl_algorithm algorithm, uint64_t *random)
{
    struct sl_rate rate = {.count = 300 + (uint32_t)world_below(random, 8000), .period_us = 1000000};
    struct sl_shape shape;
    const char *why;
    uint32_t burst = algorithm == SL_TOKEN_BUCKET ? rate.count / 2 + (uint32_t)world_below(random, 4 * rate.count) : 0;

    if (world_below(random, 3) == 0)
        rate.period_us = 333000 + world_below(random, 500) * 1000;
    if (sl_shape_init(&shape, algorithm, &rate, burst, &why))
        fail_msg("%s", why);
    return shape;
}

static uint64_t per_s(const struct sl_shape *shape)
{
    return (uint64_t)shape->count * 1000000 / shape->period_us;
}

static struct sim_setup some_setup(enum sl_algorithm algorithm, uint64_t *random)
{
    struct sim_setup s = {.shape = some_shape(algorithm, random), .n = 1 + (unsigned)world_below(random, 16)};
    uint32_t percent = world_below(random, 3) ? 2 : 2 + (uint32_t)world_below(random, 30);

    s.terms.block = s.shape.limit * percent / 100 / s.n;
    s.terms.block = s.terms.block ? s.terms.block : 1;
    s.terms.ttl_us = 200000 + world_below(random, 1800000);
    s.terms.ahead_us = algorithm == SL_TOKEN_BUCKET ? s.shape.cap_us / 50 : 0;
    if (s.terms.ahead_us > 900000)
        s.terms.ahead_us = 900000;
    s.load = (enum sim_load)world_below(random, SIM_LOADS);
    s.offered_per_s = per_s(&s.shape) * (50 + world_below(random, 250)) / 100;
    s.for_us = REQUESTS * UINT64_C(1000000) / s.offered_per_s;
    if (s.for_us > 8000000)
        s.for_us = 8000000;
    s.rtt_min_us = 200 + world_below(random, 1000);
    s.rtt_max_us = s.rtt_min_us + world_below(random, 4000);
    s.crashes = (unsigned)world_below(random, 2 * s.n);
    s.leaves = (unsigned)world_below(random, 2 * s.n);
    s.lost_per_mille = (unsigned)world_below(random, 3) * 10;
    s.elsewhere_percent = (unsigned)world_below(random, 3) * 10;
    s.cost_max = 1 + (uint32_t)world_below(random, 3);
    s.bound_extra = (uint64_t)s.n * s.terms.block;
    return s;
}

static void print(const struct sim_setup *s, const struct sim_result *r)
{
    printf("%u instances, %u per %llu ms, burst %u, block %u, %llu/s offered %s: %llu decisions, %llu tokens admitted, "
           "%llu rejected, excess %lld of %llu, operations %.2f %% (debits %llu, asks %llu, returns %llu)\n",
           s->n, s->shape.count, (unsigned long long)s->shape.period_us / 1000, s->shape.limit, s->terms.block,
           (unsigned long long)s->offered_per_s, sim_load_names[s->load], (unsigned long long)r->decisions,
           (unsigned long long)r->admitted, (unsigned long long)r->rejected, (long long)(r->peak - s->shape.limit),
           (unsigned long long)s->bound_extra,
           100.0 * (double)r->operations / (double)(r->decisions ? r->decisions : 1), (unsigned long long)r->debits,
           (unsigned long long)r->asks, (unsigned long long)r->backs);
}

static void rounds(enum sl_algorithm algorithm, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        uint64_t random = seed + i * UINT64_C(0x9e3779b97f4a7c15);
        struct sim_setup setup;
        struct sim_result result;

        random = random ? random : 1;
        setup = some_setup(algorithm, &random);
        print_message("round %u\n", i);
        result = sim_run(&setup, random);
        if (i % 12 == 0)
            print(&setup, &result);
        assert_true(result.decisions > 0);
    }
}

static void bursts_are_exceeded_by_instances_times_block_at_most(void **state)
{
    (void)state;
    rounds(SL_TOKEN_BUCKET, ROUNDS);
}

/* B142: leased tokens that survive into the next window let more through than COUNT. */
static void b142_no_window_admits_more_than_its_count(void **state)
{
    (void)state;
    rounds(SL_FIXED_WINDOW, ROUNDS / 2);
}

static struct sim_setup large(enum sim_load load, unsigned n, uint64_t offered_per_s)
{
    struct sim_setup s = {.shape = world_shape(SL_TOKEN_BUCKET, "30000/s", 0),
                          .n = n,
                          .load = load,
                          .offered_per_s = offered_per_s,
                          .for_us = 3000000,
                          .rtt_min_us = 300,
                          .rtt_max_us = 1500,
                          .cost_max = 1};

    s.terms = (struct sl_lease_terms){.block = 600 / n, .ttl_us = 1000000, .ahead_us = 20000};
    s.bound_extra = (uint64_t)n * s.terms.block;
    return s;
}

static void what_it_costs(void **state)
{
    (void)state;
    for (unsigned load = SIM_UNIFORM; load < SIM_LOADS; load++) {
        struct sim_setup setup = large((enum sim_load)load, 8, 40000);
        struct sim_result result;

        if (load == SIM_SURGE)
            setup.offered_per_s = 10000;
        else
            setup.for_us = 6000000;
        result = sim_run(&setup, seed);
        print(&setup, &result);
        assert_true(result.operations < result.decisions);
    }
}

/* B144: what one instance leased and does not spend is missed by the others. */
static void a_load_below_the_limit_is_not_rejected(void **state)
{
    (void)state;
    for (unsigned load = SIM_UNIFORM; load <= SIM_SKEWED; load++)
        for (unsigned n = 1; n <= 16; n *= 4) {
            struct sim_setup setup = large((enum sim_load)load, n, 24000);
            struct sim_result result;

            setup.for_us = 1000000;
            result = sim_run(&setup, seed + n);
            print(&setup, &result);
            assert_int_equal(result.rejected, 0);
        }
}

/* Fixed windows, and a burst of only a tenth of a second: what lies leased is a large part of all there is. */
static void a_small_burst_is_not_stranded_in_leases(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct sim_setup setup = large(SIM_SKEWED, 8, 800);
        struct sim_result result;

        setup.shape = i ? world_shape(SL_FIXED_WINDOW, "1000/s", 0) : world_shape(SL_TOKEN_BUCKET, "1000/s", 100);
        setup.terms.block = i ? 100 : 10;
        setup.terms.ahead_us = 0;
        setup.for_us = 20000000;
        setup.bound_extra = 8 * setup.terms.block;
        result = sim_run(&setup, seed);
        print(&setup, &result);
        assert_true(result.rejected * 100 <= result.decisions); /* 1 %; 0.3 % of the windows as a rule, else none */
    }
}

static struct sim_setup some_synced(enum sl_algorithm algorithm, uint64_t *random)
{
    struct sim_setup s = some_setup(algorithm, random);

    s.terms.interval_us = 100000 + world_below(random, 9) * 100000;
    s.terms.block = (uint32_t)(per_s(&s.shape) * s.terms.interval_us / 1000000);
    if (s.terms.block > s.shape.limit)
        s.terms.block = s.shape.limit;
    s.for_us = 24 * s.terms.interval_us;
    s.offered_per_s = per_s(&s.shape) * (50 + world_below(random, 150)) / 100;
    s.bound_extra = (uint64_t)s.terms.block * (1 + s.n);
    return s;
}

/* Whatever happens: what an interval lets through, and one share for each that joins. */
static void synced_instances_exceed_by_a_share_each_at_most(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS / 3; i++) {
        uint64_t random = seed + i * UINT64_C(0x9e3779b97f4a7c15);
        struct sim_setup setup;
        struct sim_result result;

        random = random ? random : 1;
        setup = some_synced(i % 4 ? SL_TOKEN_BUCKET : SL_FIXED_WINDOW, &random);
        result = sim_run(&setup, random);
        if (i % 6 == 0)
            print(&setup, &result);
    }
}

/* Once all have joined and go on: leases and store together hold no more than the limit and what an interval lets through. That
 * is no law, for shares follow estimates; so these are fleets that do not change from run to run. */
static void synced_shares_add_up_to_an_interval(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= ROUNDS / 3; i++) {
        uint64_t random = i;
        struct sim_setup setup = some_synced(SL_TOKEN_BUCKET, &random);
        struct sim_result result;

        setup.load = (enum sim_load)(i % 3); /* uniform, one, skewed: nobody pauses and joins anew */
        setup.crashes = setup.leaves = 0;
        setup.meter_from_us = 10 * setup.terms.interval_us;
        result = sim_run(&setup, random);
        if (result.there_peak > setup.shape.limit + setup.terms.block)
            fail_msg("fleet %u: %llu held, limit %u, an interval's %u", i, (unsigned long long)result.there_peak,
                     setup.shape.limit, setup.terms.block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursts_are_exceeded_by_instances_times_block_at_most),
        cmocka_unit_test(b142_no_window_admits_more_than_its_count),
        cmocka_unit_test(what_it_costs),
        cmocka_unit_test(a_load_below_the_limit_is_not_rejected),
        cmocka_unit_test(synced_instances_exceed_by_a_share_each_at_most),
        cmocka_unit_test(synced_shares_add_up_to_an_interval),
        cmocka_unit_test(a_small_burst_is_not_stranded_in_leases),
    };

    seed = world_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
