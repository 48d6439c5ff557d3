/* `sluice buckets show | reset`: the live buckets of one key in a running daemon. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/files.h"
#include "cli/http_client.h"

#include <jansson.h>
#include <string.h>

#define PATH_MAX_LEN 16384

struct buckets_values {
    struct cli_common common;
    struct cli_connect connect;
    struct cli_request_options request;
};

static const struct sl_option buckets_rows[] = {
    CLI_ADMIN_ROW(struct buckets_values),
    CLI_CONNECT_ROWS(struct buckets_values, "admin-token"),
    CLI_REQUEST_ROWS(struct buckets_values),
    CLI_COMMON_ROWS(struct buckets_values),
};

/* Appends "&name=value", encoded. Returns 0, or -1 when it does not fit. */
static int add_parameter(char *path, const char *name, const char *value)
{
    char encoded[PATH_MAX_LEN];
    size_t used = strlen(path);

    if (!value)
        return 0;
    if (http_escape(value, encoded, sizeof encoded))
        return -1;
    return (size_t)snprintf(path + used, PATH_MAX_LEN - used, "%c%s=%s", strchr(path, '?') ? '&' : '?', name,
                            encoded) >= PATH_MAX_LEN - used
               ? -1
               : 0;
}

static int add_labels(char *path, const struct sl_option_list *labels)
{
    for (size_t i = 0; i < labels->n; i++) {
        char name[SLUICE_LABEL_NAME_MAX * 3 + 8], encoded[SLUICE_LABEL_NAME_MAX * 3 + 1];
        const char *equals = strchr(labels->items[i], '=');
        char plain[SLUICE_LABEL_NAME_MAX + 1];

        if (!equals || (size_t)(equals - labels->items[i]) >= sizeof plain)
            return -1;
        snprintf(plain, sizeof plain, "%.*s", (int)(equals - labels->items[i]), labels->items[i]);
        if (http_escape(plain, encoded, sizeof encoded))
            return -1;
        snprintf(name, sizeof name, "label.%s", encoded);
        if (add_parameter(path, name, equals + 1))
            return -1;
    }
    return 0;
}

static int make_path(const struct cli_call *call, char path[static PATH_MAX_LEN])
{
    const struct buckets_values *values = (const struct buckets_values *)call->values;

    snprintf(path, PATH_MAX_LEN, "/v1/buckets");
    return add_parameter(path, "key", call->words[0]) ||
           add_parameter(path, "scope", call->n_words > 1 ? call->words[1] : NULL) ||
           add_parameter(path, "keyType", values->request.key_type) ||
           add_parameter(path, "tier", values->request.tier) ||
           add_parameter(path, "address", values->request.address) || add_labels(path, &values->request.labels);
}

/* The daemon's answer, or NULL after the reason has been said and *ret_status set. */
static json_t *ask(const struct cli_call *call, const char *method, int *ret_status)
{
    const struct buckets_values *values = (const struct buckets_values *)call->values;
    char path[PATH_MAX_LEN], why[1024];
    struct http_request http = {.server = values->connect.admin,
                                .method = method,
                                .path = path,
                                .token = values->connect.token,
                                .ca_file = values->connect.ca_file,
                                .timeout_ms = values->connect.timeout_us / 1000};
    json_t *answer;
    long status;

    if (make_path(call, path)) {
        *ret_status = cli_fail(CLI_USAGE, "the request is too long, or a --label is not NAME=VALUE");
        return NULL;
    }
    answer = http_call_json(&http, &status, why, sizeof why);
    if (!answer)
        *ret_status = cli_fail(status == 400 ? CLI_USAGE : CLI_UNREACHABLE, "%s", why);
    return answer;
}

static const char *field(json_t *bucket, const char *name)
{
    const char *text = json_string_value(json_object_get(bucket, name));

    return text ? text : "";
}

static void print_buckets(json_t *buckets, const struct cli_style *style)
{
    size_t i;
    json_t *bucket;

    printf("%s%-24s %-12s %-12s %-22s %12s %12s  %s%s\n", style->bold, "LIMIT", "LAYER", "ENDPOINT", "ALGORITHM",
           "REMAINING", "OF", "WHOLE IN", style->end);
    json_array_foreach(buckets, i, bucket)
    {
        char wait[48];

        cli_format_ms(json_integer_value(json_object_get(bucket, "resetAfterMs")), wait, sizeof wait);
        printf("%-24s %-12s %-12s %-22s %12lld %12lld  %s\n", field(bucket, "name"), field(bucket, "layer"),
               field(bucket, "endpoint"), field(bucket, "algorithm"),
               (long long)json_integer_value(json_object_get(bucket, "remaining")),
               (long long)json_integer_value(json_object_get(bucket, "limit")), wait);
    }
}

static int run_show(const struct cli_call *call)
{
    struct cli_style style = cli_style(call->values, stdout);
    int status = CLI_DONE;
    json_t *answer = ask(call, "GET", &status), *buckets;

    if (!answer)
        return status;
    if (call->values->json)
        return cli_print_json(answer, CLI_DONE);
    buckets = json_object_get(answer, "buckets");
    if (json_array_size(buckets))
        print_buckets(buckets, &style);
    else
        printf("no live buckets: whatever limits %s, it has not spent from them, or they are whole again\n",
               call->words[0]);
    json_decref(answer);
    return CLI_DONE;
}

static int run_reset(const struct cli_call *call)
{
    int status = CLI_DONE;
    json_t *answer = ask(call, "DELETE", &status);
    json_int_t n;

    if (!answer)
        return status;
    if (call->values->json)
        return cli_print_json(answer, CLI_DONE);
    n = json_integer_value(json_object_get(answer, "reset"));
    printf("%lld %s whole again\n", (long long)n, n == 1 ? "bucket is" : "buckets are");
    json_decref(answer);
    return CLI_DONE;
}

const struct cli_command cli_buckets_show = {
    .name = "buckets show",
    .arguments = "KEY [SCOPE]",
    .min_words = 1,
    .max_words = 2,
    .summary = "list the live buckets of a key",
    .manual =
        "Asks a daemon's admin listener what KEY has left in every bucket it has spent from. A bucket that is whole is "
        "not\n"
        "kept, so it is not listed. Limits that separate by scope, tier, address or label need that to be named.\n\n"
        "  sluice buckets show acct_8812\n"
        "  sluice buckets show 203.0.113.9 --key-type address --json",
    .rows = buckets_rows,
    .n_rows = sizeof buckets_rows / sizeof buckets_rows[0],
    .values_size = sizeof(struct buckets_values),
    .run = run_show,
};

const struct cli_command cli_buckets_reset = {
    .name = "buckets reset",
    .arguments = "KEY [SCOPE]",
    .min_words = 1,
    .max_words = 2,
    .summary = "make the buckets of a key whole again",
    .manual = "Forgets what KEY has spent, in the same buckets that `sluice buckets show` lists.\n\n"
              "  sluice buckets reset acct_8812",
    .rows = buckets_rows,
    .n_rows = sizeof buckets_rows / sizeof buckets_rows[0],
    .values_size = sizeof(struct buckets_values),
    .run = run_reset,
};
