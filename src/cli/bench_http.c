/* `sluice bench http`: a running server under load, from outside. */
#include "cli/bench.h"
#include "cli/load.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define PART_MAX 8192

enum mode { MODE_CLOSED, MODE_OPEN, MODE_HALF };

struct http_values {
    struct cli_common common;
    char *body;
    struct sl_option_list headers;
    unsigned mode;
    uint64_t connections, keys, rate, duration_us, warm_up_us, pid;
};

struct target {
    char host[256], port[8], path[2048];
};

/* http://HOST[:PORT][/PATH]; HOST may be in brackets. */
static int parse_url(const char *url, struct target *ret)
{
    const char *at = strncmp(url, "http://", 7) ? url : url + 7;
    size_t host_len = at[0] == '[' ? strcspn(at, "]") + 1 : strcspn(at, ":/");
    const char *host = at[0] == '[' ? at + 1 : at;
    size_t bare_len = at[0] == '[' ? host_len - 2 : host_len;

    if (strstr(at, "://") || bare_len == 0 || bare_len >= sizeof ret->host || strlen(at) < host_len)
        return -1;
    snprintf(ret->host, sizeof ret->host, "%.*s", (int)bare_len, host);
    at += host_len;
    snprintf(ret->port, sizeof ret->port, "80");
    if (*at == ':') {
        size_t len = strcspn(++at, "/");

        if (len == 0 || len >= sizeof ret->port)
            return -1;
        snprintf(ret->port, sizeof ret->port, "%.*s", (int)len, at);
        at += len;
    }
    if (strlen(at) >= sizeof ret->path)
        return -1;
    snprintf(ret->path, sizeof ret->path, "%s", *at ? at : "/");
    return 0;
}

/* Writes template with every {n} replaced. Returns the length, or -1 when it does not fit. */
static int expand(const char *template, uint64_t n, char *buf, size_t size)
{
    size_t used = 0;

    while (*template) {
        int len;

        if (!strncmp(template, "{n}", 3)) {
            len = snprintf(buf + used, size - used, "%llu", (unsigned long long)n);
            template += 3;
        } else {
            len = snprintf(buf + used, size - used, "%c", *template ++);
        }
        used += (size_t)len;
        if (used >= size)
            return -1;
    }
    buf[used] = '\0';
    return (int)used;
}

/* One whole request for the n-th key; newly allocated, NULL when it does not fit. */
static char *make_request(const struct http_values *values, const struct target *target, uint64_t n, size_t *ret_len)
{
    char path[PART_MAX], line[PART_MAX], body[PART_MAX] = "", *text = NULL;
    FILE *out = open_memstream(&text, ret_len);
    bool bad = !out || expand(target->path, n, path, sizeof path) < 0;

    if (values->body)
        bad = expand(values->body, n, body, sizeof body) < 0 || bad;
    if (!bad) {
        fprintf(out, "%s %s HTTP/1.1\r\nHost: %s:%s\r\n", values->body ? "POST" : "GET", path, target->host,
                target->port);
        for (size_t i = 0; i < values->headers.n && !bad; i++) {
            bad = expand(values->headers.items[i], n, line, sizeof line) < 0;
            fprintf(out, "%s\r\n", line);
        }
        if (values->body)
            fprintf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
        fprintf(out, "\r\n%s", body);
    }
    if (out && fclose(out))
        bad = true;
    if (bad) {
        free(text);
        return NULL;
    }
    return text;
}

static void print_others(const struct load_result *result)
{
    printf("  others:");
    for (unsigned i = 0; i < LOAD_STATUSES; i++)
        if (result->others[i])
            printf(" %llu of %u", (unsigned long long)result->others[i], i);
    putchar('\n');
}

static json_t *others_json(const struct load_result *result)
{
    json_t *others = json_object();
    char status[12];

    for (unsigned i = 0; i < LOAD_STATUSES; i++) {
        if (!result->others[i])
            continue;
        snprintf(status, sizeof status, "%u", i);
        json_object_set_new(others, status, json_integer((json_int_t)result->others[i]));
    }
    return others;
}

