/* deny.h, sentence by sentence: for every algorithm, against what core would decide. */
#include "fleet/deny.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>

#define STORE_US UINT64_C(1800000000000000) /* the store's clock when ours reads OURS_US */
#define OURS_US UINT64_C(1700000000000000)
#define SECOND UINT64_C(1000000)

static const struct sl_hash128 fp = {0x1234567890abcdef, 0xfedcba0987654321};
static uint64_t seed;

static struct sl_deny *new_deny(size_t entries)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_deny *deny;

    assert_int_equal(sl_deny_new(entries, &alloc, &deny), 0);
    return deny;
}

/* A bucket that has been emptied at the store's time, and what it said to one more request. */
static struct sl_decision exhausted(struct bucket *b, uint32_t cost)
{
    struct sl_decision d;

    bucket_charge(b, STORE_US, b->shape.limit);
    d = bucket_look(b, STORE_US, cost);
    assert_false(d.allowed);
    return d;
}

static bool is_denied(struct sl_deny *deny, const struct sl_shape *shape, uint64_t now_us, uint32_t cost)
{
    struct sl_decision d;

    return sl_deny_find(deny, fp, shape, now_us, UINT64_MAX, cost, &d);
}

/* A request is found for as long as the store would reject it, to the microsecond, and with the store's own figures. */
static void a_rejection_is_known_until_it_is_over(void **state)
{
    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b = bucket_of((enum sl_algorithm)a, "10/7s", 0),
                      again = b; /* one's entries are dropped by looking */
        struct sl_deny *deny = new_deny(64);
        struct sl_decision d = exhausted(&b, 2), known;
        struct sl_numbers right, told;
        uint64_t end_us;

        sl_deny_learn(deny, fp, &b.shape, &d, OURS_US);
        for (end_us = 0; !bucket_look(&b, STORE_US + end_us, 2).allowed; end_us += 1000)
            if (end_us % 100000 == 0) {
                assert_true(sl_deny_find(deny, fp, &b.shape, OURS_US + end_us, UINT64_MAX, 2, &known));
                d = bucket_look(&b, STORE_US + end_us, 2);
                right = bucket_numbers(&b, &d);
                told = bucket_numbers(&b, &known);
                assert_int_equal(known.now_us, STORE_US + end_us);
                assert_false(known.changed);
                assert_int_equal(told.retry_after_ms, right.retry_after_ms);
                assert_int_equal(told.reset_after_ms, right.reset_after_ms);
                assert_int_equal(told.remaining, right.remaining);
                assert_int_equal(told.limit, right.limit);
            }
        assert_true(end_us > SECOND);
        assert_false(is_denied(deny, &b.shape, OURS_US + end_us, 2));
        exhausted(&again, 2);
        for (end_us -= 1000; !bucket_look(&again, STORE_US + end_us, 2).allowed; end_us++)
            ;
        assert_true(is_denied(deny, &b.shape, OURS_US + end_us - 1, 2));
        assert_false(is_denied(deny, &b.shape, OURS_US + end_us, 2));
        sl_deny_free(deny);
        bucket_fini(&b);
        bucket_fini(&again);
    }
}

static void cheaper_requests_and_peeks_go_to_the_store(void **state)
{
    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b = bucket_of((enum sl_algorithm)a, "10/7s", 0);
        struct sl_deny *deny = new_deny(64);
        struct sl_decision d = exhausted(&b, 5);

        sl_deny_learn(deny, fp, &b.shape, &d, OURS_US);
        assert_false(is_denied(deny, &b.shape, OURS_US, 0));
        assert_false(is_denied(deny, &b.shape, OURS_US, 4));
        assert_true(is_denied(deny, &b.shape, OURS_US, 5));
        assert_true(is_denied(deny, &b.shape, OURS_US, 10));
        sl_deny_free(deny);
        bucket_fini(&b);
    }
}

