/* lease.h, sentence by sentence. */
#include "fleet/lease.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>

#define STORE_US UINT64_C(1800000000000000) /* the store's clock when ours reads OURS_US; a second begins */
#define OURS_US UINT64_C(1700000000000000)
#define RTT_US 1000u
#define SECOND UINT64_C(1000000)

/* One instance and the store it talks to. */
struct rig {
    struct sl_shape shape;
    struct sl_lease_terms terms;
    struct sl_lease_bucket bucket;
    struct sl_leases *leases;
    struct sl_state state; /* in the store */
    uint64_t now_us;       /* since OURS_US */
    uint32_t debit;        /* asked for and not sent */
    struct sl_numbers numbers;
    uint32_t returned, returns, debits; /* by the last sweep */
};

static void rig_open(struct rig *r, enum sl_algorithm algorithm, const char *rate, uint32_t burst, uint32_t block)
{
    struct sl_alloc alloc = sl_alloc_system();

    *r = (struct rig){.shape = world_shape(algorithm, rate, burst), .terms = {.block = block, .ttl_us = SECOND}};
    r->bucket = (struct sl_lease_bucket){.fp = {11, 22}, .who = {33, 44}, .store = 5, .shape = &r->shape};
    assert_int_equal(sl_leases_new(64, &alloc, &r->leases), 0);
    sl_leases_note_rtt(r->leases, RTT_US);
}

static enum sl_lease_answer take(struct rig *r, uint32_t cost)
{
    uint32_t debit;
    enum sl_lease_answer answer =
        sl_lease_take(r->leases, &r->bucket, &r->terms, OURS_US + r->now_us, cost, true, &r->numbers, &debit);

    assert_true(!debit || !r->debit); /* one at a time */
    r->debit += debit;
    return answer;
}

/* The store decides on the debit half a round trip later, and the answer is here after the other half. */
static struct sl_decision debit(struct rig *r)
{
    uint64_t asked_us = OURS_US + r->now_us;
    struct sl_decision d;
    struct sl_shape shape;

    assert_true(r->debit > 0);
    sl_lease_shape(&r->shape, &r->terms, &shape);
    r->now_us += RTT_US;
    sl_decide(&shape, r->state, STORE_US + r->now_us - RTT_US / 2, r->debit, &d);
    if (d.changed)
        r->state = d.after;
    r->debit = 0;
    sl_lease_granted(r->leases, &r->bucket, &r->terms, &d, asked_us, OURS_US + r->now_us);
    return d;
}

static uint32_t in_store(const struct rig *r)
{
    struct sl_decision d;

    sl_decide(&r->shape, r->state, STORE_US + r->now_us, 0, &d);
    return sl_decision_remaining(&r->shape, &d);
}

static void give_back(void *ctx, const struct sl_lease_bucket *bucket, uint32_t tokens,
                      const struct sl_decision *charge)
{
    struct rig *r = ctx;

    assert_int_equal(bucket->fp.a, r->bucket.fp.a);
    assert_int_equal(bucket->who.b, r->bucket.who.b);
    assert_int_equal(bucket->store, r->bucket.store);
    assert_int_equal(charge->cost, tokens);
    r->returned += tokens;
    r->returns++;
    sl_refund(bucket->shape, r->state, charge, STORE_US + r->now_us, &r->state);
}

static void ask_debit(void *ctx, const struct sl_lease_bucket *bucket, const struct sl_lease_terms *terms,
                      uint32_t tokens)
{
    struct rig *r = ctx;

    assert_true(sl_shape_equal(bucket->shape, &r->shape));
    assert_true(tokens > 0 && tokens <= terms->block && r->debit == 0);
    r->debit = tokens;
    r->debits++;
}

static void sweep(struct rig *r, bool all)
{
    struct sl_lease_errands errands = {.give_back = give_back, .debit = ask_debit, .ctx = r};

    r->returned = r->returns = r->debits = 0;
    sl_leases_sweep(r->leases, OURS_US + r->now_us, all, &errands);
}

