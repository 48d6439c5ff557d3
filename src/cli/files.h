/* Policies from files, and requests from options: what several subcommands share. */
#ifndef SL_CLI_FILES_H
#define SL_CLI_FILES_H

#include "cli/cli.h"
#include "limiter/limiter.h"
#include "policy/policy.h"
#include "sluice/sluice.h"

/* What policies are compiled with: for reading, `secret` may be zero. For all regions; `region` may be set. */
struct sl_policy_options cli_policy_options(struct sl_secret secret, bool has_store);

/* For the option --region: 0, or a status after it has said what is wrong. NULL: not given. */
int cli_check_region(const char *region);

/* Loads a policy. Findings go to standard error when it fails. Returns a reference, or NULL. */
struct sl_policy *cli_load_policy(const char *path, const struct sl_policy_options *options);

/* For the option --store of commands that look at policies: 0 and whether it is a shared store, or a status after it has
 * said what is wrong. NULL: not given. */
int cli_read_store(const char *store, bool *ret_has_store);

/* A limiter of its own for one policy, in memory. Returns NULL when the policy is broken (findings printed) or memory
 * is short. */
struct sl_limiter *cli_open_limiter(const char *path, uint64_t keys);

/* The options that make up a request. */
struct cli_request_options {
    char *key_type, *tier, *address;
    uint64_t cost; /* only when given */
    struct sl_option_list labels;
};

#define CLI_REQUEST_ROWS(values_type)                                                                             \
    {.group = "Request",                                                                                          \
     .name = "cost",                                                                                              \
     .type = SL_OPTION_COUNT,                                                                                     \
     .offset = offsetof(values_type, request.cost),                                                               \
     .argument = "N",                                                                                             \
     .max = SLUICE_COST_MAX,                                                                                      \
     .flags = SL_OPTION_FLAG_ONLY,                                                                                \
     .sentence = "tokens to spend; 0 is a peek; without it the policy's cost"},                                   \
        {.name = "key-type",                                                                                      \
         .type = SL_OPTION_TEXT,                                                                                  \
         .offset = offsetof(values_type, request.key_type),                                                       \
         .argument = "TYPE",                                                                                      \
         .flags = SL_OPTION_FLAG_ONLY,                                                                            \
         .sentence = "what the key is: api_key (the default), user, address, or another word of the policy"},     \
        {.name = "tier",                                                                                          \
         .type = SL_OPTION_TEXT,                                                                                  \
         .offset = offsetof(values_type, request.tier),                                                           \
         .argument = "TIER",                                                                                      \
         .flags = SL_OPTION_FLAG_ONLY,                                                                            \
         .sentence = "the key's tier; without it the policy's tables"},                                           \
        {.name = "address",                                                                                       \
         .type = SL_OPTION_TEXT,                                                                                  \
         .offset = offsetof(values_type, request.address),                                                        \
         .argument = "IP",                                                                                        \
         .flags = SL_OPTION_FLAG_ONLY,                                                                            \
         .sentence = "the client's address, for limits that separate by it"},                                     \
    {                                                                                                             \
        .name = "label", .type = SL_OPTION_LIST, .offset = offsetof(values_type, request.labels),                 \
        .argument = "NAME=VALUE", .flags = SL_OPTION_FLAG_ONLY, .sentence = "a label; may be given several times" \
    }

/* Puts words[0] (key) and words[1] (scope, when given) and the options together. *ret_request borrows from all of them
 * and from `labels`. Returns 0, or a status after it has said what is wrong. */
int cli_make_request(const struct cli_call *call, const char *key, const char *scope,
                     const struct cli_request_options *options, struct sluice_label labels[static SLUICE_LABELS_MAX],
                     struct sluice_request *ret_request);

#endif
