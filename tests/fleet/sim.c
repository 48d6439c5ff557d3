#include "sim.h"

#include "../core/world.h"
#include "fleet/lease_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define START_US UINT64_C(1800000000000000)
#define SWEEP_US UINT64_C(100000)
#define LOST_AFTER_US UINT64_C(10000)
#define REPLACED_AFTER_US UINT64_C(300000)
#define EVENTS_MAX (1u << 20)

const char *const sim_load_names[SIM_LOADS] = {"uniform", "one instance", "skewed", "burst from idle", "surge"};

enum what { REQUEST, AT_STORE, ANSWER, LOST, PUT_BACK, SWEEP, CRASH, LEAVE, JOIN };
enum kind { ASK, DEBIT, BACK };

struct event {
    uint64_t at_us, seq;
    enum what what;
    unsigned instance, life;
    enum kind kind;
    uint32_t tokens;
    uint64_t asked_us; /* the instance's clock */
    struct sl_decision decision;
};

struct instance {
    bool alive;
    unsigned life;     /* which one in this place */
    uint64_t ahead_us; /* its clock before the true one */
    uint64_t weight;   /* of 1000 */
    struct sl_leases *leases;
    struct sl_deny *deny;
};

struct sim {
    const struct sim_setup *setup;
    uint64_t seed, now_us, seq, end_us;
    struct event *heap;
    size_t n_events;
    struct instance instances[SIM_INSTANCES_MAX];
    struct sl_hash128 fp;
    struct sl_state state;
    uint64_t store_ahead_us;
    /* the meter, in tokens * PERIOD */
    unsigned __int128 level, level_peak;
    uint64_t level_us;
    uint64_t undecided, undecided_peak; /* tokens of requests that another limit may still reject */
    /* of a fixed window */
    uint64_t window, in_window;
    struct sim_result result;
};

static bool before(const struct event *x, const struct event *y)
{
    return x->at_us != y->at_us ? x->at_us < y->at_us : x->seq < y->seq;
}

