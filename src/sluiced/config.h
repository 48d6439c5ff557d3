/* The daemon's settings: one struct, filled from flags, environment and config file by the table in config.c. */
#ifndef SL_SLUICED_CONFIG_H
#define SL_SLUICED_CONFIG_H

#include "options/option.h"

#include <stdbool.h>
#include <stdint.h>

enum sl_policy_source { SL_POLICY_FROM_STORE, SL_POLICY_FROM_FILE };

/* What webhooks are told of. */
enum sl_webhook_events { SL_WEBHOOK_ALL, SL_WEBHOOK_WARNINGS, SL_WEBHOOK_ALARMS };

enum sl_log_format { SL_LOG_LOGFMT, SL_LOG_JSON };

struct sl_config {
    bool help, version;
    char *config;
    /* listeners */
    struct sl_option_list listen, admin;
    uint64_t workers;
    char *tls_cert, *tls_key, *tls_client_ca;
    char *check_token, *admin_token, *admin_read_token;
    char *unix_mode;
    /* policy */
    char *policy;
    unsigned policy_source; /* enum sl_policy_source */
    char *state;
    char *region;
    uint64_t instances;
    /* the local tier and the store */
    char *store, *namespace;
    uint64_t timeout_us;
    char *table;
    uint64_t table_keys;
    uint64_t table_log_entries;
    /* notifications */
    struct sl_option_list webhooks;
    char *webhook_secret, *webhook_ca;
    unsigned webhook_events; /* enum sl_webhook_events */
    /* limits of the listeners */
    uint64_t max_connections, header_bytes, body_bytes, out_bytes, max_streams;
    uint64_t header_timeout_us, request_timeout_us, idle_timeout_us, write_timeout_us;
    /* life cycle and logs */
    uint64_t drain_timeout_us;
    unsigned log_format; /* enum sl_log_format */
    char *latency_budget;
};

extern const struct sl_option sl_config_rows[];
extern const size_t sl_config_n_rows;

/* The result of reading all three sources. */
enum sl_config_outcome {
    SL_CONFIG_READY,
    SL_CONFIG_HELP,    /* --help */
    SL_CONFIG_VERSION, /* --version */
    SL_CONFIG_WRONG,   /* `why` says what */
};

/* Reads flags, environment and the config file that one of them names. Release with sl_options_fini(options) whatever
 * the outcome. */
enum sl_config_outcome sl_config_read(struct sl_config *config, struct sl_options *options, int argc, char **argv,
                                      char *why, size_t why_size);

/* What one decision in a hundred may take at most; 0: any time. has_store: limits are shared. */
uint64_t sl_config_latency_budget_us(const struct sl_config *config, bool has_store);

/* Permission bits from an octal text that the table has accepted. */
unsigned sl_config_unix_mode(const struct sl_config *config);

#endif
