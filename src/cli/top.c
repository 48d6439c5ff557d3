/* `sluice top`: who is hot and who is rejected, live. */
#include "cli/admin.h"
#include "cli/screen.h"
#include "observe/show.h"

#include <jansson.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS_MAX 100u
#define LINE_MAX_BYTES 4096u
#define HEAD_ROWS 5u     /* before the keys: three lines, one empty, the headings */
#define SIDE_BY_SIDE 72u /* columns that two lists need */
#define LIVE_TIMEOUT_US UINT64_C(2000000)

struct top_values {
    struct cli_common common;
    struct cli_connect connect;
    uint64_t interval_us, keys;
    bool once;
};

static const struct sl_option top_rows[] = {
    CLI_ADMIN_ROW(struct top_values),
    CLI_CONNECT_ROWS(struct top_values, "admin-token"),
    {.group = "View",
     .name = "interval",
     .type = SL_OPTION_DURATION,
     .offset = offsetof(struct top_values, interval_us),
     .argument = "DURATION",
     .preset = "1s",
     .min = 100000,
     .max = UINT64_C(3600000000),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "how often it asks; the daemon looks once a second"},
    {.name = "once",
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct top_values, once),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "print one table and end; so it does where output is no terminal, and with --json"},
    {.name = "keys",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct top_values, keys),
     .argument = "N",
     .preset = "20",
     .min = 1,
     .max = KEYS_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "keys of each kind in one table; the live view takes as many as fit"},
    CLI_COMMON_ROWS(struct top_values),
};

static json_t *ask(const struct top_values *values, unsigned keys, long *ret_status, char *why, size_t why_size)
{
    struct admin_path path;
    json_t *answer;

    admin_path_begin(&path, "/v1/top");
    admin_path_add_number(&path, "n", keys);
    answer = admin_ask(&values->connect, "GET", &path, ret_status, why, why_size);
    if (answer && json_is_array(json_object_get(answer, "hot")) && json_is_object(json_object_get(answer, "decisions")))
        return answer;
    if (answer)
        snprintf(why, why_size, "the answer is not one of hot keys");
    json_decref(answer);
    return NULL;
}

/* ---- the lines, for both views; colours only where `style` has them */

/* Appends to a line, as far as there is room. */
static __attribute__((format(printf, 2, 3))) void add(char line[static LINE_MAX_BYTES], const char *format, ...)
{
    size_t used = strlen(line);
    va_list args;

    va_start(args, format);
    vsnprintf(line + used, LINE_MAX_BYTES - used, format, args);
    va_end(args);
}

static void add_rate(char line[static LINE_MAX_BYTES], double rate)
{
    char count[48];

    cli_format_count((unsigned long long)(rate + 0.5), count, sizeof count);
    add(line, "%s", count);
}

/* Microseconds in the unit that reads best; "-" when nobody knows. */
static void add_duration(char line[static LINE_MAX_BYTES], const json_t *decisions, const char *name)
{
    const json_t *value = json_object_get(decisions, name);
    double us = json_number_value(value);

    if (!json_is_number(value))
        add(line, "-");
    else if (us < 1)
        add(line, "%.0f ns", us * 1000);
    else if (us < 1000)
        add(line, "%.1f us", us);
    else
        add(line, "%.1f ms", us / 1000);
}

static void daemon_line(const struct top_values *values, const json_t *answer, char line[static LINE_MAX_BYTES])
{
    const json_t *policy = json_object_get(answer, "policy");
    char version[ADMIN_TEXT_MAX], hash[ADMIN_TEXT_MAX], clock[ADMIN_CLOCK_MAX];

    line[0] = '\0';
    admin_clock(admin_now_ms(), clock);
    add(line, "%.8sZ  sluiced %s at %s  policy ", clock + 11, admin_text(answer, "sluiced", version),
        values->connect.admin);
    if (json_is_integer(json_object_get(policy, "version")))
        add(line, "version %lld, ", admin_number(policy, "version"));
    add(line, "%.12s, %lld limit%s", admin_text(policy, "hash", hash), admin_number(policy, "limits"),
        admin_number(policy, "limits") == 1 ? "" : "s");
}

static void traffic_line(const json_t *answer, char line[static LINE_MAX_BYTES])
{
    const json_t *d = json_object_get(answer, "decisions");
    double allowed = json_number_value(json_object_get(d, "allowedPerSecond"));
    double rejected = json_number_value(json_object_get(d, "rejectedPerSecond"));

    line[0] = '\0';
    if (json_is_null(json_object_get(d, "allowedPerSecond"))) {
        add(line, "decisions: the daemon has only just begun to count");
        return;
    }
    add(line, "decisions ");
    add_rate(line, allowed + rejected);
    add(line, "/s  rejected ");
    add_rate(line, rejected);
    add(line, "/s");
    if (allowed + rejected > 0)
        add(line, " (%.1f %%)", 100 * rejected / (allowed + rejected));
    add(line, "  p50 ");
    add_duration(line, d, "p50Us");
    add(line, "  p99 ");
    add_duration(line, d, "p99Us");
}

