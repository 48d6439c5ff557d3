/* sluiced: the daemon. What it can be told is in config.c, what it does with it in daemon.c. */
#include "sluice/sluice.h"
#include "sluiced/config.h"
#include "sluiced/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 100

static void print_help(void)
{
    printf("sluiced: a rate limiter that answers over HTTP\n\n"
           "Usage: sluiced --policy FILE [OPTION...]\n\n"
           "  sluiced --policy policy.yaml\n"
           "  curl -s -d '{\"key\":\"acct_8812\",\"scope\":\"api:search\"}' http://127.0.0.1:8080/check\n\n"
           "Every option is also a key of the --config file and an environment variable: --drain-timeout is "
           "drain-timeout:\n"
           "and SLUICE_DRAIN_TIMEOUT. A flag beats the environment, which beats the file.\n\n");
    sl_options_help(sl_config_rows, sl_config_n_rows, COLUMNS, stdout);
    printf("\nSIGHUP reads the policy anew; SIGTERM and SIGINT drain and stop, a second one stops at once.\n"
           "Exit status: 0 stopped, 2 could not start.\n");
}

static bool is_secret(const char *name, size_t len)
{
    for (size_t i = 0; i < sl_config_n_rows; i++) {
        const struct sl_option *row = &sl_config_rows[i];

        if (row->type == SL_OPTION_SECRET && strlen(row->name) == len && !strncmp(row->name, name, len))
            return true;
    }
    return false;
}

/* Every user of the machine may read a command line; what is read by now need not stand there any longer. */
static void hide_secrets(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *name = argv[i] + 2, *value = NULL;
        size_t len;

        if (strncmp(argv[i], "--", 2) != 0)
            continue;
        len = strcspn(name, "=");
        if (is_secret(name, len))
            value = name[len] ? name + len + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (value && value[0] != '@')
            memset(value, '*', strlen(value));
    }
}

int main(int argc, char **argv)
{
    struct sl_config config;
    struct sl_options options;
    char **words = calloc((size_t)argc + 1, sizeof *words); /* reading the options puts them in another order */
    enum sl_config_outcome outcome;
    char why[1024];
    int status = 0;

    if (!words)
        return 2;
    memcpy(words, argv, (size_t)argc * sizeof *words);
    outcome = sl_config_read(&config, &options, argc, words, why, sizeof why);
    hide_secrets(argc, argv);
    switch (outcome) {
    case SL_CONFIG_HELP:
        print_help();
        break;
    case SL_CONFIG_VERSION:
        printf("sluiced %d.%d.%d\n", SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH);
        break;
    case SL_CONFIG_WRONG:
        fprintf(stderr, "sluiced: %s\n", why);
        status = 2;
        break;
    case SL_CONFIG_READY:
        status = sl_daemon_run(&config, &options);
        break;
    }
    sl_options_fini(&options);
    free(words);
    return status;
}
