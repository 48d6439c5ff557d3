/* `sluice policy history`: the versions on a store, and which instance runs which. */
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/versions.h"
#include "control/report.h"
#include "policy/text.h"

#include <jansson.h>
#include <string.h>

struct history_values {
    struct cli_common common;
    struct cli_connect connect; /* timeout_us: that of `at` */
    struct cli_store_options at;
    uint64_t limit, before;
};

/* ---- for people: what has been made fit for the terminal */

static const char *text(const json_t *object, const char *name)
{
    const char *found = json_string_value(json_object_get(object, name));

    return found ? found : "";
}

static json_int_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* As many bytes of it as are whole characters, `max` at most. */
static int whole(const char *found, size_t max)
{
    size_t len = strlen(found);

    return (int)sl_text_utf8_prefix(found, len < max ? len : max);
}

static void print_version(const json_t *version, json_int_t current, const struct cli_style *style)
{
    bool is_current = number(version, "version") == current;
    const char *when = text(version, "time");
    char time[SL_VERSION_TIME_MAX], from[48] = "";

    if (!text(version, "hash")[0]) {
        printf("  %-8lld %sits record cannot be read%s\n", (long long)number(version, "version"), style->bad,
               style->end);
        return;
    }
    if (strlen(when) == 20 && when[10] == 'T' && when[19] == 'Z') /* as a person writes it */
        snprintf(time, sizeof time, "%.10s %.8s", when, when + 11);
    else
        snprintf(time, sizeof time, "%.*s", whole(when, 19), when);
    if (number(version, "rollbackOf"))
        snprintf(from, sizeof from, "[back to %lld]%s", (long long)number(version, "rollbackOf"),
                 text(version, "comment")[0] ? " " : "");
    printf("%s%c %-8lld%s %s  %.*s  %-24s  %s%s\n", is_current ? style->bold : "", is_current ? '*' : ' ',
           (long long)number(version, "version"), is_current ? style->end : "", time, whole(text(version, "hash"), 12),
           text(version, "hash"), text(version, "author"), from, text(version, "comment"));
}

static void print_running(const json_t *running, json_int_t current, const struct cli_style *style)
{
    json_int_t runs = number(running, "version"), refused = number(running, "refused");
    const char *region = text(running, "region"), *address = text(running, "address");
    char which[24] = "its file";

    if (runs)
        snprintf(which, sizeof which, "%lld", (long long)runs);
    printf("  %-24s %-12s %-22s %s  %s%s%s  %.*s", text(running, "host"), region[0] ? region : "-",
           address[0] ? address : "-", text(running, "instance"), runs == current ? style->good : style->warn, which,
           style->end, whole(text(running, "hash"), 12), text(running, "hash"));
    if (!strcmp(text(running, "source"), "file"))
        printf("  follows its file");
    if (refused)
        printf("  %srefused %lld%s: %s", style->bad, (long long)refused, style->end, text(running, "reason"));
    putchar('\n');
}

static void print_instances(const json_t *history, json_int_t current, const struct cli_style *style)
{
    const json_t *instances = json_object_get(history, "instances"), *running;
    json_int_t unheard = number(history, "unheard"), n = (json_int_t)json_array_size(instances) + unheard,
               up_to_date = 0;
    size_t i;

    json_array_foreach(instances, i, running)
    {
        up_to_date += number(running, "version") == current;
    }
    if (!n)
        return;
    printf("\n%sInstances%s: %lld", style->bold, style->end, (long long)n);
    if (current)
        printf(", %lld of them on version %lld", (long long)up_to_date, (long long)current);
    putchar('\n');
    if (json_array_size(instances))
        printf("%s  %-24s %-12s %-22s %-16s  RUNS%s\n", style->bold, "HOST", "REGION", "ADDRESS", "INSTANCE",
               style->end);
    json_array_foreach(instances, i, running)
    {
        print_running(running, current, style);
    }
    if (unheard)
        printf("  %lld more do not say what they run\n", (long long)unheard);
}

static void print_history(const json_t *history, const struct cli_style *style)
{
    const json_t *versions = json_object_get(history, "versions"), *version;
    json_int_t current = number(history, "current");
    size_t i;

    if (json_array_size(versions))
        printf("%s  VERSION  TIME (UTC)           HASH          AUTHOR                    COMMENT%s\n", style->bold,
               style->end);
    else
        printf("no version yet: each instance runs its file\n");
    json_array_foreach(versions, i, version)
    {
        print_version(version, current, style);
    }
    print_instances(history, current, style);
}

static int run_history(const struct cli_call *call)
{
    const struct history_values *values = (const struct history_values *)call->values;
    struct cli_style style = cli_style(call->values, stdout);
    struct cli_versions versions;
    json_t *history;
    int status = cli_versions_open(call, &values->connect, &values->at, &versions);

    if (status)
        return status;
    history = cli_versions_history(&versions, values->before, (unsigned)values->limit, &status);
    cli_versions_close(&versions);
    if (!history)
        return status;
    if (call->values->json)
        return cli_print_json(history, CLI_DONE);
    admin_fit(history);
    print_history(history, &style);
    json_decref(history);
    return CLI_DONE;
}

static const struct sl_option history_rows[] = {
    CLI_VERSIONS_ROWS(struct history_values),
    {.group = "History",
     .name = "count",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct history_values, limit),
     .argument = "N",
     .preset = "20",
     .min = 1,
     .max = SL_HISTORY_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "how many versions, the newest first"},
    {.name = "before",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct history_values, before),
     .argument = "N",
     .min = 2,
     .max = SL_VERSION_NUMBER_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "only versions older than N"},
    CLI_COMMON_ROWS(struct history_values),
};

const struct cli_command cli_policy_history = {
    .name = "policy history",
    .arguments = "",
    .summary = "list the versions of the policy, and who runs which",
    .manual = "Prints the versions on a store, the newest first and the current one with a star, and what each "
              "instance that is\n"
              "alive runs: its version, or its file, and the version that it could not take, with the reason.\n\n"
              "  sluice policy history --admin http://10.0.0.5:6070\n"
              "  sluice policy history --store redis://cache\n"
              "  sluice policy history --store redis://cache --before 100 --count 50 --json",
    .rows = history_rows,
    .n_rows = sizeof history_rows / sizeof history_rows[0],
    .values_size = sizeof(struct history_values),
    .run = run_history,
};