/* A cost that never fits is rejected for another reason, and for ever. */
static void what_never_fits_is_not_cached(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/7s", 0);
    struct sl_deny *deny = new_deny(64);
    struct sl_decision d = bucket_look(&b, STORE_US, 11);

    (void)state;
    assert_true(d.never);
    sl_deny_learn(deny, fp, &b.shape, &d, OURS_US);
    assert_int_equal(sl_deny_count(deny, OURS_US), 0);
    d = exhausted(&b, 1);
    sl_deny_learn(deny, fp, &b.shape, &d, OURS_US);
    assert_false(is_denied(deny, &b.shape, OURS_US, 11));
    assert_true(is_denied(deny, &b.shape, OURS_US, 10));
    sl_deny_free(deny);
}

/* Of two, the cheaper; of equal ones, the later. */
static void the_cheaper_rejection_says_more(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/10s", 0);
    struct sl_deny *deny = new_deny(64);
    struct sl_decision cheap = exhausted(&b, 2), dear = bucket_look(&b, STORE_US + 1, 7), later;

    (void)state;
    sl_deny_learn(deny, fp, &b.shape, &cheap, OURS_US);
    sl_deny_learn(deny, fp, &b.shape, &dear, OURS_US + 1);
    assert_true(is_denied(deny, &b.shape, OURS_US + 2, 2));
    sl_deny_forget(deny, fp);
    sl_deny_learn(deny, fp, &b.shape, &dear, OURS_US + 1);
    assert_false(is_denied(deny, &b.shape, OURS_US + 2, 2));
    sl_deny_learn(deny, fp, &b.shape, &cheap, OURS_US);
    assert_true(is_denied(deny, &b.shape, OURS_US + 2, 2));

    /* Somebody spends the token that had come: a later rejection, for longer. An older one that arrives late changes nothing. */
    bucket_charge(&b, STORE_US + SECOND, 1);
    later = bucket_look(&b, STORE_US + SECOND, 2);
    assert_false(later.allowed);
    sl_deny_learn(deny, fp, &b.shape, &later, OURS_US + SECOND);
    sl_deny_learn(deny, fp, &b.shape, &cheap, OURS_US);
    assert_true(is_denied(deny, &b.shape, OURS_US + 2 * SECOND, 2));
    assert_false(is_denied(deny, &b.shape, OURS_US + 3 * SECOND, 2));

    /* One that is over does not stand in the way of a dearer one. */
    bucket_charge(&b, STORE_US + 3 * SECOND, 2);
    dear = bucket_look(&b, STORE_US + 3 * SECOND, 7);
    sl_deny_learn(deny, fp, &b.shape, &dear, OURS_US + 3 * SECOND);
    assert_true(is_denied(deny, &b.shape, OURS_US + 3 * SECOND, 7));
    sl_deny_free(deny);
}

static void an_admission_forgets(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/10s", 0);
    struct sl_deny *deny = new_deny(64);
    struct sl_decision peek = bucket_look(&b, STORE_US - 2, 0), early = bucket_look(&b, STORE_US - 1, 1);
    struct sl_decision rejected = exhausted(&b, 2), late = bucket_look(&b, STORE_US + SECOND, 1);

    (void)state;
    assert_true(early.allowed && late.allowed);
    sl_deny_learn(deny, fp, &b.shape, &rejected, OURS_US);
    sl_deny_learn(deny, fp, &b.shape, &peek, OURS_US);  /* spends nothing, says nothing */
    sl_deny_learn(deny, fp, &b.shape, &early, OURS_US); /* of another connection, older than the rejection */
    assert_true(is_denied(deny, &b.shape, OURS_US + SECOND, 2));
    sl_deny_learn(deny, fp, &b.shape, &late, OURS_US + SECOND);
    assert_false(is_denied(deny, &b.shape, OURS_US + SECOND, 2));
    sl_deny_free(deny);
}