/* Are there requests (rejections) of which the sample knows no key? It holds one in SL_TAP_EVERY, and not for long. */
static bool is_too_few(const json_t *answer, const char *list)
{
    const json_t *d = json_object_get(answer, "decisions");
    double rejected = json_number_value(json_object_get(d, "rejectedPerSecond"));
    double all = rejected + json_number_value(json_object_get(d, "allowedPerSecond"));

    return !json_array_size(json_object_get(answer, list)) && (strcmp(list, "hot") ? rejected : all) > 0;
}

#define TOO_FEW "too few to tell by the sample of one in 16"

static void hint_line(const json_t *answer, char line[static LINE_MAX_BYTES])
{
    line[0] = '\0';
    add(line, "q ends it%s%s", is_too_few(answer, "hot") ? "; requests: " TOO_FEW : "",
        !is_too_few(answer, "hot") && is_too_few(answer, "rejected") ? "; rejections: " TOO_FEW : "");
}

/* Returns whether any is raised. */
static bool alarms_line(const json_t *answer, char line[static LINE_MAX_BYTES])
{
    const json_t *alarms = json_object_get(answer, "alarms"), *alarm;
    size_t i;

    line[0] = '\0';
    add(line, "alarms: %s", json_array_size(alarms) ? "" : "none");
    json_array_foreach(alarms, i, alarm)
    {
        char name[ADMIN_TEXT_MAX];

        add(line, "%s%s", i ? ", " : "", admin_shown(alarm, name));
    }
    return json_array_size(alarms) > 0;
}

/* "key                     type     ops/s" in exactly `columns` columns; NULL for the heading. */
static void key_cell(const json_t *key, const char *heading, unsigned columns, char cell[static LINE_MAX_BYTES])
{
    unsigned type_columns = columns >= 50 ? 10 : 8, key_columns = columns - type_columns - 12;
    char text[ADMIN_TEXT_MAX], part[LINE_MAX_BYTES], rate[48] = "ops/s";

    if (key) {
        double ops = json_number_value(json_object_get(key, "opsPerSecond"));

        if (ops < 10)
            snprintf(rate, sizeof rate, "%.1f", ops);
        else
            cli_format_count((unsigned long long)(ops + 0.5), rate, sizeof rate);
    }
    screen_fit(key ? admin_text(key, "key", text) : heading, key_columns, part, sizeof part);
    cell[0] = '\0';
    add(cell, "%s ", part);
    screen_fit(key ? admin_text(key, "keyType", text) : "type", type_columns, part, sizeof part);
    add(cell, "%s %10s", part, rate);
}

/* ---- the live view */

struct view {
    const struct top_values *values;
    struct cli_style style;
    json_t *answer; /* the last one; NULL: none came yet */
    char why[1024]; /* no answer came; "": it did */
    unsigned columns, rows;
};

/* One row of the screen: exactly its columns, so that nothing of what stood there is left and nothing wraps. */
static void draw(const struct view *v, const char *before, const char *line)
{
    char fitted[LINE_MAX_BYTES];

    screen_fit(line, v->columns, fitted, sizeof fitted);
    printf("%s%s%s\033[K", before, fitted, *before ? v->style.end : "");
}

static void draw_cell(const json_t *list, size_t i, const char *heading, unsigned columns)
{
    const json_t *key = heading ? NULL : json_array_get(list, i);
    char cell[LINE_MAX_BYTES];

    if (key || heading)
        key_cell(key, heading, columns, cell);
    else
        screen_fit("", columns, cell, sizeof cell);
    fputs(cell, stdout);
}

static void draw_lists(const struct view *v)
{
    const json_t *hot = json_object_get(v->answer, "hot"), *rejected = json_object_get(v->answer, "rejected");
    unsigned half = (v->columns - 2) / 2;

    for (unsigned row = HEAD_ROWS; row <= v->rows; row++) {
        bool heading = row == HEAD_ROWS;

        printf("\033[%u;1H%s", row, heading ? v->style.bold : "");
        draw_cell(hot, row - HEAD_ROWS - 1, heading ? "hot key" : NULL, half);
        printf("  ");
        draw_cell(rejected, row - HEAD_ROWS - 1, heading ? "rejected key" : NULL, half);
        printf("%s\033[K", heading ? v->style.end : "");
    }
}

