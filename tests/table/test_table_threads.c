/* Many threads on one table. Run under ThreadSanitizer too, and with SLUICE_TEST_THREADS of 2, 4 and 8. */
#include "kit.h"

#include "core/log.h"
#include "table/find.h"

#include <pthread.h>
#include <stdlib.h>

static const enum sl_algorithm all[] = {SL_TOKEN_BUCKET, SL_LEAKY_BUCKET, SL_FIXED_WINDOW, SL_SLIDING_WINDOW_LOG,
                                        SL_SLIDING_WINDOW_COUNTER};

struct world {
    struct sl_table *t;
    struct sl_shape shape;
    uint64_t now_us; /* the manual clock */
    uint64_t n_keys, n_rounds, n_ops;
    uint64_t admitted; /* in all */
    uint32_t *per_key; /* of n_keys */
    pthread_barrier_t *barrier;
    struct admission *log; /* of each thread n_ops */
    size_t *n_log;
};

struct admission {
    uint64_t key, t_us, whole_us;
};

static void tick(struct world *w, uint64_t us)
{
    __atomic_fetch_add(&w->now_us, us, __ATOMIC_RELAXED);
}

static void hammer(void *ctx, unsigned i)
{
    struct world *w = ctx;
    uint64_t admitted = 0;

    for (uint64_t n = 0; n < w->n_ops; n++) {
        admitted += kit_charge(w->t, kit_key(1, 1), &w->shape, 1);
        if ((n + i) % 7 == 0)
            tick(w, 1);
    }
    __atomic_fetch_add(&w->admitted, admitted, __ATOMIC_RELAXED);
}

static void one_key_admits_exactly_its_limit(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 5; a++) {
        for (unsigned round = 0; round < 5; round++) {
            struct world w = {.now_us = T0, .n_ops = 60000 / kit_n_threads() / 5};

            w.t = kit_open(NULL, 1000, 2000, &w.now_us);
            w.shape = kit_shape(all[a], "1000/366d", 0);
            kit_threads(kit_n_threads(), hammer, &w);
            assert_int_equal(w.admitted, 1000);
            assert_int_equal(kit_remaining(w.t, kit_key(1, 1), &w.shape), 0);
            assert_int_equal(kit_count_slots(w.t, kit_key(1, 1), false), 1);
            sl_table_close(&w.t);
        }
    }
}

/* Every thread takes the same keys in the same order; in each round they are first seen, or whole again, for all at
 * once. */
static void meet(void *ctx, unsigned i)
{
    struct world *w = ctx;

    for (uint64_t round = 0; round < w->n_rounds; round++) {
        pthread_barrier_wait(w->barrier);
        for (uint64_t key = 0; key < w->n_keys; key++) {
            if (kit_charge(w->t, kit_key(2, key), &w->shape, 1))
                __atomic_fetch_add(&w->per_key[key], 1, __ATOMIC_RELAXED);
        }
        pthread_barrier_wait(w->barrier);
        if (i != 0)
            continue;
        for (uint64_t key = 0; key < w->n_keys; key++) {
            assert_int_equal(w->per_key[key], 2 * (round + 1));
            assert_true(kit_count_slots(w->t, kit_key(2, key), false) == 1);
        }
        tick(w, 3 * SL_SECOND_US);
    }
}

static void keys_first_seen_or_expiring_together_get_one_slot(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 5; a++) {
        struct world w = {.now_us = T0, .n_keys = 300, .n_rounds = 4};
        pthread_barrier_t barrier;

        w.t = kit_open(NULL, 1000, 2000, &w.now_us);
        w.shape = kit_shape(all[a], "2/s", 0);
        w.per_key = calloc(w.n_keys, sizeof *w.per_key);
        w.barrier = &barrier;
        pthread_barrier_init(&barrier, NULL, kit_n_threads());
        kit_threads(kit_n_threads(), meet, &w);
        assert_int_equal(kit_stats(w.t).evictions, 0);
        pthread_barrier_destroy(&barrier);
        free(w.per_key);
        sl_table_close(&w.t);
    }
}

