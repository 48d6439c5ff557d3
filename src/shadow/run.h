/* One run of a shadow: its thread, loop, limiter and lane; and what it shares with the shadow. */
#ifndef SL_SHADOW_RUN_H
#define SL_SHADOW_RUN_H

#include "fleet/fleet.h"
#include "policy/override.h"
#include "shadow/ring.h"
#include "shadow/shadow.h"
#include "store/net_uv.h"

#include <stdatomic.h>
#include <uv.h>

/* A loop's way in. */
struct sl_shadow_way {
    _Atomic(struct sl_ring *) ring; /* NULL: nothing was offered yet */
    atomic_uint_fast64_t dropped;   /* written by the loop */
};

#define SL_SHADOW_AWAIT_MS 2000u

struct sl_shadow_run;

struct sl_shadow {
    struct sl_shadow_config config;
    struct sl_alloc alloc;
    char ns[SL_NAMESPACE_MAX + 1];
    struct sl_shadow_way ways[SL_SHADOW_LOOPS_MAX];
    atomic_uint n_ways; /* those beyond have never been used */
    struct sl_comparison comparison;
    atomic_uint_fast64_t totals[SL_OUTCOMES];
    atomic_uint_fast64_t refused;   /* since counts began */
    uint64_t dropped_before;        /* when counts began */
    struct sl_overrides *overrides; /* NULL: none */
    struct sl_shadow_run *run;      /* NULL: nothing runs */
    struct sl_shadow_run *ending;   /* its thread has not been joined */
    atomic_bool active;
};

/* A decision that waits for the store: what is needed of it to compare. */
struct sl_shadow_flight {
    struct sl_shadow_flight *next; /* of those that are free */
    struct sl_shadow_run *run;
    unsigned generation;
    bool allowed;
    char policy[SLUICE_NAME_MAX];
    struct sluice_request request; /* key and key type alone, of the bytes below */
    char key[SLUICE_KEY_MAX], key_type[SLUICE_NAME_MAX];
    struct sluice_verdict verdict;
};

struct sl_shadow_run {
    struct sl_shadow *shadow;
    struct sl_alloc alloc;
    uint64_t begun_us; /* by the live table's clock */
    struct sl_limiter *limiter;
    struct sl_fleet *fleet; /* NULL: none, as lane */
    struct sl_lane *lane;
    struct sl_net_uv net;
    uv_loop_t loop;
    bool has_net, has_loop;
    uv_timer_t tick;
    uv_async_t wake;
    pthread_t thread;
    struct sl_shadow_flight *flights, *spare; /* the thread's */
    atomic_bool stop;
    bool stopping; /* the thread's, as what follows */
    bool unkeyed;  /* a secret was heard, and the candidate is not compiled under it yet */
    bool settled;  /* the store has been reached, or not within SL_SHADOW_AWAIT_MS: the rings are read */
    uint64_t settles_ns;
    struct sl_told told;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    bool ended;              /* the thread is about to return */
    struct sl_secret secret; /* what the policy is compiled under */
    struct sl_version_text text;
    char *name;
    struct sl_overrides *overrides; /* what lies over the candidate; NULL: nothing */
};

/* Opens everything and starts the thread. */
int sl_shadow_run_new(struct sl_shadow *shadow, const struct sl_version_text *text, const char *name,
                      struct sl_shadow_run **ret_run, char *why, size_t why_size);
/* Another candidate, in the same run. */
int sl_shadow_run_change(struct sl_shadow_run *run, const struct sl_version_text *text, const char *name, char *why,
                         size_t why_size);
void sl_shadow_run_stop(struct sl_shadow_run *run);
/* Waits for the thread's end, at most so long (0: however long it takes), and frees. False: it goes on. */
bool sl_shadow_run_join(struct sl_shadow_run *run, unsigned ms);

/* ---- run_policy.c */

/* Compiles, and lays the overrides over it. With the lock held, once the thread runs. */
int sl_shadow_compile(struct sl_shadow_run *run, const struct sl_version_text *text, const char *name,
                      const struct sl_secret *secret, struct sl_policy **ret_policy, char *why, size_t why_size);
/* Other overrides. Returns 0 or SL_ENOMEM. */
int sl_shadow_run_lay(struct sl_shadow_run *run, struct sl_overrides *overrides);
/* The fleet's secret is known: compiles anew under it. On the thread. */
void sl_shadow_run_rekey(struct sl_shadow_run *run);
/* A copy of the caller's. Returns 0 or SL_ENOMEM. */
int sl_shadow_copy_text(const struct sl_alloc *alloc, const struct sl_version_text *text,
                        struct sl_version_text *ret_text);

/* ---- run_decide.c */

/* Takes what is in the rings, a share of it. True: there is more, and room to decide it. On the thread. */
bool sl_shadow_run_drain(struct sl_shadow_run *run);
/* The flights. Returns 0 or SL_ENOMEM. */
int sl_shadow_run_open_flights(struct sl_shadow_run *run);

void sl_shadow_say(const struct sl_shadow *shadow, enum sl_shadow_say severity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
