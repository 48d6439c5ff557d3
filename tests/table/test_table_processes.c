/* Several processes on one file: exact totals, and children that are killed at the worst instants. */
#include "kit.h"

#include "core/log.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const enum sl_algorithm all[] = {SL_TOKEN_BUCKET, SL_LEAKY_BUCKET, SL_FIXED_WINDOW, SL_SLIDING_WINDOW_LOG,
                                        SL_SLIDING_WINDOW_COUNTER};

#define KEYS 50u
#define CHILDREN 300u

/* Shared by a test and its children. */
struct board {
    uint64_t now_us;
    uint64_t admitted; /* counted after the answer was had */
    uint64_t asked;
    uint64_t go;
};

static struct board *new_board(void)
{
    struct board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(b != MAP_FAILED);
    b->now_us = T0;
    return b;
}

struct job {
    const char *path;
    struct board *board;
    struct sl_shape shape;
    struct sl_table *t;
    unsigned n_ops;
    uint64_t first_key;
    enum sl_point die_at;
    unsigned die_after;
    uint64_t seed;
};

static void fire(void *ctx, unsigned i)
{
    struct job *job = ctx;
    uint64_t admitted = 0;

    (void)i;
    for (unsigned n = 0; n < job->n_ops; n++) {
        admitted += kit_charge(job->t, kit_key(1, 1), &job->shape, 1);
        __atomic_fetch_add(&job->board->now_us, n % 5 == 0, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&job->board->admitted, admitted, __ATOMIC_RELAXED);
}

static void open_and_fire(void *ctx)
{
    struct job *job = ctx;

    job->t = kit_open(job->path, 1000, 2000, &job->board->now_us);
    while (!__atomic_load_n(&job->board->go, __ATOMIC_ACQUIRE))
        sched_yield();
    kit_threads(16, fire, job);
    sl_table_close(&job->t);
}

static void b109_threads_and_processes_admit_exactly_the_limit(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 5; a++) {
        struct job job = {.path = kit_path(), .board = new_board(), .n_ops = 10000 / 64};
        pid_t children[4];

        job.shape = kit_shape(all[a], "100/366d", 0);
        for (unsigned i = 0; i < 4; i++)
            children[i] = kit_fork(open_and_fire, &job);
        __atomic_store_n(&job.board->go, 1, __ATOMIC_RELEASE);
        for (unsigned i = 0; i < 4; i++)
            assert_true(kit_reap(children[i]));
        assert_int_equal(job.board->admitted, 100);
        job.t = kit_open(job.path, 1000, 2000, &job.board->now_us);
        assert_int_equal(kit_remaining(job.t, kit_key(1, 1), &job.shape), 0);
        assert_int_equal(kit_count_slots(job.t, kit_key(1, 1), false), 1);
        sl_table_close(&job.t);
        munmap(job.board, sizeof *job.board);
        kit_forget(job.path);
    }
}

static void die(void *ctx, enum sl_point point)
{
    struct job *job = ctx;

    if (point == job->die_at && job->die_after-- == 0)
        kill(getpid(), SIGKILL);
}

static void charge_some(struct job *job)
{
    for (unsigned n = 0; n < job->n_ops; n++) {
        bool allowed = kit_charge(job->t, kit_key(5, job->first_key + kit_random(&job->seed) % KEYS), &job->shape, 1);

        __atomic_fetch_add(&job->board->admitted, allowed, __ATOMIC_RELAXED);
        __atomic_fetch_add(&job->board->now_us, 1, __ATOMIC_RELAXED);
    }
}

static void charge_until_killed(void *ctx)
{
    struct job *job = ctx;

    job->t = kit_open(job->path, 10000, 100000, &job->board->now_us);
    sl_table_set_probe(job->t, die, job);
    charge_some(job);
    sl_table_close(&job->t);
}

static void charge_with_parents_handle(void *ctx)
{
    struct job *job = ctx;

    sl_table_set_probe(job->t, die, job);
    charge_some(job);
}

/* What the buckets say was admitted in all. */
static uint64_t spent(struct sl_table *t, const struct sl_shape *shape)
{
    uint64_t n = 0;

    for (unsigned key = 0; key < CHILDREN / 10 * KEYS; key++) {
        n += shape->limit - kit_remaining(t, kit_key(5, key), shape);
        if (key % KEYS < 3)
            assert_true(kit_count_slots(t, kit_key(5, key), false) <= 1);
    }
    return n;
}

/* Children are killed one after the other, each at some point inside an insert or an append; between them, and with
 * what they left behind, the parent decides on the same keys. A child that is killed may have admitted once without
 * having said so; nothing else may be lost, and nothing invented. */
