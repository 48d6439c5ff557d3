/* Debits and returns as the real store takes them, by script and by module: a debit that books ahead is accepted, and what is
 * given back is exactly what was not spent, however long it lay. */
#include "fleet/lease.h"

#include "../core/world.h"
#include "../store/door.h"
#include "../store/redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define START_US UINT64_C(1800000000000000) /* a whole minute */
#define SECOND UINT64_C(1000000)
#define OURS_BEHIND_US UINT64_C(77000000)

static struct redis redis;

struct rig {
    enum door door;
    struct sl_shape shape;
    struct sl_lease_terms terms;
    struct sl_lease_bucket bucket;
    struct sl_leases *leases;
    uint64_t now_us; /* the store's */
    unsigned given;  /* buckets that the store gave something back in */
    uint32_t tokens;
};

static void rig_open(struct rig *r, enum door door, enum sl_algorithm algorithm, const char *rate, uint32_t burst)
{
    struct sl_alloc alloc = sl_alloc_system();

    redis_run(redis.c, "FLUSHDB");
    *r = (struct rig){.door = door,
                      .shape = world_shape(algorithm, rate, burst),
                      .terms = {.block = 50, .ttl_us = 500000, .ahead_us = 20000},
                      .now_us = START_US};
    r->bucket = (struct sl_lease_bucket){.fp = {1, 2}, .who = {3, 4}, .shape = &r->shape};
    assert_int_equal(sl_leases_new(64, &alloc, &r->leases), 0);
}

static struct sl_decision decide(struct rig *r, const struct sl_shape *shape, uint32_t cost)
{
    struct subject s = subject_of("{bucket}", shape);
    struct sl_decision d;

    door_decide(redis.c, r->door, &s, r->now_us, &cost, &d);
    return d;
}

static uint32_t remaining(struct rig *r)
{
    struct sl_decision d = decide(r, &r->shape, 0);

    return sl_decision_remaining(&r->shape, &d);
}

static enum sl_lease_answer take(struct rig *r, uint32_t cost, uint32_t *ret_debit)
{
    struct sl_numbers numbers;

    return sl_lease_take(r->leases, &r->bucket, &r->terms, r->now_us - OURS_BEHIND_US, cost, true, &numbers, ret_debit);
}

static struct sl_decision debit(struct rig *r, uint32_t tokens)
{
    struct sl_shape shape;
    struct sl_decision d;

    sl_lease_shape(&r->shape, &r->terms, &shape);
    d = decide(r, &shape, tokens);
    sl_lease_granted(r->leases, &r->bucket, &r->terms, &d, r->now_us - OURS_BEHIND_US, r->now_us - OURS_BEHIND_US);
    return d;
}

static void give_back(void *ctx, const struct sl_lease_bucket *bucket, uint32_t tokens,
                      const struct sl_decision *charge)
{
    struct rig *r = ctx;
    struct subject s = subject_of("{bucket}", bucket->shape);

    r->given += door_refund(redis.c, r->door, &s, r->now_us, charge);
    r->tokens += tokens;
}

static void no_debit(void *ctx, const struct sl_lease_bucket *bucket, const struct sl_lease_terms *terms,
                     uint32_t tokens)
{
    (void)ctx;
    (void)bucket;
    (void)terms;
    (void)tokens;
    fail_msg("a sweep asked for a debit");
}

static void sweep(struct rig *r, bool all)
{
    struct sl_lease_errands errands = {.give_back = give_back, .debit = no_debit, .ctx = r};

    sl_leases_sweep(r->leases, r->now_us - OURS_BEHIND_US, all, &errands);
}

/* Debits 50 and spends 20 of them. */
static void debit_and_spend(struct rig *r)
{
    uint32_t tokens;

    assert_int_equal(take(r, 1, &tokens), SL_LEASE_NONE);
    assert_int_equal(tokens, 50);
    assert_true(debit(r, tokens).allowed);
    assert_int_equal(take(r, 20, &tokens), SL_LEASE_TAKEN);
    assert_int_equal(tokens, 0);
}

/* In a second 30,000 tokens come: a refund that took off the time gone by would give nothing. */
static void a_bucket_gets_back_exactly_what_was_not_spent(void **state)
{
    (void)state;
    for (unsigned door = 0; door < DOORS; door++) {
        struct rig r;

        rig_open(&r, (enum door)door, SL_TOKEN_BUCKET, "30000/s", 60000);
        assert_true(decide(&r, &r.shape, 59950).allowed);
        debit_and_spend(&r);
        assert_int_equal(remaining(&r), 0);
        r.now_us += SECOND;
        assert_int_equal(remaining(&r), 30000);
        sweep(&r, false);
        assert_int_equal(r.tokens, 30);
        assert_int_equal(r.given, 1);
        assert_int_equal(remaining(&r), 30030);
        assert_true(redis_integer(redis.c, "PTTL {bucket}") > 0);
        sl_leases_free(r.leases);
    }
}

