/* `sluice policy shadow | dry-run`: a candidate policy beside the live one, and what dry-run limits would have
 * rejected. */
#include "cli/admin.h"
#include "cli/http_client.h"
#include "cli/policy_shadow.h"
#include "cli/policy_source.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ASK_EVERY_MS 50
#define ASK_TIMES 100 /* until something is given up */

/* ---- asking */

json_t *cli_shadow_ask(const struct cli_call *call, const char *method, const char *path, json_t *body,
                       const char *if_match, int *ret_status)
{
    const struct cli_connect *connect = &cli_shadow_values(call)->connect;
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL, why[2048];
    struct http_request http = {.server = connect->admin,
                                .method = method,
                                .path = path,
                                .body = text,
                                .if_match = if_match,
                                .token = connect->token,
                                .ca_file = connect->ca_file,
                                .timeout_ms = connect->timeout_us / 1000,
                                .to_admin = true};
    json_t *answer;
    long status;

    if (body && !text) {
        json_decref(body);
        *ret_status = cli_fail(CLI_USAGE, "out of memory, or the policy is no UTF-8");
        return NULL;
    }
    answer = http_call_json(&http, &status, why, sizeof why);
    if (!answer)
        *ret_status = cli_fail(http_failure(status), "%s", why);
    json_decref(body);
    free(text);
    return answer;
}

json_t *cli_shadow_signature(const struct cli_call *call)
{
    const struct cli_shadow_values *values = cli_shadow_values(call);
    char author[160];

    cli_default_author(author, sizeof author);
    return json_pack("{s:s, s:s}", "author", values->author ? values->author : author, "comment",
                     values->comment ? values->comment : "");
}

static void pause_ms(unsigned ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&pause, NULL); /* ends early when a signal comes, as it should */
}

bool cli_shadow_wait(const struct cli_call *call, const char *path, const char *member, const char *hash)
{
    for (unsigned i = 0; i < ASK_TIMES; i++) {
        int status = 0;
        json_t *answer = cli_shadow_ask(call, "GET", path, NULL, NULL, &status);
        const json_t *where = member ? json_object_get(answer, member) : answer;
        const char *found = json_string_value(json_object_get(where, "hash"));
        bool same = found && !strcmp(found, hash);

        json_decref(answer);
        if (same || !answer)
            return same;
        pause_ms(ASK_EVERY_MS);
    }
    return false;
}

/* ---- starting, stopping */

static int start(const struct cli_call *call, const char *path)
{
    struct cli_policy candidate;
    json_t *body = cli_shadow_signature(call), *answer;
    int status = cli_policy_open_file(path, SL_WARNINGS_NONE, &candidate);

    if (status) {
        json_decref(body);
        return status;
    }
    json_object_set_new(body, "policy", json_stringn(candidate.text.body, candidate.text.body_len));
    if (candidate.text.keys)
        json_object_set_new(body, "keys", json_stringn(candidate.text.keys, candidate.text.keys_len));
    if (json_object_get(body, "policy") && (!candidate.text.keys || json_object_get(body, "keys"))) {
        answer = cli_shadow_ask(call, "PUT", "/v1/shadow", body, NULL, &status);
    } else {
        answer = NULL;
        status = cli_fail(CLI_USAGE, "%s: its texts are no UTF-8", path);
        json_decref(body);
    }
    if (answer && !cli_shadow_wait(call, "/v1/shadow", "candidate", sl_policy_hash(candidate.policy)))
        status =
            cli_fail(CLI_UNREACHABLE, "the candidate was accepted, but does not run there yet; see the daemon's log");
    json_decref(answer);
    cli_policy_close(&candidate);
    return status;
}

static int stop(const struct cli_call *call)
{
    int status = CLI_DONE;
    json_t *answer = cli_shadow_ask(call, "DELETE", "/v1/shadow", cli_shadow_signature(call), NULL, &status);

    if (!answer)
        return status;
    if (call->values->json)
        return cli_print_json(answer, CLI_DONE);
    printf("the candidate is stopped\n");
    json_decref(answer);
    return CLI_DONE;
}

/* ---- showing */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Whether somebody watches, and wants to see it go on. */
static bool is_watched(const struct cli_call *call)
{
    return !call->values->json && !cli_shadow_values(call)->once && isatty(STDOUT_FILENO);
}

static int show_once(const struct cli_call *call, bool watched)
{
    struct cli_style style = cli_style(call->values, stdout);
    int status = CLI_DONE;
    json_t *report = cli_shadow_ask(call, "GET", "/v1/shadow", NULL, NULL, &status);
    bool active = json_is_true(json_object_get(report, "active"));

    if (!report)
        return status;
    if (call->values->json)
        return cli_print_json(report, active ? CLI_DONE : CLI_NO);
    admin_fit(report);
    if (watched)
        fputs("\033[H\033[2J", stdout);
    if (active)
        cli_shadow_print(report, &style);
    else
        printf("no candidate policy runs: `sluice policy shadow FILE` starts one\n");
    json_decref(report);
    return fflush(stdout) ? cli_fail(CLI_USAGE, "cannot write the answer") : active ? CLI_DONE : CLI_NO;
}

