/* Eight threads on a few leases: no token is made, none disappears. */
#include "fleet/lease.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 8u
#define BUCKETS 4u
#define TURNS 20000u
#define START_US UINT64_C(1800000000000000)

static struct {
    struct sl_shape shape, other;
    struct sl_lease_terms terms;
    struct sl_leases *leases;
    pthread_mutex_t lock; /* of the store */
    struct sl_state states[BUCKETS];
    atomic_uint_fast64_t now_us, taken, granted, given;
    atomic_uint_fast64_t late; /* taken, and put back too late */
} world;

static struct sl_lease_bucket bucket_at(unsigned i, const struct sl_shape *shape)
{
    return (struct sl_lease_bucket){.fp = {i * 8, 9}, .who = {1, 1}, .shape = shape};
}

static void debit(unsigned at, const struct sl_shape *shape, uint32_t tokens)
{
    struct sl_lease_bucket bucket = bucket_at(at, shape);
    uint64_t now_us = atomic_load(&world.now_us);
    struct sl_decision d;
    struct sl_shape lent;

    sl_lease_shape(shape, &world.terms, &lent);
    pthread_mutex_lock(&world.lock);
    sl_decide(&lent, world.states[at], now_us, tokens, &d);
    if (d.changed)
        world.states[at] = d.after;
    pthread_mutex_unlock(&world.lock);
    if (d.allowed)
        atomic_fetch_add(&world.granted, tokens);
    sl_lease_granted(world.leases, &bucket, &world.terms, &d, now_us, now_us);
}

static void give_back(void *ctx, const struct sl_lease_bucket *bucket, uint32_t tokens,
                      const struct sl_decision *charge)
{
    (void)ctx;
    (void)bucket;
    assert_int_equal(charge->cost, tokens);
    atomic_fetch_add(&world.given, tokens);
}

static void sweep_debit(void *ctx, const struct sl_lease_bucket *bucket, const struct sl_lease_terms *terms,
                        uint32_t tokens)
{
    (void)ctx;
    (void)terms;
    debit((unsigned)(bucket->fp.a / 8), bucket->shape, tokens);
}

static void sweep(bool all)
{
    struct sl_lease_errands errands = {.give_back = give_back, .debit = sweep_debit};

    sl_leases_sweep(world.leases, atomic_load(&world.now_us), all, &errands);
}

static void turn(uint64_t *seed, unsigned i)
{
    unsigned at = (unsigned)world_below(seed, BUCKETS);
    /* Now and then a policy is reloaded: another shape. */
    const struct sl_shape *shape = i / 2000 % 2 ? &world.other : &world.shape;
    struct sl_lease_bucket bucket = bucket_at(at, shape);
    uint32_t tokens = 0, cost = 1 + (uint32_t)world_below(seed, 4);
    uint64_t now_us = atomic_fetch_add(&world.now_us, 20);
    struct sl_numbers numbers;

    switch (world_below(seed, 16)) {
    case 0:
        if (sl_lease_take_last(world.leases, bucket.fp, shape, now_us, cost, &numbers))
            atomic_fetch_add(&world.taken, cost);
        return;
    case 1:
        sl_leases_note_rtt(world.leases, world_below(seed, 2000));
        return;
    default:
        break;
    }
    if (sl_lease_take(world.leases, &bucket, &world.terms, now_us, cost, true, &numbers, &tokens) == SL_LEASE_TAKEN) {
        if (world_below(seed, 4))
            atomic_fetch_add(&world.taken, cost);
        else if (!sl_lease_put_back(world.leases, bucket.fp, cost, now_us))
            atomic_fetch_add(&world.late, cost);
    }
    if (tokens == 0)
        return;
    if (world_below(seed, 8) == 0)
        sl_lease_failed(world.leases, bucket.fp, tokens, false);
    else
        debit(at, shape, tokens);
}

static void *work(void *arg)
{
    uint64_t seed = *(uint64_t *)arg;

    for (unsigned i = 0; i < TURNS; i++)
        turn(&seed, i);
    return NULL;
}

static void *sweeper(void *arg)
{
    struct sl_leases_stats stats;

    while (!atomic_load((atomic_bool *)arg)) {
        sweep(false);
        sl_leases_stats(world.leases, &stats);
    }
    return NULL;
}

static void run(uint64_t interval_us, uint64_t ttl_us)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_leases_stats stats;
    pthread_t threads[THREADS], sweeping;
    uint64_t seeds[THREADS], seed = world_seed();
    atomic_bool done = false;

    world.terms = (struct sl_lease_terms){
        .block = 30, .ttl_us = ttl_us, .interval_us = interval_us, .ahead_us = 20000, .automatic = true};
    world.shape = world_shape(SL_TOKEN_BUCKET, "100000/s", 1000000);
    world.other = world_shape(SL_TOKEN_BUCKET, "100001/s", 1000000);
    for (unsigned i = 0; i < BUCKETS; i++)
        world.states[i] = (struct sl_state){0};
    world.now_us = START_US;
    world.taken = world.granted = world.given = world.late = 0;
    assert_int_equal(sl_leases_new(64, &alloc, &world.leases), 0);
    assert_int_equal(pthread_create(&sweeping, NULL, sweeper, &done), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = seed + 1000 * i;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&done, true);
    pthread_join(sweeping, NULL);
    sl_leases_stats(world.leases, &stats);
    printf("granted %llu = taken %llu + given back %llu + held %llu + lost %llu, %llu of them put back too late\n",
           (unsigned long long)world.granted, (unsigned long long)world.taken, (unsigned long long)world.given,
           (unsigned long long)stats.held, (unsigned long long)stats.lost, (unsigned long long)world.late);
    assert_true(world.taken > 0 && stats.lost >= world.late);
    assert_int_equal(world.granted, world.taken + world.given + stats.held + stats.lost);
    sweep(true);
    assert_int_equal(world.granted, world.taken + world.given + stats.lost);
    sl_leases_stats(world.leases, &stats);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.active, 0);
    sl_leases_free(world.leases);
}

static void every_token_is_accounted_for(void **state)
{
    (void)state;
    assert_int_equal(pthread_mutex_init(&world.lock, NULL), 0);
    run(0, 300000);
    run(100000, 300000);
    run(0, 500); /* old before they are spent */
    pthread_mutex_destroy(&world.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_token_is_accounted_for)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
