/* `sluice webhook test`: one notification to a webhook, signed as the daemon signs, to see whether it is taken. */
#include "base/clock.h"
#include "cli/cli.h"
#include "notify/message.h"
#include "notify/notifier.h"
#include "notify/post.h"
#include "notify/sign.h"
#include "notify/target.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct webhook_values {
    struct cli_common common;
    char *secret, *ca_file;
};

static int check_secret(const char *value, char *why, size_t why_size)
{
    if (strlen(value) >= SL_WEBHOOK_SECRET_MIN && strlen(value) <= SL_WEBHOOK_SECRET_MAX)
        return 0;
    snprintf(why, why_size, "a secret for signatures is %u to %u bytes long", SL_WEBHOOK_SECRET_MIN,
             SL_WEBHOOK_SECRET_MAX);
    return -1;
}

static const struct sl_option webhook_rows[] = {
    {.group = "Webhook",
     .name = "webhook-secret",
     .type = SL_OPTION_SECRET,
     .offset = offsetof(struct webhook_values, secret),
     .argument = "SECRET",
     .check = check_secret,
     .sentence = "the key of the signature, as the daemon's --webhook-secret; @/PATH reads it from a file"},
    {.name = "webhook-ca",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct webhook_values, ca_file),
     .argument = "FILE",
     .sentence = "PEM certificates to trust for https; without it the system's"},
    CLI_COMMON_ROWS(struct webhook_values),
};

struct outcome {
    unsigned status;
    char why[SL_POST_WHY_MAX];
};

static void on_posted(void *ctx, const struct sl_posted *posted)
{
    struct outcome *outcome = ctx;

    outcome->status = posted->status;
    snprintf(outcome->why, sizeof outcome->why, "%s", posted->why);
}

static int post(uv_loop_t *loop, const char *ca_file, const struct sl_post *request, struct outcome *outcome)
{
    struct sl_poster *poster;
    int err = sl_poster_new(loop, ca_file, &poster);

    if (err)
        return err;
    err = sl_poster_post(poster, request, on_posted, outcome);
    uv_run(loop, UV_RUN_DEFAULT); /* until nothing is under way */
    sl_poster_free(poster);
    uv_run(loop, UV_RUN_DEFAULT);
    return err;
}

/* Returns 0, or a negative code when nothing could be sent. */
static int send_test(const struct webhook_values *values, const char *url, const struct sl_message *message,
                     uint64_t unix_s, struct outcome *outcome)
{
    char signature[SL_SIGNATURE_MAX], lines[2][SL_SIGNATURE_MAX + 32];
    const char *const headers[] = {"Content-Type: application/json", "User-Agent: sluice", "Sluice-Event: test",
                                   lines[0], lines[1]};
    struct sl_post request = {.url = url,
                              .headers = headers,
                              .n_headers = sizeof headers / sizeof *headers,
                              .body = message->body,
                              .len = message->len};
    uv_loop_t loop;
    int err = sl_sign(values->secret, unix_s, message->body, message->len, signature);

    if (err || uv_loop_init(&loop))
        return err ? err : -1;
    snprintf(lines[0], sizeof lines[0], "Sluice-Signature: %s", signature);
    snprintf(lines[1], sizeof lines[1], "Sluice-Delivery: %s", message->id);
    err = post(&loop, values->ca_file, &request, outcome);
    uv_loop_close(&loop);
    return err;
}

static int tell(const struct webhook_values *values, const char *url, const struct sl_message *message,
                const struct outcome *outcome)
{
    bool taken = outcome->status >= 200 && outcome->status <= 299;
    enum cli_status status = taken ? CLI_DONE : outcome->status ? CLI_NO : CLI_UNREACHABLE;
    char shown[SL_TARGET_TEXT_MAX];

    sl_target_text(url, shown);
    if (values->common.json)
        return cli_print_json(json_pack("{s:s, s:s, s:b, s:i, s:s}", "webhook", shown, "id", message->id, "taken",
                                        taken, "status", (int)outcome->status, "why", outcome->why),
                              status);
    if (!outcome->status)
        return cli_fail(status, "no answer from %s: %s", shown, outcome->why);
    if (!taken)
        return cli_fail(status, "%s answered with status %u; only 2xx means that it was taken", shown, outcome->status);
    printf("%s took %s with status %u\n", shown, message->id, outcome->status);
    return status;
}

static int run(const struct cli_call *call)
{
    const struct webhook_values *values = (const struct webhook_values *)call->values;
    struct sl_message_source source = {.instance = "sluice webhook test"};
    struct sl_clock clock = sl_clock_system();
    uint64_t now_us = clock.wall_us(clock.ctx);
    struct outcome outcome = {0};
    struct sl_message *message;
    char why[200];
    int status;

    if (sl_target_check(call->words[0], why, sizeof why))
        return cli_fail(CLI_USAGE, "%s", why);
    if (!values->secret)
        return cli_fail(CLI_USAGE, "--webhook-secret is missing: what is sent is signed");
    message = sl_message_test(&source, now_us / 1000);
    if (!message || send_test(values, call->words[0], message, now_us / 1000000, &outcome))
        status = cli_fail(CLI_USAGE, "nothing was sent: out of memory");
    else
        status = tell(values, call->words[0], message, &outcome);
    sl_message_unref(message);
    return status;
}

const struct cli_command cli_webhook_test = {
    .name = "webhook test",
    .arguments = "URL",
    .min_words = 1,
    .max_words = 1,
    .summary = "send a notification to a webhook, to see whether it is taken",
    .manual =
        "Sends one notification with the event `test`, signed as sluiced signs, and says what the receiver made of "
        "it. It is sent\n"
        "once: status 0 for an answer of 2xx, 1 for another one, 3 when there is none.\n\n"
        "  sluice webhook test https://hooks.example.com/sluice --webhook-secret @/etc/sluice/webhook-secret",
    .rows = webhook_rows,
    .n_rows = sizeof webhook_rows / sizeof webhook_rows[0],
    .values_size = sizeof(struct webhook_values),
    .run = run,
};
