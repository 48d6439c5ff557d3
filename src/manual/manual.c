/* Writes the manual pages from the same tables that the programs read: sluice_manual FOLDER makes sluiced.8 and
 * sluice.1 in it. */
#include "cli/cli.h"
#include "sluice/sluice.h"
#include "sluiced/config.h"

#include <stdio.h>
#include <string.h>

/* The day of the release, fixed so that a build is the same whenever it is made. */
#define MANUAL_DATE "January 1, 2026"

static FILE *open_page(const char *folder, const char *name, const char *title, const char *section,
                       const char *summary)
{
    char path[4096];
    FILE *out;

    snprintf(path, sizeof path, "%s/%s.%s", folder, name, section);
    out = fopen(path, "w");
    if (!out) {
        perror(path);
        return NULL;
    }
    fprintf(out, ".Dd %s\n.Dt %s %s\n.Os sluice %d.%d.%d\n.Sh NAME\n.Nm %s\n.Nd %s\n", MANUAL_DATE, title, section,
            SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH, name, summary);
    return out;
}

/* What store/url.h reads. */
static void write_store_addresses(FILE *out)
{
    static const char *const rows[][2] = {
        {"memory:", "No store: this process alone."},
        {"redis://[USER:PASSWORD@]HOST[:PORT][/DB]", "One server; port 6379."},
        {"redis+unix://[USER:PASSWORD@]/PATH[?db=N]", "One server, on a UNIX socket."},
        {"redis+sentinel://[USER:PASSWORD@]H1[:PORT],H2,H3/MASTER[/DB]",
         "The master that these Sentinels name; port 26379."},
        {"redis+cluster://[USER:PASSWORD@]H1[:PORT],H2,H3", "A Cluster, found through any of these; port 6379."},
        {"rediss://, rediss+sentinel://, rediss+cluster://", "The same over TLS."},
        {"password_file=FILE", "The password is in this file; one newline at its end does not count."},
        {"ca=FILE", "TLS: PEM certificates to trust; without it the system's."},
        {"cert=FILE, key=FILE", "TLS: the certificate shown to the server, and its key."},
        {"verify=no", "TLS: any certificate will do, so whoever is on the way can be the store."},
        {"sentinel_user=USER, sentinel_password_file=FILE", "What the Sentinels ask for, if it is something else."},
        {"db=N", "The number of the database, where the path does not say it."},
    };

    fputs(".Sh STORE ADDRESSES\nOptions follow a question mark and are joined by\n.Li & ,\nso an address belongs in "
          "quotes in a shell.\nWhat is not a letter or a digit is written in percent notation in user and password\n"
          ".Pq Li %40 No for an at sign ;\nthe contents of a file are taken as they are.\n"
          ".Bl -tag -width Ds\n",
          out);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fprintf(out, ".It Li \"%s\"\n%s\n", rows[i][0], rows[i][1]);
    fputs(".El\n", out);
}

static int write_daemon(const char *folder)
{
    FILE *out = open_page(folder, "sluiced", "SLUICED", "8", "a rate limiter that answers over HTTP");

    if (!out)
        return 1;
    fputs(".Sh SYNOPSIS\n.Nm\n.Fl \\-policy Ar FILE\n.Op Ar option ...\n"
          ".Sh DESCRIPTION\n"
          ".Nm\nanswers over HTTP whether a request is within the limits of its policy.\n"
          "Every option is also a key of the\n.Fl \\-config\nfile and an environment variable:\n"
          ".Fl \\-drain\\-timeout\nis\n.Li drain\\-timeout\nin the file and\n.Ev SLUICE_DRAIN_TIMEOUT .\n"
          "A flag beats the environment, which beats the file.\n.Pp\nThe options are:\n",
          out);
    sl_options_man(sl_config_rows, sl_config_n_rows, out);
    write_store_addresses(out);
    fputs(".Sh SIGNALS\n.Bl -tag -width SIGTERM\n"
          ".It Dv SIGHUP\nThe policy is read anew: whole, or not at all.\n"
          ".It Dv SIGTERM , SIGINT\nRequests under way are answered, for at most\n.Fl \\-drain\\-timeout ,\n"
          "and the daemon ends.\nA second one ends it at once.\n.El\n"
          ".Sh EXIT STATUS\n0 stopped, 2 could not start.\n"
          ".Sh SEE ALSO\n.Xr sluice 1\n",
          out);
    return fclose(out) != 0;
}

static void write_line(const char *text, size_t len, FILE *out)
{
    if (len && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", out);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else
            fputc(text[i], out);
    }
    fputc('\n', out);
}

/* Text with blank lines between paragraphs; indented lines are examples, which come last. */
static void write_prose(const char *text, FILE *out)
{
    bool example = false;

    while (*text) {
        size_t len = strcspn(text, "\n");

        if (!strncmp(text, "  ", 2)) {
            if (!example)
                fputs(".Bd -literal -offset indent\n", out);
            example = true;
            write_line(text + 2, len - 2, out);
        } else if (len) {
            write_line(text, len, out);
        } else if (strncmp(text + 1, "  ", 2) != 0) {
            fputs(".Pp\n", out);
        }
        text += len + (text[len] == '\n');
    }
    if (example)
        fputs(".Ed\n", out);
}

static int write_command_line(const char *folder)
{
    FILE *out = open_page(folder, "sluice", "SLUICE", "1", "asks, explains, replays and measures a rate limiter");

    if (!out)
        return 1;
    fputs(".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar option ...\n.Sh DESCRIPTION\nThe commands are:\n", out);
    for (size_t i = 0; i < cli_n_commands; i++) {
        const struct cli_command *command = cli_commands[i];

        fprintf(out, ".Ss sluice %s %s\n", command->name, command->arguments);
        write_prose(command->manual, out);
        fputs(".Pp\n", out);
        sl_options_man(command->rows, command->n_rows, out);
    }
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
          ".It Ev SLUICE_SERVER , SLUICE_ADMIN , SLUICE_STORE , SLUICE_NAMESPACE , SLUICE_CHECK_TOKEN , "
          "SLUICE_ADMIN_TOKEN\nAs the options of these names.\n"
          ".It Ev NO_COLOR\nNo colours, even on a terminal.\n.El\n"
          ".Sh EXIT STATUS\n0 done, 1 the answer is no, 2 usage, 3 could not reach the daemon or store.\n"
          ".Sh SEE ALSO\n.Xr sluiced 8\n",
          out);
    return fclose(out) != 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: sluice_manual FOLDER\n");
        return 2;
    }
    return write_daemon(argv[1]) || write_command_line(argv[1]);
}
