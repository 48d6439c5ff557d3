/* `sluice check`: one decision, of a running daemon or of a policy file. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/files.h"
#include "cli/http_client.h"
#include "limiter/verdict_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct check_values {
    struct cli_common common;
    struct cli_connect connect;
    struct cli_request_options request;
    char *policy;
};

static const struct sl_option check_rows[] = {
    CLI_SERVER_ROW(struct check_values),
    CLI_CONNECT_ROWS(struct check_values, "check-token"),
    {.name = "policy",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct check_values, policy),
     .argument = "FILE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "decide here with this policy and fresh buckets, and ask no daemon"},
    CLI_REQUEST_ROWS(struct check_values),
    CLI_COMMON_ROWS(struct check_values),
};

static json_t *text(const char *bytes, size_t len)
{
    return json_stringn(bytes, len);
}

/* The body of POST /check. NULL when a string is not UTF-8 or memory is short. */
static json_t *request_json(const struct sluice_request *request)
{
    json_t *body = json_object();
    int err = json_object_set_new(body, "key", text(request->key, request->key_len));

    if (request->scope)
        err |= json_object_set_new(body, "scope", text(request->scope, request->scope_len));
    if (request->cost != SLUICE_COST_DEFAULT)
        err |= json_object_set_new(body, "cost", json_integer(request->cost));
    if (request->key_type)
        err |= json_object_set_new(body, "keyType", text(request->key_type, request->key_type_len));
    if (request->tier)
        err |= json_object_set_new(body, "tier", text(request->tier, request->tier_len));
    if (request->address)
        err |= json_object_set_new(body, "address", text(request->address, request->address_len));
    if (request->n_labels) {
        json_t *labels = json_object();

        for (size_t i = 0; i < request->n_labels; i++) {
            const struct sluice_label *label = &request->labels[i];
            char name[SLUICE_LABEL_NAME_MAX + 2];

            snprintf(name, sizeof name, "%.*s", (int)label->name_len, label->name);
            err |= json_object_set_new(labels, name, text(label->value, label->value_len));
        }
        err |= json_object_set_new(body, "labels", labels);
    }
    if (err) {
        json_decref(body);
        return NULL;
    }
    return body;
}

/* A verdict as the daemon would write it. */
static json_t *verdict_json(const struct sluice_verdict *verdict)
{
    struct sl_date_cache dates = {0};
    char json[SL_VERDICT_JSON_MAX];

    return json_loadb(json, (size_t)(sl_write_verdict(json, verdict, &dates) - json), 0, NULL);
}

static long long integer(json_t *verdict, const char *name)
{
    return json_integer_value(json_object_get(verdict, name));
}

static void print_rejection(json_t *verdict, const struct cli_style *style)
{
    const char *reason = json_string_value(json_object_get(verdict, "reason"));
    long long retry_ms = integer(verdict, "retryAfterMs");
    char wait[48];

    printf("%srejected%s (%s)", style->bad, style->end, reason ? reason : "");
    if (retry_ms > 0) {
        cli_format_ms(retry_ms, wait, sizeof wait);
        printf(": retry in %s", wait);
    } else if (retry_ms < 0) {
        printf(": no wait will help");
    }
    putchar('\n');
}

static void print_verdict(json_t *verdict, const struct cli_style *style)
{
    const char *policy = json_string_value(json_object_get(verdict, "policy"));
    const char *source = json_string_value(json_object_get(verdict, "source"));
    const char *reset_at = json_string_value(json_object_get(verdict, "resetAt"));
    json_t *dry = json_object_get(verdict, "dryRun");
    long long limit = integer(verdict, "limit"), delay_ms = integer(verdict, "delayMs");
    char span[48];

    if (json_is_true(json_object_get(verdict, "allowed")))
        printf("%sallowed%s\n", style->good, style->end);
    else
        print_rejection(verdict, style);
    printf("  limit      %s%s%s\n", style->bold, policy && policy[0] ? policy : "none matched", style->end);
    if (limit >= 0)
        printf("  remaining  %lld of %lld%s\n", integer(verdict, "remaining"), limit,
               json_is_true(json_object_get(verdict, "warning")) ? ", past the warning mark" : "");
    if (reset_at) {
        cli_format_ms(integer(verdict, "resetAfterMs"), span, sizeof span);
        printf("  whole      in %s, at %s\n", span, reset_at);
    }
    if (delay_ms > 0) {
        cli_format_ms(delay_ms, span, sizeof span);
        printf("  hold for   %s\n", span);
    }
    printf("  decided    %s\n", source ? source : "");
    if (dry)
        printf("  dry run    %s%s%s would have rejected\n", style->warn,
               json_string_value(json_object_get(dry, "policy")), style->end);
}

