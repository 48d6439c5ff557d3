/* `sluice alarms`: what a daemon wants somebody to know, now and lately. */
#include "cli/admin.h"

#include <jansson.h>
#include <string.h>

struct alarms_values {
    struct cli_common common;
    struct cli_connect connect;
    bool history;
};

static const struct sl_option alarms_rows[] = {
    CLI_ADMIN_ROW(struct alarms_values),
    CLI_CONNECT_ROWS(struct alarms_values, "admin-token"),
    {.group = "What",
     .name = "history",
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct alarms_values, history),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "also those that are over, the latest first: the last 100 since the daemon's start"},
    CLI_COMMON_ROWS(struct alarms_values),
};

/* The daemon's answer; NULL after the reason has been said. */
static json_t *ask(const struct alarms_values *values)
{
    struct admin_path path;
    char why[1024];
    long status;
    json_t *answer;

    admin_path_begin(&path, "/v1/alarms");
    answer = admin_ask(&values->connect, "GET", &path, &status, why, sizeof why);
    if (answer && json_is_array(json_object_get(answer, "raised")) && json_is_array(json_object_get(answer, "past")))
        return answer;
    cli_fail(CLI_UNREACHABLE, "%s", answer ? "the answer is not one of alarms" : why);
    json_decref(answer);
    return NULL;
}

/* A detail may hold what a file or another program wrote: nothing of it moves the cursor. */
static void print_text(json_t *alarm, const char *name)
{
    char text[ADMIN_TEXT_MAX];

    fputs(admin_text(alarm, name, text), stdout);
}

static void print_alarm(json_t *alarm, const char *from, const char *color, const struct cli_style *style)
{
    json_int_t seconds = json_integer_value(json_object_get(alarm, "seconds"));
    char time[48] = "less than a second";

    if (seconds > 0)
        cli_format_ms((long long)seconds * 1000, time, sizeof time);
    printf("%s", color);
    print_text(alarm, "kind");
    printf("%s  %s ", style->end, from);
    print_text(alarm, from);
    printf(", for %s\n  ", time);
    print_text(alarm, "sentence");
    printf("\n  %swhat to do: ", style->dim);
    print_text(alarm, "runbook");
    printf("%s\n", style->end);
}

static void print_list(json_t *alarms, const char *from, const char *color, const struct cli_style *style)
{
    size_t i;
    json_t *alarm;

    json_array_foreach(alarms, i, alarm)
    {
        if (i > 0)
            putchar('\n');
        print_alarm(alarm, from, color, style);
    }
}

static void print_all(json_t *answer, bool history, const struct cli_style *style)
{
    json_t *raised = json_object_get(answer, "raised"), *past = json_object_get(answer, "past");

    if (json_array_size(raised) == 0)
        printf("%sno alarm is raised%s\n", style->good, style->end);
    print_list(raised, "since", style->bad, style);
    if (!history)
        return;
    printf("\n%s%s%s\n", style->bold, json_array_size(past) ? "Over:" : "None is over.", style->end);
    print_list(past, "from", style->bold, style);
}

static int run(const struct cli_call *call)
{
    const struct alarms_values *values = (const struct alarms_values *)call->values;
    struct cli_style style = cli_style(call->values, stdout);
    json_t *answer = ask(values);
    enum cli_status status;

    if (!answer)
        return CLI_UNREACHABLE;
    status = json_array_size(json_object_get(answer, "raised")) ? CLI_NO : CLI_DONE;
    if (values->common.json) {
        if (!values->history)
            json_object_del(answer, "past");
        return cli_print_json(answer, status);
    }
    print_all(answer, values->history, &style);
    json_decref(answer);
    return status;
}

const struct cli_command cli_alarms = {
    .name = "alarms",
    .arguments = "",
    .min_words = 0,
    .max_words = 0,
    .summary = "list the alarms of a daemon",
    .manual =
        "Asks a daemon's admin listener what it is alarmed by: what it means, since when, what was seen, and where to "
        "read what\n"
        "to do. Status 1 when something is raised, 0 when nothing is, 3 when there is no answer.\n\n"
        "  sluice alarms\n"
        "  sluice alarms --history --json\n"
        "  sluice alarms >/dev/null || echo somebody should look",
    .rows = alarms_rows,
    .n_rows = sizeof alarms_rows / sizeof alarms_rows[0],
    .values_size = sizeof(struct alarms_values),
    .run = run,
};
