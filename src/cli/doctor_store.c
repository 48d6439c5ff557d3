/* The store, as an instance would see it from here: one connection, nothing written. */
#include "cli/doctor.h"
#include "fleet/members.h"
#include "fleet/probe.h"
#include "store/codec.h"
#include "store/net_uv.h"
#include "store/script.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define MODULE_COMMAND "SLUICE.DECIDE"
#define TEXT_MAX 4608
#define KEY_MAX (SL_NAMESPACE_MAX + 24)
#define CLOCK_ODD_US 1000000

struct visit {
    struct doctor_findings *findings;
    const char *ns;
    uint64_t timeout_us;
    char store[TEXT_MAX];
    struct sl_alloc alloc;
    uv_loop_t loop;
    uv_timer_t tick;
    struct sl_net_uv net;
    struct sl_client *client;
    bool refused; /* the client has told why it does not get there */
    enum sl_result cause;
    char why[256];
    bool done; /* what is waited for */
    struct sl_probe_result probe;
    enum sl_result result; /* of the last command */
    int64_t integer;
};

static void on_event(void *owner, const struct sl_client_event *event)
{
    struct visit *visit = owner;

    if (event->good || event->happening == SL_CLIENT_BREAKER)
        return;
    visit->refused = true;
    visit->cause = event->cause;
    snprintf(visit->why, sizeof visit->why, "%s", event->text);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer; /* wakes the loop, so that the time is looked at */
}

/* Runs the loop until *flag or the time is over. */
static bool wait_for(struct visit *visit, const bool *flag)
{
    uint64_t end = uv_hrtime() + visit->timeout_us * 1000;

    while (!*flag && uv_hrtime() < end)
        uv_run(&visit->loop, UV_RUN_ONCE);
    return *flag;
}

static bool reach(struct visit *visit)
{
    uint64_t end = uv_hrtime() + visit->timeout_us * 1000;

    while (!sl_client_ready(visit->client) && !visit->refused && uv_hrtime() < end)
        uv_run(&visit->loop, UV_RUN_ONCE);
    return sl_client_ready(visit->client);
}

/* ---- what it is */

static void on_found(void *owner, const struct sl_probe_result *result)
{
    struct visit *visit = owner;

    visit->probe = *result;
    visit->done = true;
}

static bool ask_what_it_is(struct visit *visit)
{
    visit->done = false;
    return sl_probe_start(visit->client, &visit->net.net, &visit->alloc, MODULE_COMMAND, visit->timeout_us, on_found,
                          visit) == 0 &&
           wait_for(visit, &visit->done) && visit->probe.answered;
}

static void add_version(const struct visit *visit)
{
    const struct sl_probe_result *probe = &visit->probe;
    const char *name = probe->valkey ? "Valkey" : "Redis";
    char text[512];
    bool serious = false;

    if (!probe->version_known)
        doctor_add(visit->findings, "version", DOCTOR_ODD, "it does not say (INFO)");
    else if (sl_probe_finding(probe, 0, text, sizeof text, &serious) && serious)
        doctor_add(visit->findings, "version", DOCTOR_BAD, "%s", text);
    else
        doctor_add(visit->findings, "version", DOCTOR_GOOD, "%s %s", name, probe->version);
}

static void add_eviction(const struct visit *visit)
{
    const struct sl_probe_result *probe = &visit->probe;

    if (!probe->eviction_known)
        doctor_add(visit->findings, "eviction", DOCTOR_GOOD, "it does not say (CONFIG GET); noeviction keeps limits");
    else if (probe->evicts)
        doctor_add(visit->findings, "eviction", DOCTOR_ODD,
                   "maxmemory-policy %s: limits are forgotten when its memory is full; noeviction keeps them",
                   probe->eviction);
    else
        doctor_add(visit->findings, "eviction", DOCTOR_GOOD, "none");
}

