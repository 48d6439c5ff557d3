/* `sluice override set | list | remove | history`. */
#include "cli/override.h"
#include "cli/admin.h"
#include "cli/http_client.h"
#include "cli/versions.h"
#include "policy/instant.h"
#include "policy/override_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATH "/v1/overrides"

/* ---- through a daemon */

static const struct override_values *values_of(const struct cli_call *call)
{
    return (const struct override_values *)call->values;
}

/* A sentence of the daemon, as the command line writes its own: the store's way says the same. */
static const char *as_clause(char *sentence)
{
    size_t len = strlen(sentence);

    if (len > 1 && sentence[0] >= 'A' && sentence[0] <= 'Z' && !(sentence[1] >= 'A' && sentence[1] <= 'Z'))
        sentence[0] = (char)(sentence[0] - 'A' + 'a');
    if (len && sentence[len - 1] == '.')
        sentence[len - 1] = '\0';
    return sentence;
}

/* `body`: what to send; NULL: nothing. */
static json_t *ask(const struct cli_call *call, const char *method, const struct admin_path *path, const char *body,
                   int *ret_status)
{
    struct cli_connect connect = values_of(call)->connect;
    char why[1024];
    long status;
    json_t *answer;

    connect.timeout_us = values_of(call)->at.timeout_us;
    answer = admin_send(&connect, method, path, body, &status, why, sizeof why);
    if (!answer)
        *ret_status = cli_fail(http_failure(status), "%s", as_clause(why));
    return answer;
}

/* ---- what is set or removed */

/* A time, or how long from now. */
static int read_until(const char *text, uint64_t *ret_us)
{
    struct timespec now;
    const char *why;
    uint64_t us;

    if (text[0] && text[strlen(text) - 1] != 'Z' && !strchr(text, ':') &&
        sl_duration_parse(text, strlen(text), &us, &why) == 0) {
        clock_gettime(CLOCK_REALTIME, &now);
        *ret_us = ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000) * 1000 + us;
        return 0;
    }
    if (sl_instant_parse(text, strlen(text), ret_us, &why) == 0)
        return 0;
    return cli_fail(CLI_USAGE, "--until: %s, or how long it shall last: 2h", why);
}

static int read_rate(const char *text, struct sl_rate *ret_rate)
{
    const char *why;

    if (!text)
        return cli_fail(CLI_USAGE, "give the rate: --rate COUNT/PERIOD, `blocked` or `unlimited`");
    if (sl_rate_parse(text, strlen(text), ret_rate, &why))
        return cli_fail(CLI_USAGE, "--rate: %s", why);
    return 0;
}

/* Checked by itself. `remove`: only what it is known by. */
static int read_override(const struct cli_call *call, bool remove, struct sl_override *ret_override)
{
    static char author[SL_OVERRIDE_AUTHOR_MAX + 1];
    const struct override_values *values = values_of(call);
    struct sl_override o = {.key = call->words[0],
                            .key_len = strlen(call->words[0]),
                            .key_type = values->key_type,
                            .limit = values->limit,
                            .rate = {.kind = SL_RATE_BLOCKED},
                            .burst = (uint32_t)values->burst,
                            .author = values->author ? values->author : author,
                            .comment = values->comment ? values->comment : ""};
    const char *field, *wrong;
    int status = remove ? 0 : read_rate(values->rate, &o.rate);

    cli_default_author(author, sizeof author);
    if (!status && values->until)
        status = read_until(values->until, &o.until_us);
    if (status)
        return status;
    wrong = sl_override_check(&o, &field);
    if (wrong)
        return cli_fail(CLI_USAGE, "%s", wrong);
    *ret_override = o;
    return 0;
}

/* ---- for people */

static const char *text_of(json_t *object, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : otherwise;
}

static void write_rate(json_t *override, char *buf, size_t size)
{
    json_t *burst = json_object_get(override, "burst");

    if (json_is_integer(burst))
        snprintf(buf, size, "%s burst %lld", text_of(override, "rate", "?"), (long long)json_integer_value(burst));
    else
        snprintf(buf, size, "%s", json_is_object(override) ? text_of(override, "rate", "?") : "none");
}