/* Where two do not fit beside each other: one above the other. */
static void draw_stacked(const struct view *v)
{
    unsigned each = (v->rows - HEAD_ROWS + 1) / 2, row = HEAD_ROWS;

    for (unsigned kind = 0; kind < 2; kind++) {
        const json_t *list = json_object_get(v->answer, kind ? "rejected" : "hot");

        for (unsigned i = 0; i < each; i++, row++) {
            printf("\033[%u;1H%s", row, i ? "" : v->style.bold);
            draw_cell(list, i - 1, i ? NULL : kind ? "rejected key" : "hot key", v->columns);
            printf("%s\033[K", i ? "" : v->style.end);
        }
    }
}

static void draw_status(const struct view *v)
{
    char line[LINE_MAX_BYTES] = "", why[SL_SHOWN_MAX(sizeof v->why)];

    printf("\033[1;1H");
    if (v->why[0]) {
        sl_show(why, v->why, strlen(v->why), strlen(v->why));
        add(line, "trying again: %s", why);
        draw(v, v->style.bad, line);
    } else {
        daemon_line(v->values, v->answer, line);
        draw(v, v->style.bold, line);
    }
}

static void draw_all(const struct view *v)
{
    char line[LINE_MAX_BYTES] = "";

    draw_status(v);
    if (v->answer) {
        printf("\033[2;1H");
        traffic_line(v->answer, line);
        draw(v, "", line);
        printf("\033[3;1H");
        draw(v, alarms_line(v->answer, line) ? v->style.bad : "", line);
        printf("\033[4;1H");
        hint_line(v->answer, line);
        draw(v, v->style.dim, line);
        if (v->columns >= SIDE_BY_SIDE)
            draw_lists(v);
        else
            draw_stacked(v);
    }
    printf("\033[J");
    fflush(stdout);
}

static int run_live(struct top_values *values)
{
    struct view v = {.values = values, .style = cli_style(&values->common, stdout)};
    enum screen_event event = SCREEN_TIME;

    if (values->connect.timeout_us > LIVE_TIMEOUT_US)
        values->connect.timeout_us = LIVE_TIMEOUT_US;
    screen_enter();
    while (event != SCREEN_QUIT) {
        if (event == SCREEN_TIME) {
            long status;
            json_t *answer = ask(values, KEYS_MAX, &status, v.why, sizeof v.why);

            if (answer) {
                json_decref(v.answer);
                v.answer = answer;
                v.why[0] = '\0';
            }
        }
        screen_size(&v.columns, &v.rows);
        draw_all(&v);
        event = screen_wait((unsigned)(values->interval_us / 1000));
    }
    screen_leave();
    json_decref(v.answer);
    return CLI_DONE;
}

/* ---- one table */

static void print_list(const json_t *answer, const char *name, const char *heading, const struct cli_style *style)
{
    const json_t *list = json_object_get(answer, name), *key;
    char cell[LINE_MAX_BYTES];
    size_t i;

    key_cell(NULL, heading, 80, cell);
    printf("\n%s%s%s\n", style->bold, cell, style->end);
    json_array_foreach(list, i, key)
    {
        key_cell(key, heading, 80, cell);
        printf("%s\n", cell);
    }
    if (!json_array_size(list))
        printf("(%s)\n", is_too_few(answer, name) ? TOO_FEW : "none");
}

static int run_once(const struct top_values *values)
{
    struct cli_style style = cli_style(&values->common, stdout);
    char why[1024], line[LINE_MAX_BYTES];
    long status;
    json_t *answer = ask(values, (unsigned)values->keys, &status, why, sizeof why);

    if (!answer)
        return cli_fail(CLI_UNREACHABLE, "%s", why);
    if (values->common.json)
        return cli_print_json(answer, CLI_DONE);
    daemon_line(values, answer, line);
    printf("%s\n", line);
    traffic_line(answer, line);
    printf("%s\n", line);
    printf("%s%s%s\n", alarms_line(answer, line) ? style.bad : "", line, style.end);
    print_list(answer, "hot", "hot key", &style);
    print_list(answer, "rejected", "rejected key", &style);
    json_decref(answer);
    return CLI_DONE;
}

static int run_top(const struct cli_call *call)
{
    struct top_values *values = (struct top_values *)call->values;

    setlocale(LC_CTYPE, "C.UTF-8"); /* for how wide characters are */
    if (values->once || values->common.json || !isatty(STDOUT_FILENO))
        return run_once(values);
    return run_live(values);
}

const struct cli_command cli_top = {
    .name = "top",
    .arguments = "",
    .summary = "watch the hottest and the most rejected keys, live",
    .manual =
        "Asks a daemon's admin listener again and again who is hot and who is rejected, with decisions a second, how "
        "long\n"
        "they take and what alarms are raised. `q` or Ctrl-C ends it. Times are UTC. Rates are of a sample and of "
        "this\n"
        "one instance, and fall off within some seconds. A daemon that goes away is waited for.\n\n"
        "  sluice top\n"
        "  sluice top --once --json",
    .rows = top_rows,
    .n_rows = sizeof top_rows / sizeof top_rows[0],
    .values_size = sizeof(struct top_values),
    .run = run_top,
};