/* Positive: the store is ahead of us. */
static int64_t ahead_us(const struct visit *visit)
{
    const struct sl_net *net = &visit->net.net;
    struct timeval now;
    uint64_t since_us, middle_us = visit->probe.asked_us + (visit->probe.answered_us - visit->probe.asked_us) / 2;

    gettimeofday(&now, NULL);
    since_us = net->now_us(net->ctx) - middle_us;
    return (int64_t)visit->probe.store_us - ((int64_t)now.tv_sec * 1000000 + now.tv_usec - (int64_t)since_us);
}

static void add_clock(const struct visit *visit)
{
    int64_t us = ahead_us(visit);
    uint64_t apart = (uint64_t)(us < 0 ? -us : us);

    if (!visit->probe.time_known)
        doctor_add(visit->findings, "store clock", DOCTOR_ODD, "it does not say (TIME)");
    else
        doctor_add(visit->findings, "store clock", apart < CLOCK_ODD_US ? DOCTOR_GOOD : DOCTOR_ODD,
                   "%" PRIu64 ".%03" PRIu64 " s %s ours%s", apart / 1000000, apart / 1000 % 1000,
                   us < 0 ? "behind" : "ahead of", apart < CLOCK_ODD_US ? "" : "; the store's own decides");
}

/* ---- what a fleet has left there */

static void on_integer(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct visit *visit = ctx;

    visit->done = true;
    visit->result = result;
    visit->integer = reply && reply->type == SL_REPLY_INTEGER ? reply->integer : -1;
}

static bool ask_integer(struct visit *visit, const struct sl_word *words, size_t n)
{
    visit->done = false;
    visit->result = sl_client_command(visit->client, words, n, &words[1], visit->timeout_us, on_integer, visit);
    if (visit->result != SL_RESULT_OK)
        return false;
    if (!wait_for(visit, &visit->done))
        visit->result = SL_RESULT_TIMEOUT;
    return visit->result == SL_RESULT_OK;
}

/* A daemon with this user would not get at them either, and share nothing. */
static bool closed_to_us(const struct visit *visit)
{
    return visit->result == SL_RESULT_NOPERM;
}

static void add_secret(struct visit *visit)
{
    char key[KEY_MAX];
    size_t len = (size_t)snprintf(key, sizeof key, "%.*s:{fleet}:secret", SL_NAMESPACE_MAX, visit->ns);
    struct sl_word words[] = {SL_WORD("STRLEN"), {key, len}};
    bool answered = ask_integer(visit, words, 2);

    if (answered && visit->integer == SL_MEMBERS_SECRET_LEN)
        doctor_add(visit->findings, "secret", DOCTOR_GOOD, "the instances' secret is there");
    else if (answered && visit->integer == 0)
        doctor_add(visit->findings, "secret", DOCTOR_ODD, "none yet: no instance has been here in namespace %s",
                   visit->ns);
    else if (answered || visit->result == SL_RESULT_WRONGTYPE)
        doctor_add(visit->findings, "secret", DOCTOR_BAD, "the key %s holds something that is not ours", key);
    else
        doctor_add(visit->findings, "secret", closed_to_us(visit) ? DOCTOR_BAD : DOCTOR_ODD, "%s cannot be read: %s",
                   key, sl_result_meaning(visit->result));
}

static void add_instances(struct visit *visit)
{
    char key[KEY_MAX], from[32];
    size_t len = (size_t)snprintf(key, sizeof key, "%.*s:{fleet}:instances", SL_NAMESPACE_MAX, visit->ns);
    uint64_t now_us = visit->probe.store_us;
    struct sl_word words[] = {SL_WORD("ZCOUNT"), {key, len}, {from, 0}, SL_WORD("+inf")};

    words[2].len = (size_t)snprintf(from, sizeof from, "%" PRIu64,
                                    now_us > SL_MEMBERS_SILENT_US ? now_us - SL_MEMBERS_SILENT_US : 0);
    if (ask_integer(visit, words, 4))
        doctor_add(visit->findings, "instances", visit->integer > 0 ? DOCTOR_GOOD : DOCTOR_ODD,
                   "%" PRId64 " in namespace %s", visit->integer, visit->ns);
    else
        doctor_add(visit->findings, "instances",
                   closed_to_us(visit) || visit->result == SL_RESULT_WRONGTYPE ? DOCTOR_BAD : DOCTOR_ODD,
                   "%s cannot be read: %s", key, sl_result_meaning(visit->result));
}