/* "9000/m instead of limit `free`: ...", and what was there before. */
static void print_set(json_t *entry, const char *to, const char *from)
{
    json_t *now = json_object_get(entry, "new");
    long long limits = json_integer_value(json_object_get(entry, "limits"));

    printf("%s", to);
    if (json_is_string(json_object_get(entry, "instead")))
        printf(", in place of %s", text_of(entry, "instead", ""));
    else if (limits)
        printf(", in place of %lld limits", limits);
    if (json_is_object(json_object_get(entry, "old")))
        printf("; the override before was %s", from);
    else
        printf("; no override before");
    if (json_is_string(json_object_get(now, "until")))
        printf("; until %s", text_of(now, "until", ""));
    putchar('\n');
    if (json_is_string(json_object_get(entry, "where")))
        printf("note: it %s\n", text_of(entry, "where", ""));
}

static int print_change(const struct cli_call *call, json_t *entry, bool remove)
{
    json_t *known;
    char from[96], to[96];

    if (call->values->json)
        return cli_print_json(entry, CLI_DONE);
    admin_fit(entry);
    known = json_object_get(entry, remove ? "old" : "new");
    write_rate(json_object_get(entry, "old"), from, sizeof from);
    write_rate(json_object_get(entry, "new"), to, sizeof to);
    printf("%s (%s), %s: ", call->words[0], text_of(known, "keyType", "?"), text_of(known, "limit", "every limit"));
    if (remove)
        printf("removed, the override was %s\n", from);
    else
        print_set(entry, to, from);
    if (json_object_get(entry, "note"))
        printf("note: %s\n", text_of(entry, "note", ""));
    json_decref(entry);
    return CLI_DONE;
}

static void print_override(json_t *override, const struct cli_style *style)
{
    const char *state = text_of(override, "state", "?");
    const char *color = !strcmp(state, "active") ? style->good : style->warn;
    char rate[96];

    write_rate(override, rate, sizeof rate);
    printf("%-24s %-10s %-20s %-22s %-26s %s%-8s%s %s at %s%s%s\n", text_of(override, "key", "?"),
           text_of(override, "keyType", "?"), text_of(override, "limit", "-"), rate, text_of(override, "until", "-"),
           color, state, style->end, text_of(override, "author", "?"), text_of(override, "set", "?"),
           text_of(override, "comment", "")[0] ? ": " : "", text_of(override, "comment", ""));
    if (json_is_string(json_object_get(override, "where")))
        printf("    %s%s%s\n", style->dim, text_of(override, "where", ""), style->end);
    if (json_is_string(json_object_get(override, "why")))
        printf("    %s%s%s\n", style->warn, text_of(override, "why", ""), style->end);
}

static void print_entry(json_t *entry)
{
    json_t *old = json_object_get(entry, "old"), *now = json_object_get(entry, "new");
    json_t *known = json_is_object(now) ? now : old;
    char from[96], to[96];

    write_rate(old, from, sizeof from);
    write_rate(now, to, sizeof to);
    printf("%-24s %6lld %-7s %-24s %-10s %-20s %s -> %s", text_of(entry, "time", "?"),
           (long long)json_integer_value(json_object_get(entry, "revision")), text_of(entry, "op", "?"),
           text_of(known, "key", "?"), text_of(known, "keyType", "?"), text_of(known, "limit", "-"), from, to);
    if (json_is_string(json_object_get(now, "until")))
        printf(" until %s", text_of(now, "until", ""));
    if (text_of(entry, "author", "")[0])
        printf(", by %s", text_of(entry, "author", ""));
    if (text_of(entry, "comment", "")[0])
        printf(": %s", text_of(entry, "comment", ""));
    putchar('\n');
}

/* ---- the commands */

static char *body_of(const struct sl_override *override)
{
    json_t *value = sl_override_json(override, SL_OVERRIDE_ASKED);
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;

    json_decref(value);
    return text;
}

