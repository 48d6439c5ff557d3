#include "sluiced/config.h"

#include "base/err.h"
#include "core/rate.h"
#include "fleet/fleet.h"
#include "notify/notifier.h"
#include "notify/target.h"
#include "sluice/sluice.h"
#include "store/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000)
#define HOUR (3600 * SECOND)
#define BUDGET_US UINT64_C(1000)
#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define AT(field) .offset = offsetof(struct sl_config, field)

static const char *const log_formats[] = {[SL_LOG_LOGFMT] = "logfmt", [SL_LOG_JSON] = "json", NULL};
static const char *const webhook_events[] = {
    [SL_WEBHOOK_ALL] = "all", [SL_WEBHOOK_WARNINGS] = "warnings", [SL_WEBHOOK_ALARMS] = "alarms", NULL};
static const char *const policy_sources[] = {[SL_POLICY_FROM_STORE] = "store", [SL_POLICY_FROM_FILE] = "file", NULL};

static int check_store(const char *value, char *why, size_t why_size)
{
    struct sl_store_url url;
    int err = sl_store_url_parse(value, &url, why, why_size);

    if (!err)
        sl_store_url_fini(&url);
    return err;
}

static int check_namespace(const char *value, char *why, size_t why_size)
{
    size_t len = strlen(value);
    bool good = len <= SL_NAMESPACE_MAX;

    for (size_t i = 0; i < len; i++)
        good = good && value[i] >= ' ' && value[i] <= '~' && value[i] != '{' && value[i] != '}';
    if (good)
        return 0;
    snprintf(why, why_size, "a namespace is 1 to %d printable ASCII characters without braces", SL_NAMESPACE_MAX);
    return SL_EINVALID;
}

static int check_region(const char *value, char *why, size_t why_size)
{
    size_t len = strlen(value);

    if (len < SLUICE_NAME_MAX && strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len)
        return 0;
    snprintf(why, why_size, "a region is up to %d of `a-z 0-9 . _ -`", SLUICE_NAME_MAX - 1);
    return SL_EINVALID;
}

static int check_mode(const char *value, char *why, size_t why_size)
{
    size_t len = strlen(value);

    if (len >= 3 && len <= 4 && strspn(value, "01234567") == len && strtoul(value, NULL, 8) <= 0777)
        return 0;
    snprintf(why, why_size, "permission bits are octal, such as 0660");
    return SL_EINVALID;
}

static int parse_budget(const char *value, uint64_t *ret_us)
{
    const char *why;

    *ret_us = 0;
    return strcmp(value, "off") == 0 ? 0 : sl_duration_parse(value, strlen(value), ret_us, &why);
}

static int check_budget(const char *value, char *why, size_t why_size)
{
    uint64_t us;

    if (strcmp(value, "auto") == 0 || (parse_budget(value, &us) == 0 && us <= HOUR))
        return 0;
    snprintf(why, why_size, "a budget is `auto`, `off` or a duration from `1ms` to `1h`");
    return SL_EINVALID;
}

static int check_webhook_secret(const char *value, char *why, size_t why_size)
{
    size_t len = strlen(value);

    if (len >= SL_WEBHOOK_SECRET_MIN && len <= SL_WEBHOOK_SECRET_MAX)
        return 0;
    snprintf(why, why_size, "a secret for signatures is %u to %u bytes long", SL_WEBHOOK_SECRET_MIN,
             SL_WEBHOOK_SECRET_MAX);
    return SL_EINVALID;
}