/* ---- the visit */

static void look_around(struct visit *visit)
{
    const struct sl_probe_result *probe = &visit->probe;
    uint64_t rtt_us;

    if (!reach(visit) || !ask_what_it_is(visit)) {
        enum sl_result cause = visit->refused ? visit->cause : SL_RESULT_TIMEOUT;
        bool away = cause == SL_RESULT_UNREACHABLE || cause == SL_RESULT_TIMEOUT || cause == SL_RESULT_LOST;

        doctor_add(visit->findings, "store", away ? DOCTOR_AWAY : DOCTOR_BAD, "%s: no connection (%s): %s",
                   visit->store, sl_result_name(cause), visit->refused ? visit->why : sl_result_meaning(cause));
        return;
    }
    rtt_us = probe->answered_us - probe->asked_us;
    doctor_add(visit->findings, "store", DOCTOR_GOOD, "%s answers in %" PRIu64 ".%03" PRIu64 " ms", visit->store,
               rtt_us / 1000, rtt_us % 1000);
    add_version(visit);
    if (probe->module_known && probe->module)
        doctor_add(visit->findings, "module", DOCTOR_GOOD, "the sluice module is loaded: it decides");
    else
        doctor_add(visit->findings, "script", DOCTOR_GOOD,
                   "no module: the script decides, at some three times the cost");
    add_eviction(visit);
    add_clock(visit);
    add_secret(visit);
    add_instances(visit);
}

static void close_visit(struct visit *visit)
{
    sl_client_free(visit->client);
    uv_close((uv_handle_t *)&visit->tick, NULL);
    uv_run(&visit->loop, UV_RUN_DEFAULT);
    sl_net_uv_fini(&visit->net);
}

static int open_visit(struct visit *visit, const struct sl_store_url *url)
{
    size_t len;
    struct sl_client_config config = {.net = &visit->net.net,
                                      .alloc = &visit->alloc,
                                      .url = url,
                                      .script = sl_script_text(&len),
                                      .script_sha1 = sl_script_sha1(),
                                      .timeout_us = visit->timeout_us,
                                      .connect_timeout_us = visit->timeout_us,
                                      .happened = on_event,
                                      .owner = visit};

    if (sl_net_uv_init(&visit->net, &visit->loop, &visit->alloc))
        return -1;
    uv_timer_init(&visit->loop, &visit->tick);
    uv_timer_start(&visit->tick, on_tick, 20, 20);
    if (sl_client_new(&config, &visit->client, visit->why, sizeof visit->why) == 0)
        return 0;
    visit->client = NULL;
    close_visit(visit);
    return -1;
}

void doctor_check_store(struct doctor_findings *findings, const struct sl_store_url *url, const char *ns,
                        uint64_t timeout_us)
{
    struct visit visit = {
        .findings = findings, .ns = ns, .alloc = sl_alloc_system(), .why = "out of memory or of files"};
    void (*on_pipe)(int) = signal(SIGPIPE, SIG_IGN); /* a server may hang up */

    visit.timeout_us = timeout_us > SL_CLIENT_TIMEOUT_MAX_US ? SL_CLIENT_TIMEOUT_MAX_US : timeout_us;
    sl_store_url_text(url, visit.store, sizeof visit.store);
    if (uv_loop_init(&visit.loop)) {
        doctor_add(findings, "store", DOCTOR_BAD, "%s", visit.why);
        signal(SIGPIPE, on_pipe);
        return;
    }
    if (open_visit(&visit, url)) {
        doctor_add(findings, "store", DOCTOR_BAD, "%s: %s", visit.store, visit.why);
    } else {
        look_around(&visit);
        close_visit(&visit);
    }
    uv_loop_close(&visit.loop);
    signal(SIGPIPE, on_pipe);
}