static int run_set(const struct cli_call *call)
{
    struct sl_override override = {.key = NULL};
    int status = read_override(call, false, &override);
    struct admin_path path;
    json_t *entry;
    char *body;

    if (status)
        return status;
    if (cli_means_store(call)) {
        entry = cli_override_set_in_store(values_of(call), &override, &status);
    } else {
        body = body_of(&override);
        if (!body)
            return cli_fail(CLI_USAGE, "out of memory");
        admin_path_begin(&path, PATH);
        entry = ask(call, "PUT", &path, body, &status);
        free(body);
    }
    return entry ? print_change(call, entry, false) : status;
}

static int run_remove(const struct cli_call *call)
{
    struct sl_override o = {.key = NULL};
    int status = read_override(call, true, &o);
    struct admin_path path;
    json_t *entry;

    if (status)
        return status;
    if (cli_means_store(call)) {
        entry = cli_override_remove_in_store(values_of(call), &o, &status);
    } else {
        admin_path_begin(&path, PATH);
        admin_path_add(&path, "key", o.key);
        admin_path_add(&path, "keyType", o.key_type);
        admin_path_add(&path, "limit", o.limit);
        admin_path_add(&path, "author", o.author);
        admin_path_add(&path, "comment", o.comment);
        entry = ask(call, "DELETE", &path, NULL, &status);
    }
    return entry ? print_change(call, entry, true) : status;
}

static json_t *get(const struct cli_call *call, unsigned log, int *ret_status)
{
    struct admin_path path;

    if (cli_means_store(call))
        return cli_override_list_in_store(values_of(call), log, ret_status);
    admin_path_begin(&path, PATH);
    if (log)
        admin_path_add_number(&path, "log", log);
    return ask(call, "GET", &path, NULL, ret_status);
}

static int run_list(const struct cli_call *call)
{
    struct cli_style style = cli_style(call->values, stdout);
    int status = CLI_DONE;
    json_t *answer = get(call, 0, &status), *overrides, *override;
    size_t i;

    if (!answer)
        return status;
    if (call->values->json)
        return cli_print_json(answer, CLI_DONE);
    admin_fit(answer);
    overrides = json_object_get(answer, "overrides");
    if (json_array_size(overrides))
        printf("%s%-24s %-10s %-20s %-22s %-26s %-8s SET BY%s\n", style.bold, "KEY", "TYPE", "LIMIT", "RATE", "UNTIL",
               "STATE", style.end);
    else
        printf("no overrides\n");
    json_array_foreach(overrides, i, override)
    {
        print_override(override, &style);
    }
    if (!strcmp(text_of(answer, "keptIn", ""), "memory") && json_array_size(overrides))
        printf("note: kept in the daemon's memory alone, and gone when it stops\n");
    json_decref(answer);
    return CLI_DONE;
}

static int run_history(const struct cli_call *call)
{
    struct cli_style style = cli_style(call->values, stdout);
    int status = CLI_DONE;
    json_t *answer = get(call, (unsigned)values_of(call)->n, &status), *log, *entry;
    size_t i;

    if (!answer)
        return status;
    log = json_incref(json_object_get(answer, "log"));
    json_decref(answer);
    if (call->values->json)
        return cli_print_json(json_pack("{s:o}", "log", log), CLI_DONE);
    admin_fit(log);
    if (json_array_size(log))
        printf("%s%-24s %6s %-7s %-24s %-10s %-20s CHANGE%s\n", style.bold, "TIME", "NUMBER", "WHAT", "KEY", "TYPE",
               "LIMIT", style.end);
    else
        printf("nothing has been changed\n");
    json_array_foreach(log, i, entry)
    {
        print_entry(entry);
    }
    json_decref(log);
    return CLI_DONE;
}

/* ---- tables */

#define WHERE_ROWS CLI_VERSIONS_ROWS(struct override_values)

#define NAME_ROWS                                                                                   \
    {.group = "Override",                                                                           \
     .name = "key-type",                                                                            \
     .type = SL_OPTION_TEXT,                                                                        \
     .offset = offsetof(struct override_values, key_type),                                          \
     .argument = "TYPE",                                                                            \
     .preset = "api_key",                                                                           \
     .flags = SL_OPTION_FLAG_ONLY,                                                                  \
     .sentence = "the type of the key"},                                                            \
    {                                                                                               \
        .name = "limit", .type = SL_OPTION_TEXT, .offset = offsetof(struct override_values, limit), \
        .argument = "NAME", .flags = SL_OPTION_FLAG_ONLY,                                           \
        .sentence = "one limit; without it every one that wins for the key and separates by it"     \
    }

