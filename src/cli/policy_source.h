/* Policies as they are named on the command line: a file, or `@N` and `@current` for a version in the store. */
#ifndef SL_CLI_POLICY_SOURCE_H
#define SL_CLI_POLICY_SOURCE_H

#include "cli/versions.h"
#include "policy/policy.h"

struct cli_policy {
    struct sl_policy *policy;
    struct sl_version version; /* number 0: a file */
    struct sl_version_text text;
    size_t n_warnings; /* of a file that cli_policy_open_file has opened */
};

/* "@12" or "@current" (*ret_number 0). Anything else is a file's name: false. */
bool cli_is_version(const char *word, uint64_t *ret_number);

/* Loads and compiles what `word` names, for a region (NULL: none); `connect` and `options` say where versions are (connect
 * NULL: in the store), when it is one. Findings go to standard error when it fails. Returns 0, or a status after it has said what is wrong; `invalid` is the status for a policy
 * with errors. */
int cli_policy_open(const struct cli_call *call, const char *word, const struct cli_connect *connect,
                    const struct cli_store_options *options, const char *region, enum cli_status invalid,
                    struct cli_policy *ret_policy);
/* The same for a version, of what is open. */
int cli_policy_open_version(struct cli_versions *versions, uint64_t number, const char *region, enum cli_status invalid,
                            struct cli_policy *ret_policy);
/* A file, with its texts. Findings go to standard error, warnings of a good one too. */
int cli_policy_open_file(const char *path, enum sl_warnings refused, struct cli_policy *ret_policy);

/* The options --strict and --allow-warnings of what puts a policy in force. 0, or a status after it has said what is wrong. */
struct cli_warnings {
    bool strict, allow;
};
int cli_warnings_read(const struct cli_warnings *given, enum sl_warnings *ret_refused);
/* 0 when none of them is refused; else a status after it has said why. */
int cli_warnings_judge(const char *name, const struct sl_diags *diags, enum sl_warnings refused);

#define CLI_WARNINGS_ROWS(values_type)                                                                       \
    {.name = "strict",                                                                                       \
     .type = SL_OPTION_SWITCH,                                                                               \
     .offset = offsetof(values_type, warnings.strict),                                                       \
     .flags = SL_OPTION_FLAG_ONLY,                                                                           \
     .sentence = "refuse a policy with any warning; without it only misspelt names (`did you mean`)"},       \
    {                                                                                                        \
        .name = "allow-warnings", .type = SL_OPTION_SWITCH, .offset = offsetof(values_type, warnings.allow), \
        .flags = SL_OPTION_FLAG_ONLY, .sentence = "refuse no warning, not even a misspelt name"              \
    }
void cli_policy_close(struct cli_policy *policy); /* accepts a zeroed one */

#endif