static void a_window_gets_back_exactly_what_was_not_spent(void **state)
{
    (void)state;
    for (unsigned door = 0; door < DOORS; door++) {
        struct rig r;

        rig_open(&r, (enum door)door, SL_FIXED_WINDOW, "1000/m", 0);
        debit_and_spend(&r);
        assert_int_equal(remaining(&r), 950);
        r.now_us += SECOND;
        sweep(&r, false);
        assert_int_equal(r.tokens, 30);
        assert_int_equal(r.given, 1);
        assert_int_equal(remaining(&r), 980);
        assert_true(redis_integer(redis.c, "PTTL {bucket}") > 0);
        sl_leases_free(r.leases);
    }
}

/* B144: what comes back when it is over is ignored. */
static void b144_a_return_that_comes_too_late_is_ignored(void **state)
{
    (void)state;
    for (unsigned door = 0; door < DOORS; door++) {
        struct rig r;

        rig_open(&r, (enum door)door, SL_FIXED_WINDOW, "1000/s", 0);
        debit_and_spend(&r);
        r.now_us += 600000;
        sl_leases_sweep(r.leases, r.now_us - OURS_BEHIND_US, false,
                        &(struct sl_lease_errands){.give_back = give_back, .debit = no_debit, .ctx = &r});
        assert_int_equal(r.given, 1);
        sl_leases_free(r.leases);

        rig_open(&r, (enum door)door, SL_FIXED_WINDOW, "1000/s", 0);
        debit_and_spend(&r);
        r.now_us += SECOND;
        assert_true(decide(&r, &r.shape, 100).allowed); /* another window, with a count of its own */
        r.now_us -= 1;                                  /* the sweep was in time, its word was late: */
        sweep(&r, true);
        assert_int_equal(r.tokens, 30);
        assert_int_equal(r.given, 0);
        r.now_us += 1;
        assert_int_equal(remaining(&r), 900);
        sl_leases_free(r.leases);

        /* And of a bucket that is whole again. */
        rig_open(&r, (enum door)door, SL_TOKEN_BUCKET, "30000/s", 60000);
        debit_and_spend(&r);
        r.now_us += SECOND;
        sweep(&r, true);
        assert_int_equal(r.tokens, 30);
        assert_int_equal(r.given, 0);
        assert_int_equal(remaining(&r), 60000);
        sl_leases_free(r.leases);
    }
}

/* The store lends tokens that are still to come, to a debit and to nobody else, and takes them back too. */
static void a_debit_books_ahead(void **state)
{
    (void)state;
    for (unsigned door = 0; door < DOORS; door++) {
        struct rig r;
        struct sl_decision d;
        struct sl_numbers n;
        uint32_t tokens;

        rig_open(&r, (enum door)door, SL_TOKEN_BUCKET, "1000/s", 1000);
        r.terms.block = 20;
        assert_true(decide(&r, &r.shape, 1000).allowed);
        take(&r, 1, &tokens);
        assert_int_equal(tokens, 20);
        assert_true(debit(&r, tokens).allowed);
        assert_int_equal(take(&r, 20, &tokens), SL_LEASE_WAIT);
        d = decide(&r, &r.shape, 1);
        assert_false(d.allowed);
        sl_decision_numbers(&r.shape, &d, &n);
        assert_int_equal(n.retry_after_ms, 21); /* behind those that are booked */
        assert_false(debit(&r, 1).allowed);     /* no further ahead than that */
        r.now_us += 20000;
        assert_int_equal(take(&r, 10, &tokens), SL_LEASE_TAKEN);
        assert_int_equal(remaining(&r), 0);
        sweep(&r, true);
        assert_int_equal(r.tokens, 10);
        assert_int_equal(remaining(&r), 10);
        sl_leases_free(r.leases);
    }
}

static int start(void **state)
{
    (void)state;
    redis = redis_start(NULL);
    door_open(redis.c);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(&redis);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_gets_back_exactly_what_was_not_spent),
        cmocka_unit_test(a_window_gets_back_exactly_what_was_not_spent),
        cmocka_unit_test(b144_a_return_that_comes_too_late_is_ignored),
        cmocka_unit_test(a_debit_books_ahead),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
