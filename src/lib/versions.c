#include "lib/versions.h"

#include "base/err.h"
#include "control/text.h"
#include "store/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(const struct sl_lib_versions *v, int level, const char *text)
{
    const struct sluice *handle = v->tier->handle;

    sl_lib_log(handle->log, handle->log_ctx, level, "%s", text);
}

/* ---- compiling, on a thread of the pool */

static void compile(uv_work_t *work)
{
    struct sl_lib_versions *v = work->data;
    struct sl_taking *t = &v->taking;
    const struct sluice *handle = v->tier->handle;
    const struct finding_sink sink = {.log = handle->log, .log_ctx = handle->log_ctx};

    t->err =
        sl_kept_compile_version(&t->version, &t->text, handle, &t->secret, &sink, &t->policy, t->why, sizeof t->why);
}

static void on_compiled(uv_work_t *work, int status);

static enum sl_offer begin(struct sl_lib_versions *v)
{
    struct sl_taking *t = &v->taking;

    pthread_mutex_lock(&v->tier->kept.lock);
    t->secret = sl_tier_secret(v->tier);
    pthread_mutex_unlock(&v->tier->kept.lock);
    t->policy = NULL;
    t->work.data = v;
    v->busy = uv_queue_work(v->uv, &t->work, compile, on_compiled) == 0;
    return v->busy ? SL_OFFER_PENDING : SL_OFFER_LATER;
}

static void drop(struct sl_lib_versions *v)
{
    sl_policy_unref(v->taking.policy);
    v->taking.policy = NULL;
    sl_version_text_free(&v->tier->alloc, &v->taking.text);
}

/* ---- what became of it, on the loop */

/* Who made it, and why, stand in the line that says it is in force: the log is where changes are looked for. */
static void say_taken(const struct sl_lib_versions *v, const struct sl_policy *policy)
{
    const struct sl_version *version = &v->taking.version;
    const struct sluice *handle = v->tier->handle;

    sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_INFO,
               "version %" PRIu64 " of the policy by %s%s%s%s is in force: %zu limits, sha256 %s", version->number,
               version->author, version->comment[0] ? " (" : "", version->comment, version->comment[0] ? ")" : "",
               sl_policy_n_limits(policy), sl_policy_hash(policy));
}

static enum sl_offer refuse(const struct sl_lib_versions *v)
{
    const struct sl_taking *t = &v->taking;
    const struct sluice *handle = v->tier->handle;

    sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_ERROR,
               "version %" PRIu64 " of the policy was not taken, and the policy in force stays: %s", t->version.number,
               t->why);
    return t->err == SL_EPOLICY ? SL_OFFER_REFUSED : SL_OFFER_LATER;
}

/* PENDING: the fleet's secret was heard meanwhile, and it is compiled anew. */
static enum sl_offer take(struct sl_lib_versions *v)
{
    struct sl_taking *t = &v->taking;
    bool stale;

    if (t->err != 0)
        return refuse(v);
    t->err = sl_tier_take_version(v->tier, &t->version, &t->text, t->policy, &t->secret, &stale);
    if (t->err == 0 && stale) {
        sl_policy_unref(t->policy);
        return begin(v);
    }
    if (t->err != 0) {
        snprintf(t->why, sizeof t->why, "%s", sl_err_text(t->err));
        return refuse(v);
    }
    say_taken(v, t->policy);
    return SL_OFFER_TAKEN;
}

static void on_compiled(uv_work_t *work, int status)
{
    struct sl_lib_versions *v = work->data;
    enum sl_offer answer;

    v->busy = false;
    if (v->stopped) {
        drop(v);
        if (v->ended)
            v->ended(v->ended_ctx);
        return;
    }
    answer = status == 0 ? take(v) : SL_OFFER_LATER;
    if (answer == SL_OFFER_PENDING)
        return;
    drop(v);
    sl_follow_conclude(v->follow, answer, v->taking.why);
}

/* ---- following */

static enum sl_offer on_offer(void *owner, const struct sl_version *version, struct sl_version_text *text, char *why,
                              size_t why_size)
{
    struct sl_lib_versions *v = owner;
    const struct sluice *handle = v->tier->handle;
    enum sl_offer answer;

    if (!text) {
        sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_WARNING,
                   "version %" PRIu64 " of the policy (%.12s) is current on the store, and not taken: this instance "
                   "has its own (policy_source)",
                   version->number, version->hash);
        return SL_OFFER_IGNORED;
    }
    v->taking.version = *version;
    v->taking.text = *text;
    *text = (struct sl_version_text){.bytes = NULL};
    answer = begin(v);
    if (answer != SL_OFFER_PENDING) {
        snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
        drop(v);
    }
    return answer;
}