static struct sl_leases_stats stats(struct rig *r)
{
    struct sl_leases_stats s;

    sl_leases_stats(r->leases, &s);
    return s;
}

/* ---- taking and renewing */

static void a_block_is_debited_once_and_spent_here(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "100/s", 100000, 50);
    assert_int_equal(take(&r, 1), SL_LEASE_NONE);
    assert_int_equal(r.debit, 50);
    assert_true(debit(&r).allowed);
    assert_int_equal(stats(&r).held, 50);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(take(&r, 1), SL_LEASE_TAKEN);
        assert_int_equal(r.numbers.limit, 100000);
        assert_int_equal(r.numbers.remaining, 100000 - 1 - i);
        assert_int_equal(r.numbers.retry_after_ms, 0);
        assert_int_equal(r.debit, 0);
    }
    r.now_us += 20000; /* the store has refilled by 2: it is taken to have */
    assert_int_equal(take(&r, 1), SL_LEASE_TAKEN);
    assert_int_equal(r.numbers.remaining, 100000 - 41 + 2);
    assert_in_range(r.numbers.reset_after_ms, 478, 480);
    sl_leases_free(r.leases);
}

static void it_is_renewed_before_it_runs_out(void **state)
{
    struct rig r;
    uint32_t left = 50;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 100000, 50);
    take(&r, 1);
    debit(&r);
    while (r.debit == 0) {
        assert_int_equal(take(&r, 1), SL_LEASE_TAKEN);
        left--;
        r.now_us += 1000; /* 1,000 a second: three or so within a round trip and its margin */
        assert_true(left > 0);
    }
    assert_in_range(left, 3, 6);
    assert_int_equal(r.debit, 50 - left);
    assert_int_equal(take(&r, 1), SL_LEASE_TAKEN); /* one in flight: no further */
    debit(&r);
    assert_int_equal(stats(&r).held, 49);
    sl_leases_free(r.leases);
}

static void a_longer_way_is_renewed_earlier(void **state)
{
    struct rig r;
    uint32_t left = 50;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 100000, 50);
    for (unsigned i = 0; i < 100; i++)
        sl_leases_note_rtt(r.leases, 10000);
    take(&r, 1);
    debit(&r);
    while (r.debit == 0) {
        assert_int_equal(take(&r, 1), SL_LEASE_TAKEN);
        left--;
        r.now_us += 1000;
    }
    assert_in_range(left, 10, 25); /* ten and a margin, never more than half a block */
    sl_leases_free(r.leases);
}

static void blocks_of_one_token_work(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "100/m", 0, 1);
    assert_int_equal(take(&r, 1), SL_LEASE_NONE);
    assert_int_equal(r.debit, 1);
    debit(&r);
    assert_int_equal(take(&r, 1), SL_LEASE_TAKEN);
    assert_int_equal(r.debit, 1);
    sl_leases_free(r.leases);
}

static void a_cost_above_what_is_held_goes_to_the_store(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 100000, 50);
    take(&r, 1);
    debit(&r);
    assert_int_equal(take(&r, 51), SL_LEASE_NONE);
    assert_int_equal(r.debit, 0); /* and a block would never do */
    assert_int_equal(take(&r, 30), SL_LEASE_TAKEN);
    assert_int_equal(take(&r, 30), SL_LEASE_NONE);
    assert_int_equal(r.debit, 30); /* but this is worth a renewal, low or not */
    assert_int_equal(take(&r, 20), SL_LEASE_TAKEN);
    sl_leases_free(r.leases);
}

static void nothing_begins_unless_asked_to(void **state)
{
    struct rig r;
    uint32_t debit;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    assert_int_equal(sl_lease_take(r.leases, &r.bucket, &r.terms, OURS_US, 1, false, &r.numbers, &debit),
                     SL_LEASE_NONE);
    assert_int_equal(debit, 0);
    assert_int_equal(stats(&r).active, 0);
    sl_leases_free(r.leases);
}

