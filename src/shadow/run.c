/* A run's life: everything is opened by whoever starts it, then belongs to the thread, and is freed by whoever joins
 * that. */
#include "shadow/run.h"

#include "base/err.h"
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOWEST_PRIORITY 19

/* ---- on the thread */

static void close_handles(struct sl_shadow_run *run)
{
    uv_close((uv_handle_t *)&run->tick, NULL);
    uv_close((uv_handle_t *)&run->wake, NULL);
}

static void on_lane_stopped(void *ctx)
{
    struct sl_shadow_run *run = ctx;

    sl_lane_free(run->lane);
    run->lane = NULL;
    close_handles(run);
}

static void begin_to_stop(struct sl_shadow_run *run)
{
    run->stopping = true;
    uv_timer_stop(&run->tick);
    if (run->lane)
        sl_lane_stop(run->lane, on_lane_stopped, run);
    else
        close_handles(run);
}

/* The first decisions are not for failure modes only because the store has not been reached yet. */
static bool is_settled(struct sl_shadow_run *run)
{
    if (!run->settled)
        run->settled = !run->lane || (sl_lane_ready(run->lane) && !run->unkeyed) || uv_hrtime() >= run->settles_ns;
    return run->settled;
}

static void on_tick(uv_timer_t *tick)
{
    struct sl_shadow_run *run = tick->data;
    bool more = false;

    if (run->unkeyed)
        sl_shadow_run_rekey(run);
    if (is_settled(run))
        more = sl_shadow_run_drain(run);
    uv_timer_start(tick, on_tick, more ? 0 : SL_SHADOW_TICK_MS, 0);
}

static void on_wake(uv_async_t *wake)
{
    struct sl_shadow_run *run = wake->data;

    if (atomic_load(&run->stop) && !run->stopping)
        begin_to_stop(run);
}

static void *run_thread(void *ctx)
{
    struct sl_shadow_run *run = ctx;

    pthread_setname_np(pthread_self(), "shadow");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST_PRIORITY); /* of this thread alone, on Linux */
    uv_run(&run->loop, UV_RUN_DEFAULT);
    pthread_mutex_lock(&run->lock);
    run->ended = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

/* ---- what the lane tells */

static void on_secret(void *owner, const struct sl_secret *secret)
{
    (void)secret; /* the fleet knows the latest one */
    sl_shadow_run_rekey(owner);
}

static void on_odd(void *owner, const char *text)
{
    struct sl_shadow_run *run = owner;

    sl_shadow_say(run->shadow, SL_SHADOW_WARNING, "%s", text);
}

/* ---- opening */

static int open_limiter(struct sl_shadow_run *run, char *why, size_t why_size)
{
    const struct sl_shadow_config *config = &run->shadow->config;
    struct sl_table_options options = sl_table_defaults();
    struct sl_table *table;
    struct sl_policy *policy;
    int err;

    options.keys = config->table_keys < SL_SHADOW_TABLE_KEYS_MAX ? config->table_keys : SL_SHADOW_TABLE_KEYS_MAX;
    options.log_entries =
        config->table_log_entries < SL_SHADOW_TABLE_KEYS_MAX ? config->table_log_entries : SL_SHADOW_TABLE_KEYS_MAX;
    options.alloc = run->alloc;
    run->begun_us = sl_table_now(config->live);
    if (!config->store) /* time is that of the live decisions; by a clock of its own they might all be too early */
        options.clock = sl_clock_manual(&run->begun_us);
    err = sl_table_open(&options, &table, why, why_size);
    if (err)
        return err;
    run->secret = sl_table_secret(table);
    err = sl_shadow_compile(run, &run->text, run->name, &run->secret, &policy, why, why_size);
    if (!err) {
        err = sl_limiter_new(table, policy, &run->alloc, &run->limiter);
        if (!err)
            return 0;
        sl_policy_unref(policy);
        snprintf(why, why_size, "%s", sl_err_text(err));
    }
    sl_table_close(&table);
    return err;
}

static int open_fleet(struct sl_shadow_run *run, char *why, size_t why_size)
{
    const struct sl_shadow_config *config = &run->shadow->config;
    const struct sl_fleet_config fleet = {
        .limiter = run->limiter,
        .alloc = &run->alloc,
        .store = config->store,
        .ns = run->shadow->ns,
        .keys_ns = config->ns,
        .timeout_us = config->timeout_us > SL_SHADOW_TIMEOUT_US ? config->timeout_us : SL_SHADOW_TIMEOUT_US,
        .instances = config->instances,
        .secret = on_secret,
        .odd = on_odd,
        .owner = run};
    int err;

    if (!config->store)
        return 0;
    err = sl_shadow_run_open_flights(run);
    if (err) {
        snprintf(why, why_size, "%s", sl_err_text(err));
        return err;
    }
    err = sl_fleet_new(&fleet, &run->fleet, why, why_size);
    if (!err)
        sl_fleet_set_secret(run->fleet, &run->secret);
    return err;
}

