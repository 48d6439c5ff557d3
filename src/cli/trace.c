/* `sluice trace KEY`: the next decisions about a key, as they happen. */
#include "cli/admin.h"
#include "sluice/sluice.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLL_NS 100000000L
#define RETRIES 20 /* polls without an answer until the daemon is given up */

struct trace_values {
    struct cli_common common;
    struct cli_connect connect;
    char *key_type, *scope;
    uint64_t count, for_us;
    bool log;
};

static const struct sl_option trace_rows[] = {
    CLI_ADMIN_ROW(struct trace_values),
    CLI_CONNECT_ROWS(struct trace_values, "admin-token"),
    {.group = "Trace",
     .name = "count",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct trace_values, count),
     .argument = "N",
     .preset = "10",
     .min = 1,
     .max = 1000,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "end after so many decisions"},
    {.name = "for",
     .type = SL_OPTION_DURATION,
     .offset = offsetof(struct trace_values, for_us),
     .argument = "DURATION",
     .preset = "60s",
     .min = 1000000,
     .max = UINT64_C(600000000),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "or after so long"},
    {.name = "scope",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct trace_values, scope),
     .argument = "GLOB",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "only requests whose scope it matches: `*` is any run of characters, `?` one"},
    {.name = "key-type",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct trace_values, key_type),
     .argument = "TYPE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "what the key is: api_key (the default), user, address, or another word of the policy"},
    {.name = "log",
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct trace_values, log),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "write the decisions to the daemon's log too"},
    CLI_COMMON_ROWS(struct trace_values),
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

/* ---- for people */

static void print_verdict(const json_t *verdict, const struct cli_style *style)
{
    char reason[ADMIN_TEXT_MAX], policy[ADMIN_TEXT_MAX], source[ADMIN_TEXT_MAX], wait[48];
    bool allowed = json_is_true(json_object_get(verdict, "allowed"));
    long long retry = admin_number(verdict, "retryAfterMs"), delay = admin_number(verdict, "delayMs");

    admin_text(verdict, "policy", policy);
    admin_text(verdict, "source", source);
    printf("%s%s%s", allowed ? style->good : style->bad, allowed ? "allowed " : "rejected", style->end);
    if (!allowed)
        printf(" %s", admin_text(verdict, "reason", reason));
    if (policy[0])
        printf(" by `%s`", policy);
    else
        printf(" by no limit");
    printf(" (%s)", source);
    if (admin_number(verdict, "limit") >= 0)
        printf(", %lld of %lld left", admin_number(verdict, "remaining"), admin_number(verdict, "limit"));
    if (retry) {
        cli_format_ms(retry, wait, sizeof wait);
        printf(", retry %s%s", retry < 0 ? "never" : "after ", retry < 0 ? "" : wait);
    }
    if (delay) {
        cli_format_ms(delay, wait, sizeof wait);
        printf(", to be held for %s", wait);
    }
    if (json_is_true(json_object_get(verdict, "warning")))
        printf(", %swarning%s", style->warn, style->end);
}

static void print_part(const json_t *decision, const char *member, const char *name)
{
    char text[ADMIN_TEXT_MAX];

    if (admin_text(decision, member, text)[0])
        printf("  %s `%s`", name, text);
}

/* "; 50/m by an override of ops@desk, until ...": of a bucket, or of what decided. */
static void print_override(const json_t *object, const char *before)
{
    const json_t *override = json_object_get(object, "override");
    char who[ADMIN_OVERRIDE_MAX], rate[ADMIN_RATE_MAX];

    if (!json_is_true(json_object_get(object, "overridden")))
        return;
    if (override)
        printf("%s%s by an override of %s", before, admin_rate(override, rate), admin_override(override, who));
    else
        printf("%sby an override that is gone or another by now", before);
}

/* Is what decided no bucket, and so in no line below? */
static bool has_no_bucket(const json_t *decision, const char *policy)
{
    const json_t *bucket;
    char name[ADMIN_TEXT_MAX];
    size_t i;

    json_array_foreach(json_object_get(decision, "buckets"), i, bucket)
    {
        if (!strcmp(admin_text(bucket, "policy", name), policy))
            return false;
    }
    return true;
}

