/* `sluice why KEY`: why was this key rejected? From the daemon's memory of recent rejections. */
#include "cli/admin.h"
#include "cli/moment.h"

#include "sluice/sluice.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct why_values {
    struct cli_common common;
    struct cli_connect connect;
    char *key_type, *at, *since, *until;
    uint64_t limit;
};

static const struct sl_option why_rows[] = {
    CLI_ADMIN_ROW(struct why_values),
    CLI_CONNECT_ROWS(struct why_values, "admin-token"),
    {.group = "Which rejections",
     .name = "at",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct why_values, at),
     .argument = "TIME",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence =
         "in the minute of 12:03, or around 12:03:04 (local, the last time it was so early), or of a whole date "
         "and time"},
    {.name = "since",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct why_values, since),
     .argument = "WHEN",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "from a time on, or for the last 10m"},
    {.name = "until",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct why_values, until),
     .argument = "WHEN",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "up to a time, or to 10m ago"},
    {.name = "key-type",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct why_values, key_type),
     .argument = "TYPE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "what the key is: api_key, user, address, or another word of the policy; without it, any"},
    {.name = "count",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct why_values, limit),
     .argument = "N",
     .preset = "20",
     .min = 1,
     .max = 1000,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "entries at most, the latest first"},
    CLI_COMMON_ROWS(struct why_values),
};

/* What was asked about. */
struct window {
    struct moment since, until; /* Unix ms; `given` false: no bound */
    int64_t now_ms;
};

static int read_moment(const char *name, const char *text, int64_t now_ms, struct moment *ret)
{
    if (!text)
        return 0;
    return moment_read(text, now_ms, ret)
               ? cli_fail(CLI_USAGE, "--%s: `%s` is no time: write 12:03, 12:03:04, 2026-01-31T12:03:04Z, or 10m", name,
                          text)
               : 0;
}

/* The minute that --at names, or some seconds around the second. */
static int read_window(const struct why_values *values, struct window *ret)
{
    struct moment at = {.given = false};
    int status;

    *ret = (struct window){.now_ms = admin_now_ms()};
    if (values->at && (values->since || values->until))
        return cli_fail(CLI_USAGE, "--at says it all: leave --since and --until away");
    status = read_moment("at", values->at, ret->now_ms, &at);
    if (!status)
        status = read_moment("since", values->since, ret->now_ms, &ret->since);
    if (!status)
        status = read_moment("until", values->until, ret->now_ms, &ret->until);
    if (at.given) {
        ret->since = (struct moment){.given = true, .ms = at.ms - (at.minute ? 0 : 5000)};
        ret->until = (struct moment){.given = true, .ms = at.ms + (at.minute ? 59999 : 5999)};
    }
    return status;
}

static json_t *ask(const struct cli_call *call, const struct window *window, int *ret_status)
{
    const struct why_values *values = (const struct why_values *)call->values;
    struct admin_path path;
    json_t *answer;
    char why[1024];
    long status;

    admin_path_begin(&path, "/v1/rejections");
    admin_path_add(&path, "key", call->words[0]);
    admin_path_add(&path, "keyType", values->key_type);
    admin_path_add_number(&path, "limit", values->limit);
    if (window && window->since.given)
        admin_path_add_number(&path, "since", (uint64_t)window->since.ms);
    if (window && window->until.given)
        admin_path_add_number(&path, "until", (uint64_t)window->until.ms);
    answer = admin_ask(&values->connect, "GET", &path, &status, why, sizeof why);
    if (answer && json_is_array(json_object_get(answer, "rejections")))
        return answer;
    *ret_status = answer ? cli_fail(CLI_UNREACHABLE, "the answer is not one of rejections")
                         : cli_fail(admin_failure(status), "%s", why);
    json_decref(answer);
    return NULL;
}

/* ---- for people */

/* ", it cost 10", where that is known. */
static void print_wanted(const json_t *r, const char *otherwise)
{
    if (json_object_get(r, "cost"))
        printf("it cost %lld", admin_number(r, "cost"));
    else
        printf("%s", otherwise);
}

/* By whom the limit was another than the policy says; false: by nobody, as far as is known. */
static bool print_override(const json_t *r, const char *before)
{
    const json_t *override = json_object_get(r, "override");
    char who[ADMIN_OVERRIDE_MAX], rate[ADMIN_RATE_MAX];

    if (!json_is_true(json_object_get(r, "overridden")))
        return false;
    if (override)
        printf("%s%s by an override of %s", before, admin_rate(override, rate), admin_override(override, who));
    else
        printf("%sby an override that is gone or another by now: see `sluice override history`", before);
    return true;
}