/* The one list of what the daemon can be told. */
const struct sl_option sl_config_rows[] = {
    {.group = "Listeners",
     .name = "listen",
     .type = SL_OPTION_LIST,
     AT(listen),
     .argument = "ADDRESS",
     .preset = "127.0.0.1:8080",
     .sentence = "where requests come in: HOST:PORT, [V6]:PORT, :PORT or unix:/PATH; may be given several times"},
    {.name = "admin",
     .type = SL_OPTION_LIST,
     AT(admin),
     .argument = "ADDRESS",
     .preset = "127.0.0.1:6070",
     .sentence = "where metrics, buckets and reloads are served; beyond loopback it needs --admin-token or "
                 "--admin-read-token"},
    {.name = "workers",
     .type = SL_OPTION_COUNT,
     AT(workers),
     .argument = "N",
     .preset = "0",
     .max = 256,
     .sentence = "threads that serve requests, each with a loop of its own; 0 means one for each core"},
    {.name = "unix-mode",
     .type = SL_OPTION_TEXT,
     AT(unix_mode),
     .argument = "OCTAL",
     .preset = "0660",
     .check = check_mode,
     .sentence = "permission bits of unix sockets"},
    {.name = "tls-cert",
     .type = SL_OPTION_TEXT,
     AT(tls_cert),
     .argument = "FILE",
     .sentence = "PEM certificate chain: the public TCP listeners speak TLS; needs --tls-key"},
    {.name = "tls-key",
     .type = SL_OPTION_TEXT,
     AT(tls_key),
     .argument = "FILE",
     .sentence = "PEM private key of --tls-cert"},
    {.name = "tls-client-ca",
     .type = SL_OPTION_TEXT,
     AT(tls_client_ca),
     .argument = "FILE",
     .sentence = "PEM certificates: public TLS clients must show a certificate signed by one of these"},
    {.name = "check-token",
     .type = SL_OPTION_SECRET,
     AT(check_token),
     .argument = "TOKEN",
     .sentence = "what /check must be shown as `Authorization: Bearer`; @/PATH reads it from a file"},
    {.name = "admin-token",
     .type = SL_OPTION_SECRET,
     AT(admin_token),
     .argument = "TOKEN",
     .sentence = "the same for the admin listener; @/PATH reads it from a file"},
    {.name = "admin-read-token",
     .type = SL_OPTION_SECRET,
     AT(admin_read_token),
     .argument = "TOKEN",
     .sentence = "a second token of the admin listener, with which nothing can be changed: for scrapes and dashboards; "
                 "@/PATH reads it from a file"},

    {.group = "Policy",
     .name = "policy",
     .type = SL_OPTION_TEXT,
     AT(policy),
     .argument = "FILE",
     .sentence = "the policy (required), watched and taken anew when it changes"},
    {.name = "policy-source",
     .type = SL_OPTION_CHOICE,
     AT(policy_source),
     .argument = "SOURCE",
     .preset = "store",
     .choices = policy_sources,
     .sentence = "what counts when the instances share a store: `store`, its current version, and the file only until "
                 "there is one; or `file`"},
    {.name = "state",
     .type = SL_OPTION_TEXT,
     AT(state),
     .argument = "DIR",
     .sentence =
         "keeps the last good policy here, for a restart with a broken file or without the store, and the secret that "
         "the instances of a store share"},
    {.name = "instances",
     .type = SL_OPTION_COUNT,
     AT(instances),
     .argument = "N",
     .preset = "1",
     .min = 1,
     .max = 100000,
     .sentence = "how many instances share the limits when the store cannot say; the embedded store decides alone"},
    {.name = "region",
     .type = SL_OPTION_TEXT,
     AT(region),
     .argument = "NAME",
     .check = check_region,
     .sentence = "the region of this instance, for limits that are divided by `regions`"},

    {.group = "Counting",
     .name = "store",
     .type = SL_OPTION_SECRET,
     AT(store),
     .argument = "URL",
     .preset = "memory:",
     .check = check_store,
     .sentence = "the store all instances agree on: redis://, rediss://, redis+unix://, redis+sentinel:// or "
                 "redis+cluster://, with ?password_file=FILE and, for TLS, ca=FILE (sluiced(8) has all); `memory:` is "
                 "this process alone; @/PATH reads it from a file"},
    {.name = "namespace",
     .type = SL_OPTION_TEXT,
     AT(namespace),
     .argument = "NAME",
     .preset = "sluice",
     .check = check_namespace,
     .sentence = "what the names of all keys in the store begin with; instances share limits when it is the same"},
    {.name = "timeout",
     .type = SL_OPTION_DURATION,
     AT(timeout_us),
     .argument = "DURATION",
     .preset = "10ms",
     .min = SL_CLIENT_TIMEOUT_MIN_US,
     .max = SL_CLIENT_TIMEOUT_MAX_US,
     .sentence = "how long a decision waits for the store; then the limit's on_store_failure decides"},
    {.name = "table",
     .type = SL_OPTION_TEXT,
     AT(table),
     .argument = "FILE",
     .sentence = "keeps the counts in this file, so that they survive a restart; without it they live in memory"},
    {.name = "table-keys",
     .type = SL_OPTION_COUNT,
     AT(table_keys),
     .argument = "N",
     .preset = "1000000",
     .min = 1000,
     .max = (UINT64_C(1) << 32) - 2, /* as many log entries must be possible */
     .sentence = "buckets there is room for, at some 36 bytes each"},
    {.name = "table-log-entries",
     .type = SL_OPTION_COUNT,
     AT(table_log_entries),
     .argument = "N",
     .preset = "0",
     .max = (UINT64_C(1) << 32) - 2,
     .sentence = "entries of sliding_window_log limits there is room for; 0 means as many as --table-keys"},

    {.group = "Notifications",
     .name = "webhook",
     .type = SL_OPTION_LIST,
     AT(webhooks),
     .argument = "URL",
     .flags = SL_OPTION_HIDDEN,
     .check = sl_target_check,
     .sentence = "where limits past their warn_at and alarms are POSTed to, http:// or https://, signed with "
                 "--webhook-secret; may be given several times"},
    {.name = "webhook-secret",
     .type = SL_OPTION_SECRET,
     AT(webhook_secret),
     .argument = "SECRET",
     .check = check_webhook_secret,
     .sentence = "the key of the HMAC-SHA256 in Sluice-Signature, 16 to 512 bytes; @/PATH reads it from a file"},
    {.name = "webhook-events",
     .type = SL_OPTION_CHOICE,
     AT(webhook_events),
     .argument = "EVENTS",
     .preset = "all",
     .choices = webhook_events,
     .sentence = "what webhooks are told of: `warnings` of limits, `alarms`, or `all`"},
    {.name = "webhook-ca",
     .type = SL_OPTION_TEXT,
     AT(webhook_ca),
     .argument = "FILE",
     .sentence = "PEM certificates: webhooks with https must be signed by one of these instead of the system's"},

    {.group = "Limits of the listeners",
     .name = "max-connections",
     .type = SL_OPTION_COUNT,
     AT(max_connections),
     .argument = "N",
     .preset = "10000",
     .min = 1,
     .max = 1000000,
     .sentence = "public connections at one time; lowered to what the file limit allows"},
    {.name = "max-streams",
     .type = SL_OPTION_COUNT,
     AT(max_streams),
     .argument = "N",
     .preset = "128",
     .min = 1,
     .max = 1000,
     .sentence = "concurrent streams of one HTTP/2 connection"},
    {.name = "header-bytes",
     .type = SL_OPTION_BYTES,
     AT(header_bytes),
     .argument = "BYTES",
     .preset = "16k",
     .min = KIB,
     .max = 64 * KIB,
     .sentence = "size of a request line with its headers"},
    {.name = "body-bytes",
     .type = SL_OPTION_BYTES,
     AT(body_bytes),
     .argument = "BYTES",
     .preset = "4M",
     .min = KIB,
     .max = 64 * MIB,
     .sentence = "size of a request body"},
    {.name = "out-bytes",
     .type = SL_OPTION_BYTES,
     AT(out_bytes),
     .argument = "BYTES",
     .preset = "256k",
     .min = 16 * KIB,
     .max = 64 * MIB,
     .sentence = "answers one connection may have waiting before its next requests wait"},
    {.name = "header-timeout",
     .type = SL_OPTION_DURATION,
     AT(header_timeout_us),
     .argument = "DURATION",
     .preset = "5s",
     .min = 10000,
     .max = HOUR,
     .sentence = "from the first byte of a request to its last header"},
    {.name = "request-timeout",
     .type = SL_OPTION_DURATION,
     AT(request_timeout_us),
     .argument = "DURATION",
     .preset = "30s",
     .min = 10000,
     .max = HOUR,
     .sentence = "from the first byte of a request to its last"},
    {.name = "idle-timeout",
     .type = SL_OPTION_DURATION,
     AT(idle_timeout_us),
     .argument = "DURATION",
     .preset = "60s",
     .min = 10000,
     .max = HOUR,
     .sentence = "how long a connection may stay open between requests"},
    {.name = "write-timeout",
     .type = SL_OPTION_DURATION,
     AT(write_timeout_us),
     .argument = "DURATION",
     .preset = "30s",
     .min = 10000,
     .max = HOUR,
     .sentence = "how long a client may take nothing of its answer"},

    {.group = "Running",
     .name = "drain-timeout",
     .type = SL_OPTION_DURATION,
     AT(drain_timeout_us),
     .argument = "DURATION",
     .preset = "10s",
     .max = HOUR,
     .sentence = "how long requests under way may take to end after SIGTERM or SIGINT"},
    {.name = "log-format",
     .type = SL_OPTION_CHOICE,
     AT(log_format),
     .argument = "FORMAT",
     .preset = "logfmt",
     .choices = log_formats,
     .sentence = "how lines on standard error are written"},
    {.name = "latency-budget",
     .type = SL_OPTION_TEXT,
     AT(latency_budget),
     .argument = "DURATION",
     .preset = "auto",
     .check = check_budget,
     .sentence =
         "the alarm decision_slow is raised when one decision in a hundred takes longer; `auto`: 1ms, or half of "
         "--timeout where limits are shared; `off`: never"},
    {.name = "config",
     .type = SL_OPTION_TEXT,
     AT(config),
     .argument = "FILE",
     .flags = SL_OPTION_NO_CONFIG,
     .sentence = "YAML file with any of these settings by name; the environment and flags are stronger"},
    {.name = "version",
     .letter = 'V',
     .type = SL_OPTION_SWITCH,
     AT(version),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "print the version and exit"},
    {.name = "help",
     .letter = 'h',
     .type = SL_OPTION_SWITCH,
     AT(help),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "print this and exit"},
};