/* Which bucket had room, and who said so. */
static void print_bucket(const json_t *bucket, const struct cli_style *style)
{
    char policy[ADMIN_TEXT_MAX], source[ADMIN_TEXT_MAX], wait[48];
    bool allowed = json_is_true(json_object_get(bucket, "allowed"));
    long long next = admin_number(bucket, "nextMs"), limit = admin_number(bucket, "limit");

    printf("    %s%-3s%s  %-24s %-8s", allowed ? style->good : style->bad, allowed ? "yes" : "no", style->end,
           admin_text(bucket, "policy", policy), admin_text(bucket, "source", source));
    if (!json_object_get(bucket, "cost") && !limit)
        printf("  blocked");
    else if (limit >= 0)
        printf("  %lld of %lld left", admin_number(bucket, "remaining"), limit);
    if (json_object_get(bucket, "cost"))
        printf(", it cost %lld", admin_number(bucket, "cost"));
    if (next > 0) {
        cli_format_ms(next, wait, sizeof wait);
        printf(", more in %s", wait);
    }
    print_override(bucket, "; ");
    printf("%s\n", json_is_true(json_object_get(bucket, "dryRun")) ? "  (dry run: does not count)" : "");
}

static void print_decision(const json_t *decision, const struct cli_style *style)
{
    const json_t *verdict = json_object_get(decision, "verdict"), *bucket;
    char clock[ADMIN_CLOCK_MAX], policy[ADMIN_TEXT_MAX];
    size_t i;

    printf("%s%s%s  ", style->bold, admin_clock(admin_time(decision, "time"), clock), style->end);
    print_verdict(verdict, style);
    if (has_no_bucket(decision, admin_text(verdict, "policy", policy)))
        print_override(decision, "; ");
    printf("\n   ");
    print_part(decision, "scope", "scope");
    if (json_object_get(decision, "cost"))
        printf("  cost %lld", admin_number(decision, "cost"));
    print_part(decision, "tier", "tier");
    print_part(decision, "endpoint", "endpoint");
    printf("\n");
    json_array_foreach(json_object_get(decision, "buckets"), i, bucket)
    {
        print_bucket(bucket, style);
    }
    if (json_object_get(decision, "bucketsLeftOut"))
        printf("    and %lld more buckets\n", admin_number(decision, "bucketsLeftOut"));
    if (json_object_get(verdict, "dryRun"))
        printf("    %sdry run: `%s` would have rejected it%s\n", style->warn,
               admin_text(json_object_get(verdict, "dryRun"), "policy", policy), style->end);
}

/* ---- following one */

struct follower {
    const struct cli_call *call;
    struct trace_values *values;
    struct cli_style style;
    char id[20];
    uint64_t seen; /* the number of the last decision that was printed */
};

static json_t *arm(const struct cli_call *call, struct trace_values *values, int *ret_status)
{
    struct admin_path path;
    char why[1024];
    long status;
    json_t *answer;

    admin_path_begin(&path, "/v1/traces");
    admin_path_add(&path, "key", call->words[0]);
    admin_path_add(&path, "keyType", values->key_type);
    admin_path_add(&path, "scope", values->scope);
    admin_path_add_number(&path, "count", values->count);
    admin_path_add_number(&path, "seconds", (values->for_us + 999999) / 1000000);
    admin_path_add(&path, "log", values->log ? "true" : NULL);
    answer = admin_ask(&values->connect, "POST", &path, &status, why, sizeof why);
    if (!answer && (status == 401 || status == 403))
        *ret_status = cli_fail(admin_failure(status),
                               "%s A trace is armed in the daemon: it takes the token that may write, as --admin-token "
                               "or in SLUICE_ADMIN_TOKEN",
                               why);
    else if (!answer)
        *ret_status = cli_fail(admin_failure(status), "%s", why);
    return answer;
}

static void print_all(struct follower *f, const json_t *answer)
{
    const json_t *decisions = json_object_get(answer, "decisions"), *decision;
    size_t i;

    json_array_foreach(decisions, i, decision)
    {
        if (f->values->common.json) {
            json_dumpf(decision, stdout, JSON_COMPACT);
            putchar('\n');
        } else {
            print_decision(decision, &f->style);
        }
        f->seen = (uint64_t)admin_number(decision, "seq");
    }
    fflush(stdout);
}