/* ---- tokens booked ahead */

static void drain(struct rig *r)
{
    struct sl_decision d;

    sl_decide(&r->shape, r->state, STORE_US + r->now_us, r->shape.limit, &d);
    assert_true(d.allowed);
    r->state = d.after;
}

static void tokens_booked_ahead_are_for_later(void **state)
{
    struct rig r;
    uint64_t from_us;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 1000, 20);
    r.terms.ahead_us = 20000;
    drain(&r);
    take(&r, 1);
    assert_true(debit(&r).allowed); /* 20 tokens, 20 ms ahead but for the half round trip that is over */
    from_us = r.now_us + 20000 - RTT_US / 2;
    assert_int_equal(take(&r, 1), SL_LEASE_WAIT);
    assert_int_equal(r.numbers.retry_after_ms, 20);
    assert_int_equal(r.numbers.remaining, 0);
    assert_true(r.numbers.reset_after_ms >= r.numbers.retry_after_ms);
    assert_int_equal(take(&r, 21), SL_LEASE_NONE);
    r.now_us = from_us - 1;
    assert_int_equal(take(&r, 20), SL_LEASE_WAIT);
    assert_int_equal(r.numbers.retry_after_ms, 1);
    r.now_us = from_us;
    assert_int_equal(take(&r, 20), SL_LEASE_TAKEN);
    sl_leases_free(r.leases);
}

/* What some token needs less than nothing to wait for is not mixed up with what is there. */
static void usable_tokens_come_first(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 1000, 20);
    r.terms.ahead_us = 20000;
    take(&r, 1);
    debit(&r);
    take(&r, 17);
    assert_int_equal(r.debit, 17);
    r.state = (struct sl_state){0};
    drain(&r);
    debit(&r);
    assert_int_equal(stats(&r).held, 20);
    assert_int_equal(take(&r, 4), SL_LEASE_NONE); /* three are there: neither enough nor nothing */
    assert_int_equal(take(&r, 3), SL_LEASE_TAKEN);
    assert_int_equal(take(&r, 1), SL_LEASE_WAIT);
    sl_leases_free(r.leases);
}

/* The store lends no more than that ahead, in whole tokens; windows do not lend. */
static void the_debit_shape_is_one_the_store_accepts(void **state)
{
    uint64_t seed = world_seed();

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        struct sl_shape own = world_some_shape(&seed), lent;
        struct sl_lease_terms terms = {.block = 1, .ahead_us = world_below(&seed, SECOND)};

        sl_lease_shape(&own, &terms, &lent);
        assert_int_equal(lent.version, own.version);
        if (own.algorithm != SL_TOKEN_BUCKET) {
            assert_memory_equal(&own, &lent, sizeof own);
            continue;
        }
        assert_true(lent.limit >= own.limit && lent.limit <= SL_COUNT_MAX);
        assert_true(lent.cap_us - own.cap_us <= terms.ahead_us + 1 && lent.cap_us <= SL_LIFE_MAX_US);
        assert_true((unsigned __int128)lent.limit * ((unsigned __int128)own.token_us * own.n + own.token_frac) ==
                    (unsigned __int128)lent.cap_us * own.n + lent.cap_frac);
    }
}

/* ---- rejected and failed debits */

static void a_rejected_debit_asks_for_less_and_later(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "10/s", 1000, 20);
    drain(&r);
    take(&r, 1);
    assert_int_equal(r.debit, 20); /* nothing is known of the store yet */
    assert_false(debit(&r).allowed);
    r.now_us = 50000;
    take(&r, 1);
    assert_int_equal(r.debit, 0); /* cannot be there yet */
    r.now_us = 101000;
    take(&r, 1);
    assert_int_equal(r.debit, 1);
    assert_true(debit(&r).allowed);
    sl_leases_free(r.leases);
}