/* Time runs fast, readings are old, and the keys in use wander: each is hit more often than it may for some
 * seconds, then never again, and its slot goes to another. */
static void recycle(void *ctx, unsigned i)
{
    struct world *w = ctx;
    uint64_t seed = i + 1;
    struct admission *log = &w->log[i * w->n_ops];
    size_t n = 0;

    for (uint64_t op = 0; op < w->n_ops; op++) {
        uint64_t now_us = sl_table_now(w->t), key = (now_us - T0) / 20000 + kit_random(&seed) % w->n_keys;
        uint64_t late_us = kit_random(&seed) % 100000;
        struct sl_decision d;

        tick(w, 1000);
        sl_table_charge(w->t, kit_key(3, key), &w->shape, now_us - late_us, 1, &d);
        if (d.allowed)
            log[n++] = (struct admission){key, d.now_us, sl_state_whole_us(d.after)};
    }
    w->n_log[i] = n;
}

static int by_key_and_time(const void *a, const void *b)
{
    const struct admission *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->t_us < y->t_us ? -1 : x->t_us > y->t_us;
}

static size_t gather(struct world *w)
{
    size_t n = 0;

    for (unsigned i = 0; i < kit_n_threads(); i++) {
        memmove(&w->log[n], &w->log[i * w->n_ops], w->n_log[i] * sizeof *w->log);
        n += w->n_log[i];
    }
    qsort(w->log, n, sizeof *w->log, by_key_and_time);
    return n;
}

/* 2/s, burst 2: between any two admissions of a key, however the threads were late, at most 2 + 2 a second. */
static void check_bucket(const struct admission *log, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i; j < n && log[j].key == log[i].key; j++)
            assert_true((j - i + 1 - 2) * 500000 <= log[j].t_us - log[i].t_us || j - i + 1 <= 2);
    }
}

static void check_fixed_window(const struct admission *log, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned same = 0;

        for (size_t j = i; j < n && log[j].key == log[i].key; j++)
            same += log[j].whole_us == log[i].whole_us;
        assert_true(same <= 2);
    }
}

static void check_log(const struct admission *log, size_t n)
{
    for (size_t i = 0; i + 2 < n; i++) {
        if (log[i + 2].key == log[i].key)
            assert_true(log[i + 2].t_us - log[i].t_us >= SL_SECOND_US);
    }
}

static void a_slot_that_changes_hands_is_never_charged_for_its_old_key(void **state)
{
    void (*const checks[])(const struct admission *, size_t) = {check_bucket, check_bucket, check_fixed_window,
                                                                check_log};

    (void)state;
    for (unsigned a = 0; a < 4; a++) {
        struct world w = {.now_us = T0, .n_keys = 300, .n_ops = 200000 / kit_n_threads()};
        size_t n;

        w.t = kit_open(NULL, 1000, 4000, &w.now_us);
        w.shape = kit_shape(all[a], "2/s", 0);
        w.log = calloc(kit_n_threads() * w.n_ops, sizeof *w.log);
        w.n_log = calloc(kit_n_threads(), sizeof *w.n_log);
        kit_threads(kit_n_threads(), recycle, &w);
        n = gather(&w);
        assert_true(n > 50000);
        checks[a](w.log, n);
        assert_int_equal(kit_stats(w.t).evictions, 0);
        for (uint64_t key = 0; key < 10000; key += 50)
            assert_true(kit_count_slots(w.t, kit_key(3, key), false) <= 1);
        free(w.log);
        free(w.n_log);
        sl_table_close(&w.t);
    }
}

/* A thread that sleeps inside an insert while others do what they please. */
struct sleeper {
    struct world *w;
    struct sl_hash128 fp;
    enum sl_point point;
    pthread_t thread;
    int asleep, wake;
    bool allowed;
};

