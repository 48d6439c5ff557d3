#include "sluiced/daemon.h"

#include "base/err.h"
#include "limiter/limiter.h"
#include "server/server.h"
#include "sluiced/log.h"
#include "sluiced/look.h"
#include "sluiced/notify.h"
#include "sluiced/overrides.h"
#include "sluiced/plane.h"
#include "sluiced/rehearsal.h"
#include "sluiced/see.h"
#include "sluiced/source.h"
#include "sluiced/tier.h"
#include "sluiced/watch.h"
#include "sluiced/webhooks.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#define SCAN_PERIOD_MS 1000
#define SCAN_ROUNDS 60 /* the whole table once a minute */
#define WHY_MAX 1024
#define COULD_NOT_START 2

struct daemon {
    const struct sl_config *config;
    struct sl_log log;
    struct sl_tier tier;
    struct sl_source source;
    struct sl_limiter *limiter;
    struct sl_look look;
    struct sl_plane plane;
    struct sl_override_desk overrides;
    struct sl_rehearsal rehearsal;
    struct sl_witnesses witnesses;
    struct sl_seeing seeing;
    struct sl_webhooks webhooks;
    struct sl_server *server;
    struct sl_watch watch;
    uv_loop_t loop;
    uv_signal_t hangup, terminate, interrupt;
    uv_timer_t scan, hung_up;
    uv_async_t stopped;
    char refused[WHY_MAX]; /* why it was started on the copy that was kept */
    bool stopping;
    bool drained; /* written by a thread of the server before `stopped` is sent */
};

/* ---- reloads ---- */

static enum sl_reload reload(struct daemon *daemon, const char *trigger, char *why, size_t why_size)
{
    char finding[WHY_MAX] = "";
    enum sl_reload result = sl_source_reload(&daemon->source, trigger, finding, sizeof finding);

    if (why)
        snprintf(why, why_size, "%s", finding);
    if (result == SL_RELOAD_IGNORED)
        sl_server_count_ignored(daemon->server);
    else
        sl_server_count_reload(daemon->server, result != SL_RELOAD_FAILED, finding);
    return result;
}

static void on_file_changed(void *ctx)
{
    reload(ctx, "the file changed", NULL, 0);
}

/* The keys_file of the policy in force, as the policy's reader finds it; that of a version came with it. */
static void name_keys_file(void *ctx, char *buf, size_t size)
{
    struct daemon *daemon = ctx;
    const char *path = daemon->config->policy, *slash = strrchr(path, '/');
    struct sl_policy *policy = sl_limiter_policy(daemon->limiter);
    const char *name = sl_policy_keys_file(policy);
    int folder = name && name[0] != '/' && slash ? (int)(slash - path) + 1 : 0;

    if (name && sl_source_runs(&daemon->source).number == 0)
        snprintf(buf, size, "%.*s%s", folder, path, name);
    sl_policy_unref(policy);
}

static void on_hung_up(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;

    if (sl_plane_hurry(&daemon->plane) && sl_source_runs(&daemon->source).number)
        sl_log(&daemon->log, SL_LOG_INFO, "SIGHUP: looking for another version of the policy on the store");
    else
        reload(daemon, "SIGHUP", NULL, 0);
}

/* However many wait, one look is enough: it comes after them all. A look for each would let a flood of SIGHUPs stand in
 * front of SIGTERM, and fill the pipe that both come through. */
static void on_hangup(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;

    (void)number;
    uv_timer_start(&daemon->hung_up, on_hung_up, 0, 0);
}

static int on_admin_reload(void *ctx, char *ret_why, size_t why_size)
{
    enum sl_reload result = reload(ctx, "asked to reload", ret_why, why_size);

    return result == SL_RELOAD_FAILED ? SL_EPOLICY : result == SL_RELOAD_IGNORED ? SL_EBUSY : 0;
}

/* ---- the end ---- */