static int finish(const struct cli_call *call, json_t *verdict)
{
    struct cli_style style = cli_style(call->values, stdout);
    int status = json_is_true(json_object_get(verdict, "allowed")) ? CLI_DONE : CLI_NO;

    if (call->values->json)
        return cli_print_json(verdict, status);
    print_verdict(verdict, &style);
    json_decref(verdict);
    return status;
}

static int ask_daemon(const struct cli_call *call, const struct sluice_request *request)
{
    const struct check_values *values = (const struct check_values *)call->values;
    json_t *body = request_json(request), *verdict;
    struct http_request http = {.server = values->connect.server,
                                .method = "POST",
                                .path = "/check",
                                .token = values->connect.token,
                                .ca_file = values->connect.ca_file,
                                .timeout_ms = values->connect.timeout_us / 1000};
    char why[1024], *encoded;
    long status;

    if (!body)
        return cli_fail(CLI_USAGE, "the request is not valid UTF-8, which JSON needs");
    encoded = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (!encoded)
        return cli_fail(CLI_USAGE, "out of memory");
    http.body = encoded;
    verdict = http_call_json(&http, &status, why, sizeof why);
    free(encoded);
    if (!verdict)
        return cli_fail(status == 404 ? CLI_UNREACHABLE : http_failure(status), "%s", why);
    return finish(call, verdict);
}

static int decide_here(const struct cli_call *call, const struct sluice_request *request)
{
    const struct check_values *values = (const struct check_values *)call->values;
    struct sl_limiter *limiter = cli_open_limiter(values->policy, 1000);
    const char *field, *why;
    struct sluice_verdict verdict;
    int status;

    if (!limiter)
        return CLI_USAGE;
    if (sl_limiter_check(limiter, request, &verdict, NULL, &field, &why))
        status = cli_fail(CLI_USAGE, "%s: %s", field, why);
    else
        status = finish(call, verdict_json(&verdict));
    sl_limiter_free(limiter);
    return status;
}

static int run(const struct cli_call *call)
{
    const struct check_values *values = (const struct check_values *)call->values;
    struct sluice_label labels[SLUICE_LABELS_MAX];
    struct sluice_request request;
    int status = cli_make_request(call, call->words[0], call->n_words > 1 ? call->words[1] : NULL, &values->request,
                                  labels, &request);

    if (status)
        return status;
    return values->policy ? decide_here(call, &request) : ask_daemon(call, &request);
}

const struct cli_command cli_check = {
    .name = "check",
    .arguments = "KEY [SCOPE]",
    .min_words = 1,
    .max_words = 2,
    .summary = "ask for one decision",
    .manual =
        "Asks a running daemon whether KEY may do SCOPE now, and spends its tokens if so (a cost of 0 only looks).\n"
        "With --policy the decision is made here, on fresh buckets, to try a policy without a daemon.\n\n"
        "  sluice check acct_8812 api:search\n"
        "  sluice check 203.0.113.9 'GET /v1/orders' --key-type address\n"
        "  sluice check acct_8812 api:search --cost 0 --json\n"
        "  sluice check acct_8812 --policy policy.yaml",
    .rows = check_rows,
    .n_rows = sizeof check_rows / sizeof check_rows[0],
    .values_size = sizeof(struct check_values),
    .run = run,
};
