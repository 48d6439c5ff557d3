/* Several instances of the shared tier in one process, on one loop, against one real store. */
#ifndef TESTS_FLEET_KIT_H
#define TESTS_FLEET_KIT_H

#include "fleet/fleet.h"
#include "store/net_uv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define FLEET_MAX 10u
#define PATIENCE_MS 20000

struct instance {
    struct fleet_kit *kit;
    struct sl_limiter *limiter;
    struct sl_fleet *fleet;
    struct sl_lane *lane;
    unsigned told_secret, lost, opened, closed;
    unsigned n_odd;
    char odd[512]; /* the last oddity told */
    bool stopped;
};

struct fleet_kit {
    uv_loop_t loop;
    uv_timer_t tick; /* keeps the loop turning while it waits */
    struct sl_net_uv net;
    struct sl_alloc alloc;
    struct sl_store_url url;
    char ns[16];
    char *yaml;
    unsigned n;
    struct instance instances[FLEET_MAX];
};

/* How far the instances' clocks are ahead of the system's; only forward. And how long a tier in the store counts in those that
 * are opened from now on; 0: as ever. */
extern uint64_t fleet_ahead_us, fleet_tier_ttl_us;

/* n instances on the store at `url`, under a policy of "version: 1\n" and yaml; waits until all of them are ready when
 * `wait` is set. timeout_us: 0 for a patient second. */
void fleet_open(struct fleet_kit *kit, const char *url, const char *yaml, unsigned n, uint64_t timeout_us, bool wait);
void fleet_close(struct fleet_kit *kit); /* stops cleanly what is not stopped */

/* One more; one less, with or without a goodbye. */
struct instance *fleet_join(struct fleet_kit *kit);
void fleet_stop(struct instance *instance);
void fleet_crash(struct instance *instance);

/* Puts another policy in force in all of them. */
void fleet_reload(struct fleet_kit *kit, const char *yaml);

bool fleet_wait(struct fleet_kit *kit, bool (*reached)(void *ctx), void *ctx);
void fleet_turn(struct fleet_kit *kit); /* once round the loop, without waiting */
void fleet_run_ms(struct fleet_kit *kit, unsigned ms);
void fleet_wait_ready(struct fleet_kit *kit);

/* A decision on its way. */
struct decided {
    bool done;
    unsigned times;
    struct sluice_verdict verdict;
    struct sl_report report;
};

struct sluice_request fleet_request(const char *key, const char *scope, int64_t cost);
/* Begins one; `decided` must live until it is done. */
void fleet_begin(struct instance *instance, const struct sluice_request *request, struct decided *decided);
/* Waits for its end. */
void fleet_finish(struct fleet_kit *kit, struct decided *decided);
struct sluice_verdict fleet_check(struct instance *instance, const char *key, const char *scope, int64_t cost);
/* How many of m requests, one after another, are allowed. */
unsigned fleet_admitted(struct instance *instance, const char *key, const char *scope, unsigned m);

/* What a look at a key's buckets, or their reset, has found. */
struct found {
    size_t n, unknown;
    int64_t remaining; /* of the last bucket; -1: there was none */
    bool done;
};
struct found fleet_look(struct instance *instance, const struct sluice_request *request, bool reset);

struct sl_fleet_stats fleet_stats(struct instance *instance);

#endif