static int fail_loop(struct sl_shadow_run *run, const char *what, char *why, size_t why_size)
{
    (void)run;
    snprintf(why, why_size, "the shadow's loop cannot be opened: %s", what);
    return SL_EIO;
}

/* On failure nothing is left of it. */
static int open_loop(struct sl_shadow_run *run, char *why, size_t why_size)
{
    int err = uv_loop_init(&run->loop);

    if (err)
        return fail_loop(run, uv_strerror(err), why, why_size);
    err = uv_async_init(&run->loop, &run->wake, on_wake);
    if (err) {
        uv_loop_close(&run->loop);
        return fail_loop(run, uv_strerror(err), why, why_size);
    }
    uv_timer_init(&run->loop, &run->tick); /* cannot fail */
    run->wake.data = run->tick.data = run;
    run->settles_ns = uv_hrtime() + SL_SHADOW_AWAIT_MS * UINT64_C(1000000);
    uv_timer_start(&run->tick, on_tick, 0, 0);
    err = run->fleet ? sl_net_uv_init(&run->net, &run->loop, &run->alloc) : 0;
    run->has_net = run->fleet && !err;
    if (!err && run->fleet)
        err = sl_lane_new(run->fleet, &run->net.net, &run->lane, why, why_size);
    else if (err)
        snprintf(why, why_size, "%s", sl_err_text(err));
    return err;
}

/* Of one whose thread does not run. */
static void close_loop(struct sl_shadow_run *run)
{
    sl_lane_free(run->lane);
    run->lane = NULL;
    if (!uv_is_closing((uv_handle_t *)&run->tick))
        close_handles(run);
    uv_run(&run->loop, UV_RUN_DEFAULT);
}

/* Everything but the thread; the loop has run out, or was never opened. */
static void free_run(struct sl_shadow_run *run)
{
    struct sl_alloc alloc = run->alloc;

    if (run->has_net)
        sl_net_uv_fini(&run->net);
    if (run->has_loop)
        uv_loop_close(&run->loop);
    sl_fleet_free(run->fleet);
    sl_limiter_free(run->limiter);
    sl_overrides_unref(run->overrides);
    sl_version_text_free(&alloc, &run->text);
    sl_free(&alloc, run->name);
    sl_free(&alloc, run->flights);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
    sl_free(&alloc, run);
}

static int open_run(struct sl_shadow_run *run, char *why, size_t why_size)
{
    int err = open_limiter(run, why, why_size);

    if (!err)
        err = open_fleet(run, why, why_size);
    if (err)
        return err;
    for (unsigned i = 0; i < atomic_load(&run->shadow->n_ways); i++) {
        struct sl_ring *ring = atomic_load_explicit(&run->shadow->ways[i].ring, memory_order_acquire);

        if (ring)
            sl_ring_clear(ring); /* what was offered to an earlier run */
    }
    err = open_loop(run, why, why_size);
    run->has_loop = !err || run->tick.data;
    if (!err) {
        err = pthread_create(&run->thread, NULL, run_thread, run);
        if (err)
            snprintf(why, why_size, "the shadow's thread cannot be started: %s", strerror(err));
        err = err ? SL_EBUSY : 0;
    }
    if (err && run->has_loop)
        close_loop(run);
    return err;
}

static void init_lock(struct sl_shadow_run *run)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&run->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&run->lock, NULL);
}

int sl_shadow_run_new(struct sl_shadow *shadow, const struct sl_version_text *text, const char *name,
                      struct sl_shadow_run **ret_run, char *why, size_t why_size)
{
    struct sl_shadow_run *run = sl_calloc(&shadow->alloc, 1, sizeof *run);
    sigset_t before;
    int err;

    snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
    if (!run)
        return SL_ENOMEM;
    run->shadow = shadow;
    run->alloc = shadow->alloc;
    run->overrides = shadow->overrides ? sl_overrides_ref(shadow->overrides) : NULL;
    init_lock(run);
    run->name = sl_strndup(&run->alloc, name, strlen(name));
    err = run->name ? sl_shadow_copy_text(&run->alloc, text, &run->text) : SL_ENOMEM;
    if (!err) {
        sl_block_signals(&before);
        err = open_run(run, why, why_size);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (err)
        free_run(run);
    else
        *ret_run = run;
    return err;
}

/* ---- ending */

void sl_shadow_run_stop(struct sl_shadow_run *run)
{
    atomic_store(&run->stop, true);
    uv_async_send(&run->wake);
}

bool sl_shadow_run_join(struct sl_shadow_run *run, unsigned ms)
{
    struct timespec until = sl_time_in_ms(CLOCK_MONOTONIC, ms);
    int err = 0;
    bool ended;

    pthread_mutex_lock(&run->lock);
    while (!run->ended && err != ETIMEDOUT)
        err = ms ? pthread_cond_timedwait(&run->changed, &run->lock, &until)
                 : pthread_cond_wait(&run->changed, &run->lock);
    ended = run->ended;
    pthread_mutex_unlock(&run->lock);
    if (!ended)
        return false;
    pthread_join(run->thread, NULL);
    free_run(run);
    return true;
}
