#include "cli/cli.h"

#include <jansson.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *const cli_color_words[] = {
    [CLI_COLOR_AUTO] = "auto", [CLI_COLOR_ALWAYS] = "always", [CLI_COLOR_NEVER] = "never", NULL};

bool cli_given(const struct cli_call *call, const char *name)
{
    const struct sl_option *row = sl_options_find(call->options, name);

    return row && call->options->source[row - call->options->rows] != SL_FROM_PRESET;
}

int cli_fail(enum cli_status status, const char *format, ...)
{
    va_list args;

    fputs("sluice: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return status;
}

int cli_print_json(json_t *value, enum cli_status status)
{
    size_t flags = isatty(STDOUT_FILENO) ? JSON_INDENT(2) : JSON_COMPACT;
    int err;

    if (!value)
        return cli_fail(CLI_USAGE, "out of memory");
    err = json_dumpf(value, stdout, flags | JSON_ENCODE_ANY);
    json_decref(value);
    putchar('\n');
    if (err || fflush(stdout))
        return cli_fail(CLI_USAGE, "cannot write the answer");
    return status;
}

struct cli_style cli_style(const struct cli_common *common, FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    bool colors = common->color == CLI_COLOR_ALWAYS ||
                  (common->color == CLI_COLOR_AUTO && isatty(fileno(out)) && !(no_color && no_color[0]));

    if (!colors)
        return (struct cli_style){"", "", "", "", "", ""};
    return (struct cli_style){.bold = "\033[1m",
                              .dim = "\033[2m",
                              .good = "\033[32m",
                              .bad = "\033[31m",
                              .warn = "\033[33m",
                              .end = "\033[0m"};
}

unsigned cli_columns(FILE *out)
{
    struct winsize size;

    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
        return size.ws_col;
    return 100;
}

void cli_format_ms(long long ms, char *buf, size_t size)
{
    long long s = ms / 1000;

    if (ms < 1000)
        snprintf(buf, size, "%lld ms", ms);
    else if (s < 60)
        snprintf(buf, size, "%lld.%lld s", s, ms % 1000 / 100);
    else if (s < 3600)
        snprintf(buf, size, "%lld min %lld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(buf, size, "%lld h %lld min", s / 3600, s % 3600 / 60);
    else
        snprintf(buf, size, "%lld d %lld h", s / 86400, s % 86400 / 3600);
}

void cli_format_count(unsigned long long n, char *buf, size_t size)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%llu", n);
    size_t used = 0;

    for (int i = 0; i < len && used + 2 < size; i++) {
        if (i && (len - i) % 3 == 0)
            buf[used++] = ',';
        buf[used++] = digits[i];
    }
    buf[used] = '\0';
}

void cli_default_author(char *buf, size_t size)
{
    const struct passwd *user = getpwuid(geteuid());
    char host[128] = "";

    if (gethostname(host, sizeof host))
        host[0] = '\0';
    host[sizeof host - 1] = '\0';
    snprintf(buf, size, "%.60s%s%.60s", user ? user->pw_name : "unknown", host[0] ? "@" : "", host);
}

void cli_print_help(const struct cli_command *command, FILE *out)
{
    fprintf(out, "sluice %s: %s\n\nUsage: sluice %s%s%s [OPTION...]\n\n%s\n\n", command->name, command->summary,
            command->name, command->arguments[0] ? " " : "", command->arguments, command->manual);
    sl_options_help(command->rows, command->n_rows, cli_columns(out), out);
    fprintf(out, "\nExit status: 0 done, 1 the answer is no, 2 usage, 3 could not reach the daemon or store.\n");
}

void cli_print_overview(FILE *out)
{
    fprintf(out, "sluice: asks, explains, replays and measures a rate limiter\n\n"
                 "Usage: sluice COMMAND [OPTION...]\n\n"
                 "Commands:\n");
    for (size_t i = 0; i < cli_n_commands; i++)
        fprintf(out, "  %-16s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fprintf(out, "\nTry:\n"
                 "  sluice check acct_8812 api:search            ask a running daemon for one decision\n"
                 "  sluice policy check policy.yaml              find every mistake in a policy\n"
                 "  sluice policy explain policy.yaml acct_8812  see which limits meet a request, and why\n"
                 "  sluice replay --policy policy.yaml access.log\n"
                 "  sluice alarms                                what is wrong, and where to read what to do\n"
                 "  sluice why acct_8812 --at 12:03              why it was rejected then\n"
                 "  sluice COMMAND --help                        what a command takes, with examples\n\n"
                 "Environment: SLUICE_SERVER, SLUICE_ADMIN, SLUICE_STORE, SLUICE_NAMESPACE, SLUICE_CHECK_TOKEN and\n"
                 "SLUICE_ADMIN_TOKEN stand for the options of these names.\n\n"
                 "Exit status: 0 done, 1 the answer is no, 2 usage, 3 could not reach the daemon or store.\n");
}