static void fall_asleep(void *ctx, enum sl_point point)
{
    struct sleeper *s = ctx;

    /* The first to get there is the sleeper: the others start when it sleeps. */
    if (point != s->point || __atomic_exchange_n(&s->asleep, 1, __ATOMIC_ACQ_REL))
        return;
    while (!__atomic_load_n(&s->wake, __ATOMIC_ACQUIRE))
        sl_wait_turn(&(struct sl_wait){.turns = 1000});
}

static void *sleep_inside(void *ctx)
{
    struct sleeper *s = ctx;

    s->allowed = kit_charge(s->w->t, s->fp, &s->w->shape, 1);
    return NULL;
}

static void start_sleeper(struct sleeper *s)
{
    sl_table_set_probe(s->w->t, fall_asleep, s);
    pthread_create(&s->thread, NULL, sleep_inside, s);
    while (!__atomic_load_n(&s->asleep, __ATOMIC_ACQUIRE))
        sl_wait_turn(&(struct sl_wait){.turns = 1000});
}

static void wake_sleeper(struct sleeper *s)
{
    __atomic_store_n(&s->wake, 1, __ATOMIC_RELEASE);
    pthread_join(s->thread, NULL);
}

static void a_sleeping_inserter_neither_blocks_nor_doubles(void **state)
{
    (void)state;
    for (enum sl_point point = SL_POINT_STRIPE_LOCKED; point <= SL_POINT_FILLED; point++) {
        for (unsigned a = 0; a < 5; a++) {
            struct world w = {.now_us = T0};
            struct sleeper s = {.w = &w, .fp = kit_key(4, 1), .point = point};
            unsigned admitted = 0;

            w.t = kit_open(NULL, 1000, 2000, &w.now_us);
            w.shape = kit_shape(all[a], "5/m", 0);
            start_sleeper(&s);
            for (unsigned i = 0; i < 3; i++)
                admitted += kit_charge(w.t, kit_key(4, 1), &w.shape, 1);
            assert_int_equal(admitted, 3);
            wake_sleeper(&s);
            for (unsigned i = 0; i < 5; i++)
                admitted += kit_charge(w.t, kit_key(4, 1), &w.shape, 1);
            assert_int_equal(admitted + s.allowed, 5);
            assert_int_equal(kit_count_slots(w.t, kit_key(4, 1), false), 1);
            sl_table_close(&w.t);
        }
    }
}

/* Fingerprints that share both groups and no stripe. */
static struct sl_hash128 neighbour(uint64_t number)
{
    return (struct sl_hash128){.a = 0x1234567800000000 + number * 0x0140000000000001, .b = 0x8000000040000000};
}

/* All places of the neighbours taken: number 7 owes least, and is the one to make room. */
static void fill_neighbourhood(struct world *w)
{
    w->t = kit_open(NULL, 1000, 2000, &w->now_us);
    w->shape = kit_shape(SL_TOKEN_BUCKET, "100/h", 0);
    for (unsigned i = 0; i < 16; i++)
        assert_true(kit_charge(w->t, neighbour(i), &w->shape, i == 7 ? 5 : 50));
}

/* Makes room in the group where number 7 is not, so that it is preferred. */
static void make_room_elsewhere(struct world *w)
{
    struct sl_site site = sl_site_of(w->t, neighbour(7));
    struct sl_state s, *seventh = sl_find(&site, &s);
    bool in_first = seventh >= site.group[0]->states && seventh < site.group[0]->states + SL_GROUP_SLOTS;

    for (unsigned i = 0, n = 0; i < 16 && n < 3; i++) {
        struct sl_state *slot;

        site = sl_site_of(w->t, neighbour(i));
        slot = sl_find(&site, &s);
        if (slot && in_first != (slot >= site.group[0]->states && slot < site.group[0]->states + SL_GROUP_SLOTS))
            n += sl_table_reset(w->t, neighbour(i));
    }
}

