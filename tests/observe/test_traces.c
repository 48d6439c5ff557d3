/* Traces: whose decisions are kept, how many, for how long; who is asked while none is armed; threads. */
#include "observe/traces.h"

#include "base/err.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000)
#define T0 (1000 * S)

struct stage {
    struct sl_traces *traces;
    unsigned n_on, n_off;
};

static void count_turns(void *ctx, bool on)
{
    struct stage *s = ctx;

    *(on ? &s->n_on : &s->n_off) += 1;
}

static void open_stage(struct stage *s)
{
    struct sl_alloc alloc = sl_alloc_system();

    *s = (struct stage){0};
    assert_int_equal(sl_traces_new(&alloc, &s->traces), 0);
    sl_traces_set_switch(s->traces, count_turns, s);
}

static struct sluice_request request_of(const char *key, const char *type, const char *scope)
{
    struct sluice_request r = SLUICE_REQUEST_INIT;

    r.key = key, r.key_len = strlen(key);
    r.key_type = type, r.key_type_len = type ? strlen(type) : 0;
    r.scope = scope, r.scope_len = scope ? strlen(scope) : 0;
    return r;
}

static uint64_t arm(struct stage *s, const char *key, const char *type, const char *glob, unsigned count)
{
    struct sl_trace_order order = {.whom = request_of(key, type, NULL),
                                   .glob = glob,
                                   .glob_len = glob ? strlen(glob) : 0,
                                   .count = count,
                                   .for_us = 60 * S};
    uint64_t id = 0;

    assert_int_equal(sl_traces_arm(s->traces, &order, 64, T0, &id), 0);
    assert_true(id != 0);
    return id;
}

/* What a door does. */
static void decide(struct stage *s, const char *key, const char *type, const char *scope, uint64_t now_us)
{
    struct sluice_request request = request_of(key, type, scope);
    struct sl_traced decision = {.at_us = now_us, .verdict = {.allowed = true, .policy = "free"}};

    if (sl_traces_want(s->traces, &request))
        sl_traces_record(s->traces, &request, &decision, now_us);
}

static struct sl_traced list[SL_TRACE_DECISIONS_MAX];
static struct sl_trace_state told;

static int read_after(struct stage *s, uint64_t id, uint64_t after, uint64_t now_us)
{
    return sl_traces_read(s->traces, id, after, list, SL_TRACE_DECISIONS_MAX, now_us, &told);
}

static void the_next_decisions_of_one_key_are_kept(void **state)
{
    struct stage s;
    uint64_t id;

    (void)state;
    open_stage(&s);
    decide(&s, "k", NULL, "a", T0);
    id = arm(&s, "k", NULL, NULL, 3);
    assert_int_equal(s.n_on, 1);
    assert_int_equal(read_after(&s, id, 0, T0), 0);
    assert_int_equal(told.phase, SL_TRACE_ARMED);
    decide(&s, "other", NULL, "a", T0);
    decide(&s, "k", "user", "a", T0); /* another key: its type is part of it */
    decide(&s, "k", "api_key", "one", T0 + 1);
    decide(&s, "k", NULL, NULL, T0 + 2);
    assert_int_equal(read_after(&s, id, 0, T0 + 3), 2);
    assert_int_equal(list[0].seq, 1);
    assert_string_equal(list[0].scope, "one");
    assert_string_equal(list[0].verdict.policy, "free");
    assert_string_equal(list[1].scope, "");
    assert_int_equal(read_after(&s, id, 2, T0 + 3), 0);
    assert_int_equal(s.n_off, 0);
    decide(&s, "k", NULL, "three", T0 + 4);
    assert_int_equal(s.n_off, 1); /* at once */
    decide(&s, "k", NULL, "four", T0 + 5);
    assert_int_equal(read_after(&s, id, 2, T0 + 6), 1);
    assert_int_equal(list[0].seq, 3);
    assert_string_equal(list[0].scope, "three");
    assert_int_equal(told.phase, SL_TRACE_COMPLETE);
    assert_int_equal(told.recorded, 3);
    assert_string_equal(told.key, "k");
    assert_string_equal(told.key_type, "api_key");
    assert_int_equal(read_after(&s, id, 99, T0 + 6), 0);
    assert_int_equal(read_after(&s, id, UINT64_MAX, T0 + 6), 0);
    assert_int_equal(sl_traces_disarm(s.traces, id), 0);
    assert_int_equal(sl_traces_disarm(s.traces, id), SL_ENOTFOUND);
    assert_int_equal(read_after(&s, id, 0, T0 + 6), SL_ENOTFOUND);
    assert_int_equal(read_after(&s, 0, 0, T0 + 6), SL_ENOTFOUND);
    sl_traces_free(s.traces);
}