static void push(struct sim *s, uint64_t at_us, struct event e)
{
    size_t i = s->n_events++;

    assert_true(s->n_events < EVENTS_MAX);
    e.at_us = at_us;
    e.seq = s->seq++;
    for (; i > 0 && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}

static struct event pop(struct sim *s)
{
    struct event first = s->heap[0], last = s->heap[--s->n_events];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < s->n_events; i = child) {
        if (child + 1 < s->n_events && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return first;
}

static uint64_t clock_of(const struct sim *s, const struct instance *i)
{
    return s->now_us + i->ahead_us;
}

static uint64_t leg_us(struct sim *s)
{
    uint64_t min = s->setup->rtt_min_us / 2, max = s->setup->rtt_max_us / 2;

    return min + world_below(&s->seed, max - min + 1);
}

/* ---- what is admitted, and the bounds of it */

static void admit(struct sim *s, uint32_t cost)
{
    const struct sl_shape *shape = &s->setup->shape;
    unsigned __int128 drained = (unsigned __int128)(s->now_us - s->level_us) * shape->count;
    uint64_t store_us = s->now_us + s->store_ahead_us;

    s->result.admitted += cost;
    if (s->now_us < START_US + s->setup->meter_from_us)
        return;
    s->level = s->level > drained ? s->level - drained : 0;
    s->level += (unsigned __int128)cost * shape->period_us;
    s->level_us = s->now_us;
    s->level_peak = s->level > s->level_peak ? s->level : s->level_peak;
    if (shape->algorithm == SL_FIXED_WINDOW) {
        if (store_us / shape->period_us != s->window) {
            s->window = store_us / shape->period_us;
            s->in_window = 0;
        }
        s->in_window += cost;
        if (s->in_window > shape->limit)
            fail_msg("%llu admitted in a window of %u", (unsigned long long)s->in_window, shape->limit);
        return;
    }
    if (s->level > (unsigned __int128)(shape->limit + s->setup->bound_extra + s->undecided_peak) * shape->period_us)
        fail_msg("%llu tokens above the rate: the bound is %u + %llu",
                 (unsigned long long)(s->level / shape->period_us), shape->limit,
                 (unsigned long long)s->setup->bound_extra);
    if (s->setup->meter_from_us == 0 && (unsigned __int128)s->result.admitted * shape->period_us >
                                            (unsigned __int128)shape->limit * shape->period_us +
                                                (unsigned __int128)(s->now_us - START_US) * shape->count)
        fail_msg("the long-run rate is exceeded");
}

/* Held and in flight never exceed the block. Returns how many that are. */
static uint32_t check_owned(const struct sim *s, const struct instance *i)
{
    struct sl_lease_set *set = sl_lease_set_of(i->leases, s->fp);
    struct sl_lease *l;
    uint32_t owned = 0;
    int at = -1;

    while ((l = sl_lease_next(set, s->fp, &at))) {
        uint32_t sum = 0;

        for (unsigned k = 0; k < l->n_lots; k++) {
            assert_true(l->lots[k].tokens > 0);
            sum += l->lots[k].tokens;
        }
        assert_int_equal(sum, l->held);
        assert_true(l->held + l->in_flight <= l->terms.block);
        owned += l->held + l->in_flight;
    }
    return owned;
}

/* What could be admitted at once, if it were asked for now. */
static void note_there(struct sim *s)
{
    struct sl_decision peek;
    uint64_t there;

    if (s->now_us < START_US + s->setup->meter_from_us)
        return;
    sl_decide(&s->setup->shape, s->state, s->now_us + s->store_ahead_us, 0, &peek);
    there = sl_decision_remaining(&s->setup->shape, &peek);
    for (unsigned i = 0; i < s->setup->n; i++)
        there += s->instances[i].alive ? check_owned(s, &s->instances[i]) : 0;
    if (there > s->result.there_peak)
        s->result.there_peak = there;
}

/* ---- the store */

static void send(struct sim *s, unsigned instance, enum kind kind, uint32_t tokens, const struct sl_decision *charge)
{
    struct event e = {.what = AT_STORE,
                      .instance = instance,
                      .life = s->instances[instance].life,
                      .kind = kind,
                      .tokens = tokens,
                      .asked_us = clock_of(s, &s->instances[instance])};

    if (charge)
        e.decision = *charge;
    s->result.operations++;
    s->result.debits += kind == DEBIT;
    s->result.asks += kind == ASK;
    s->result.backs += kind == BACK;
    push(s, s->now_us + leg_us(s), e);
}

static void at_store(struct sim *s, struct event e)
{
    uint64_t store_us = s->now_us + s->store_ahead_us;
    struct sl_shape shape = s->setup->shape;

    if (e.kind == BACK) {
        s->result.returned += e.tokens;
        sl_refund(&shape, s->state, &e.decision, store_us, &s->state);
        return;
    }
    if (e.kind == DEBIT)
        sl_lease_shape(&s->setup->shape, &s->setup->terms, &shape);
    sl_decide(&shape, s->state, store_us, e.tokens, &e.decision);
    if (e.decision.changed)
        s->state = e.decision.after;
    if (e.kind == DEBIT && e.decision.allowed)
        s->result.granted += e.tokens;
    if (world_below(&s->seed, 1000) < s->setup->lost_per_mille) {
        e.what = LOST;
        push(s, s->now_us + LOST_AFTER_US, e);
        return;
    }
    if (e.kind == ASK && e.decision.allowed)
        admit(s, e.tokens);
    e.what = ANSWER;
    push(s, s->now_us + leg_us(s), e);
}

static void answer(struct sim *s, const struct event *e)
{
    struct instance *i = &s->instances[e->instance];
    struct sl_lease_bucket bucket = {.fp = s->fp, .shape = &s->setup->shape};

    if (!i->alive || i->life != e->life)
        return;
    if (e->kind == DEBIT) {
        if (e->what == LOST) {
            sl_lease_failed(i->leases, s->fp, e->tokens, true);
            return;
        }
        sl_leases_note_rtt(i->leases, clock_of(s, i) - e->asked_us);
        sl_lease_granted(i->leases, &bucket, &s->setup->terms, &e->decision, e->asked_us, clock_of(s, i));
        check_owned(s, i);
    } else if (e->what == ANSWER) {
        s->result.rejected += !e->decision.allowed;
        sl_deny_learn(i->deny, s->fp, &s->setup->shape, &e->decision, e->asked_us);
        sl_lease_heard(i->leases, s->fp, &s->setup->shape, &e->decision, e->asked_us);
    }
}

/* ---- an instance */

/* Paid for, but another limit rejects it a little later. */
static void leave_undecided(struct sim *s, unsigned at, uint32_t cost)
{
    struct instance *i = &s->instances[at];

    s->undecided += cost;
    if (s->undecided > s->undecided_peak)
        s->undecided_peak = s->undecided;
    push(s, s->now_us + world_below(&s->seed, 5000),
         (struct event){.what = PUT_BACK, .instance = at, .life = i->life, .tokens = cost, .asked_us = clock_of(s, i)});
}

static void request(struct sim *s, unsigned at, uint32_t cost)
{
    struct instance *i = &s->instances[at];
    struct sl_lease_bucket bucket = {.fp = s->fp, .shape = &s->setup->shape};
    struct sl_decision known;
    struct sl_numbers numbers;
    uint64_t now_us = clock_of(s, i);
    uint32_t debit;

    s->result.decisions++;
    switch (sl_lease_take(i->leases, &bucket, &s->setup->terms, now_us, cost, true, &numbers, &debit)) {
    case SL_LEASE_TAKEN:
        assert_in_range(numbers.remaining, 0, s->setup->shape.limit);
        if (world_below(&s->seed, 100) < s->setup->elsewhere_percent)
            leave_undecided(s, at, cost);
        else
            admit(s, cost);
        break;
    case SL_LEASE_WAIT:
        assert_true(numbers.retry_after_ms >= 1 && numbers.remaining < cost);
        s->result.rejected++;
        break;
    case SL_LEASE_NONE:
        if (sl_deny_find(i->deny, s->fp, &s->setup->shape, now_us, UINT64_MAX, cost, &known))
            s->result.rejected++;
        else
            send(s, at, ASK, cost, NULL);
    }
    if (debit > 0)
        send(s, at, DEBIT, debit, NULL);
    check_owned(s, i);
}

struct sweeper {
    struct sim *s;
    unsigned at;
};

static void give_back(void *ctx, const struct sl_lease_bucket *bucket, uint32_t tokens,
                      const struct sl_decision *charge)
{
    struct sweeper *sweeper = ctx;

    assert_true(sl_shape_equal(bucket->shape, &sweeper->s->setup->shape));
    send(sweeper->s, sweeper->at, BACK, tokens, charge);
}

static void debit(void *ctx, const struct sl_lease_bucket *bucket, const struct sl_lease_terms *terms, uint32_t tokens)
{
    struct sweeper *sweeper = ctx;

    (void)bucket;
    assert_true(tokens <= terms->block);
    send(sweeper->s, sweeper->at, DEBIT, tokens, NULL);
}

static void sweep(struct sim *s, unsigned at, bool all)
{
    struct sweeper sweeper = {.s = s, .at = at};
    struct sl_lease_errands errands = {.give_back = give_back, .debit = debit, .ctx = &sweeper};

    sl_leases_sweep(s->instances[at].leases, clock_of(s, &s->instances[at]), all, &errands);
    note_there(s);
}

static void next_request(struct sim *s, unsigned at)
{
    const struct sim_setup *setup = s->setup;
    uint64_t per_s = setup->offered_per_s * s->instances[at].weight / 1000, gone_us = s->now_us - START_US, mean_us;
    uint64_t idle_us = 0;

    if (setup->load == SIM_BURST && gone_us % 2000000 >= 200000)
        idle_us = 2000000 - gone_us % 2000000;
    else if (setup->load == SIM_BURST)
        per_s *= 10;
    else if (setup->load == SIM_SURGE)
        per_s = gone_us < setup->for_us / 2 ? per_s / 20 : 6 * per_s;
    if (per_s < 1)
        per_s = 1;
    mean_us = 1000000 / per_s;
    push(s, s->now_us + idle_us + world_below(&s->seed, 2 * mean_us + 1),
         (struct event){.what = REQUEST,
                        .instance = at,
                        .life = s->instances[at].life,
                        .tokens = 1 + (uint32_t)world_below(&s->seed, setup->cost_max)});
}

static void join(struct sim *s, unsigned at)
{
    struct instance *i = &s->instances[at];
    struct sl_alloc alloc = sl_alloc_system();

    assert_int_equal(sl_leases_new(64, &alloc, &i->leases), 0);
    assert_int_equal(sl_deny_new(64, &alloc, &i->deny), 0);
    i->ahead_us = world_below(&s->seed, UINT64_C(7200000000));
    i->alive = true;
    i->life++;
    if (i->weight > 0)
        next_request(s, at);
    push(s, s->now_us + world_below(&s->seed, SWEEP_US),
         (struct event){.what = SWEEP, .instance = at, .life = i->life});
}

static void end(struct sim *s, unsigned at, bool orderly)
{
    struct instance *i = &s->instances[at];

    if (!i->alive)
        return;
    if (orderly)
        sweep(s, at, true);
    sl_leases_free(i->leases);
    sl_deny_free(i->deny);
    i->alive = false;
    push(s, s->now_us + REPLACED_AFTER_US, (struct event){.what = JOIN, .instance = at});
}

static void live(struct sim *s, const struct event *e)
{
    struct instance *i = &s->instances[e->instance];

    if (!i->alive || i->life != e->life) {
        s->undecided -= e->what == PUT_BACK ? e->tokens : 0;
        return;
    }
    if (e->what == PUT_BACK) {
        s->undecided -= e->tokens;
        sl_lease_put_back(i->leases, s->fp, e->tokens, e->asked_us);
        check_owned(s, i);
    } else if (e->what == SWEEP) {
        sweep(s, e->instance, false);
        push(s, s->now_us + SWEEP_US, *e);
    } else {
        request(s, e->instance, e->tokens);
        next_request(s, e->instance);
    }
}

static void handle(struct sim *s, const struct event *e)
{
    switch (e->what) {
    case AT_STORE:
        at_store(s, *e);
        break;
    case ANSWER:
    case LOST:
        answer(s, e);
        break;
    case CRASH:
        end(s, e->instance, false);
        break;
    case LEAVE:
        end(s, e->instance, true);
        break;
    case JOIN:
        join(s, e->instance);
        break;
    default:
        live(s, e);
    }
}

static void set_weights(struct sim *s)
{
    unsigned n = s->setup->n;
    uint64_t sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum += 1000 / (i + 1);
    for (unsigned i = 0; i < n; i++) {
        struct instance *instance = &s->instances[i];

        instance->weight = 1000 / n;
        if (s->setup->load == SIM_ONE)
            instance->weight = i == 0 ? 1000 : 0;
        else if (s->setup->load == SIM_SKEWED)
            instance->weight = 1000 * (1000 / (i + 1)) / sum;
    }
}

static void plan(struct sim *s, enum what what, unsigned times)
{
    while (times-- > 0)
        push(s, START_US + world_below(&s->seed, s->setup->for_us),
             (struct event){.what = what, .instance = (unsigned)world_below(&s->seed, s->setup->n)});
}

struct sim_result sim_run(const struct sim_setup *setup, uint64_t seed)
{
    struct sim *s = calloc(1, sizeof *s);
    struct sim_result result;

    assert_non_null(s);
    s->setup = setup;
    s->seed = seed;
    s->now_us = s->level_us = START_US;
    s->end_us = START_US + setup->for_us;
    s->store_ahead_us = world_below(&s->seed, UINT64_C(7200000000));
    s->fp = (struct sl_hash128){world_random(&s->seed), world_random(&s->seed)};
    s->heap = malloc(EVENTS_MAX * sizeof *s->heap);
    assert_non_null(s->heap);
    set_weights(s);
    for (unsigned i = 0; i < setup->n; i++)
        join(s, i);
    plan(s, CRASH, setup->crashes);
    plan(s, LEAVE, setup->leaves);
    while (s->n_events > 0 && s->heap[0].at_us < s->end_us) {
        struct event e = pop(s);

        s->now_us = e.at_us;
        handle(s, &e);
    }
    for (unsigned i = 0; i < setup->n; i++)
        if (s->instances[i].alive) {
            sl_leases_free(s->instances[i].leases);
            sl_deny_free(s->instances[i].deny);
        }
    result = s->result;
    result.peak = (uint64_t)((s->level_peak + setup->shape.period_us - 1) / setup->shape.period_us);
    free(s->heap);
    free(s);
    return result;
}
