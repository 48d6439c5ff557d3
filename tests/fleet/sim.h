/* A fleet in virtual time: instances with leases, one exact store made of core, a network that is slow, reorders and loses,
 * and clocks that disagree. Everything follows from the seed. What was admitted is held against the bound of every window at
 * once, by a meter that fills and drains as the bound allows. */
#ifndef TESTS_FLEET_SIM_H
#define TESTS_FLEET_SIM_H

#include "fleet/deny.h"
#include "fleet/lease.h"

#define SIM_INSTANCES_MAX 16u

enum sim_load { SIM_UNIFORM, SIM_ONE, SIM_SKEWED, SIM_BURST, SIM_SURGE, SIM_LOADS };

extern const char *const sim_load_names[SIM_LOADS];

struct sim_setup {
    struct sl_shape shape;
    struct sl_lease_terms terms;
    unsigned n; /* instances that may live at once */
    enum sim_load load;
    uint64_t offered_per_s; /* by all, on average but for the bursts and the surge */
    uint64_t for_us;
    uint64_t rtt_min_us, rtt_max_us;
    unsigned crashes, leaves;   /* how many of them, at random times; each is replaced a little later */
    unsigned lost_per_mille;    /* operations whose answer never comes */
    unsigned elsewhere_percent; /* requests that another limit rejects a little later: their tokens are put back */
    uint32_t cost_max;
    uint64_t meter_from_us; /* windows that begin earlier are not looked at */
    uint64_t bound_extra;   /* what may be admitted in a window beyond C + rate * window, in tokens */
};

struct sim_result {
    uint64_t decisions, admitted, rejected, operations, debits, asks, backs;
    uint64_t peak; /* the most that was admitted in any window beyond rate * window, in tokens, rounded up */
    uint64_t granted, returned; /* tokens */
    uint64_t there_peak; /* the most that leases (in flight included) and store held together, from meter_from_us on */
};

/* Runs it; fails the test where a bound is broken. */
struct sim_result sim_run(const struct sim_setup *setup, uint64_t seed);

#endif
