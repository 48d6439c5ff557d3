#include "cli/store_visit.h"

#include "store/script.h"

#include <signal.h>
#include <string.h>

#define TICK_MS 20

static void on_event(void *owner, const struct sl_client_event *event)
{
    struct cli_store *store = owner;

    if (event->good || event->happening == SL_CLIENT_BREAKER)
        return;
    store->refused = true;
    snprintf(store->why, sizeof store->why, "%s", event->text);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer; /* wakes the loop, so that the time is looked at */
}

/* ---- life */

static int read_address(struct cli_store *store, const struct cli_store_options *options)
{
    char why[512];

    if (!options->store)
        return cli_fail(CLI_USAGE, "give the store that the instances share: --store URL, or SLUICE_STORE");
    if (!options->namespace[0] || strlen(options->namespace) > SL_NAMESPACE_MAX || strpbrk(options->namespace, "{}"))
        return cli_fail(CLI_USAGE, "--namespace: 1 to %d characters without braces", SL_NAMESPACE_MAX);
    if (sl_store_url_parse(options->store, &store->url, why, sizeof why) ||
        sl_store_url_read_files(&store->url, why, sizeof why)) {
        sl_store_url_fini(&store->url);
        return cli_fail(CLI_USAGE, "--store: %s", why);
    }
    if (store->url.kind == SL_STORE_MEMORY) {
        sl_store_url_fini(&store->url);
        return cli_fail(CLI_USAGE, "--store: memory: is no store that instances share");
    }
    sl_store_url_text(&store->url, store->text, sizeof store->text);
    return 0;
}

static int make_client(struct cli_store *store)
{
    size_t len;
    struct sl_client_config config = {.net = &store->net.net,
                                      .alloc = &store->alloc,
                                      .url = &store->url,
                                      .script = sl_script_text(&len),
                                      .script_sha1 = sl_script_sha1(),
                                      .timeout_us = store->timeout_us,
                                      .connect_timeout_us = store->timeout_us,
                                      .happened = on_event,
                                      .owner = store};

    return sl_client_new(&config, &store->client, store->why, sizeof store->why);
}

static int open_loop(struct cli_store *store)
{
    if (uv_loop_init(&store->loop))
        return -1;
    if (sl_net_uv_init(&store->net, &store->loop, &store->alloc)) {
        uv_loop_close(&store->loop);
        return -1;
    }
    uv_timer_init(&store->loop, &store->tick);
    uv_timer_start(&store->tick, on_tick, TICK_MS, TICK_MS);
    return 0;
}

static bool reach(struct cli_store *store)
{
    uint64_t end = uv_hrtime() + store->timeout_us * 1000;

    while (!sl_client_ready(store->client) && !store->refused && uv_hrtime() < end)
        uv_run(&store->loop, UV_RUN_ONCE);
    return sl_client_ready(store->client);
}

int cli_store_open(struct cli_store *store, const struct cli_store_options *options)
{
    int status;

    *store = (struct cli_store){.alloc = sl_alloc_system(), .timeout_us = options->timeout_us};
    status = read_address(store, options);
    if (status)
        return status;
    signal(SIGPIPE, SIG_IGN); /* a server may hang up */
    if (open_loop(store)) {
        sl_store_url_fini(&store->url);
        return cli_fail(CLI_USAGE, "out of memory or of files");
    }
    store->place = (struct sl_versions_place){.net = &store->net.net, .alloc = &store->alloc, .ns = options->namespace};
    if (make_client(store)) {
        status = cli_fail(CLI_USAGE, "--store: %s", store->why);
    } else if (!reach(store)) {
        status = cli_fail(CLI_UNREACHABLE, "%s: no connection: %s", store->text,
                          store->refused ? store->why : "no answer in time");
    }
    store->place.client = store->client;
    if (status)
        cli_store_close(store);
    return status;
}

void cli_store_close(struct cli_store *store)
{
    sl_client_free(store->client);
    uv_close((uv_handle_t *)&store->tick, NULL);
    uv_run(&store->loop, UV_RUN_DEFAULT);
    sl_net_uv_fini(&store->net);
    uv_loop_close(&store->loop);
    sl_store_url_fini(&store->url);
}

void cli_store_wait(struct cli_store *store, const bool *flag)
{
    while (!*flag)
        uv_run(&store->loop, UV_RUN_ONCE);
}

/* ---- outcomes */

int cli_store_fail(const struct cli_store *store, enum sl_control outcome, const char *why)
{
    switch (outcome) {
    case SL_CONTROL_INVALID:
        return cli_fail(CLI_USAGE, "%s", why);
    case SL_CONTROL_NOMEM:
        return cli_fail(CLI_USAGE, "out of memory");
    case SL_CONTROL_AWAY:
    case SL_CONTROL_UNKNOWN:
        return cli_fail(CLI_UNREACHABLE, "%s: %s", store->text, why && why[0] ? why : "the store cannot be reached");
    case SL_CONTROL_OK:
    case SL_CONTROL_NONE:
    case SL_CONTROL_CONFLICT:
    case SL_CONTROL_FOREIGN:
    case SL_CONTROL_DAMAGED:
    case SL_CONTROL_REFUSED:
        break;
    }
    return cli_fail(CLI_NO, "%s: %s", store->text, why);
}

/* ---- fetching */

struct fetched {
    bool done;
    enum sl_control outcome;
    struct sl_version *version;
    struct sl_version_text *text;
    char *why;
    size_t why_size;
};

static void on_fetched(void *ctx, enum sl_control outcome, const struct sl_version *version,
                       struct sl_version_text *text, const char *why)
{
    struct fetched *fetched = ctx;

    fetched->done = true;
    fetched->outcome = outcome;
    snprintf(fetched->why, fetched->why_size, "%s", why);
    if (outcome != SL_CONTROL_OK)
        return;
    *fetched->version = *version;
    *fetched->text = *text;
}

enum sl_control cli_store_fetch(struct cli_store *store, uint64_t number, struct sl_version *ret_version,
                                struct sl_version_text *ret_text, char *why, size_t why_size)
{
    struct fetched fetched = {.version = ret_version, .text = ret_text, .why = why, .why_size = why_size};
    enum sl_control outcome = sl_versions_fetch(&store->place, number, on_fetched, &fetched);

    why[0] = '\0';
    if (outcome != SL_CONTROL_OK)
        return outcome;
    cli_store_wait(store, &fetched.done);
    return fetched.outcome;
}
