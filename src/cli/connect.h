/* Options that say where a daemon is and how to be let in, for the subcommands that ask one. */
#ifndef SL_CLI_CONNECT_H
#define SL_CLI_CONNECT_H

#include "cli/cli.h"

struct cli_connect {
    char *server; /* public listener */
    char *admin;  /* admin listener */
    char *token;
    char *ca_file;
    uint64_t timeout_us;
};

#define CLI_SERVER_ROW(values_type)                                                                                   \
    {                                                                                                                 \
        .group = "Daemon", .name = "server", .type = SL_OPTION_TEXT, .offset = offsetof(values_type, connect.server), \
        .argument = "URL", .preset = "http://127.0.0.1:8080",                                                         \
        .sentence = "the daemon's public listener: http://HOST:PORT, https://... or unix:/PATH"                       \
    }

#define CLI_ADMIN_ROW(values_type)                                                                                  \
    {                                                                                                               \
        .group = "Daemon", .name = "admin", .type = SL_OPTION_TEXT, .offset = offsetof(values_type, connect.admin), \
        .argument = "URL", .preset = "http://127.0.0.1:6070",                                                       \
        .sentence = "the daemon's admin listener: http://HOST:PORT, https://... or unix:/PATH"                      \
    }

/* `token_name` is "check-token" or "admin-token". */
#define CLI_TOKEN_ROWS(values_type, token_name)                                                                     \
    {.name = token_name,                                                                                            \
     .type = SL_OPTION_SECRET,                                                                                      \
     .offset = offsetof(values_type, connect.token),                                                                \
     .argument = "TOKEN",                                                                                           \
     .sentence = "the bearer token it asks for; @/PATH reads it from a file"},                                      \
    {                                                                                                               \
        .name = "ca", .type = SL_OPTION_TEXT, .offset = offsetof(values_type, connect.ca_file), .argument = "FILE", \
        .flags = SL_OPTION_FLAG_ONLY, .sentence = "PEM certificates to trust for https; without it the system's"    \
    }

#define CLI_CONNECT_ROWS(values_type, token_name)                                                           \
    CLI_TOKEN_ROWS(values_type, token_name),                                                                \
    {                                                                                                       \
        .name = "timeout", .type = SL_OPTION_DURATION, .offset = offsetof(values_type, connect.timeout_us), \
        .argument = "DURATION", .preset = "5s", .min = 1000, .max = UINT64_C(3600000000),                   \
        .flags = SL_OPTION_FLAG_ONLY, .sentence = "how long to wait for the answer"                         \
    }

#endif