static void a_rejected_block_shrinks_to_what_fits_and_grows_back(void **state)
{
    struct rig r;
    struct sl_decision d;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "100000/s", 1000, 64);
    take(&r, 1);
    assert_int_equal(r.debit, 64);
    sl_decide(&r.shape, r.state, STORE_US + r.now_us, 990, &d);
    r.state = d.after;
    assert_false(debit(&r).allowed); /* 10 and what half a round trip brings: 60 */
    take(&r, 32);
    assert_int_equal(r.debit, 32); /* half of what was asked for fits, so it is asked for at once */
    assert_true(debit(&r).allowed);
    assert_int_equal(take(&r, 32), SL_LEASE_TAKEN);
    take(&r, 64);
    assert_int_equal(r.debit, 64);
    sl_leases_free(r.leases);
}

static void a_failed_debit_is_not_repeated_at_once(void **state)
{
    struct rig r;
    unsigned tries = 0;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    for (unsigned ms = 0; ms < 2000; ms++, r.now_us += 1000) {
        take(&r, 1);
        if (r.debit) {
            sl_lease_failed(r.leases, r.bucket.fp, r.debit, tries == 0);
            r.debit = 0;
            tries++;
        }
    }
    assert_in_range(tries, 4, 10);
    assert_int_equal(stats(&r).lost, 20); /* the first one's answer was lost, the others never went */
    sl_leases_free(r.leases);
}

/* ---- near the limit */

static void near_the_limit_no_more_is_asked_for_than_is_spent(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "10/s", 1000, 50);
    take(&r, 1);
    assert_int_equal(r.debit, 50); /* nothing is known of the store yet */
    debit(&r);
    take(&r, 50);
    assert_int_equal(r.debit, 0 + 50); /* that is what was just spent */
    debit(&r);
    r.now_us = 900000;
    take(&r, 50);
    r.debit = 0;
    sl_lease_failed(r.leases, r.bucket.fp, 50, false);
    r.now_us = 5000000;
    take(&r, 1);                  /* one in five seconds */
    assert_int_equal(r.debit, 3); /* a tenth of a second's, by the last moments */
    sl_leases_free(r.leases);
}

/* ---- age, returns, the end */

/* B144: what is not spent goes back after its time to live, and another instance has it. */
static void b144_unspent_tokens_go_back(void **state)
{
    struct rig r;
    struct sl_decision d;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1/s", 100, 50);
    r.terms.ttl_us = 200000;
    take(&r, 1);
    debit(&r);
    assert_int_equal(take(&r, 10), SL_LEASE_TAKEN);
    sweep(&r, false);
    assert_int_equal(r.returned, 0);
    r.now_us = 200000 + RTT_US;
    assert_int_equal(take(&r, 1), SL_LEASE_NONE); /* too old */
    if (r.debit)
        sl_lease_failed(r.leases, r.bucket.fp, r.debit, false);
    sweep(&r, false);
    assert_int_equal(r.returned, 40);
    sl_decide(&r.shape, r.state, STORE_US + r.now_us, 90, &d);
    assert_true(d.allowed);
    sweep(&r, false); /* nothing twice */
    assert_int_equal(r.returns, 0);
    sl_leases_free(r.leases);
}

static void at_shutdown_everything_goes_back(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1/s", 100, 50);
    take(&r, 1);
    debit(&r);
    take(&r, 10);
    sweep(&r, true);
    assert_int_equal(r.returned, 40);
    assert_int_equal(in_store(&r), 90);
    assert_int_equal(stats(&r).active, 0);
    assert_int_equal(stats(&r).held, 0);
    sweep(&r, true);
    assert_int_equal(r.returns, 0);
    sl_leases_free(r.leases);
}

static void an_unused_lease_leaves_its_place(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    take(&r, 1);
    r.now_us = 3 * SECOND;
    sweep(&r, false);
    assert_int_equal(stats(&r).active, 1); /* an answer is awaited */
    sl_lease_failed(r.leases, r.bucket.fp, r.debit, false);
    sweep(&r, false);
    assert_int_equal(stats(&r).active, 0);
    sl_leases_free(r.leases);
}

