/* sluice: the command line. Finds the subcommand, reads its options, runs it. */
#include "cli/cli.h"
#include "policy/text.h"
#include "sluice/sluice.h"

#include <stdlib.h>
#include <string.h>

/* The command that argv[1] (and argv[2]) name, and in *ret_words how many words its name has. */
static const struct cli_command *find_command(int argc, char **argv, int *ret_words)
{
    for (size_t i = 0; i < cli_n_commands; i++) {
        const char *name = cli_commands[i]->name;
        size_t first = strcspn(name, " ");

        if (strlen(argv[1]) != first || strncmp(argv[1], name, first) != 0)
            continue;
        if (!name[first]) {
            *ret_words = 1;
            return cli_commands[i];
        }
        if (argc > 2 && !strcmp(argv[2], name + first + 1)) {
            *ret_words = 2;
            return cli_commands[i];
        }
    }
    return NULL;
}

/* Lists what may follow a word that begins several commands; false when none does. */
static bool print_group(const char *word, FILE *out)
{
    size_t len = strlen(word);
    bool any = false;

    for (size_t i = 0; i < cli_n_commands; i++) {
        const char *name = cli_commands[i]->name;

        if (!strncmp(name, word, len) && name[len] == ' ') {
            fprintf(out, "%s  sluice %-16s %s\n", any ? "" : "Commands:\n", name, cli_commands[i]->summary);
            any = true;
        }
    }
    return any;
}

static const char *command_name(const void *ctx, size_t i)
{
    (void)ctx;
    return cli_commands[i]->name;
}

/* The word that a command begins with. */
struct first_word {
    char text[24];
};

static const char *first_word(const void *ctx, size_t i)
{
    const struct first_word *words = ctx;

    return words[i].text;
}

/* The command that `typed` was probably meant to be, else the word that begins one. NULL, or text in `buf`. */
static const char *suggest(const char *typed, const char *word, char *buf, size_t size)
{
    const char *nearest = sl_text_suggest(typed, strlen(typed), command_name, NULL, cli_n_commands);
    struct first_word *words = nearest || !word ? NULL : calloc(cli_n_commands, sizeof *words);

    for (size_t i = 0; words && i < cli_n_commands; i++)
        snprintf(words[i].text, sizeof words[i].text, "%.*s", (int)strcspn(cli_commands[i]->name, " "),
                 cli_commands[i]->name);
    if (words)
        nearest = sl_text_suggest(word, strlen(word), first_word, words, cli_n_commands);
    if (nearest)
        snprintf(buf, size, "%s", nearest);
    free(words);
    return nearest ? buf : NULL;
}

static int unknown_command(int argc, char **argv)
{
    bool two = argc > 2 && argv[2][0] != '-', group;
    char typed[128], meant[128];

    if (argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h")) && print_group(argv[1], stdout))
        return CLI_DONE;
    group = print_group(argv[1], stderr);
    if (group && argc < 3)
        return cli_fail(CLI_USAGE, "`%s` needs one of these words", argv[1]);
    snprintf(typed, sizeof typed, "%s%s%s", argv[1], two ? " " : "", two ? argv[2] : "");
    if (!suggest(typed, group ? NULL : argv[1], meant, sizeof meant))
        meant[0] = '\0';
    if (!group) /* then the second word is not the one that is wrong */
        snprintf(typed, sizeof typed, "%s", argv[1]);
    if (meant[0])
        return cli_fail(CLI_USAGE, "no command `%s`; did you mean `%s`?", typed, meant);
    return cli_fail(CLI_USAGE, "no command `%s`; `sluice --help` lists them", typed);
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
    struct cli_common *values = calloc(1, command->values_size);
    struct sl_options options;
    char why[1024];
    int status;

    if (!values)
        return cli_fail(CLI_USAGE, "out of memory");
    sl_options_init(&options, command->rows, command->n_rows, values);
    if (sl_options_args(&options, &argc, argv, why, sizeof why)) {
        status = cli_fail(CLI_USAGE, "%s: %s", command->name, why);
    } else if (values->help) {
        cli_print_help(command, stdout);
        status = CLI_DONE;
    } else if (sl_options_env(&options, why, sizeof why)) {
        status = cli_fail(CLI_USAGE, "%s: %s", command->name, why);
    } else if ((size_t)argc - 1 < command->min_words || (size_t)argc - 1 > command->max_words) {
        status = cli_fail(CLI_USAGE, "%s takes %s; `sluice %s --help` has examples", command->name,
                          command->arguments[0] ? command->arguments : "no arguments", command->name);
    } else {
        struct cli_call call = {
            .command = command, .values = values, .options = &options, .words = argv + 1, .n_words = (size_t)argc - 1};

        status = command->run(&call);
    }
    if ((fflush(stdout) || ferror(stdout)) && status != CLI_USAGE) /* which says so itself */
        status = cli_fail(CLI_USAGE, "cannot write the answer");
    sl_options_fini(&options);
    free(values);
    return status;
}

int main(int argc, char **argv)
{
    const struct cli_command *command;
    int words = 0;

    if (argc < 2) {
        cli_print_overview(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "version")) {
        printf("sluice %d.%d.%d\n", SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH);
        return CLI_DONE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || (!strcmp(argv[1], "help") && argc == 2)) {
        cli_print_overview(stdout);
        return CLI_DONE;
    }
    if (!strcmp(argv[1], "help")) {
        argc--, argv++;
        command = find_command(argc, argv, &words);
        if (!command && argc == 2 && print_group(argv[1], stdout))
            return CLI_DONE;
        if (!command)
            return unknown_command(argc, argv);
        cli_print_help(command, stdout);
        return CLI_DONE;
    }
    command = find_command(argc, argv, &words);
    if (!command)
        return unknown_command(argc, argv);
    return run_command(command, argc - words, argv + words);
}