static int watch(const struct cli_call *call)
{
    const struct sigaction action = {.sa_handler = on_interrupt};
    int status;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    do {
        status = show_once(call, true);
        if (status == CLI_DONE && !interrupted)
            pause_ms(1000);
    } while (status == CLI_DONE && !interrupted);
    if (status == CLI_DONE)
        printf("\nThe candidate goes on beside the live policy; `sluice policy shadow --stop` ends it.\n");
    return status;
}

static int run_shadow(const struct cli_call *call)
{
    const struct cli_shadow_values *values = cli_shadow_values(call);
    int status;

    if (values->stop && call->n_words)
        return cli_fail(CLI_USAGE, "--stop takes no FILE");
    if (values->stop)
        return stop(call);
    status = call->n_words ? start(call, call->words[0]) : CLI_DONE;
    if (status)
        return status;
    return is_watched(call) ? watch(call) : show_once(call, false);
}

/* ---- dry runs */

static int run_dry(const struct cli_call *call)
{
    bool reset = cli_shadow_values(call)->reset;
    struct cli_style style = cli_style(call->values, stdout);
    int status = CLI_DONE;
    json_t *answer = cli_shadow_ask(call, reset ? "DELETE" : "GET", "/v1/dry-run", NULL, NULL, &status);

    if (!answer)
        return status;
    if (call->values->json)
        return cli_print_json(answer, CLI_DONE);
    admin_fit(answer);
    if (reset)
        printf("keys are counted anew\n");
    else
        cli_dry_print(answer, &style);
    json_decref(answer);
    return CLI_DONE;
}

/* ---- the commands */

static const struct sl_option shadow_rows[] = {
    CLI_ADMIN_ROW(struct cli_shadow_values),
    CLI_CONNECT_ROWS(struct cli_shadow_values, "admin-token"),
    {.group = "Shadow",
     .name = "once",
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct cli_shadow_values, once),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "print one report and exit, on a terminal too"},
    {.name = "stop",
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct cli_shadow_values, stop),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "stop the candidate, on every instance"},
    CLI_SIGNATURE_ROWS(NULL, struct cli_shadow_values, CLI_COMMENT_IS),
    CLI_COMMON_ROWS(struct cli_shadow_values),
};

const struct cli_command cli_policy_shadow = {
    .name = "policy shadow",
    .arguments = "[FILE]",
    .max_words = 1,
    .summary = "run a candidate policy beside the live one, and compare",
    .manual =
        "Makes FILE the candidate: it decides the live traffic too, after the verdict and on buckets of its own, and "
        "rejects nobody.\n"
        "Then shows what it would have decided otherwise, per limit and per key; without FILE, of the one that runs. "
        "On a terminal\n"
        "the report is refreshed each second until Ctrl-C, which leaves the candidate running. Where instances share a "
        "store, all\n"
        "of them run it. A policy with errors is not started, and status 1 says so, as when there is no candidate.\n\n"
        "  sluice policy shadow new.yaml\n"
        "  sluice policy shadow --json | jq .newlyRejected\n"
        "  sluice policy shadow --stop",
    .rows = shadow_rows,
    .n_rows = sizeof shadow_rows / sizeof shadow_rows[0],
    .values_size = sizeof(struct cli_shadow_values),
    .run = run_shadow,
};

static const struct sl_option dry_rows[] = {
    CLI_ADMIN_ROW(struct cli_shadow_values),
    CLI_CONNECT_ROWS(struct cli_shadow_values, "admin-token"),
    {.group = "Dry run",
     .name = "reset",
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct cli_shadow_values, reset),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "forget the keys that were counted so far"},
    CLI_COMMON_ROWS(struct cli_shadow_values),
};

const struct cli_command cli_policy_dry_run = {
    .name = "policy dry-run",
    .arguments = "",
    .summary = "show whom limits with `mode: dry_run` would reject",
    .manual = "Asks a daemon what its dry-run limits would have rejected: per limit since the daemon's start, and the "
              "keys that were\n"
              "met most often, with the limit.\n\n"
              "  sluice policy dry-run\n"
              "  sluice policy dry-run --reset",
    .rows = dry_rows,
    .n_rows = sizeof dry_rows / sizeof dry_rows[0],
    .values_size = sizeof(struct cli_shadow_values),
    .run = run_dry,
};
