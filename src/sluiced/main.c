/* sluiced: the daemon. What it can be told is in config.c, what it does with it in daemon.c. */
#include "sluice/sluice.h"
#include "sluiced/config.h"
#include "sluiced/daemon.h"

#include <stdio.h>

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

int main(int argc, char **argv)
{
    struct sl_config config;
    struct sl_options options;
    char why[1024];
    int status = 0;

    switch (sl_config_read(&config, &options, argc, argv, why, sizeof why)) {
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
    return status;
}