/* An answer that nobody will ever report does not keep a lease from renewing for ever. */
static void a_debit_never_reported_on_is_lost_after_a_while(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    take(&r, 1);
    r.debit = 0;
    r.now_us = 11 * SECOND;
    take(&r, 1);
    assert_int_equal(r.debit, 0);
    sweep(&r, false);
    assert_int_equal(stats(&r).lost, 20);
    take(&r, 1);
    assert_int_equal(r.debit, 20);
    sl_leases_free(r.leases);
}

static void another_shape_retires_the_lease(void **state)
{
    struct rig r;
    struct sl_shape old;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    take(&r, 1);
    debit(&r);
    old = r.shape;
    r.shape = world_shape(SL_TOKEN_BUCKET, "2000/s", 0);
    assert_int_equal(take(&r, 1), SL_LEASE_NONE); /* begins anew */
    assert_int_equal(stats(&r).active, 1);
    assert_int_equal(r.debit, 20);
    r.shape = old;
    sweep(&r, false);
    assert_int_equal(r.returned, 20);
    sl_leases_free(r.leases);
}

static void a_smaller_block_gives_back_what_is_too_much(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    take(&r, 1);
    debit(&r);
    r.terms.block = 5;
    assert_int_equal(take(&r, 5), SL_LEASE_TAKEN);
    sweep(&r, false);
    assert_int_equal(r.returned, 15);
    sl_leases_free(r.leases);
}

static void a_hot_bucket_that_cools_is_leased_no_longer(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    r.terms.automatic = true;
    r.terms.ttl_us = 10 * SECOND;
    for (unsigned i = 0; i < SL_LEASE_COOL + 6; i++, r.now_us += 14000) {
        take(&r, 1);
        if (r.debit)
            debit(&r);
        sweep(&r, false);
        assert_int_equal(stats(&r).active, 1);
    }
    for (unsigned i = 0; i < 40; i++, r.now_us += 30000) {
        take(&r, 1);
        if (r.debit)
            debit(&r);
        sweep(&r, false);
        if (stats(&r).active == 0)
            break;
    }
    assert_int_equal(stats(&r).active, 0);
    assert_true(r.returned > 0);
    assert_int_equal(stats(&r).held, 0);
    sl_leases_free(r.leases);
}

static void forgetting_forgets_the_tokens(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    take(&r, 1);
    debit(&r);
    take(&r, 18);
    assert_true(r.debit > 0);
    sl_lease_forget(r.leases, r.bucket.fp);
    assert_int_equal(stats(&r).active, 0);
    debit(&r); /* arrives late: for nobody */
    assert_int_equal(stats(&r).held, 0);
    assert_int_equal(stats(&r).lost, 18);
    sl_leases_free(r.leases);
}

/* ---- outages, and requests that others reject */

static void the_last_tokens_are_for_an_outage(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    assert_false(sl_lease_take_last(r.leases, r.bucket.fp, &r.shape, OURS_US, 1, &r.numbers));
    take(&r, 1);
    debit(&r);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(sl_lease_take_last(r.leases, r.bucket.fp, &r.shape, OURS_US + r.now_us, 1, &r.numbers));
        assert_in_range(r.numbers.remaining, 0, 1000);
    }
    assert_false(sl_lease_take_last(r.leases, r.bucket.fp, &r.shape, OURS_US + r.now_us, 1, &r.numbers));
    sl_leases_free(r.leases);
}

static void tokens_are_put_back(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 100000, 20);
    assert_false(sl_lease_put_back(r.leases, r.bucket.fp, 1, OURS_US));
    assert_int_equal(stats(&r).lost, 1);
    take(&r, 1);
    debit(&r);
    take(&r, 5);
    assert_true(sl_lease_put_back(r.leases, r.bucket.fp, 5, OURS_US + r.now_us));
    assert_int_equal(stats(&r).held, 20);
    take(&r, 20);
    assert_int_equal(r.debit, 20);
    /* Their place is taken: a lease owns no more than its block. */
    assert_true(sl_lease_put_back(r.leases, r.bucket.fp, 20, OURS_US + r.now_us));
    assert_int_equal(take(&r, 1), SL_LEASE_NONE);
    sweep(&r, false);
    assert_int_equal(r.returned, 20);
    sl_leases_free(r.leases);
}

