#ifndef SL_CLI_POLICY_LIVE_H
#define SL_CLI_POLICY_LIVE_H

#include "cli/connect.h"

/* Prints which policy a daemon runs: number, source, hash; with --json its whole answer. Returns the exit status. */
int cli_policy_live(const struct cli_call *call, const struct cli_connect *connect);

#endif
