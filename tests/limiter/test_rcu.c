/* The snapshot pointer: readers keep what they entered with, writers wait for exactly those, slots are exclusive. */
#include "kit.h"

#include "limiter/rcu.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

struct writer {
    struct sl_rcu *rcu;
    int *next;
    int *old; /* what the swap returned */
    bool done;
};

static void *write_one(void *arg)
{
    struct writer *w = arg;

    w->old = sl_rcu_swap(w->rcu, w->next);
    __atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void a_writer_waits_for_readers_of_the_old_only(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_rcu rcu;
    int one = 1, two = 2;
    struct writer writer = {.rcu = &rcu, .next = &two};
    void *seen, *later;
    pthread_t thread;

    (void)state;
    assert_int_equal(sl_rcu_init(&rcu, &alloc), 0);
    assert_null(sl_rcu_swap(&rcu, &one));
    unsigned slot = sl_rcu_enter(&rcu, &seen);

    assert_int_equal(pthread_create(&thread, NULL, write_one, &writer), 0);
    for (later = seen; later == seen; sched_yield()) {
        unsigned other = sl_rcu_enter(&rcu, &later);

        assert_int_not_equal(other, slot);
        sl_rcu_leave(&rcu, other);
    }
    assert_ptr_equal(later, &two);
    unsigned held = sl_rcu_enter(&rcu, &later); /* a reader of the new one holds nobody up */

    assert_ptr_equal(seen, &one);
    assert_false(__atomic_load_n(&writer.done, __ATOMIC_ACQUIRE));
    sl_rcu_leave(&rcu, slot);
    pthread_join(thread, NULL);
    assert_ptr_equal(writer.old, &one);
    sl_rcu_leave(&rcu, held);
    assert_ptr_equal(sl_rcu_peek(&rcu), &two);
    sl_rcu_fini(&rcu);
}

struct late {
    struct sl_rcu *rcu;
    bool inside;
};

static void *enter_late(void *arg)
{
    struct late *late = arg;
    void *seen;
    unsigned slot = sl_rcu_enter(late->rcu, &seen);

    __atomic_store_n(&late->inside, true, __ATOMIC_RELEASE);
    sl_rcu_leave(late->rcu, slot);
    return NULL;
}

static void more_readers_than_slots_take_turns(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_rcu rcu;
    struct late late = {.rcu = &rcu};
    unsigned slots[128];
    bool taken[128] = {false};
    int one = 1;
    void *seen;
    pthread_t thread;

    (void)state;
    assert_int_equal(sl_rcu_init(&rcu, &alloc), 0);
    sl_rcu_swap(&rcu, &one);
    assert_in_range(rcu.n_slots, 16, 128);
    for (unsigned i = 0; i < rcu.n_slots; i++) {
        slots[i] = sl_rcu_enter(&rcu, &seen);
        assert_false(taken[slots[i]]);
        taken[slots[i]] = true;
    }
    assert_int_equal(pthread_create(&thread, NULL, enter_late, &late), 0);
    for (int i = 0; i < 300; i++)
        sched_yield();
    assert_false(__atomic_load_n(&late.inside, __ATOMIC_ACQUIRE));
    sl_rcu_leave(&rcu, slots[0]);
    pthread_join(thread, NULL);
    assert_true(late.inside);
    sl_rcu_fini(&rcu);
}

#define READERS 8
#define SWAPS 300

/* Each snapshot is poisoned as soon as the swap says that nobody reads it. */
struct pair {
    int a, b;
};

struct reader {
    struct sl_rcu *rcu;
    const bool *stop;
    unsigned torn, reads;
};

static void *read_many(void *arg)
{
    struct reader *r = arg;

    while (!__atomic_load_n(r->stop, __ATOMIC_RELAXED)) {
        void *held;
        unsigned slot = sl_rcu_enter(r->rcu, &held);
        const struct pair *pair = held;

        r->torn += pair->a != pair->b || pair->a < 0;
        r->reads++;
        sl_rcu_leave(r->rcu, slot);
        if (r->reads % 64 == 0)
            sched_yield(); /* or the writer mostly waits for readers that were preempted inside */
    }
    return NULL;
}

static void nobody_reads_what_was_given_back(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_rcu rcu;
    struct pair pairs[2] = {{0, 0}, {-1, -1}};
    struct reader readers[READERS];
    pthread_t threads[READERS];
    bool stop = false;

    (void)state;
    assert_int_equal(sl_rcu_init(&rcu, &alloc), 0);
    sl_rcu_swap(&rcu, &pairs[0]);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.rcu = &rcu, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, &readers[i]), 0);
    }
    for (int i = 1; i <= SWAPS; i++) {
        struct pair *next = &pairs[i % 2];

        next->a = next->b = i;
        struct pair *old = sl_rcu_swap(&rcu, next);

        old->a = -1;
        old->b = -2;
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].torn, 0);
    }
    sl_rcu_fini(&rcu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_writer_waits_for_readers_of_the_old_only),
        cmocka_unit_test(more_readers_than_slots_take_turns),
        cmocka_unit_test(nobody_reads_what_was_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