/* A reload ended the lease they were taken from: a token of the new limit may be worth more. Nor does a grant of the store
 * that the bucket has left count as one of the present store. */
static void tokens_of_another_lease_do_not_come_in(void **state)
{
    struct rig r;
    struct sl_lease_bucket before;
    struct sl_decision d;
    uint64_t taken_us;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 100000, 20);
    take(&r, 1);
    debit(&r);
    taken_us = OURS_US + r.now_us;
    assert_int_equal(take(&r, 20), SL_LEASE_TAKEN);
    r.now_us += 1000;
    r.shape = world_shape(SL_TOKEN_BUCKET, "1/s", 100000);
    r.debit = 0; /* of the lease that ends */
    assert_int_equal(take(&r, 1), SL_LEASE_NONE);
    assert_false(sl_lease_put_back(r.leases, r.bucket.fp, 20, taken_us));
    assert_int_equal(stats(&r).held, 0);
    before = r.bucket;
    r.bucket.store++;
    r.debit = 0;
    assert_int_equal(take(&r, 1), SL_LEASE_NONE);
    sl_decide(&r.shape, (struct sl_state){0}, STORE_US + r.now_us, r.debit, &d);
    sl_lease_granted(r.leases, &r.bucket, &r.terms, &d, OURS_US + r.now_us, OURS_US + r.now_us);
    assert_int_equal(take(&r, 1), SL_LEASE_TAKEN); /* the first answer was the present store's */
    sl_lease_granted(r.leases, &before, &r.terms, &d, OURS_US + r.now_us, OURS_US + r.now_us);
    r.bucket = before; /* where it is given back */
    sweep(&r, false);
    assert_int_equal(r.returned, d.cost);
    sl_leases_free(r.leases);
}

/* ---- fixed windows */

static void a_windows_tokens_die_with_it(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_FIXED_WINDOW, "100/s", 0, 20);
    r.terms.ttl_us = 5 * SECOND;
    take(&r, 1);
    debit(&r);
    assert_int_equal(take(&r, 1), SL_LEASE_TAKEN);
    assert_int_equal(r.numbers.remaining, 99);
    r.now_us = SECOND - RTT_US / 2 - 1; /* early by the way there at most */
    assert_int_equal(take(&r, 1), SL_LEASE_TAKEN);
    r.now_us = SECOND;
    assert_int_equal(take(&r, 1), SL_LEASE_NONE);
    sweep(&r, false);
    assert_int_equal(r.returned, 0);
    sl_leases_free(r.leases);
}

/* B142: a token taken in one window and put back in the next would be spent there. */
static void b142_a_windows_tokens_do_not_come_back_into_the_next(void **state)
{
    struct rig r;
    uint64_t taken_us;

    (void)state;
    rig_open(&r, SL_FIXED_WINDOW, "100/s", 0, 20);
    take(&r, 1);
    debit(&r);
    r.now_us = SECOND - 2000;
    taken_us = OURS_US + r.now_us;
    assert_int_equal(take(&r, 5), SL_LEASE_TAKEN);
    r.now_us = SECOND + 1000;
    take(&r, 1);
    debit(&r);
    assert_int_equal(take(&r, 15), SL_LEASE_TAKEN);
    assert_false(sl_lease_put_back(r.leases, r.bucket.fp, 5, taken_us));
    assert_int_equal(take(&r, 6), SL_LEASE_NONE);
    sl_leases_free(r.leases);
}

