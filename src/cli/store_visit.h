/* A visit to a store, for the subcommands that work with what a fleet keeps there: one connection on a loop of its own, and
 * calls of the control plane that are waited for. */
#ifndef SL_CLI_STORE_VISIT_H
#define SL_CLI_STORE_VISIT_H

#include "cli/cli.h"
#include "control/versions.h"
#include "store/net_uv.h"

struct cli_store_options {
    char *store, *namespace;
    uint64_t timeout_us;
};

#define CLI_STORE_ROWS(values_type, what)                                                                            \
    {.group = "Store",                                                                                               \
     .name = "store",                                                                                                \
     .type = SL_OPTION_SECRET,                                                                                       \
     .offset = offsetof(values_type, at.store),                                                                      \
     .argument = "URL",                                                                                              \
     .sentence = what},                                                                                              \
        {.name = "namespace",                                                                                        \
         .type = SL_OPTION_TEXT,                                                                                     \
         .offset = offsetof(values_type, at.namespace),                                                              \
         .argument = "NAME",                                                                                         \
         .preset = "sluice",                                                                                         \
         .sentence = "the namespace of the instances on that store"},                                                \
    {                                                                                                                \
        .name = "timeout", .type = SL_OPTION_DURATION, .offset = offsetof(values_type, at.timeout_us),               \
        .argument = "DURATION", .preset = "5s", .min = 1000, .max = SL_CLIENT_TIMEOUT_MAX_US,                        \
        .flags = SL_OPTION_FLAG_ONLY, .sentence = "how long to wait for the connection, and for each of the answers" \
    }

struct cli_store {
    struct sl_store_url url;
    struct sl_alloc alloc;
    uint64_t timeout_us;
    uv_loop_t loop;
    uv_timer_t tick;
    struct sl_net_uv net;
    struct sl_client *client;
    struct sl_versions_place place;
    bool refused; /* the client has told why it does not get there */
    char why[256];
    char text[4608]; /* the address, without secrets */
};

/* Reaches the store. Returns 0, or a status after it has said what is wrong: then there is nothing to close. */
int cli_store_open(struct cli_store *store, const struct cli_store_options *options);
void cli_store_close(struct cli_store *store);

/* Runs the loop until *flag: calls of the control plane always end by themselves. */
void cli_store_wait(struct cli_store *store, const bool *flag);

/* The status for an outcome that is not SL_CONTROL_OK, after it has said why. */
int cli_store_fail(const struct cli_store *store, enum sl_control outcome, const char *why);

/* A version with its texts (0: the current one). Returns SL_CONTROL_OK: the texts are the caller's (sl_version_text_free
 * with store->alloc). */
enum sl_control cli_store_fetch(struct cli_store *store, uint64_t number, struct sl_version *ret_version,
                                struct sl_version_text *ret_text, char *why, size_t why_size);

#endif
