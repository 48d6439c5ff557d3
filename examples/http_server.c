/* A complete program that embeds sluice: a small HTTP server (libmicrohttpd) that limits its callers.
 *
 *     http_server POLICY [PORT]      (port 0: any free one)
 *
 * Prints the address it listens on, then serves until SIGINT or SIGTERM; SIGHUP reloads the policy. Callers are known
 * by their X-Api-Key header, else by their address. What is asked for is `METHOD /path`. */
#include <sluice/sluice.h>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whom a request is counted against: its API key, or the peer's address. */
static void identify(struct MHD_Connection *connection, char address[INET6_ADDRSTRLEN], struct sluice_request *request)
{
    const char *key = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Api-Key");

    if (!key) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        const struct sockaddr_in *peer = (const struct sockaddr_in *)(const void *)info->client_addr;

        inet_ntop(AF_INET, &peer->sin_addr, address, INET6_ADDRSTRLEN);
        key = address;
        request->key_type = "address";
        request->key_type_len = strlen(request->key_type);
    }
    request->key = key;
    request->key_len = strlen(key);
}

static void add_number(struct MHD_Response *response, const char *name, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    MHD_add_response_header(response, name, text);
}

static int64_t whole_seconds(int64_t ms)
{
    return (ms + 999) / 1000;
}

/* Unknown values (-1) send no header. */
static void add_headers(struct MHD_Response *response, const struct sluice_verdict *verdict)
{
    if (verdict->limit >= 0)
        add_number(response, "RateLimit-Limit", verdict->limit);
    if (verdict->remaining >= 0) {
        add_number(response, "RateLimit-Remaining", verdict->remaining);
        add_number(response, "RateLimit-Reset", whole_seconds(verdict->reset_after_ms));
    }
    if (!verdict->allowed && verdict->retry_after_ms > 0)
        add_number(response, "Retry-After", whole_seconds(verdict->retry_after_ms));
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *text,
                             const struct sluice_verdict *verdict)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    if (verdict)
        add_headers(response, verdict);
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result serve(void *limiter, struct MHD_Connection *connection, const char *url, const char *method,
                             const char *version, const char *upload, size_t *upload_size, void **state)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;
    struct sluice_verdict verdict;
    char address[INET6_ADDRSTRLEN], scope[SLUICE_SCOPE_MAX + 1];
    int len = snprintf(scope, sizeof scope, "%s %s", method, url);

    (void)version, (void)upload, (void)upload_size, (void)state;
    if (len < 0 || (size_t)len >= sizeof scope)
        return reply(connection, MHD_HTTP_URI_TOO_LONG, "The path is too long.\n", NULL);
    request.scope = scope;
    request.scope_len = (size_t)len;
    identify(connection, address, &request);
    if (sluice_check(limiter, &request, &verdict) != 0)
        return reply(connection, MHD_HTTP_BAD_REQUEST, "That is no key.\n", NULL);
    if (!verdict.allowed)
        return reply(connection, MHD_HTTP_TOO_MANY_REQUESTS, "Rate limit exceeded.\n", &verdict);
    return reply(connection, MHD_HTTP_OK, "Hello.\n", &verdict);
}

static void print_finding(void *ctx, const struct sluice_finding *finding)
{
    (void)ctx;
    fprintf(stderr, "%s\n", finding->text);
}

/* Serves until a signal asks to end. The signals are blocked in every thread, so that they arrive here only. */
static void run(struct sluice *limiter, const char *policy, const sigset_t *signals)
{
    int got = 0;

    while (sigwait(signals, &got) == 0 && got == SIGHUP) {
        int err = sluice_reload_file(limiter, policy, print_finding, NULL);

        printf("%s\n", err == 0 ? "policy reloaded" : "policy kept as it was");
        fflush(stdout);
    }
}

static struct MHD_Daemon *start(struct sluice *limiter, uint16_t port)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(port)};

    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return MHD_start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, port, NULL, NULL, serve, limiter,
                            MHD_OPTION_SOCK_ADDR, &where, MHD_OPTION_END);
}

int main(int argc, char **argv)
{
    struct sluice_options options = sluice_options_default();
    struct sluice *limiter;
    struct MHD_Daemon *server;
    char why[SLUICE_WHY_MAX];
    sigset_t signals;

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s POLICY [PORT]\n", argv[0]);
        return 2;
    }
    options.policy_file = argv[1];
    options.finding = print_finding;
    if (sluice_open(&options, &limiter, why, sizeof why) != 0) {
        fprintf(stderr, "%s: %s\n", argv[0], why);
        return 2;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    server = start(limiter, (uint16_t)(argc == 3 ? strtoul(argv[2], NULL, 10) : 8080));
    if (!server) {
        fprintf(stderr, "%s: could not listen\n", argv[0]);
        sluice_close(&limiter);
        return 2;
    }
    printf("listening on 127.0.0.1:%u\n", MHD_get_daemon_info(server, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    run(limiter, argv[1], &signals);
    MHD_stop_daemon(server);
    sluice_close(&limiter);
    return 0;
}