static void scopes_are_chosen_by_a_glob(void **state)
{
    struct stage s;
    uint64_t id, all, none;

    (void)state;
    open_stage(&s);
    id = arm(&s, "k", NULL, "GET /v1/*", 10);
    all = arm(&s, "k", NULL, NULL, 10);
    none = arm(&s, "k", NULL, "", 10); /* those without a scope */
    decide(&s, "k", NULL, "GET /v1/orders/7", T0);
    decide(&s, "k", NULL, "POST /v1/orders", T0);
    decide(&s, "k", NULL, NULL, T0);
    assert_int_equal(read_after(&s, id, 0, T0), 1);
    assert_string_equal(list[0].scope, "GET /v1/orders/7");
    assert_string_equal(told.glob, "GET /v1/*");
    assert_int_equal(read_after(&s, all, 0, T0), 3);
    assert_int_equal(read_after(&s, none, 0, T0), 1);
    sl_traces_free(s.traces);
}

static void an_address_is_traced_in_any_spelling(void **state)
{
    struct stage s;
    uint64_t id;

    (void)state;
    open_stage(&s);
    id = arm(&s, "2001:db8:0:1::7", "address", NULL, 10);
    decide(&s, "2001:db8:0:1::/64", "address", NULL, T0);
    decide(&s, "2001:0DB8:0:1:0:0:0:9", "address", NULL, T0);
    decide(&s, "2001:db8:0:2::7", "address", NULL, T0);
    assert_int_equal(read_after(&s, id, 0, T0), 2);
    assert_string_equal(told.key, "2001:db8:0:1::/64");
    sl_traces_free(s.traces);
}

static void traces_and_their_decisions_are_bounded(void **state)
{
    struct sl_trace_order order = {.whom = request_of("k", NULL, NULL), .count = 1, .for_us = S};
    struct sl_trace_state states[SL_TRACES_MAX];
    struct stage s;
    uint64_t ids[SL_TRACES_MAX], id;

    (void)state;
    open_stage(&s);
    for (unsigned i = 0; i < SL_TRACES_MAX; i++)
        ids[i] = arm(&s, "k", NULL, NULL, 1);
    assert_int_equal(sl_traces_arm(s.traces, &order, 64, T0, &id), SL_EBUSY);
    assert_int_equal(sl_traces_list(s.traces, T0, states), SL_TRACES_MAX);
    decide(&s, "k", NULL, NULL, T0); /* one for each */
    for (unsigned i = 0; i < SL_TRACES_MAX; i++) {
        assert_int_equal(read_after(&s, ids[i], 0, T0), 1);
        for (unsigned j = 0; j < i; j++)
            assert_true(ids[i] != ids[j]);
        assert_int_equal(sl_traces_disarm(s.traces, ids[i]), 0);
    }
    assert_int_equal(s.n_on, 1);
    assert_int_equal(s.n_off, 1);
    for (unsigned i = 0; i < SL_TRACES_DECISIONS / SL_TRACE_DECISIONS_MAX; i++)
        arm(&s, "k", NULL, NULL, SL_TRACE_DECISIONS_MAX);
    order.count = SL_TRACES_DECISIONS % SL_TRACE_DECISIONS_MAX;
    assert_int_equal(sl_traces_arm(s.traces, &order, 64, T0, &id), 0);
    order.count = 1;
    assert_int_equal(sl_traces_arm(s.traces, &order, 64, T0, &id), SL_EBUSY);
    sl_traces_free(s.traces);
}