static void print_result(const struct load_result *result, double rate, const struct load_options *options)
{
    const struct hdr *h = &result->latency_ns;
    double answers = result->answers ? (double)result->answers : 1;

    if (rate > 0)
        printf("open loop, %.0f arrivals/s on %u connections, %.1f s\n", rate, options->n_connections, result->seconds);
    else
        printf("closed loop, %u connections, %.1f s\n", options->n_connections, result->seconds);
    printf("  %12.0f answers/s   %llu: %llu of 200, %llu of 429, %llu others\n",
           (double)result->answers / result->seconds, (unsigned long long)result->answers,
           (unsigned long long)result->ok, (unsigned long long)result->limited, (unsigned long long)result->other);
    if (result->other)
        print_others(result);
    printf("  latency, us%s: p50 %.0f  p90 %.0f  p99 %.0f  p99.9 %.0f  max %.0f\n",
           rate > 0 ? " from the scheduled instant" : "", (double)hdr_percentile(h, 50000) / 1e3,
           (double)hdr_percentile(h, 90000) / 1e3, (double)hdr_percentile(h, 99000) / 1e3,
           (double)hdr_percentile(h, 99900) / 1e3, (double)h->most / 1e3);
    if (rate > 0)
        printf("  %llu arrivals found no connection free, %llu had no answer at the end\n",
               (unsigned long long)result->late, (unsigned long long)result->unsent);
    if (options->server_pid)
        printf("  %12.2f us of the server's CPU an answer\n", (double)result->server_cpu_ns / answers / 1e3);
    printf("  %12.2f us of the client's CPU an answer\n\n", (double)result->client_cpu_ns / answers / 1e3);
}

static json_t *result_json(const struct load_result *result, double rate, const struct load_options *options)
{
    double answers = result->answers ? (double)result->answers : 1;
    json_t *json =
        json_pack("{s:s,s:f,s:I,s:f,s:I,s:f,s:I,s:I,s:I,s:I,s:I,s:o,s:f}", "loop", rate > 0 ? "open" : "closed", "rate",
                  rate, "connections", (json_int_t)options->n_connections, "seconds", result->seconds, "answers",
                  (json_int_t)result->answers, "answersPerSecond", (double)result->answers / result->seconds, "ok",
                  (json_int_t)result->ok, "limited", (json_int_t)result->limited, "other", (json_int_t)result->other,
                  "late", (json_int_t)result->late, "unanswered", (json_int_t)result->unsent, "latencyNs",
                  bench_hdr_json(&result->latency_ns), "clientCpuNsPerAnswer", (double)result->client_cpu_ns / answers);

    if (json)
        json_object_set_new(json, "others", others_json(result));
    if (json && options->server_pid)
        json_object_set_new(json, "serverCpuNsPerAnswer", json_real((double)result->server_cpu_ns / answers));
    return json;
}

/* One run; prints it or appends it to `runs`. Returns the answers a second, or -1 after it has said what went wrong. */
static double run_once(struct load_options *options, double rate, json_t *runs)
{
    struct load_result *result = malloc(sizeof *result);
    char why[256];
    double per_second = -1;

    options->rate = rate;
    if (!result || load_run(options, result, why, sizeof why)) {
        cli_fail(CLI_UNREACHABLE, "%s:%s: %s", options->host, options->port, result ? why : "out of memory");
    } else {
        per_second = (double)result->answers / result->seconds;
        if (runs)
            json_array_append_new(runs, result_json(result, rate, options));
        else
            print_result(result, rate, options);
    }
    free(result);
    return per_second;
}

static int run_mode(const struct cli_call *call, struct load_options *options)
{
    const struct http_values *values = (const struct http_values *)call->values;
    json_t *runs = values->common.json ? json_array() : NULL;
    double reached;

    if (!runs) {
        printf("%s, %llu keys, one client thread on the same machine as any server on it\n", call->words[0],
               (unsigned long long)values->keys);
        bench_print_machine(stdout);
    }
    reached = run_once(options, values->mode == MODE_OPEN ? (double)values->rate : 0, runs);
    if (reached > 0 && values->mode == MODE_HALF)
        reached = run_once(options, reached / 2, runs);
    if (reached < 0) {
        json_decref(runs);
        return CLI_UNREACHABLE;
    }
    if (!runs)
        return CLI_DONE;
    return cli_print_json(json_pack("{s:s,s:s,s:o,s:I,s:o}", "bench", "http", "url", call->words[0], "machine",
                                    bench_machine_json(), "keys", (json_int_t)values->keys, "runs", runs),
                          CLI_DONE);
}

