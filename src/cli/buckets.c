/* `sluice buckets show | reset`: the live buckets of one key in a running daemon. */
#include "cli/admin.h"
#include "cli/files.h"
#include "cli/http_client.h"

#include <jansson.h>
#include <string.h>

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

/* Returns 0, or -1 for one that is no label. */
static int add_labels(struct admin_path *path, const struct sl_option_list *labels)
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
        admin_path_add(path, name, equals + 1);
    }
    return 0;
}

static int make_path(const struct cli_call *call, struct admin_path *path)
{
    const struct buckets_values *values = (const struct buckets_values *)call->values;

    admin_path_begin(path, "/v1/buckets");
    admin_path_add(path, "key", call->words[0]);
    admin_path_add(path, "scope", call->n_words > 1 ? call->words[1] : NULL);
    admin_path_add(path, "keyType", values->request.key_type);
    admin_path_add(path, "tier", values->request.tier);
    admin_path_add(path, "address", values->request.address);
    return add_labels(path, &values->request.labels);
}

/* The daemon's answer, or NULL after the reason has been said and *ret_status set. */
static json_t *ask(const struct cli_call *call, const char *method, int *ret_status)
{
    const struct buckets_values *values = (const struct buckets_values *)call->values;
    struct admin_path path;
    char why[1024];
    json_t *answer;
    long status;

    if (make_path(call, &path)) {
        *ret_status = cli_fail(CLI_USAGE, "a --label is NAME=VALUE");
        return NULL;
    }
    answer = admin_ask(&values->connect, method, &path, &status, why, sizeof why);
    if (!answer)
        *ret_status = cli_fail(http_failure(status), "%s", why);
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
    admin_fit(answer);
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