static void another_shape_is_asked_for_anew(void **state)
{
    static const char *const rates[] = {"20/10s", "10/11s", "5/10s"};
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/10s", 10);
    struct sl_deny *deny = new_deny(64);
    struct sl_decision d = exhausted(&b, 1);
    struct sl_shape shape;

    (void)state;
    sl_deny_learn(deny, fp, &b.shape, &d, OURS_US);
    for (unsigned i = 0; i < 3; i++) {
        shape = world_shape(SL_TOKEN_BUCKET, rates[i], 10);
        assert_false(is_denied(deny, &shape, OURS_US, 1));
    }
    shape = world_shape(SL_TOKEN_BUCKET, "10/10s", 11);
    assert_false(is_denied(deny, &shape, OURS_US, 1));
    shape = world_shape(SL_LEAKY_BUCKET, "10/10s", 10);
    assert_false(is_denied(deny, &shape, OURS_US, 1));
    assert_true(is_denied(deny, &b.shape, OURS_US, 1));
    shape = world_shape(SL_TOKEN_BUCKET, "20/20s", 10); /* the same, in lowest terms */
    assert_true(is_denied(deny, &shape, OURS_US, 1));
    sl_deny_forget(deny, fp);
    assert_false(is_denied(deny, &b.shape, OURS_US, 1));
    sl_deny_free(deny);
}

/* Never more than there is room for; the ones that last longest stay. */
static void the_one_that_ends_soonest_makes_room(void **state)
{
    struct sl_deny *deny = new_deny(1);
    struct sl_decision known;
    size_t n;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/10s", 0);
        struct sl_decision d = exhausted(&b, 1 + (uint32_t)(i % 10));

        /* One and the same set: it is chosen by both halves. */
        sl_deny_learn(deny, (struct sl_hash128){i << 32, 1}, &b.shape, &d, OURS_US);
    }
    n = sl_deny_count(deny, OURS_US);
    assert_true(n > 0 && n <= 64);
    for (uint64_t i = 0; i < 1000; i++) {
        struct sl_shape shape = world_shape(SL_TOKEN_BUCKET, "10/10s", 0);

        if (sl_deny_find(deny, (struct sl_hash128){i << 32, 1}, &shape, OURS_US, UINT64_MAX, 10, &known))
            assert_int_equal(i % 10, 9); /* ten tokens: the longest wait */
    }
    assert_int_equal(sl_deny_count(deny, OURS_US + 60 * SECOND), 0);
    sl_deny_free(deny);
}

/* Any shape, any exhausted state, any later time: denied exactly when core rejects. */
static void it_agrees_with_core(void **state)
{
    struct sl_deny *deny = new_deny(1024);
    unsigned denied = 0, passed = 0;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        struct sl_shape shape = world_some_shape(&seed);
        struct sl_decision d, now, known;
        struct sl_state s = {0};
        uint64_t wait_us;
        uint32_t cost;

        if (shape.algorithm == SL_SLIDING_WINDOW_LOG)
            continue;
        sl_decide(&shape, s, STORE_US, shape.limit, &d);
        s = d.after;
        sl_decide(&shape, s, STORE_US, cost = 1 + (uint32_t)world_below(&seed, shape.limit), &d);
        if (d.allowed)
            continue;
        sl_deny_learn(deny, fp, &shape, &d, OURS_US);
        wait_us = world_below(&seed, 2 * (shape.cap_us + shape.period_us));
        cost += (uint32_t)world_below(&seed, shape.limit - cost + 1);
        sl_decide(&shape, s, STORE_US + wait_us, cost, &now);
        if (sl_deny_find(deny, fp, &shape, OURS_US + wait_us, UINT64_MAX, cost, &known)) {
            denied++;
            assert_false(now.allowed);
            assert_memory_equal(&known.before, &now.before, sizeof now.before);
        } else {
            passed++;
            /* Dearer ones may be asked for though they would be rejected: the entry ended with its own cost. */
            assert_true(now.allowed || cost > d.cost);
        }
    }
    assert_true(denied > 1000 && passed > 1000);
    sl_deny_free(deny);
}