static int run(const struct cli_call *call)
{
    const struct http_values *values = (const struct http_values *)call->values;
    char **requests = calloc(values->keys, sizeof *requests);
    size_t *lens = calloc(values->keys, sizeof *lens);
    struct target target;
    struct load_options options = {.host = target.host,
                                   .port = target.port,
                                   .requests = requests,
                                   .request_lens = lens,
                                   .n_requests = (unsigned)values->keys,
                                   .n_connections = (unsigned)values->connections,
                                   .warm_up_ms = values->warm_up_us / 1000,
                                   .duration_ms = values->duration_us / 1000,
                                   .server_pid = (pid_t)values->pid};
    int status = CLI_DONE;

    if (parse_url(call->words[0], &target))
        status = cli_fail(CLI_USAGE, "`%s`: write http://HOST:PORT/PATH", call->words[0]);
    else if (values->mode == MODE_OPEN && !values->rate)
        status = cli_fail(CLI_USAGE, "an open loop needs --rate");
    for (uint64_t n = 0; status == CLI_DONE && requests && lens && n < values->keys; n++) {
        requests[n] = make_request(values, &target, n, &lens[n]);
        if (!requests[n])
            status = cli_fail(CLI_USAGE, "the request is longer than %d bytes", PART_MAX);
    }
    if (status == CLI_DONE)
        status = requests && lens ? run_mode(call, &options) : cli_fail(CLI_USAGE, "out of memory");
    for (uint64_t n = 0; requests && n < values->keys; n++)
        free(requests[n]);
    free(requests);
    free(lens);
    return status;
}

static const char *const modes[] = {[MODE_CLOSED] = "closed", [MODE_OPEN] = "open", [MODE_HALF] = "half", NULL};

static const struct sl_option http_rows[] = {
    {.group = "Requests",
     .name = "body",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct http_values, body),
     .argument = "TEXT",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "POST this JSON instead of a GET; {n} stands for a number that goes through the keys"},
    {.name = "header",
     .type = SL_OPTION_LIST,
     .offset = offsetof(struct http_values, headers),
     .argument = "LINE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "a header line, also with {n}; may be given several times"},
    {.name = "keys",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct http_values, keys),
     .argument = "N",
     .preset = "100",
     .min = 1,
     .max = LOAD_REQUESTS_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "how many values {n} takes, from 0, in turn"},

    {.group = "Load",
     .name = "mode",
     .type = SL_OPTION_CHOICE,
     .offset = offsetof(struct http_values, mode),
     .argument = "MODE",
     .preset = "closed",
     .choices = modes,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "closed: as fast as answers come; open: arrivals at --rate; half: closed, then open at half of what "
                 "that reached"},
    {.name = "rate",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct http_values, rate),
     .argument = "N",
     .preset = "0",
     .max = 10000000,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "arrivals a second of the open loop"},
    {.name = "connections",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct http_values, connections),
     .argument = "N",
     .preset = "64",
     .min = 1,
     .max = LOAD_CONNECTIONS_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "keep-alive connections, one request under way on each"},
    {.name = "duration",
     .type = SL_OPTION_DURATION,
     .offset = offsetof(struct http_values, duration_us),
     .argument = "DURATION",
     .preset = "5s",
     .min = 10000,
     .max = UINT64_C(3600000000),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "how long is measured"},
    {.name = "warm-up",
     .type = SL_OPTION_DURATION,
     .offset = offsetof(struct http_values, warm_up_us),
     .argument = "DURATION",
     .preset = "1s",
     .max = UINT64_C(3600000000),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "what comes before and is not measured"},
    {.name = "pid",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct http_values, pid),
     .argument = "PID",
     .preset = "0",
     .max = 4194304,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "the server's process on this machine, to take its CPU time"},
    CLI_COMMON_ROWS(struct http_values),
};

const struct cli_command cli_bench_http = {
    .name = "bench http",
    .arguments = "URL",
    .min_words = 1,
    .max_words = 1,
    .summary = "put a server under load and measure it from outside",
    .manual =
        "Sends requests over keep-alive connections from one thread and measures throughput, latency and, with --pid, "
        "the CPU\n"
        "time the server spends on an answer. In the open loop latency counts from the instant a request was due, so a "
        "stall\n"
        "shows in every request that it held up.\n\n"
        "  sluice bench http http://127.0.0.1:8080/check --body '{\"key\":\"k{n}\"}' --pid $(pidof sluiced)\n"
        "  sluice bench http http://127.0.0.1:8080/check --body '{\"key\":\"k{n}\"}' --mode half\n"
        "  sluice bench http http://127.0.0.1:8080/auth/v1/orders --header 'X-Api-Key: k{n}' --mode open --rate 20000",
    .rows = http_rows,
    .n_rows = sizeof http_rows / sizeof http_rows[0],
    .values_size = sizeof(struct http_values),
    .run = run,
};