static void on_stop_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;

    if (daemon->stopping) {
        sl_log(&daemon->log, SL_LOG_WARNING, "%s again: stopping at once", number == SIGTERM ? "SIGTERM" : "SIGINT");
        _exit(128 + number);
    }
    daemon->stopping = true;
    sl_notify("STOPPING=1");
    sl_server_stop(daemon->server, daemon->config->drain_timeout_us / 1000);
    sl_log(&daemon->log, SL_LOG_INFO, "%s: draining", number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* On a thread of the server. */
static void on_server_stopped(void *ctx, bool drained)
{
    struct daemon *daemon = ctx;

    daemon->drained = drained;
    uv_async_send(&daemon->stopped);
}

static void on_stopped(uv_async_t *handle)
{
    struct daemon *daemon = handle->data;

    if (!daemon->drained)
        sl_log(&daemon->log, SL_LOG_WARNING, "the drain timeout ended before the last request; connections were cut");
    uv_stop(&daemon->loop);
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Whatever was opened of the loop. */
static void close_loop(struct daemon *daemon)
{
    sl_watch_stop(&daemon->watch);
    uv_walk(&daemon->loop, close_handle, NULL);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    uv_loop_close(&daemon->loop);
}

/* ---- the start ---- */

static int fail(const char *why)
{
    fprintf(stderr, "sluiced: %s\n", why);
    return COULD_NOT_START;
}

static void on_server_log(void *ctx, enum sl_server_severity severity, const char *message)
{
    static const enum sl_log_level levels[] = {
        [SL_SERVER_ERROR] = SL_LOG_ERROR, [SL_SERVER_WARNING] = SL_LOG_WARNING, [SL_SERVER_INFO] = SL_LOG_INFO};
    struct daemon *daemon = ctx;

    sl_log(&daemon->log, levels[severity], "%s", message);
}

static unsigned n_workers(const struct sl_config *config)
{
    return config->workers ? (unsigned)config->workers : uv_available_parallelism();
}

static struct sl_server_options server_options(struct daemon *daemon)
{
    const struct sl_config *config = daemon->config;
    struct sl_server_options options = sl_server_defaults();

    options.listen = (const char *const *)config->listen.items;
    options.n_listen = config->listen.n;
    options.admin = (const char *const *)config->admin.items;
    options.n_admin = config->admin.n;
    options.tls_cert = config->tls_cert;
    options.tls_key = config->tls_key;
    options.tls_client_ca = config->tls_client_ca;
    options.check_token = config->check_token;
    options.admin_token = config->admin_token;
    options.admin_read_token = config->admin_read_token;
    options.workers = n_workers(config);
    options.unix_mode = sl_config_unix_mode(config);
    options.limits = (struct sl_server_limits){
        .max_connections = (unsigned)config->max_connections,
        .header_bytes = (unsigned)config->header_bytes,
        .body_bytes = (unsigned)config->body_bytes,
        .out_bytes = (unsigned)config->out_bytes,
        .max_streams = (unsigned)config->max_streams,
        .header_timeout_ms = (unsigned)(config->header_timeout_us / 1000),
        .request_timeout_ms = (unsigned)(config->request_timeout_us / 1000),
        .idle_timeout_ms = (unsigned)(config->idle_timeout_us / 1000),
        .write_timeout_ms = (unsigned)(config->write_timeout_us / 1000),
    };
    options.fleet = daemon->tier.fleet;
    options.alarms = &daemon->tier.alarms;
    options.ratios = daemon->look.ratios;
    options.top = daemon->look.top;
    options.see = &daemon->seeing.see;
    options.witnesses = &daemon->witnesses;
    options.notices = sl_webhooks_counts(&daemon->webhooks);
    options.hooks = (struct sl_server_hooks){
        .ctx = daemon, .log = on_server_log, .reload = on_admin_reload, .stopped = on_server_stopped};
    options.hooks.overrides = sl_overrides_take_job;
    options.hooks.overrides_ctx = &daemon->overrides;
    if (sl_tier_is_shared(&daemon->tier)) {
        options.hooks.policy = sl_plane_job;
        options.hooks.policy_ctx = &daemon->plane;
    }
    options.hooks.shadow = sl_rehearsal_job;
    options.hooks.shadow_totals = sl_rehearsal_totals;
    options.hooks.shadow_ctx = &daemon->rehearsal;
    return options;
}

static int open_table(const struct sl_config *config, struct sl_table **ret_table, char *why, size_t why_size)
{
    struct sl_table_options options = sl_table_defaults();

    options.keys = config->table_keys;
    options.log_entries = config->table_log_entries ? config->table_log_entries : config->table_keys;
    options.path = config->table;
    return sl_table_open(&options, ret_table, why, why_size);
}

/* Table, policy, limiter. On failure nothing is left and `why` says what is wrong. */
static int set_up_limiter(struct daemon *daemon, bool *ret_fallen_back, char *why, size_t why_size)
{
    const struct sl_config *config = daemon->config;
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_source_config source = {.path = config->policy,
                                      .state_dir = config->state,
                                      .has_store = sl_tier_is_shared(&daemon->tier),
                                      .region = config->region,
                                      .log = &daemon->log,
                                      .keyed = sl_tier_keyed,
                                      .judged = sl_tier_judged,
                                      .ctx = &daemon->tier};
    struct sl_table *table = NULL;
    struct sl_policy *policy = NULL;
    bool versions = source.has_store && config->policy_source == SL_POLICY_FROM_STORE;
    int err = open_table(config, &table, why, why_size);

    if (err)
        return err;
    if (versions) {
        source.versions = &daemon->tier.url;
        source.ns = config->namespace;
    }
    source.secret = sl_tier_secret(&daemon->tier, sl_table_secret(table));
    err = sl_source_init(&daemon->source, &source, why, why_size);
    if (!err)
        err = sl_source_first(&daemon->source, &policy, ret_fallen_back, why, why_size);
    if (!err && *ret_fallen_back)
        snprintf(daemon->refused, sizeof daemon->refused, "%s", why);
    if (!err) {
        err = sl_limiter_new(table, policy, &alloc, &daemon->limiter);
        if (err)
            snprintf(why, why_size, "%s", sl_err_text(err));
    }
    if (err) {
        sl_policy_unref(policy);
        sl_table_close(&table);
        sl_source_fini(&daemon->source);
        return err;
    }
    sl_source_attach(&daemon->source, daemon->limiter);
    return 0;
}

static void tear_down_limiter(struct daemon *daemon)
{
    sl_seeing_stop(&daemon->seeing);
    sl_look_stop(&daemon->look);
    sl_plane_stop(&daemon->plane);
    sl_overrides_stop(&daemon->overrides);
    sl_rehearsal_stop(&daemon->rehearsal);
    sl_webhooks_stop(&daemon->webhooks);
    sl_tier_stop(&daemon->tier);
    sl_limiter_free(daemon->limiter);
    sl_source_fini(&daemon->source);
}

static int set_up_rehearsal(struct daemon *daemon, char *why, size_t why_size)
{
    const struct sl_rehearsal_setting setting = {.config = daemon->config,
                                                 .tier = &daemon->tier,
                                                 .plane = &daemon->plane,
                                                 .source = &daemon->source,
                                                 .limiter = daemon->limiter,
                                                 .log = &daemon->log,
                                                 .witnesses = &daemon->witnesses,
                                                 .loop = &daemon->loop};

    return sl_rehearsal_start(&daemon->rehearsal, &setting, why, why_size);
}

static int set_up_server(struct daemon *daemon, char *why, size_t why_size)
{
    struct sl_server_options options = server_options(daemon);
    int err = sl_server_new(&options, daemon->limiter, &daemon->server, why, why_size);

    if (!err) {
        err = sl_server_start(daemon->server, why, why_size);
        if (err)
            sl_server_free(&daemon->server);
    }
    return err;
}

/* Once a second: keeps the count of live buckets current, a share of the table at a time, and looks for alarms. */
static void on_scan(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    struct sl_table *table = sl_limiter_table(daemon->limiter);
    struct sl_table_stats stats;

    sl_table_stats(table, &stats);
    sl_table_scan(table, stats.slots / SCAN_ROUNDS + 1);
    sl_look_now(&daemon->look);
    sl_seeing_look(&daemon->seeing);
}

static int watch_signal(struct daemon *daemon, uv_signal_t *handle, uv_signal_cb on_signal, int number)
{
    int err = uv_signal_init(&daemon->loop, handle);

    handle->data = daemon;
    return err ? err : uv_signal_start(handle, on_signal, number);
}

/* Without its signals a daemon could not be stopped: that is a start that failed. */
static int start_watching(struct daemon *daemon, char *why, size_t why_size)
{
    int err;

    uv_timer_init(&daemon->loop, &daemon->hung_up); /* cannot fail, as starting it cannot */
    daemon->hung_up.data = daemon;
    err = watch_signal(daemon, &daemon->hangup, on_hangup, SIGHUP);

    if (!err)
        err = watch_signal(daemon, &daemon->terminate, on_stop_signal, SIGTERM);
    if (!err)
        err = watch_signal(daemon, &daemon->interrupt, on_stop_signal, SIGINT);
    if (err) {
        snprintf(why, why_size, "signals cannot be watched: %s", uv_strerror(err));
        return SL_EIO;
    }
    uv_timer_init(&daemon->loop, &daemon->scan); /* cannot fail, as starting it cannot */
    daemon->scan.data = daemon;
    uv_timer_start(&daemon->scan, on_scan, SCAN_PERIOD_MS, SCAN_PERIOD_MS);
    err =
        sl_watch_start(&daemon->watch, &daemon->loop, daemon->config->policy, on_file_changed, name_keys_file, daemon);
    if (err)
        snprintf(why, why_size, "%s", sl_err_text(err));
    return err;
}

static void log_start(struct daemon *daemon)
{
    struct sl_policy *policy = sl_limiter_policy(daemon->limiter);
    const char *address;

    sl_log(&daemon->log, SL_LOG_INFO, "policy %.12s is in force, %zu limits", sl_policy_hash(policy),
           sl_policy_n_limits(policy));
    if (sl_policy_region(policy))
        sl_log(&daemon->log, SL_LOG_INFO, "this instance is in region %s", sl_policy_region(policy));
    sl_policy_unref(policy);
    if (sl_tier_is_shared(&daemon->tier))
        sl_log(&daemon->log, SL_LOG_INFO, "limits are shared on %s, namespace %s", daemon->tier.store,
               daemon->config->namespace);
    for (size_t i = 0; (address = sl_server_address(daemon->server, false, i)); i++)
        sl_log(&daemon->log, SL_LOG_INFO, "listening on %s", address);
    for (size_t i = 0; (address = sl_server_address(daemon->server, true, i)); i++) {
        sl_log(&daemon->log, SL_LOG_INFO, "admin on %s", address);
        if (sl_server_admin_is_clear(daemon->server, i))
            sl_log(&daemon->log, SL_LOG_WARNING,
                   "admin on %s has no TLS (--tls-cert, --tls-key): tokens travel there in the clear", address);
    }
    sl_log(&daemon->log, SL_LOG_INFO, "ready: %u workers, pid %ld", n_workers(daemon->config), (long)getpid());
}

/* As many files as the system lets us have; the server takes its own limit from this. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* A SIGHUP that comes while nobody is there to take it, at the start or at the end, would end the process. So it waits
 * from the first moment on, in all threads, until the loop takes it; one that comes at the end is never delivered. */
static void hold_hangup(bool hold)
{
    sigset_t hangup;

    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &hangup, NULL);
}

static void serve(struct daemon *daemon, bool fallen_back)
{
    if (fallen_back) {
        sl_server_count_reload(daemon->server, false, daemon->refused);
        sl_server_set_kept_copy(daemon->server);
    }
    sl_plane_follow(&daemon->plane, daemon->server);
    sl_overrides_begin(&daemon->overrides);
    sl_rehearsal_follow(&daemon->rehearsal);
    log_start(daemon);
    sl_notify("READY=1");
    hold_hangup(false);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    hold_hangup(true);
    sl_server_free(&daemon->server);
}

static void on_overrides_looked(void *ctx)
{
    struct daemon *daemon = ctx;

    sl_plane_heard(&daemon->plane, SL_PLANE_OVERRIDES);
}

static int set_up_overrides(struct daemon *daemon, char *why, size_t why_size)
{
    const struct sl_config *config = daemon->config;
    bool shared = sl_tier_is_shared(&daemon->tier);
    struct sl_overrides_config overrides = {.source = &daemon->source,
                                            .log = &daemon->log,
                                            .state_dir = config->state,
                                            .place = shared ? &daemon->plane.place : NULL,
                                            .url = shared ? &daemon->tier.url : NULL,
                                            .ns = config->namespace,
                                            .looked = on_overrides_looked,
                                            .ctx = daemon};
    int err = sl_overrides_start(&daemon->overrides, &overrides, &daemon->loop);

    if (err)
        snprintf(why, why_size, "%s", sl_err_text(err));
    return err;
}

/* Everything from the table to the listeners. On failure `why` says what is wrong and nothing is left but the loop. */
static int set_up(struct daemon *daemon, bool *ret_fallen_back, char *why, size_t why_size)
{
    int err = set_up_limiter(daemon, ret_fallen_back, why, why_size);

    if (err)
        return err;
    err = sl_tier_start(&daemon->tier, daemon->limiter, &daemon->source, &daemon->loop, why, why_size);
    if (!err)
        err = sl_webhooks_start(&daemon->webhooks, daemon->config, &daemon->tier, &daemon->log, &daemon->witnesses, why,
                                why_size);
    if (!err) {
        err = sl_look_start(&daemon->look, daemon->limiter, &daemon->tier, &daemon->log);
        if (!err)
            err = sl_seeing_start(&daemon->seeing, n_workers(daemon->config) + 1, daemon->look.top, &daemon->witnesses,
                                  &daemon->log);
        if (err)
            snprintf(why, why_size, "%s", sl_err_text(err));
    }
    if (!err)
        err = sl_plane_start(&daemon->plane, daemon->config, &daemon->tier, &daemon->source, &daemon->log,
                             &daemon->loop, why, why_size);
    if (!err)
        err = set_up_rehearsal(daemon, why, why_size);
    if (!err)
        err = set_up_overrides(daemon, why, why_size);
    if (!err)
        err = set_up_server(daemon, why, why_size);
    if (!err) {
        err = start_watching(daemon, why, why_size);
        if (err)
            sl_server_free(&daemon->server);
    }
    if (err)
        tear_down_limiter(daemon);
    return err;
}

/* `variable` is "SLUICE_NAME=value", `nearest` an option's name. The value may be a secret. */
static void warn_of_variable(void *ctx, const char *variable, const char *nearest)
{
    struct daemon *daemon = ctx;
    char name[64];
    size_t i = 0;

    for (; nearest[i] && i + 1 < sizeof name; i++)
        name[i] = nearest[i] == '-' ? '_' : (char)toupper((unsigned char)nearest[i]);
    name[i] = '\0';
    sl_log(&daemon->log, SL_LOG_WARNING, "%.*s has no effect; did you mean SLUICE_%s?", (int)strcspn(variable, "="),
           variable, name);
}

int sl_daemon_run(const struct sl_config *config, const struct sl_options *options)
{
    struct daemon daemon = {.config = config};
    char why[WHY_MAX];
    bool fallen_back = false;
    int status = 0;

    if (!config->policy)
        return fail("no policy: give --policy FILE");
    hold_hangup(true);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit of file sizes is an error that is told of */
    raise_file_limit();
    sl_log_init(&daemon.log, config->log_format, STDERR_FILENO);
    if (sl_tier_init(&daemon.tier, config, &daemon.log, why, sizeof why))
        return fail(why);
    if (uv_loop_init(&daemon.loop) || uv_async_init(&daemon.loop, &daemon.stopped, on_stopped))
        return fail("no event loop: out of memory or of files");
    daemon.stopped.data = &daemon;
    if (set_up(&daemon, &fallen_back, why, sizeof why)) {
        status = fail(why);
    } else {
        sl_options_env_typos(options, warn_of_variable, &daemon);
        serve(&daemon, fallen_back);
        tear_down_limiter(&daemon);
        sl_log(&daemon.log, SL_LOG_INFO, "stopped");
    }
    close_loop(&daemon);
    sl_rehearsal_fini(&daemon.rehearsal);
    sl_overrides_fini(&daemon.overrides);
    sl_plane_fini(&daemon.plane);
    sl_tier_fini(&daemon.tier);
    sl_log_fini(&daemon.log);
    return status;
}
