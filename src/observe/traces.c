#include "observe/traces.h"

#include "base/err.h"
#include "policy/glob.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct trace {
    uint64_t id; /* 0: free */
    struct sl_hash128 hash;
    char type[SLUICE_NAME_MAX];
    size_t type_len;
    char glob[SL_TRACE_GLOB_MAX];
    size_t glob_len;
    bool any_scope, log;
    bool ended; /* by who armed it: it is there only for what the log has still to be given */
    enum sl_trace_phase phase;
    unsigned count, recorded, logged;
    uint64_t until_us, read_us; /* when it ends; when it was last asked for */
    char key[SL_SHOWN_MAX(SLUICE_KEY_MAX)];
    struct sl_traced *decisions; /* `count` of them */
};

struct sl_traces {
    struct sl_alloc alloc;
    struct sl_secret secret;
    /* What deciding threads look at without the lock: the keys of those that are armed, 0 for the rest. */
    atomic_uint_fast64_t watched[SL_TRACES_MAX];
    atomic_uint ipv6_prefix;
    pthread_mutex_t lock; /* what follows */
    void (*turn)(void *ctx, bool on);
    void *ctx;
    bool on;
    unsigned n_decisions; /* room that the traces have taken */
    uint64_t n_ids;
    struct trace list[SL_TRACES_MAX];
};

/* ---- life */

int sl_traces_new(const struct sl_alloc *alloc, struct sl_traces **ret_traces)
{
    struct sl_traces *traces = sl_calloc(alloc, 1, sizeof *traces);

    if (!traces)
        return SL_ENOMEM;
    traces->alloc = *alloc;
    if (sl_secret_random(&traces->secret)) {
        sl_free(alloc, traces);
        return SL_EIO;
    }
    pthread_mutex_init(&traces->lock, NULL);
    atomic_init(&traces->ipv6_prefix, 64);
    *ret_traces = traces;
    return 0;
}

void sl_traces_free(struct sl_traces *traces)
{
    struct sl_alloc alloc;

    if (!traces)
        return;
    alloc = traces->alloc;
    for (unsigned i = 0; i < SL_TRACES_MAX; i++)
        sl_free(&alloc, traces->list[i].decisions);
    pthread_mutex_destroy(&traces->lock);
    sl_free(&alloc, traces);
}

void sl_traces_set_switch(struct sl_traces *traces, void (*turn)(void *ctx, bool on), void *ctx)
{
    pthread_mutex_lock(&traces->lock);
    traces->turn = turn;
    traces->ctx = ctx;
    pthread_mutex_unlock(&traces->lock);
}

/* ---- what changes: with the lock */

static void turn(struct sl_traces *traces)
{
    bool on = false;

    for (unsigned i = 0; i < SL_TRACES_MAX; i++)
        on |= traces->list[i].id && traces->list[i].phase == SL_TRACE_ARMED;
    if (on == traces->on)
        return;
    traces->on = on;
    if (traces->turn)
        traces->turn(traces->ctx, on);
}

/* From here on it waits for its reader. */
static void end(struct sl_traces *traces, struct trace *trace, enum sl_trace_phase phase, uint64_t now_us)
{
    trace->phase = phase;
    trace->read_us = now_us;
    atomic_store(&traces->watched[trace - traces->list], 0);
    turn(traces);
}

static void drop(struct sl_traces *traces, struct trace *trace)
{
    if (trace->phase == SL_TRACE_ARMED)
        end(traces, trace, SL_TRACE_EXPIRED, 0);
    traces->n_decisions -= trace->count;
    sl_free(&traces->alloc, trace->decisions);
    *trace = (struct trace){0};
}

static bool is_left(const struct trace *trace, uint64_t now_us)
{
    return now_us > trace->read_us && now_us - trace->read_us >= SL_TRACE_IDLE_US;
}

static void sweep(struct sl_traces *traces, uint64_t now_us)
{
    for (unsigned i = 0; i < SL_TRACES_MAX; i++) {
        struct trace *trace = &traces->list[i];
        bool all_logged = !trace->log || trace->logged == trace->recorded;

        if (!trace->id)
            continue;
        if (trace->phase == SL_TRACE_ARMED && (now_us >= trace->until_us || (!trace->log && is_left(trace, now_us))))
            end(traces, trace, SL_TRACE_EXPIRED, now_us);
        if (trace->phase != SL_TRACE_ARMED && all_logged && (trace->ended || is_left(trace, now_us)))
            drop(traces, trace);
    }
}

static struct trace *find(struct sl_traces *traces, uint64_t id)
{
    for (unsigned i = 0; id && i < SL_TRACES_MAX; i++)
        if (traces->list[i].id == id && !traces->list[i].ended)
            return &traces->list[i];
    return NULL;
}