/* An inserter has chosen a slot and sleeps; its lock is taken over and the key gets another slot. Waking, it must not
 * fill the first one. */
static void an_inserter_that_lost_its_lock_fills_nothing(void **state)
{
    struct world w = {.now_us = T0};
    struct sleeper s = {.w = &w, .fp = neighbour(16), .point = SL_POINT_SCANNED};

    (void)state;
    fill_neighbourhood(&w);
    start_sleeper(&s);
    make_room_elsewhere(&w);
    assert_true(kit_charge(w.t, neighbour(16), &w.shape, 10));
    assert_int_equal(kit_remaining(w.t, neighbour(7), &w.shape), 95);
    wake_sleeper(&s);
    assert_true(s.allowed);
    assert_int_equal(kit_count_slots(w.t, neighbour(16), false), 1);
    assert_int_equal(kit_remaining(w.t, neighbour(16), &w.shape), 89);
    sl_table_close(&w.t);
}

/* The same, but the sleeper is past the point where it makes sure of its lock: now the claim is what the next
 * inserter has to find and finish, though there is a better place. */
static void a_claim_is_finished_where_it_is(void **state)
{
    struct world w = {.now_us = T0};
    struct sleeper s = {.w = &w, .fp = neighbour(16), .point = SL_POINT_TAGGED};
    struct sl_site site;
    struct sl_state st, *seventh;

    (void)state;
    fill_neighbourhood(&w);
    site = sl_site_of(w.t, neighbour(7));
    seventh = sl_find(&site, &st);
    start_sleeper(&s);
    assert_int_equal(kit_count_slots(w.t, neighbour(16), true), 1);
    for (unsigned i = 0; i < 16; i++)
        sl_table_reset(w.t, neighbour(i));
    assert_true(kit_charge(w.t, neighbour(16), &w.shape, 10));
    site = sl_site_of(w.t, neighbour(16));
    assert_ptr_equal(sl_find(&site, &st), seventh);
    wake_sleeper(&s);
    assert_true(s.allowed);
    assert_int_equal(kit_count_slots(w.t, neighbour(16), false), 1);
    assert_int_equal(kit_count_slots(w.t, neighbour(16), true), 0);
    assert_int_equal(kit_remaining(w.t, neighbour(16), &w.shape), 89);
    sl_table_close(&w.t);
}

/* A claim whose maker lost the lock is a free slot for any key. */
static void an_abandoned_claim_is_room_for_others(void **state)
{
    struct world w = {.now_us = T0};
    struct sleeper s = {.w = &w, .fp = neighbour(16), .point = SL_POINT_CLAIMED};

    (void)state;
    fill_neighbourhood(&w);
    start_sleeper(&s);
    assert_int_equal(kit_stats(w.t).evictions, 0); /* counted when the sleeper goes on */
    /* A key of the same stripe and of other groups takes the lock over. */
    assert_true(kit_charge(w.t, (struct sl_hash128){neighbour(16).a ^ 1, ~neighbour(16).b}, &w.shape, 1));
    assert_true(kit_charge(w.t, neighbour(17), &w.shape, 60));
    assert_int_equal(kit_count_slots(w.t, neighbour(16), true), 0);
    assert_int_equal(kit_stats(w.t).evictions, 0);
    wake_sleeper(&s);
    assert_true(s.allowed);
    assert_int_equal(kit_remaining(w.t, neighbour(17), &w.shape), 40);
    assert_int_equal(kit_remaining(w.t, neighbour(16), &w.shape), 99);
    for (unsigned i = 0; i < 18; i++)
        assert_true(kit_count_slots(w.t, neighbour(i), false) <= 1);
    sl_table_close(&w.t);
}