static void survive(enum sl_algorithm algorithm, void (*child)(void *ctx), uint64_t seed)
{
    struct job job = {.path = kit_path(), .board = new_board(), .seed = seed};
    uint64_t killed = 0, n;

    job.shape = kit_shape(algorithm, "100000/366d", 0);
    job.t = kit_open(job.path, 10000, 100000, &job.board->now_us);
    for (unsigned i = 0; i < CHILDREN; i++) {
        job.seed = kit_random(&seed);
        job.die_at = (enum sl_point)(i % SL_POINTS);
        job.die_after = (unsigned)(kit_random(&seed) % 4);
        job.first_key = i / 10 * KEYS; /* now and then all are new */
        job.n_ops = 60;
        killed += !kit_reap(kit_fork(child, &job));
        job.n_ops = 5;
        charge_some(&job);
    }
    n = spent(job.t, &job.shape);
    assert_true(killed > CHILDREN / 10);
    assert_true(kit_stats(job.t).locks_recovered > 0);
    assert_in_range(n, job.board->admitted, job.board->admitted + killed);
    sl_table_close(&job.t);
    job.t =
        kit_open(job.path, 10000, 100000, &job.board->now_us); /* alone now: chunks that were lost are found again */
    assert_int_equal(spent(job.t, &job.shape), n);
    sl_table_close(&job.t);
    munmap(job.board, sizeof *job.board);
    kit_forget(job.path);
}

static void children_killed_at_every_point_leave_a_usable_table(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 5; a++)
        survive(all[a], charge_until_killed, 1 + a);
    survive(SL_SLIDING_WINDOW_LOG, charge_with_parents_handle, 6);
}

static void charge_for_ever(void *ctx)
{
    struct job *job = ctx;

    job->t = kit_open(job->path, 10000, 100000, &job->board->now_us);
    for (;;)
        charge_some(job);
}

/* Killed by a clock and not by a point in the code, with others at work at the same time. */
static void children_killed_at_random_do_not_stop_the_others(void **state)
{
    struct job job = {.path = kit_path(), .board = new_board(), .n_ops = 100, .seed = 11};
    uint64_t seed = 12;
    pid_t steady;

    (void)state;
    job.shape = kit_shape(SL_SLIDING_WINDOW_LOG, "100000/366d", 0);
    steady = kit_fork(charge_for_ever, &job);
    for (unsigned i = 0; i < CHILDREN / 3; i++) {
        uint64_t before = __atomic_load_n(&job.board->admitted, __ATOMIC_RELAXED);
        pid_t victim = kit_fork(charge_for_ever, &job);

        nanosleep(&(struct timespec){.tv_nsec = (long)(kit_random(&seed) % 3000000)}, NULL);
        kill(victim, SIGKILL);
        kit_reap(victim);
        while (__atomic_load_n(&job.board->admitted, __ATOMIC_RELAXED) <= before) /* the other one goes on */
            sched_yield();
        job.seed = kit_random(&seed);
    }
    kill(steady, SIGKILL);
    kit_reap(steady);
    job.t = kit_open(job.path, 10000, 100000, &job.board->now_us);
    assert_in_range(spent(job.t, &job.shape), job.board->admitted, job.board->admitted + CHILDREN / 3 + 1);
    sl_table_close(&job.t);
    munmap(job.board, sizeof *job.board);
    kit_forget(job.path);
}

/* A log's lock that was held when the process forked belongs, in the child's copy of a private table, to nobody. */
struct holder {
    struct job *job;
    pthread_t thread;
    int holding, release;
};