static struct trace *find_free(struct sl_traces *traces)
{
    for (unsigned i = 0; i < SL_TRACES_MAX; i++)
        if (!traces->list[i].id)
            return &traces->list[i];
    return NULL;
}

static uint64_t new_id(struct sl_traces *traces)
{
    uint64_t n = ++traces->n_ids, id = sl_hash13(traces->secret, &n, sizeof n).a;

    return id ? id : 1;
}

static void take_order(struct trace *trace, const struct sl_trace_order *order, const struct sl_who *who)
{
    trace->type_len = who->type_len < sizeof trace->type ? who->type_len : sizeof trace->type;
    memcpy(trace->type, who->type, trace->type_len);
    sl_show(trace->key, who->key, who->key_len, who->key_len < SLUICE_KEY_MAX ? who->key_len : SLUICE_KEY_MAX);
    trace->any_scope = !order->glob;
    trace->glob_len = order->glob_len < sizeof trace->glob ? order->glob_len : sizeof trace->glob;
    if (order->glob)
        memcpy(trace->glob, order->glob, trace->glob_len);
    trace->count = order->count;
    trace->log = order->log;
}

/* What makes a watched word of a hash: never 0. */
static uint64_t word_of(struct sl_hash128 hash)
{
    return hash.a ? hash.a : 1;
}

int sl_traces_arm(struct sl_traces *traces, const struct sl_trace_order *order, unsigned ipv6_prefix, uint64_t now_us,
                  uint64_t *ret_id)
{
    struct sl_traced *decisions = sl_calloc(&traces->alloc, order->count, sizeof *decisions);
    struct trace *trace = NULL;
    struct sl_who who;

    if (!decisions)
        return SL_ENOMEM;
    sl_who_of(&who, &order->whom, ipv6_prefix);
    pthread_mutex_lock(&traces->lock);
    sweep(traces, now_us);
    if (order->count <= SL_TRACES_DECISIONS - traces->n_decisions)
        trace = find_free(traces);
    if (trace) {
        take_order(trace, order, &who);
        trace->hash = sl_who_hash(&who, traces->secret);
        trace->decisions = decisions;
        trace->until_us = now_us + order->for_us;
        trace->read_us = now_us;
        trace->id = *ret_id = new_id(traces);
        traces->n_decisions += order->count;
        atomic_store(&traces->ipv6_prefix, ipv6_prefix);
        atomic_store(&traces->watched[trace - traces->list], word_of(trace->hash));
        turn(traces);
    }
    pthread_mutex_unlock(&traces->lock);
    if (!trace)
        sl_free(&traces->alloc, decisions);
    return trace ? 0 : SL_EBUSY;
}

/* ---- on deciding threads */

static struct sl_hash128 hash_of(struct sl_traces *traces, const struct sluice_request *request, struct sl_who *ret_who)
{
    sl_who_of(ret_who, request, atomic_load_explicit(&traces->ipv6_prefix, memory_order_relaxed));
    return sl_who_hash(ret_who, traces->secret);
}

static bool is_watched(struct sl_traces *traces, struct sl_hash128 hash)
{
    uint64_t word = word_of(hash);

    for (unsigned i = 0; i < SL_TRACES_MAX; i++)
        if (atomic_load_explicit(&traces->watched[i], memory_order_relaxed) == word)
            return true;
    return false;
}

bool sl_traces_want(struct sl_traces *traces, const struct sluice_request *request)
{
    struct sl_who who;

    return is_watched(traces, hash_of(traces, request, &who));
}

static bool is_about(const struct trace *trace, const struct sl_who *who, struct sl_hash128 hash,
                     const struct sluice_request *request)
{
    return trace->id && trace->phase == SL_TRACE_ARMED && trace->hash.a == hash.a && trace->hash.b == hash.b &&
           trace->type_len == who->type_len && memcmp(trace->type, who->type, who->type_len) == 0 &&
           (trace->any_scope || sl_glob_match(trace->glob, trace->glob_len, request->scope ? request->scope : "",
                                              request->scope ? request->scope_len : 0));
}

static void keep(struct sl_traces *traces, struct trace *trace, const struct sluice_request *request,
                 const struct sl_traced *decision, uint64_t now_us)
{
    struct sl_traced *kept = &trace->decisions[trace->recorded++];
    size_t len = request->scope ? request->scope_len : 0;

    *kept = *decision;
    kept->seq = trace->recorded;
    sl_show(kept->scope, request->scope, len, len < SL_TRACE_SCOPE_MAX ? len : SL_TRACE_SCOPE_MAX);
    if (trace->recorded == trace->count)
        end(traces, trace, SL_TRACE_COMPLETE, now_us);
}