static void on_odd(void *owner, const char *text)
{
    const struct sl_lib_versions *v = owner;
    char line[SL_CONTROL_WHY_MAX + 32];

    snprintf(line, sizeof line, "versions of the policy: %s", text);
    say(v, SLUICE_LOG_ERROR, line);
}

static void on_looked(void *owner)
{
    ((struct sl_lib_versions *)owner)->looked = true;
}

static bool on_overrides(void *owner, struct sl_overrides *overrides, const struct sl_revision *revision)
{
    (void)revision;
    return sl_tier_lay(((struct sl_lib_versions *)owner)->tier, overrides);
}

static void on_odd_overrides(void *owner, const char *text)
{
    const struct sl_lib_versions *v = owner;
    char line[SL_CONTROL_WHY_MAX + 32];

    snprintf(line, sizeof line, "overrides: %s", text);
    say(v, SLUICE_LOG_ERROR, line);
}

static void on_looked_over(void *owner)
{
    ((struct sl_lib_versions *)owner)->looked_over = true;
}

/* ---- life */

static int open_client(struct sl_lib_versions *v, const struct sl_net *net, char *why, size_t why_size)
{
    const struct sl_tier *tier = v->tier;
    size_t len;
    struct sl_client_config config = {
        .net = net,
        .alloc = &tier->alloc,
        .url = &tier->url,
        .script = sl_script_text(&len),
        .script_sha1 = sl_script_sha1(),
        .timeout_us = tier->timeout_us > SL_LIB_VERSIONS_TIMEOUT_US ? tier->timeout_us : SL_LIB_VERSIONS_TIMEOUT_US,
    };

    return sl_client_new(&config, &v->client, why, why_size);
}

int sl_lib_versions_start(struct sl_lib_versions *v, struct sl_tier *tier, uv_loop_t *uv, const struct sl_net *net,
                          char *why, size_t why_size)
{
    struct sl_follow_config config = {.place = {.net = net, .alloc = &tier->alloc, .ns = tier->ns},
                                      .id = sl_fleet_id(tier->fleet),
                                      .host = v->host,
                                      .region = tier->handle->region,
                                      .from_file = tier->own_policy,
                                      .offer = on_offer,
                                      .odd = on_odd,
                                      .looked = on_looked,
                                      .owner = v};
    struct sl_overrides_follow_config over = {
        .place = config.place, .take = on_overrides, .odd = on_odd_overrides, .looked = on_looked_over, .owner = v};
    struct sl_revision none = {.text = ""};
    struct sl_pointer runs = sl_tier_runs(tier);
    int err;

    v->tier = tier;
    v->uv = uv;
    if (gethostname(v->host, sizeof v->host - 1) != 0)
        snprintf(v->host, sizeof v->host, "unknown");
    err = open_client(v, net, why, why_size);
    if (err != 0)
        return err;
    config.place.client = over.place.client = v->client;
    err = sl_follow_new(&config, &runs, &v->follow);
    if (err == 0)
        err = sl_overrides_follow_new(&over, &none, &v->overrides);
    if (err != 0)
        snprintf(why, why_size, "%s", sl_err_text(err));
    return err;
}

bool sl_lib_versions_stop(struct sl_lib_versions *v, void (*ended)(void *ctx), void *ctx)
{
    v->stopped = true;
    v->ended = ended;
    v->ended_ctx = ctx;
    sl_client_free(v->client);
    sl_follow_free(v->follow);
    sl_overrides_follow_free(v->overrides);
    v->overrides = NULL;
    v->client = NULL;
    v->follow = NULL;
    if (v->busy)
        uv_cancel((uv_req_t *)&v->taking.work); /* in vain when it has begun */
    return !v->busy;
}

void sl_lib_versions_beat(struct sl_lib_versions *v)
{
    struct sl_pointer runs;

    if (!v->follow || !atomic_exchange(&v->tier->reloaded, false))
        return;
    runs = sl_tier_runs(v->tier);
    if (runs.number == 0)
        sl_follow_runs(v->follow, &runs);
}