/* One look. Returns CLI_DONE with *ret_more, or CLI_UNREACHABLE. */
static int look(struct follower *f, bool *ret_more, char *why, size_t why_size, bool *ret_gone)
{
    struct admin_path path;
    char text[64], state[ADMIN_TEXT_MAX];
    json_t *answer;
    long status;

    snprintf(text, sizeof text, "/v1/traces/%s", f->id);
    admin_path_begin(&path, text);
    admin_path_add_number(&path, "after", f->seen);
    answer = admin_ask(&f->values->connect, "GET", &path, &status, why, why_size);
    *ret_gone = status != 0;
    if (!answer)
        return CLI_UNREACHABLE;
    print_all(f, answer);
    *ret_more =
        !strcmp(admin_text(answer, "state", state), "armed") || f->seen < (uint64_t)admin_number(answer, "recorded");
    json_decref(answer);
    return CLI_DONE;
}

static void end(struct follower *f)
{
    struct admin_path path;
    char text[64], why[1024];
    long status;

    snprintf(text, sizeof text, "/v1/traces/%s", f->id);
    admin_path_begin(&path, text);
    json_decref(admin_ask(&f->values->connect, "DELETE", &path, &status, why, sizeof why));
}

/* Until it has ended, or a signal came. One answer that does not come is no reason to give up. */
static int follow(struct follower *f)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    unsigned failed = 0;
    char why[1024];
    bool more = true, gone = false;

    while (more && !stopped) {
        if (look(f, &more, why, sizeof why, &gone) == CLI_DONE)
            failed = 0;
        else if (gone || ++failed == RETRIES)
            return cli_fail(CLI_UNREACHABLE, "%s%s", why, gone ? " Has the daemon been started anew?" : "");
        if (more && !stopped)
            nanosleep(&pause, NULL);
    }
    return CLI_DONE;
}

static int run_trace(const struct cli_call *call)
{
    struct trace_values *values = (struct trace_values *)call->values;
    struct follower f = {.call = call, .values = values, .style = cli_style(call->values, stdout)};
    char wait[48], id[ADMIN_TEXT_MAX];
    int status = CLI_DONE;
    json_t *armed;

    watch_signals();
    armed = arm(call, values, &status);
    if (!armed)
        return status;
    snprintf(f.id, sizeof f.id, "%s", admin_text(armed, "id", id));
    json_decref(armed);
    cli_format_ms((long long)(values->for_us / 1000), wait, sizeof wait);
    if (values->count == 1)
        fprintf(stderr, "sluice: waiting for the next decision about `%s`, at most %s; Ctrl-C ends it\n",
                call->words[0], wait);
    else
        fprintf(stderr, "sluice: waiting for the next %llu decisions about `%s`, at most %s; Ctrl-C ends it\n",
                (unsigned long long)values->count, call->words[0], wait);
    status = follow(&f);
    end(&f);
    if (status == CLI_DONE && !f.seen)
        return stopped ? CLI_NO : cli_fail(CLI_NO, "no decision about `%s` came to this daemon", call->words[0]);
    return status;
}

const struct cli_command cli_trace = {
    .name = "trace",
    .arguments = "KEY",
    .min_words = 1,
    .max_words = 1,
    .summary = "show the next decisions about a key as they happen: which limit, which tier said so",
    .manual =
        "Asks a daemon's admin listener to record what it decides about KEY, and prints it: the verdict, the key's "
        "tier,\n"
        "the endpoint, and every bucket that was consulted: whether it had room, who said so (`local`: this instance,\n"
        "`shared`: the store, `degraded`: the failure mode), what is left. Each instance sees its own decisions. "
        "Other\n"
        "keys are not touched; what the key is decided does not change. It needs the admin token that may write. Times "
        "are\n"
        "UTC. Status 1: no decision came.\n\n"
        "  sluice trace acct_8812\n"
        "  sluice trace acct_8812 --scope 'GET /v1/*' --count 100 --for 5m --json",
    .rows = trace_rows,
    .n_rows = sizeof trace_rows / sizeof trace_rows[0],
    .values_size = sizeof(struct trace_values),
    .run = run_trace,
};