void sl_traces_record(struct sl_traces *traces, const struct sluice_request *request, const struct sl_traced *decision,
                      uint64_t now_us)
{
    struct sl_who who;
    struct sl_hash128 hash = hash_of(traces, request, &who);

    if (!is_watched(traces, hash))
        return;
    pthread_mutex_lock(&traces->lock);
    for (unsigned i = 0; i < SL_TRACES_MAX; i++) {
        struct trace *trace = &traces->list[i];

        if (is_about(trace, &who, hash, request) && now_us < trace->until_us)
            keep(traces, trace, request, decision, now_us);
    }
    pthread_mutex_unlock(&traces->lock);
}

/* ---- reading */

static void state_of(const struct trace *trace, uint64_t now_us, struct sl_trace_state *ret)
{
    bool runs = trace->phase == SL_TRACE_ARMED && now_us < trace->until_us;

    *ret = (struct sl_trace_state){.id = trace->id,
                                   .phase = trace->phase,
                                   .count = trace->count,
                                   .recorded = trace->recorded,
                                   .left_us = runs ? trace->until_us - now_us : 0,
                                   .log = trace->log};
    if (trace->phase == SL_TRACE_ARMED && !runs)
        ret->phase = SL_TRACE_EXPIRED;
    memcpy(ret->key, trace->key, sizeof ret->key);
    sl_show(ret->key_type, trace->type, trace->type_len, trace->type_len);
    sl_show(ret->glob, trace->glob, trace->glob_len, trace->glob_len);
}

int sl_traces_read(struct sl_traces *traces, uint64_t id, uint64_t after, struct sl_traced *ret_list, unsigned max,
                   uint64_t now_us, struct sl_trace_state *ret_state)
{
    struct trace *trace;
    int n = SL_ENOTFOUND;

    pthread_mutex_lock(&traces->lock);
    sweep(traces, now_us);
    trace = find(traces, id);
    if (trace) {
        trace->read_us = now_us;
        for (n = 0; (unsigned)n < max && after + (unsigned)n < trace->recorded; n++)
            ret_list[n] = trace->decisions[after + (unsigned)n];
        state_of(trace, now_us, ret_state);
    }
    pthread_mutex_unlock(&traces->lock);
    return n;
}

int sl_traces_disarm(struct sl_traces *traces, uint64_t id)
{
    struct trace *trace;

    pthread_mutex_lock(&traces->lock);
    trace = find(traces, id);
    if (trace && trace->logged < trace->recorded && trace->log) {
        if (trace->phase == SL_TRACE_ARMED)
            end(traces, trace, SL_TRACE_EXPIRED, 0);
        trace->ended = true;
    } else if (trace) {
        drop(traces, trace);
    }
    pthread_mutex_unlock(&traces->lock);
    return trace ? 0 : SL_ENOTFOUND;
}

unsigned sl_traces_list(struct sl_traces *traces, uint64_t now_us, struct sl_trace_state *ret_list)
{
    unsigned n = 0;

    pthread_mutex_lock(&traces->lock);
    sweep(traces, now_us);
    for (unsigned i = 0; i < SL_TRACES_MAX; i++)
        if (traces->list[i].id && !traces->list[i].ended)
            state_of(&traces->list[i], now_us, &ret_list[n++]);
    pthread_mutex_unlock(&traces->lock);
    return n;
}

unsigned sl_traces_armed(struct sl_traces *traces)
{
    unsigned n = 0;

    for (unsigned i = 0; i < SL_TRACES_MAX; i++)
        n += atomic_load(&traces->watched[i]) != 0;
    return n;
}

void sl_traces_sweep(struct sl_traces *traces, uint64_t now_us)
{
    pthread_mutex_lock(&traces->lock);
    sweep(traces, now_us);
    pthread_mutex_unlock(&traces->lock);
}

bool sl_traces_next_to_log(struct sl_traces *traces, struct sl_traced *ret_decision, struct sl_trace_state *ret_state)
{
    struct trace *trace = NULL;

    pthread_mutex_lock(&traces->lock);
    for (unsigned i = 0; i < SL_TRACES_MAX && !trace; i++)
        if (traces->list[i].id && traces->list[i].log && traces->list[i].logged < traces->list[i].recorded)
            trace = &traces->list[i];
    if (trace) {
        *ret_decision = trace->decisions[trace->logged++];
        state_of(trace, 0, ret_state);
    }
    pthread_mutex_unlock(&traces->lock);
    return trace != NULL;
}
