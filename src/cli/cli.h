/* The `sluice` command: one file a subcommand, one row of the table in commands.c each.
 *
 * A subcommand is a table of options, a struct for their values that begins with struct cli_common, and a function
 * that returns the exit status. Reading goes to standard output, everything else to standard error, each line
 * beginning with `sluice: `. */
#ifndef SL_CLI_CLI_H
#define SL_CLI_CLI_H

#include "options/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct json_t;

/* Exit statuses, the same for every subcommand. */
enum cli_status {
    CLI_DONE = 0,
    CLI_NO = 1,          /* the answer is no: a rejected check, an invalid policy */
    CLI_USAGE = 2,       /* wrong options or arguments, a file that cannot be used */
    CLI_UNREACHABLE = 3, /* no daemon or store there, or no sensible answer from it */
};

enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER };

/* The first member of every subcommand's values. */
struct cli_common {
    bool help, json;
    unsigned color; /* enum cli_color */
};

extern const char *const cli_color_words[];

/* The rows of struct cli_common, to end a subcommand's table with; `type` is its struct, whose first member is
 * `common`. */
#define CLI_COMMON_ROWS(values_type)                                                                           \
    {.group = "Output",                                                                                        \
     .name = "json",                                                                                           \
     .type = SL_OPTION_SWITCH,                                                                                 \
     .offset = offsetof(values_type, common.json),                                                             \
     .flags = SL_OPTION_FLAG_ONLY,                                                                             \
     .sentence = "print JSON, for programs"},                                                                  \
        {.name = "color",                                                                                      \
         .type = SL_OPTION_CHOICE,                                                                             \
         .offset = offsetof(values_type, common.color),                                                        \
         .argument = "WHEN",                                                                                   \
         .preset = "auto",                                                                                     \
         .choices = cli_color_words,                                                                           \
         .flags = SL_OPTION_FLAG_ONLY,                                                                         \
         .sentence = "colours: auto means on a terminal, unless NO_COLOR is set"},                             \
    {                                                                                                          \
        .name = "help", .letter = 'h', .type = SL_OPTION_SWITCH, .offset = offsetof(values_type, common.help), \
        .flags = SL_OPTION_FLAG_ONLY, .sentence = "print this and exit"                                        \
    }

struct cli_call;

struct cli_command {
    const char *name;      /* as typed: "check", "policy explain" */
    const char *arguments; /* "KEY [SCOPE]"; "" when it takes none */
    size_t min_words, max_words;
    const char *summary; /* one line, without a capital and a full stop */
    const char *manual;  /* paragraphs and examples for --help and the manual page */
    const struct sl_option *rows;
    size_t n_rows;
    size_t values_size;
    int (*run)(const struct cli_call *call);
};

/* One call, parsed. Everything is borrowed for the call of run(). */
struct cli_call {
    const struct cli_command *command;
    struct cli_common *values; /* the start of the subcommand's own struct */
    const struct sl_options *options;
    char *const *words; /* what was no option */
    size_t n_words;
};

extern const struct cli_command *const cli_commands[];
extern const size_t cli_n_commands;

/* True when the option was given, by whatever source. */
bool cli_given(const struct cli_call *call, const char *name);

/* Writes "sluice: ..." to standard error and returns `status`. */
int cli_fail(enum cli_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a value with a newline, indented on a terminal, and drops the reference. NULL: out of memory. Returns
 * `status`, or CLI_USAGE when the output cannot be written. */
int cli_print_json(struct json_t *value, enum cli_status status);

/* Escape sequences, empty when `out` takes no colours. */
struct cli_style {
    const char *bold, *dim, *good, *bad, *warn, *end;
};
struct cli_style cli_style(const struct cli_common *common, FILE *out);

/* The columns of the terminal on `out`, or 100. */
unsigned cli_columns(FILE *out);

/* "1.2 s", "35 ms", "3 h 5 min": a wait for people. */
void cli_format_ms(long long ms, char *buf, size_t size);

/* 1234567 as "1,234,567". */
void cli_format_count(unsigned long long n, char *buf, size_t size);

/* Who calls: USER@HOST, as far as they are known. */
void cli_default_author(char *buf, size_t size);

/* --author and --comment of a change, for values with members of these names. */
#define CLI_SIGNATURE_ROWS(heading, values_type, comment_is)                                                     \
    {.group = (heading),                                                                                         \
     .name = "author",                                                                                           \
     .type = SL_OPTION_TEXT,                                                                                     \
     .offset = offsetof(values_type, author),                                                                    \
     .argument = "NAME",                                                                                         \
     .flags = SL_OPTION_FLAG_ONLY,                                                                               \
     .sentence = "who it is by, up to 128 bytes; without it USER@HOST"},                                         \
    {                                                                                                            \
        .name = "comment", .type = SL_OPTION_TEXT, .offset = offsetof(values_type, comment), .argument = "TEXT", \
        .flags = SL_OPTION_FLAG_ONLY, .sentence = (comment_is)                                                   \
    }
#define CLI_COMMENT_IS "why, up to 1,024 bytes"

/* Help of one command, and of all. */
void cli_print_help(const struct cli_command *command, FILE *out);
void cli_print_overview(FILE *out);

#endif