/* Given back in its own window a window's token counts; later it does not. */
static void a_window_takes_back_only_its_own(void **state)
{
    struct rig r;
    struct sl_state then;

    (void)state;
    rig_open(&r, SL_FIXED_WINDOW, "100/s", 0, 20);
    take(&r, 1);
    debit(&r);
    then = r.state;
    take(&r, 5);
    assert_true(sl_lease_put_back(r.leases, r.bucket.fp, 2, OURS_US + r.now_us));
    sweep(&r, true);
    assert_int_equal(r.returned, 17);
    assert_int_equal(in_store(&r), 97);
    r.state = then;
    take(&r, 1);
    debit(&r);
    assert_int_equal(in_store(&r), 60);
    sl_leases_free(r.leases);
}

/* ---- synced */

static void a_synced_lease_follows_demand_once_an_interval(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 250);
    r.terms.interval_us = 250000;
    take(&r, 1);
    assert_int_equal(r.debit, 250); /* a newcomer's share */
    debit(&r);
    for (unsigned i = 0; i < 240; i++, r.now_us += 1000) {
        assert_int_equal(take(&r, 1), SL_LEASE_TAKEN);
        assert_int_equal(r.debit, 0); /* low or not */
    }
    sweep(&r, false);
    assert_int_equal(r.debits, 0);
    r.now_us = 250000;
    sweep(&r, false);
    assert_int_equal(r.debits, 1); /* up to the share: all, for it is alone */
    assert_int_equal(r.debit, 240);
    debit(&r);
    /* Nearly nothing is asked for: the share goes down, what is too much goes back. */
    for (unsigned i = 2; i < 8; i++) {
        r.now_us = i * UINT64_C(250000);
        take(&r, 1);
        sweep(&r, false);
        if (r.debit)
            debit(&r);
    }
    assert_in_range(stats(&r).held, 1, 20);
    /* And when nobody asks any more, all of it. */
    r.now_us += 2 * SECOND;
    sweep(&r, false);
    assert_int_equal(stats(&r).active, 0);
    sl_leases_free(r.leases);
}

/* B111: one request every one and a half intervals is counted once, not twice; what was not spent is back. */
static void b111_a_sync_counts_once(void **state)
{
    struct rig r;
    unsigned taken = 0, asked = 0;

    (void)state;
    rig_open(&r, SL_FIXED_WINDOW, "1000/h", 0, 1);
    r.terms.interval_us = 250000;
    for (unsigned i = 0; i < 20; i++) {
        struct sl_decision d;

        if (take(&r, 1) == SL_LEASE_TAKEN) {
            taken++;
        } else {
            sl_decide(&r.shape, r.state, STORE_US + r.now_us, 1, &d);
            r.state = d.after;
            sl_lease_heard(r.leases, r.bucket.fp, &r.shape, &d, OURS_US + r.now_us);
            asked++;
        }
        for (unsigned k = 0; k < 4; k++) {
            if (r.debit)
                debit(&r);
            r.now_us += 93750;
            sweep(&r, false);
        }
    }
    if (r.debit)
        debit(&r);
    sweep(&r, true);
    assert_int_equal(taken + asked, 20);
    assert_int_equal(in_store(&r), 980);
    sl_leases_free(r.leases);
}

/* ---- bounds */

static void when_there_is_no_room_a_bucket_is_not_leased(void **state)
{
    struct rig r;
    unsigned begun = 0;

    (void)state;
    rig_open(&r, SL_TOKEN_BUCKET, "1000/s", 0, 20);
    for (uint64_t i = 0; i < 1000; i++) {
        r.bucket.fp = (struct sl_hash128){i << 40, 7}; /* one set */
        take(&r, 1);
        begun += r.debit > 0;
        r.debit = 0;
    }
    assert_true(begun > 0 && begun <= 64);
    assert_int_equal(stats(&r).active, begun);
    sl_leases_free(r.leases);
}