const size_t sl_config_n_rows = sizeof sl_config_rows / sizeof sl_config_rows[0];

static int check_webhooks(const struct sl_config *config, char *why, size_t why_size)
{
    if (config->webhooks.n > SL_NOTIFIER_WEBHOOKS_MAX)
        snprintf(why, why_size, "--webhook is given more than %u times", SL_NOTIFIER_WEBHOOKS_MAX);
    else if (config->webhooks.n > 0 && !config->webhook_secret)
        snprintf(why, why_size, "--webhook needs --webhook-secret: what is sent is signed");
    else if (config->webhook_ca && access(config->webhook_ca, R_OK))
        snprintf(why, why_size, "--webhook-ca: %s cannot be read: %s", config->webhook_ca, strerror(errno));
    else
        return 0;
    return SL_EINVALID;
}

static int check_together(const struct sl_config *config, char *why, size_t why_size)
{
    if (!config->tls_cert != !config->tls_key) {
        snprintf(why, why_size, "--tls-cert and --tls-key go together; --tls-%s is missing",
                 config->tls_cert ? "key" : "cert");
        return SL_EINVALID;
    }
    if (config->tls_client_ca && !config->tls_cert) {
        snprintf(why, why_size, "--tls-client-ca needs --tls-cert and --tls-key");
        return SL_EINVALID;
    }
    return check_webhooks(config, why, why_size);
}