/* "rate_limited: 3 of 100 were left, it cost 10". */
static void print_reason(const json_t *r)
{
    char reason[ADMIN_TEXT_MAX];
    long long limit = admin_number(r, "limit"), remaining = admin_number(r, "remaining");

    admin_text(r, "reason", reason);
    printf("    reason   %s", reason);
    if (!strcmp(reason, "rate_limited") && limit >= 0 && remaining >= 0) {
        printf(": %lld of %lld %s left, ", remaining, limit, remaining == 1 ? "was" : "were");
        print_wanted(r, "less than it wanted");
    } else if (!strcmp(reason, "cost_exceeds_limit")) {
        printf(": ");
        print_wanted(r, "it wanted more");
        printf(", and the limit can never hold more than %lld", limit);
    } else if (!strcmp(reason, "store_unavailable")) {
        printf(": the store did not answer, and the limit is `on_store_failure: closed`");
    } else if (!strcmp(reason, "blocked")) {
        if (!print_override(r, ": "))
            printf(": the limit is `rate: blocked` and lets nobody pass");
    } else if (!strcmp(reason, "unmatched")) {
        printf(": no limit matched, and the policy says `unmatched: deny`, or the key is in no table and `unknown: "
               "deny`");
    }
    if (strcmp(reason, "blocked") != 0)
        print_override(r, "\n    limit    ");
    putchar('\n');
}

/* Which of what can be meant, where the limit is known. */
static const char *meaning_of(const json_t *r, const char *source)
{
    char asked_of[ADMIN_TEXT_MAX];

    admin_text(r, "askedOf", asked_of);
    if (!strcmp(source, "shared"))
        return "the store, which all instances share";
    if (!strcmp(source, "degraded"))
        return "the failure mode, as the store did not answer in time";
    if (strcmp(source, "local") != 0)
        return "unknown";
    if (!asked_of[0])
        return "this instance by itself";
    if (!strcmp(asked_of, "instance"))
        return "this instance's own table, which is all that counts for this limit";
    return "this instance, without asking the store: it remembered the store's no, or had seen enough itself";
}

static void print_last(const json_t *r)
{
    char clock[ADMIN_CLOCK_MAX], scope[ADMIN_TEXT_MAX], wait[48];
    long long retry = admin_number(r, "retryAfterMs");
    int64_t last = admin_time(r, "last");

    admin_text(r, "scope", scope);
    printf("    last     %s", admin_clock(last, clock));
    if (scope[0])
        printf(", scope `%s`", scope);
    if (retry < 0) {
        printf("; it would never have been allowed\n");
        return;
    }
    cli_format_ms(retry, wait, sizeof wait);
    printf("; allowed again after %s, at %s, if nothing came between\n", wait, admin_clock(last + retry, clock));
}

/* "version 12 (0123456789ab)", or the hash alone. */
static void print_version(const json_t *object)
{
    char hash[ADMIN_TEXT_MAX];
    long long version = admin_number(object, "policyVersion");

    admin_text(object, "policyHash", hash);
    if (version)
        printf("version %lld (%s)", version, hash);
    else
        printf("%s", hash);
}

/* In quotes for a shell: what clients send may hold some itself. */
static void print_quoted(const char *text)
{
    printf(" '");
    for (; *text; text++)
        if (*text == '\'')
            printf("'\\''");
        else
            putchar(*text);
    putchar('\'');
}

/* A command that can be pasted: versions lie on the store. */
static void print_explain(const json_t *r, const char *key)
{
    char scope[ADMIN_TEXT_MAX], type[ADMIN_TEXT_MAX];
    const char *store = getenv("SLUICE_STORE");
    long long version = admin_number(r, "policyVersion");

    printf("    see      sluice policy explain ");
    if (version)
        printf("@%lld", version);
    else
        printf("POLICY");
    print_quoted(key);
    if (admin_text(r, "scope", scope)[0])
        print_quoted(scope);
    if (strcmp(admin_text(r, "keyType", type), "api_key") != 0)
        printf(" --key-type %s", type);
    if (version && !(store && store[0]))
        printf(" --store URL");
    putchar('\n');
}

static void print_policy(const json_t *answer, const json_t *r, const char *key)
{
    char then[ADMIN_TEXT_MAX], now[ADMIN_TEXT_MAX];
    bool same = !strcmp(admin_text(r, "policyHash", then), admin_text(answer, "policyHash", now));

    printf("    policy   ");
    print_version(r);
    if (same) {
        printf(", in force still\n");
    } else {
        printf(" then, ");
        print_version(answer);
        printf(" now\n");
    }
    print_explain(r, key);
}