#define CHANGE_ROWS CLI_SIGNATURE_ROWS(NULL, struct override_values, CLI_COMMENT_IS)

static const struct sl_option set_rows[] = {
    WHERE_ROWS,
    NAME_ROWS,
    {.name = "rate",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct override_values, rate),
     .argument = "RATE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "COUNT/PERIOD, e.g. 9000/m; `blocked` or `unlimited`"},
    {.name = "burst",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct override_values, burst),
     .argument = "N",
     .min = 1,
     .max = SL_COUNT_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "of a bucket; without it COUNT"},
    {.name = "until",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct override_values, until),
     .argument = "WHEN",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "a time such as 2026-12-31T18:00:00Z, or how long: 2h; without it until it is removed"},
    CHANGE_ROWS,
    CLI_COMMON_ROWS(struct override_values),
};
static const struct sl_option remove_rows[] = {
    WHERE_ROWS,
    NAME_ROWS,
    CHANGE_ROWS,
    CLI_COMMON_ROWS(struct override_values),
};
static const struct sl_option list_rows[] = {
    WHERE_ROWS,
    CLI_COMMON_ROWS(struct override_values),
};
static const struct sl_option history_rows[] = {
    WHERE_ROWS,
    {.group = "History",
     .name = "count",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct override_values, n),
     .argument = "N",
     .preset = "20",
     .min = 1,
     .max = 1000,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "how many changes, the newest first"},
    CLI_COMMON_ROWS(struct override_values),
};

const struct cli_command cli_override_set = {
    .name = "override set",
    .arguments = "KEY",
    .min_words = 1,
    .max_words = 1,
    .summary = "give one key another rate, at once and for a while",
    .manual = "Replaces rate and burst of a limit for KEY, over whatever policy is in force: through a daemon's admin "
              "listener, or\n"
              "with --store straight in the store; every instance on a store has it within a second. Setting it again "
              "replaces it.\n"
              "What a policy has no place for is refused, with the reason (status 1). The policy's ceiling still "
              "counts.\n\n"
              "  sluice override set acct_8812 --rate 9000/m --until 2h --comment 'migrates today'\n"
              "  sluice override set acct_8812 --rate blocked --limit search --store redis://cache",
    .rows = set_rows,
    .n_rows = sizeof set_rows / sizeof set_rows[0],
    .values_size = sizeof(struct override_values),
    .run = run_set,
};

const struct cli_command cli_override_list = {
    .name = "override list",
    .arguments = "",
    .summary = "list the overrides, and which of them have no effect",
    .manual =
        "Prints the overrides that have not ended, and of each whether the policy has a place for it: in force in "
        "that daemon,\n"
        "or, with --store, held against the store's current policy.\n\n"
        "  sluice override list\n"
        "  sluice override list --store redis://cache --json",
    .rows = list_rows,
    .n_rows = sizeof list_rows / sizeof list_rows[0],
    .values_size = sizeof(struct override_values),
    .run = run_list,
};

const struct cli_command cli_override_remove = {
    .name = "override remove",
    .arguments = "KEY",
    .min_words = 1,
    .max_words = 1,
    .summary = "take an override away",
    .manual = "Removes the override of KEY that names the limit of --limit, or the one that names none. When there is "
              "none, the\n"
              "status is 1, and the others of that key are named.\n\n"
              "  sluice override remove acct_8812 --comment 'migration done'",
    .rows = remove_rows,
    .n_rows = sizeof remove_rows / sizeof remove_rows[0],
    .values_size = sizeof(struct override_values),
    .run = run_remove,
};

const struct cli_command cli_override_history = {
    .name = "override history",
    .arguments = "",
    .summary = "list the changes of overrides: who, when, what, why",
    .manual = "Prints the newest changes; the last 1,000 are kept.\n\n"
              "  sluice override history --count 100 --store redis://cache",
    .rows = history_rows,
    .n_rows = sizeof history_rows / sizeof history_rows[0],
    .values_size = sizeof(struct override_values),
    .run = run_history,
};