enum sl_config_outcome sl_config_read(struct sl_config *config, struct sl_options *options, int argc, char **argv,
                                      char *why, size_t why_size)
{
    sl_options_init(options, sl_config_rows, sl_config_n_rows, config);
    if (sl_options_args(options, &argc, argv, why, why_size))
        return SL_CONFIG_WRONG;
    if (config->help)
        return SL_CONFIG_HELP;
    if (config->version)
        return SL_CONFIG_VERSION;
    if (argc > 1 && strstr(argv[1], "://")) { /* a password may be in it */
        snprintf(why, why_size, "an address alone is no option; is it that of --store?");
        return SL_CONFIG_WRONG;
    }
    if (argc > 1) {
        snprintf(why, why_size, "`%.200s` is no option; --help lists them", argv[1]);
        return SL_CONFIG_WRONG;
    }
    if (sl_options_env(options, why, why_size))
        return SL_CONFIG_WRONG;
    if (config->config && sl_options_config(options, config->config, why, why_size))
        return SL_CONFIG_WRONG;
    return check_together(config, why, why_size) ? SL_CONFIG_WRONG : SL_CONFIG_READY;
}

uint64_t sl_config_latency_budget_us(const struct sl_config *config, bool has_store)
{
    uint64_t us;

    if (strcmp(config->latency_budget, "auto") == 0)
        return has_store ? config->timeout_us / 2 : BUDGET_US;
    return parse_budget(config->latency_budget, &us) == 0 ? us : 0; /* the table has accepted it */
}

unsigned sl_config_unix_mode(const struct sl_config *config)
{
    return (unsigned)strtoul(config->unix_mode, NULL, 8);
}