static void a_trace_ends_with_its_time_or_its_reader(void **state)
{
    struct sl_trace_state states[SL_TRACES_MAX];
    struct stage s;
    uint64_t id, left, now = T0;

    (void)state;
    open_stage(&s);
    id = arm(&s, "k", NULL, NULL, 10);
    left = arm(&s, "k", NULL, NULL, 10);
    for (unsigned i = 0; i < 59; i++) { /* asked for each second */
        now += S;
        assert_int_equal(read_after(&s, id, 0, now), 0);
        sl_traces_sweep(s.traces, now);
    }
    assert_int_equal(sl_traces_list(s.traces, now, states), 2);
    assert_int_equal(told.left_us, S);
    assert_int_equal(read_after(&s, left, 0, now), 0);
    assert_int_equal(told.phase, SL_TRACE_EXPIRED); /* nobody had asked for half a minute */
    decide(&s, "k", NULL, "before the end", now);
    now = T0 + 60 * S;
    decide(&s, "k", NULL, "at the end", now); /* too late, also before anybody has swept */
    assert_int_equal(read_after(&s, id, 0, now), 1);
    assert_int_equal(told.phase, SL_TRACE_EXPIRED);
    assert_int_equal(s.n_off, 1);
    sl_traces_sweep(s.traces, now + SL_TRACE_IDLE_US - 1);
    assert_int_equal(read_after(&s, id, 0, now + SL_TRACE_IDLE_US - 1), 1);
    sl_traces_sweep(s.traces, now + 2 * SL_TRACE_IDLE_US);
    assert_int_equal(read_after(&s, id, 0, now + 2 * SL_TRACE_IDLE_US), SL_ENOTFOUND);
    assert_int_equal(sl_traces_list(s.traces, now + 2 * SL_TRACE_IDLE_US, states), 0);
    sl_traces_free(s.traces);
}

/* It needs no reader, and its decisions are given to the log once. */
static void a_trace_for_the_log(void **state)
{
    struct sl_trace_order order = {.whom = request_of("k\xff", NULL, NULL), .count = 2, .for_us = 300 * S, .log = true};
    struct stage s;
    struct sl_traced decision;
    uint64_t id;

    (void)state;
    open_stage(&s);
    assert_int_equal(sl_traces_arm(s.traces, &order, 64, T0, &id), 0);
    sl_traces_sweep(s.traces, T0 + 200 * S);
    assert_false(sl_traces_next_to_log(s.traces, &decision, &told));
    decide(&s, "k\xff", NULL, "one", T0 + 200 * S);
    assert_true(sl_traces_next_to_log(s.traces, &decision, &told));
    assert_string_equal(decision.scope, "one");
    assert_string_equal(told.key, "k\xef\xbf\xbd");
    assert_int_equal(told.id, id);
    assert_false(sl_traces_next_to_log(s.traces, &decision, &told));
    decide(&s, "k\xff", NULL, "two", T0 + 201 * S);
    sl_traces_sweep(s.traces, T0 + 300 * S); /* does not go before the log has it */
    assert_true(sl_traces_next_to_log(s.traces, &decision, &told));
    assert_int_equal(decision.seq, 2);
    sl_traces_sweep(s.traces, T0 + 300 * S);
    assert_int_equal(read_after(&s, id, 0, T0 + 201 * S + SL_TRACE_IDLE_US), SL_ENOTFOUND);
    sl_traces_free(s.traces);
}

