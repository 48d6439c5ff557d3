/* Versions of the policy, straight in the store or through a daemon's admin listener: the same for whoever asks. */
#ifndef SL_CLI_VERSIONS_H
#define SL_CLI_VERSIONS_H

#include "cli/connect.h"
#include "cli/store_visit.h"
#include "policy/diag.h"

struct json_t;

/* A store that is named means the store, unless a daemon is named too: that one holds what is changed against its policy. */
static inline bool cli_means_store(const struct cli_call *call)
{
    return cli_given(call, "store") && !cli_given(call, "admin");
}

#define CLI_VERSIONS_ROWS(values_type)                                      \
    CLI_ADMIN_ROW(values_type), CLI_TOKEN_ROWS(values_type, "admin-token"), \
        CLI_STORE_ROWS(                                                     \
            values_type,                                                    \
            "straight in the store that the instances share, unless --admin is given; @/PATH reads it from a file")

/* Where: the one or the other. */
struct cli_versions {
    bool in_store;
    struct cli_store store;
    struct cli_connect connect; /* through the daemon */
};

/* Returns 0, or a status after it has said what is wrong: then there is nothing to close. */
int cli_versions_open(const struct cli_call *call, const struct cli_connect *connect,
                      const struct cli_store_options *at, struct cli_versions *ret_versions);
void cli_versions_close(struct cli_versions *versions);

/* A version (0: the current one) with its texts, which are the caller's. Returns 0, or a status after it has said what is
 * wrong. With ret_found it is no error that there is none. */
int cli_versions_fetch(struct cli_versions *versions, uint64_t number, bool *ret_found, struct sl_version *ret_version,
                       struct sl_version_text *ret_text);

/* As sl_versions_before. Returns 0, or a status after it has said what is wrong. */
int cli_versions_before(struct cli_versions *versions, uint64_t number, uint64_t *ret_number);

/* {"current","versions","instances","unheard"}: a new reference, or NULL and *ret_status after it has said what is wrong. */
struct json_t *cli_versions_history(struct cli_versions *versions, uint64_t before, unsigned count, int *ret_status);

struct cli_pushed {
    bool conflict;    /* another version is current than was expected, this one if there is one */
    bool has_version; /* else the new one */
    struct sl_version version;
    char why[SL_CONTROL_WHY_MAX]; /* of a conflict */
};

/* `current`: the version that is current for all the caller knows; `refused`: warnings, of a push. Returns 0 with *ret_pushed, or
 * a status after it has said what is wrong. */
int cli_versions_push(struct cli_versions *versions, const struct sl_version_draft *draft,
                      const struct sl_version *current, enum sl_warnings refused, struct cli_pushed *ret_pushed);

/* ---- versions_daemon.c: the same through a daemon */

int cli_daemon_fetch(const struct cli_connect *connect, uint64_t number, bool *ret_found,
                     struct sl_version *ret_version, struct sl_version_text *ret_text);
int cli_daemon_before(const struct cli_connect *connect, uint64_t number, uint64_t *ret_number);
struct json_t *cli_daemon_history(const struct cli_connect *connect, uint64_t before, unsigned count, int *ret_status);
int cli_daemon_push(const struct cli_connect *connect, const struct sl_version_draft *draft,
                    const struct sl_version *current, enum sl_warnings refused, struct cli_pushed *ret_pushed);

#endif
