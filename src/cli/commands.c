/* Every subcommand, in the order of the overview. */
#include "cli/cli.h"

extern const struct cli_command cli_check, cli_policy_check, cli_policy_show, cli_policy_explain, cli_policy_diff,
    cli_policy_push, cli_policy_history, cli_policy_rollback, cli_policy_shadow, cli_policy_promote, cli_policy_dry_run,
    cli_replay, cli_buckets_show, cli_buckets_reset, cli_override_set, cli_override_list, cli_override_remove,
    cli_override_history, cli_keys_set, cli_keys_import, cli_keys_get, cli_keys_remove, cli_why, cli_trace, cli_top,
    cli_alarms, cli_webhook_test, cli_bench_core, cli_bench_table, cli_bench_http, cli_doctor;

const struct cli_command *const cli_commands[] = {
    &cli_check,
    &cli_policy_check,
    &cli_policy_show,
    &cli_policy_explain,
    &cli_policy_diff,
    &cli_policy_push,
    &cli_policy_history,
    &cli_policy_rollback,
    &cli_policy_shadow,
    &cli_policy_promote,
    &cli_policy_dry_run,
    &cli_replay,
    &cli_buckets_show,
    &cli_buckets_reset,
    &cli_override_set,
    &cli_override_list,
    &cli_override_remove,
    &cli_override_history,
    &cli_keys_set,
    &cli_keys_import,
    &cli_keys_get,
    &cli_keys_remove,
    &cli_why,
    &cli_trace,
    &cli_top,
    &cli_alarms,
    &cli_webhook_test,
    &cli_bench_core,
    &cli_bench_table,
    &cli_bench_http,
    &cli_doctor,
};

const size_t cli_n_commands = sizeof cli_commands / sizeof cli_commands[0];