/* Whoever armed it goes at once when it has its decisions: the log has them all the same. */
static void the_log_is_given_what_was_recorded_before_the_end(void **state)
{
    struct sl_trace_order order = {.whom = request_of("k", NULL, NULL), .count = 9, .for_us = S, .log = true};
    struct sl_trace_state states[SL_TRACES_MAX];
    struct stage s;
    struct sl_traced decision;
    uint64_t id;

    (void)state;
    open_stage(&s);
    assert_int_equal(sl_traces_arm(s.traces, &order, 64, T0, &id), 0);
    decide(&s, "k", NULL, "one", T0);
    assert_int_equal(sl_traces_disarm(s.traces, id), 0);
    assert_int_equal(s.n_off, 1);
    decide(&s, "k", NULL, "two", T0);
    assert_int_equal(sl_traces_disarm(s.traces, id), SL_ENOTFOUND);
    assert_int_equal(read_after(&s, id, 0, T0), SL_ENOTFOUND);
    assert_int_equal(sl_traces_list(s.traces, T0, states), 0);
    assert_true(sl_traces_next_to_log(s.traces, &decision, &told));
    assert_string_equal(decision.scope, "one");
    assert_false(sl_traces_next_to_log(s.traces, &decision, &told));
    sl_traces_sweep(s.traces, T0);
    for (unsigned i = 0; i < SL_TRACES_MAX; i++) /* its place is free */
        arm(&s, "k", NULL, NULL, 1);
    sl_traces_free(s.traces);
}

/* ---- threads, memory */

#define THREADS 4u

struct thread {
    struct stage *stage;
    pthread_t id;
};

static atomic_bool over;

static void *decide_all(void *ctx)
{
    struct thread *t = ctx;

    for (unsigned i = 0; !atomic_load(&over); i++)
        decide(t->stage, i % 4 ? "k" : "other", NULL, "s", T0);
    return NULL;
}

static void threads_decide_while_traces_come_and_go(void **state)
{
    struct stage s;
    struct thread threads[THREADS];

    (void)state;
    open_stage(&s);
    atomic_store(&over, false);
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].stage = &s;
        assert_int_equal(pthread_create(&threads[i].id, NULL, decide_all, &threads[i]), 0);
    }
    for (unsigned round = 0; round < 50; round++) {
        uint64_t id = arm(&s, "k", NULL, NULL, 50), after = 0;
        int n;

        while ((n = read_after(&s, id, after, T0)) > 0 || told.phase == SL_TRACE_ARMED)
            for (int i = 0; i < n; i++)
                assert_int_equal(list[i].seq, ++after); /* none missed, none twice */
        assert_int_equal(after, 50);
        assert_int_equal(sl_traces_disarm(s.traces, id), 0);
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    assert_int_equal(s.n_on, 50);
    assert_int_equal(s.n_off, 50);
    sl_traces_free(s.traces);
}

static void *refuse(void *ctx, void *p, size_t size)
{
    struct sl_alloc system = sl_alloc_system();
    unsigned *left = ctx;

    if (size > 0 && *left == 0)
        return NULL;
    *left -= size > 0;
    return system.realloc(system.ctx, p, size);
}

static void without_memory_nothing_is_armed(void **state)
{
    struct sl_trace_order order = {.whom = request_of("k", NULL, NULL), .count = 1, .for_us = S};
    struct sl_trace_state states[SL_TRACES_MAX];
    unsigned left = 0;
    struct sl_alloc failing = {.realloc = refuse, .ctx = &left};
    struct sl_traces *traces;
    uint64_t id;

    (void)state;
    assert_int_equal(sl_traces_new(&failing, &traces), SL_ENOMEM);
    left = 1;
    assert_int_equal(sl_traces_new(&failing, &traces), 0);
    assert_int_equal(sl_traces_arm(traces, &order, 64, T0, &id), SL_ENOMEM);
    assert_int_equal(sl_traces_list(traces, T0, states), 0);
    sl_traces_free(traces);
    sl_traces_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_decisions_of_one_key_are_kept),
        cmocka_unit_test(scopes_are_chosen_by_a_glob),
        cmocka_unit_test(an_address_is_traced_in_any_spelling),
        cmocka_unit_test(traces_and_their_decisions_are_bounded),
        cmocka_unit_test(a_trace_ends_with_its_time_or_its_reader),
        cmocka_unit_test(a_trace_for_the_log),
        cmocka_unit_test(the_log_is_given_what_was_recorded_before_the_end),
        cmocka_unit_test(threads_decide_while_traces_come_and_go),
        cmocka_unit_test(without_memory_nothing_is_armed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