static void hold(void *ctx, enum sl_point point)
{
    struct holder *h = ctx;

    if (point != SL_POINT_LOG_LOCKED || !pthread_equal(pthread_self(), h->thread))
        return;
    __atomic_store_n(&h->holding, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&h->release, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void *hold_lock(void *ctx)
{
    struct holder *h = ctx;

    h->thread = pthread_self();
    sl_table_set_probe(h->job->t, hold, h);
    kit_charge(h->job->t, kit_key(1, 1), &h->job->shape, 1);
    return NULL;
}

static void charge_in_copy(void *ctx)
{
    struct job *job = ctx;

    sl_table_set_probe(job->t, NULL, NULL);
    if (!kit_charge(job->t, kit_key(1, 1), &job->shape, 1) || kit_remaining(job->t, kit_key(1, 1), &job->shape) != 6)
        _exit(1);
}

static void a_forked_copy_of_a_private_table_goes_on(void **state)
{
    struct job job = {.board = new_board()};
    struct holder h = {.job = &job};
    pthread_t thread;

    (void)state;
    job.shape = kit_shape(SL_SLIDING_WINDOW_LOG, "10/d", 0);
    job.t = kit_open(NULL, 1000, 2000, &job.board->now_us);
    for (unsigned i = 0; i < 3; i++) {
        job.board->now_us++;
        assert_true(kit_charge(job.t, kit_key(1, 1), &job.shape, 1));
    }
    job.board->now_us++;
    pthread_create(&thread, NULL, hold_lock, &h);
    while (!__atomic_load_n(&h.holding, __ATOMIC_ACQUIRE))
        sched_yield();
    assert_true(kit_reap(kit_fork(charge_in_copy, &job)));
    __atomic_store_n(&h.release, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    assert_int_equal(kit_remaining(job.t, kit_key(1, 1), &job.shape), 6);
    sl_table_close(&job.t);
    munmap(job.board, sizeof *job.board);
}

/* While the owner of a log's lock lives, however slow it is, nobody takes the list from it. */
static void stop_in_lock(void *ctx, enum sl_point point)
{
    struct job *job = ctx;

    if (point != SL_POINT_LOG_COUNTED)
        return;
    __atomic_store_n(&job->board->go, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&job->board->go, __ATOMIC_ACQUIRE) != 2)
        sched_yield();
}

static void charge_slowly(void *ctx)
{
    struct job *job = ctx;

    job->t = kit_open(job->path, 1000, 2000, &job->board->now_us);
    sl_table_set_probe(job->t, stop_in_lock, job);
    kit_charge(job->t, kit_key(1, 1), &job->shape, 1);
}

static void *let_go_later(void *ctx)
{
    struct job *job = ctx;

    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL); /* longer than any patience */
    __atomic_store_n(&job->board->asked, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&job->board->go, 2, __ATOMIC_RELEASE);
    return NULL;
}

static void a_log_is_not_taken_from_a_living_owner(void **state)
{
    struct job job = {.path = kit_path(), .board = new_board()};
    pthread_t thread;
    pid_t slow;

    (void)state;
    job.shape = kit_shape(SL_SLIDING_WINDOW_LOG, "10/d", 0);
    job.t = kit_open(job.path, 1000, 2000, &job.board->now_us);
    for (unsigned i = 0; i < 3; i++) {
        job.board->now_us++;
        assert_true(kit_charge(job.t, kit_key(1, 1), &job.shape, 1));
    }
    job.board->now_us++;
    slow = kit_fork(charge_slowly, &job);
    while (__atomic_load_n(&job.board->go, __ATOMIC_ACQUIRE) != 1)
        sched_yield();
    pthread_create(&thread, NULL, let_go_later, &job);
    assert_int_equal(kit_remaining(job.t, kit_key(1, 1), &job.shape), 6);
    assert_int_equal(__atomic_load_n(&job.board->asked, __ATOMIC_ACQUIRE), 1);
    pthread_join(thread, NULL);
    assert_true(kit_reap(slow));
    assert_int_equal(kit_stats(job.t).locks_recovered, 0);
    sl_table_close(&job.t);
    munmap(job.board, sizeof *job.board);
    kit_forget(job.path);
}

static void an_owner_is_the_process_that_registered_and_no_later_one(void **state)
{
    struct job job = {.path = kit_path(), .board = new_board()};
    uint32_t me;
    struct sl_process *p;

    (void)state;
    job.t = kit_open(job.path, 1000, 0, &job.board->now_us);
    me = sl_self_owner(job.t);
    p = &job.t->processes[me & (SL_PROCESSES - 1)];
    assert_true(sl_owner_is_alive(job.t, me));
    assert_false(sl_owner_is_alive(job.t, 0));
    assert_false(sl_owner_is_alive(job.t, me ^ (1u << SL_OWNER_SLOT_BITS))); /* an earlier holder of my place */
    job.t->self->owner = 0;                                                  /* as another process sees me */
    assert_true(sl_owner_is_alive(job.t, me));
    p->start++; /* my pid, but a process that started at another time */
    assert_false(sl_owner_is_alive(job.t, me));
    p->start--;
    p->pid_ns++; /* a process in another container: only its lock on the file can tell, and ours does not count */
    assert_false(sl_owner_is_alive(job.t, me));
    p->pid_ns--;
    job.t->self->owner = me;
    sl_table_close(&job.t);
    munmap(job.board, sizeof *job.board);
    kit_forget(job.path);
}

static void stay_open(void *ctx)
{
    struct job *job = ctx;

    job->t = kit_open(job->path, 1000, 0, &job->board->now_us);
    job->board->asked = sl_self_owner(job->t);
    __atomic_store_n(&job->board->go, 1, __ATOMIC_RELEASE);
    for (;;)
        pause();
}

static void an_owner_in_another_container_is_known_by_its_lock_on_the_file(void **state)
{
    struct job job = {.path = kit_path(), .board = new_board()};
    uint32_t other;
    pid_t child;

    (void)state;
    job.t = kit_open(job.path, 1000, 0, &job.board->now_us);
    child = kit_fork(stay_open, &job);
    while (!__atomic_load_n(&job.board->go, __ATOMIC_ACQUIRE))
        sched_yield();
    other = (uint32_t)job.board->asked;
    assert_true(sl_owner_is_alive(job.t, other));
    job.t->processes[other & (SL_PROCESSES - 1)].pid_ns++; /* its pid means nothing here */
    assert_true(sl_owner_is_alive(job.t, other));
    kill(child, SIGKILL);
    kit_reap(child);
    assert_false(sl_owner_is_alive(job.t, other));
    sl_table_close(&job.t);
    munmap(job.board, sizeof *job.board);
    kit_forget(job.path);
}

/* A process that finds no place may not lock a list, so it may not admit; it can still reset. */
static void without_a_place_a_list_admits_nothing(void **state)
{
    struct job job = {.path = kit_path(), .board = new_board()};
    struct sl_process *p;
    struct sl_decision d;
    uint32_t me;

    (void)state;
    job.shape = kit_shape(SL_SLIDING_WINDOW_LOG, "10/d", 0);
    job.t = kit_open(job.path, 1000, 100, &job.board->now_us);
    for (unsigned i = 0; i < 3; i++, job.board->now_us++)
        assert_true(kit_charge(job.t, kit_key(1, 1), &job.shape, 1));
    me = sl_self_owner(job.t);
    p = &job.t->processes[me & (SL_PROCESSES - 1)];
    for (unsigned i = 0; i < SL_PROCESSES; i++)
        job.t->processes[i] = *p; /* all places are taken by somebody who lives */
    job.t->self->owner = 0;
    assert_int_equal(sl_self_owner(job.t), 0);
    sl_table_charge(job.t, kit_key(1, 1), &job.shape, job.board->now_us, 1, &d);
    assert_false(d.allowed);
    assert_int_equal(d.log_fit_us, job.board->now_us + SL_SECOND_US);
    assert_true(kit_charge(job.t, kit_key(1, 2), &job.shape, 1)); /* one hit needs no list */
    assert_true(sl_table_reset(job.t, kit_key(1, 1)));
    assert_true(kit_charge(job.t, kit_key(1, 1), &job.shape, 10));
    job.t->self->owner = me;
    sl_table_close(&job.t);
    munmap(job.board, sizeof *job.board);
    kit_forget(job.path);
}

static void two_processes_read_one_clock(void **state)
{
    (void)state;
    struct job job = {.path = kit_path()};
    struct sl_table *a = kit_open(job.path, 1000, 0, NULL), *b = kit_open(job.path, 1000, 0, NULL);
    uint64_t last = 0;

    for (unsigned i = 0; i < 2000; i++) {
        uint64_t now_us = sl_table_now(i % 2 ? a : b);

        assert_true(now_us >= last);
        last = now_us;
    }
    sl_table_close(&a);
    sl_table_close(&b);
    kit_forget(job.path);
}

/* 150/s, C=150. Node A at 100 s takes 2; node B, a second behind, takes 10; A takes 1. */
static void b27_a_node_with_a_late_clock_does_not_refill(void **state)
{
    uint64_t a_us = T0 + 100 * SL_SECOND_US, b_us = T0 + 99 * SL_SECOND_US;
    const char *path = kit_path();
    struct sl_table *a = kit_open(path, 1000, 0, &a_us), *b = kit_open(path, 1000, 0, &b_us);
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "150/s", 0);

    (void)state;
    assert_true(kit_charge(a, kit_key(1, 1), &shape, 2));
    assert_int_equal(kit_remaining(a, kit_key(1, 1), &shape), 148);
    assert_true(kit_charge(b, kit_key(1, 1), &shape, 10));
    assert_int_equal(kit_remaining(b, kit_key(1, 1), &shape), 138);
    assert_true(kit_charge(a, kit_key(1, 1), &shape, 1));
    assert_int_equal(kit_remaining(a, kit_key(1, 1), &shape), 137);
    assert_true(kit_stats(b).negative_elapsed > 0);
    sl_table_close(&a);
    sl_table_close(&b);
    kit_forget(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b109_threads_and_processes_admit_exactly_the_limit),
        cmocka_unit_test(children_killed_at_every_point_leave_a_usable_table),
        cmocka_unit_test(children_killed_at_random_do_not_stop_the_others),
        cmocka_unit_test(a_forked_copy_of_a_private_table_goes_on),
        cmocka_unit_test(a_log_is_not_taken_from_a_living_owner),
        cmocka_unit_test(an_owner_is_the_process_that_registered_and_no_later_one),
        cmocka_unit_test(an_owner_in_another_container_is_known_by_its_lock_on_the_file),
        cmocka_unit_test(without_a_place_a_list_admits_nothing),
        cmocka_unit_test(two_processes_read_one_clock),
        cmocka_unit_test(b27_a_node_with_a_late_clock_does_not_refill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