static void print_rejection(const json_t *answer, const json_t *r, const struct cli_style *style)
{
    char from[ADMIN_CLOCK_MAX], to[ADMIN_CLOCK_MAX], limit[ADMIN_TEXT_MAX], is[ADMIN_TEXT_MAX], key[ADMIN_TEXT_MAX],
        type[ADMIN_TEXT_MAX], source[ADMIN_TEXT_MAX];
    int64_t first = admin_time(r, "first"), last = admin_time(r, "last");
    long long count = admin_number(r, "count");

    admin_text(r, "key", key);
    admin_text(r, "source", source);
    printf("%s%s", style->bold, admin_clock(first, from));
    if (count > 1)
        printf(" ... %s", admin_clock(last, to));
    printf("%s  %s (%s) ", style->end, key, admin_text(r, "keyType", type));
    if (count == 1)
        printf("%srejected%s", style->bad, style->end);
    else
        printf("%srejected %lld times%s", style->bad, count, style->end);
    if (admin_text(r, "policy", limit)[0])
        printf(" by limit `%s`", limit);
    if (admin_text(r, "limitIs", is)[0])
        printf(" (%s)", is);
    printf("\n");
    if (!json_is_true(json_object_get(r, "certain")))
        printf("    when     it went on for longer than an hour: whether there was one in the time asked about is no "
               "longer known\n");
    print_reason(r);
    printf("    told by  %s: %s\n", source, meaning_of(r, source));
    print_last(r);
    print_policy(answer, r, key);
}

/* How far back all this reaches, honestly. */
static void print_reach(const json_t *answer, const struct window *window)
{
    char clock[ADMIN_CLOCK_MAX];
    long long dropped = admin_number(answer, "dropped");
    int64_t reach = admin_time(answer, "reachesBackTo");

    if (dropped)
        printf("The daemon remembers every rejection since %s; of %lld earlier entries it has dropped the memory.\n",
               admin_clock(reach, clock), dropped);
    else
        printf("The daemon remembers every rejection since it started at %s.\n", admin_clock(reach, clock));
    if (window->since.given && window->since.ms < reach)
        printf("What was asked about began before that: of then it may know nothing.\n");
}

static void print_found(const json_t *answer, const struct window *window, const struct cli_style *style)
{
    const json_t *list = json_object_get(answer, "rejections"), *r;
    long long left = admin_number(answer, "matching") - (long long)json_array_size(list);
    size_t i;

    json_array_foreach(list, i, r)
    {
        print_rejection(answer, r, style);
    }
    if (left > 0)
        printf("%lld more; see --count\n", left);
    printf("%s", style->dim);
    print_reach(answer, window);
    printf("%s", style->end);
}

/* Nothing in that time: what there is besides. */
static void print_nearest(const struct cli_call *call)
{
    char from[ADMIN_CLOCK_MAX], to[ADMIN_CLOCK_MAX];
    int status = CLI_DONE;
    json_t *answer = ask(call, NULL, &status);
    const json_t *r = answer ? json_array_get(json_object_get(answer, "rejections"), 0) : NULL;

    if (r)
        printf("At other times there were: the latest from %s to %s.\n", admin_clock(admin_time(r, "first"), from),
               admin_clock(admin_time(r, "last"), to));
    json_decref(answer);
}

static void print_none(const struct cli_call *call, const json_t *answer, const struct window *window)
{
    char clock[ADMIN_CLOCK_MAX];
    bool bounded = window->since.given || window->until.given;

    printf("no rejection of `%s` is remembered by this daemon", call->words[0]);
    if (window->since.given)
        printf(" from %s", admin_clock(window->since.ms, clock));
    if (window->until.given)
        printf(" until %s", admin_clock(window->until.ms, clock));
    printf(".\n");
    if (bounded)
        print_nearest(call);
    print_reach(answer, window);
    printf("Other instances remember their own: ask each, with --admin.\n");
}

static int run_why(const struct cli_call *call)
{
    const struct why_values *values = (const struct why_values *)call->values;
    struct cli_style style = cli_style(call->values, stdout);
    struct window window;
    int status = read_window(values, &window);
    json_t *answer = status ? NULL : ask(call, &window, &status);

    if (!answer)
        return status;
    status = json_array_size(json_object_get(answer, "rejections")) ? CLI_DONE : CLI_NO;
    if (call->values->json)
        return cli_print_json(answer, (enum cli_status)status);
    if (status == CLI_DONE)
        print_found(answer, &window, &style);
    else
        print_none(call, answer, &window);
    json_decref(answer);
    return status;
}

const struct cli_command cli_why = {
    .name = "why",
    .arguments = "KEY",
    .min_words = 1,
    .max_words = 1,
    .summary = "say why a key was rejected lately: by which limit, when, how often, who said so",
    .manual =
        "Asks a daemon's admin listener for the rejections of KEY that it remembers. Rejections by one limit for one\n"
        "reason are one entry: the first, the last, and how often. Each instance remembers its own. Times are\n"
        "printed in UTC; one of --at, --since and --until without a Z behind it is local.\n"
        "Status 1: none is remembered.\n\n"
        "  sluice why acct_8812\n"
        "  sluice why acct_8812 --at 12:03\n"
        "  sluice why 203.0.113.9 --since 10m --json",
    .rows = why_rows,
    .n_rows = sizeof why_rows / sizeof why_rows[0],
    .values_size = sizeof(struct why_values),
    .run = run_why,
};