static void read_clock(void *ctx, unsigned i)
{
    struct world *w = ctx;
    uint64_t last = 0;

    for (uint64_t n = 0; n < w->n_ops; n++) {
        uint64_t now_us;

        if (i % 2)
            tick(w, n % 3 ? 5 : (uint64_t)-7); /* steps back every third time */
        now_us = sl_table_now(w->t);
        assert_true(now_us >= last);
        last = now_us;
    }
}

static void no_thread_sees_time_run_backward(void **state)
{
    struct world w = {.now_us = T0, .n_ops = 2000};

    (void)state;
    w.t = kit_open(NULL, 1000, 0, &w.now_us);
    kit_threads(kit_n_threads(), read_clock, &w);
    assert_true(kit_stats(w.t).negative_elapsed > 0);
    sl_table_close(&w.t);
}

/* Readers of the clock are late when they decide: the bound holds all the same. */
static void late_hammer(void *ctx, unsigned i)
{
    struct world *w = ctx;
    uint64_t admitted = 0;

    for (uint64_t n = 0; n < w->n_ops; n++) {
        uint64_t now_us = sl_table_now(w->t);

        tick(w, 5 * SL_SECOND_US / w->n_ops / kit_n_threads());
        if ((n + i) % 5 == 0)
            sched_yield();
        admitted += kit_charge_at(w->t, kit_key(1, 1), &w->shape, now_us, 1);
    }
    __atomic_fetch_add(&w->admitted, admitted, __ATOMIC_RELAXED);
}

static void b29_late_readings_mint_no_tokens(void **state)
{
    struct world w = {.now_us = T0, .n_ops = 100000 / kit_n_threads()};

    (void)state;
    w.t = kit_open(NULL, 1000, 0, &w.now_us);
    w.shape = kit_shape(SL_TOKEN_BUCKET, "10/s", 1);
    kit_threads(kit_n_threads(), late_hammer, &w);
    assert_in_range(w.admitted, 40, 51);
    sl_table_close(&w.t);
}

static void charge_and_give_back(void *ctx, unsigned i)
{
    struct world *w = ctx;
    uint64_t kept = 0, seed = i + 1;

    for (uint64_t n = 0; n < w->n_ops; n++) {
        struct sl_decision d;

        sl_table_charge(w->t, kit_key(1, 1), &w->shape, sl_table_now(w->t), 1 + (uint32_t)(kit_random(&seed) % 3), &d);
        if (d.allowed && kit_random(&seed) % 8)
            sl_table_refund(w->t, kit_key(1, 1), &w->shape, &d);
        else if (d.allowed)
            kept += d.cost;
    }
    __atomic_fetch_add(&w->admitted, kept, __ATOMIC_RELAXED);
}

static void refunds_leave_exactly_what_was_kept(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 5; a++) {
        struct world w = {.now_us = T0, .n_ops = 20000 / kit_n_threads()};

        w.t = kit_open(NULL, 1000, 20000, &w.now_us);
        w.shape = kit_shape(all[a], "10000/366d", 0);
        kit_threads(kit_n_threads(), charge_and_give_back, &w);
        assert_true(w.admitted > 0);
        assert_int_equal(kit_remaining(w.t, kit_key(1, 1), &w.shape), 10000 - w.admitted);
        sl_table_close(&w.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_admits_exactly_its_limit),
        cmocka_unit_test(keys_first_seen_or_expiring_together_get_one_slot),
        cmocka_unit_test(a_slot_that_changes_hands_is_never_charged_for_its_old_key),
        cmocka_unit_test(a_sleeping_inserter_neither_blocks_nor_doubles),
        cmocka_unit_test(an_inserter_that_lost_its_lock_fills_nothing),
        cmocka_unit_test(a_claim_is_finished_where_it_is),
        cmocka_unit_test(an_abandoned_claim_is_room_for_others),
        cmocka_unit_test(no_thread_sees_time_run_backward),
        cmocka_unit_test(b29_late_readings_mint_no_tokens),
        cmocka_unit_test(refunds_leave_exactly_what_was_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