/* B145: remaining and reset of two instances come from the store's state, and agree. */
static void b145_instances_tell_the_same(void **state)
{
    struct rig x, y;

    (void)state;
    rig_open(&x, SL_FIXED_WINDOW, "100/m", 0, 2);
    rig_open(&y, SL_FIXED_WINDOW, "100/m", 0, 2);
    for (unsigned i = 0; i < 40; i++) {
        struct rig *r = i % 2 ? &y : &x, *other = i % 2 ? &x : &y;

        r->state = other->state;
        r->now_us = other->now_us + SECOND;
        if (take(r, 1) == SL_LEASE_TAKEN) {
            int64_t spent = i + 1, left_ms = (int64_t)(60000 - (r->now_us / 1000 + STORE_US / 1000) % 60000);

            assert_in_range(r->numbers.remaining, 100 - spent - 4, 100 - spent + 4);
            assert_in_range(r->numbers.reset_after_ms, left_ms - 2, left_ms + 2);
        }
        if (r->debit)
            debit(r);
        if (i == 30)
            break; /* before the window is over */
    }
    sl_leases_free(x.leases);
    sl_leases_free(y.leases);
}

static void *fail_after(void *ctx, void *p, size_t size)
{
    unsigned *left = ctx;
    struct sl_alloc alloc = sl_alloc_system();

    if (size > 0 && (*left)-- == 0)
        return NULL;
    return alloc.realloc(alloc.ctx, p, size);
}

static void out_of_memory_is_told(void **state)
{
    struct sl_leases *leases = NULL;

    (void)state;
    for (unsigned n = 0; n < 2; n++) {
        unsigned left = n;
        struct sl_alloc alloc = {.realloc = fail_after, .ctx = &left};

        assert_true(sl_leases_new(64, &alloc, &leases) < 0);
        assert_null(leases);
    }
    sl_leases_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_debited_once_and_spent_here),
        cmocka_unit_test(it_is_renewed_before_it_runs_out),
        cmocka_unit_test(a_longer_way_is_renewed_earlier),
        cmocka_unit_test(blocks_of_one_token_work),
        cmocka_unit_test(a_cost_above_what_is_held_goes_to_the_store),
        cmocka_unit_test(nothing_begins_unless_asked_to),
        cmocka_unit_test(tokens_booked_ahead_are_for_later),
        cmocka_unit_test(usable_tokens_come_first),
        cmocka_unit_test(the_debit_shape_is_one_the_store_accepts),
        cmocka_unit_test(a_rejected_debit_asks_for_less_and_later),
        cmocka_unit_test(a_rejected_block_shrinks_to_what_fits_and_grows_back),
        cmocka_unit_test(a_failed_debit_is_not_repeated_at_once),
        cmocka_unit_test(near_the_limit_no_more_is_asked_for_than_is_spent),
        cmocka_unit_test(b144_unspent_tokens_go_back),
        cmocka_unit_test(at_shutdown_everything_goes_back),
        cmocka_unit_test(an_unused_lease_leaves_its_place),
        cmocka_unit_test(a_debit_never_reported_on_is_lost_after_a_while),
        cmocka_unit_test(another_shape_retires_the_lease),
        cmocka_unit_test(a_smaller_block_gives_back_what_is_too_much),
        cmocka_unit_test(a_hot_bucket_that_cools_is_leased_no_longer),
        cmocka_unit_test(forgetting_forgets_the_tokens),
        cmocka_unit_test(the_last_tokens_are_for_an_outage),
        cmocka_unit_test(tokens_are_put_back),
        cmocka_unit_test(tokens_of_another_lease_do_not_come_in),
        cmocka_unit_test(a_windows_tokens_die_with_it),
        cmocka_unit_test(b142_a_windows_tokens_do_not_come_back_into_the_next),
        cmocka_unit_test(a_window_takes_back_only_its_own),
        cmocka_unit_test(a_synced_lease_follows_demand_once_an_interval),
        cmocka_unit_test(b111_a_sync_counts_once),
        cmocka_unit_test(when_there_is_no_room_a_bucket_is_not_leased),
        cmocka_unit_test(b145_instances_tell_the_same),
        cmocka_unit_test(out_of_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