/* Our threads' clocks differ by moments: one that reads earlier than the asker did is no reason to forget. */
static void a_slower_clock_is_rejected_too(void **state)
{
    struct bucket b = bucket_of(SL_FIXED_WINDOW, "10/7s", 0);
    struct sl_deny *deny = new_deny(64);
    struct sl_decision d = exhausted(&b, 1), known;

    (void)state;
    sl_deny_learn(deny, fp, &b.shape, &d, OURS_US);
    assert_true(sl_deny_find(deny, fp, &b.shape, OURS_US - 50, UINT64_MAX, 1, &known));
    assert_int_equal(known.now_us, STORE_US);
    sl_deny_free(deny);
}

/* Where others may give tokens back, a rejection is believed for a while only. */
static void an_old_rejection_is_not_believed(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/100s", 0);
    struct sl_deny *deny = new_deny(64);
    struct sl_decision d = exhausted(&b, 1), known;

    (void)state;
    sl_deny_learn(deny, fp, &b.shape, &d, OURS_US);
    assert_true(sl_deny_find(deny, fp, &b.shape, OURS_US + SECOND, SECOND, 1, &known));
    assert_false(sl_deny_find(deny, fp, &b.shape, OURS_US + SECOND + 1, SECOND, 1, &known));
    assert_true(is_denied(deny, &b.shape, OURS_US + SECOND + 1, 1));
    sl_deny_free(deny);
}

static void *hammer(void *arg)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/10s", 0);
    struct sl_decision d = exhausted(&b, 3), known, allowed = bucket_look(&b, STORE_US + 5 * SECOND, 1);

    for (uint64_t i = 0; i < 5000; i++) {
        struct sl_hash128 some = {i % 40, 9};

        switch (i % 5) {
        case 0:
            sl_deny_learn(arg, some, &b.shape, &d, OURS_US);
            break;
        case 1:
            sl_deny_learn(arg, some, &b.shape, &allowed, OURS_US + 5 * SECOND);
            break;
        case 2:
            sl_deny_forget(arg, some);
            break;
        default:
            if (sl_deny_find(arg, some, &b.shape, OURS_US, UINT64_MAX, 3, &known) && (known.allowed || known.cost != 3))
                return arg; /* torn */
        }
    }
    return NULL;
}

static void threads_never_see_half_an_entry(void **state)
{
    struct sl_deny *deny = new_deny(64);
    pthread_t threads[8];

    (void)state;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, deny), 0);
    for (unsigned i = 0; i < 8; i++) {
        void *torn;

        pthread_join(threads[i], &torn);
        assert_null(torn);
    }
    sl_deny_free(deny);
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
    struct sl_deny *deny = NULL;

    (void)state;
    for (unsigned n = 0; n < 3; n++) {
        unsigned left = n;
        struct sl_alloc alloc = {.realloc = fail_after, .ctx = &left};

        assert_true(sl_deny_new(64, &alloc, &deny) < 0);
        assert_null(deny);
    }
    sl_deny_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rejection_is_known_until_it_is_over),
        cmocka_unit_test(cheaper_requests_and_peeks_go_to_the_store),
        cmocka_unit_test(what_never_fits_is_not_cached),
        cmocka_unit_test(the_cheaper_rejection_says_more),
        cmocka_unit_test(an_admission_forgets),
        cmocka_unit_test(another_shape_is_asked_for_anew),
        cmocka_unit_test(the_one_that_ends_soonest_makes_room),
        cmocka_unit_test(it_agrees_with_core),
        cmocka_unit_test(a_slower_clock_is_rejected_too),
        cmocka_unit_test(an_old_rejection_is_not_believed),
        cmocka_unit_test(threads_never_see_half_an_entry),
        cmocka_unit_test(out_of_memory_is_told),
    };

    seed = world_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
