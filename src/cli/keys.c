/* `sluice keys set | get | remove`: the tiers of keys that daemons look up in the store. */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/key_tier.h"
#include "cli/store_policy.h"
#include "policy/file.h"
#include "policy/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct keys_values {
    struct cli_common common;
    struct cli_store_options at;
    bool force;
};

static int check_word(const char *what, const char *text, size_t max)
{
    size_t len = strlen(text);

    if (len == 0 || len > max || !sl_text_printable(text, len))
        return cli_fail(CLI_USAGE, "%s: 1 to %zu bytes, none of them a control character", what, max);
    return 0;
}

static int open_store(const struct cli_call *call, struct cli_store *store)
{
    const struct keys_values *values = (const struct keys_values *)call->values;
    int status = check_word("KEY", call->words[0], SLUICE_KEY_MAX);

    if (status == 0 && call->n_words > 1)
        status = check_word("TIER", call->words[1], SLUICE_NAME_MAX - 1);
    return status ? status : cli_store_open(store, &values->at);
}

/* {"key","tier"}: the tier is null when there is none. */
static int tell_json(const char *key, const char *tier, size_t len, enum cli_status status)
{
    json_t *text = tier ? json_stringn(tier, len) : json_null();

    return cli_print_json(json_pack("{s:s,s:o}", "key", key, "tier", text ? text : json_null()), status);
}

/* ---- against the store's policy */

/* A tier that no policy names would count as unknown on every instance, and nothing would say so here. */
static int check_tier(const struct sl_policy *policy, uint64_t number, const char *tier, size_t len)
{
    const char *near;

    if (sl_policy_names_tier(policy, tier, len))
        return 0;
    near = sl_policy_suggest_tier(policy, tier, len);
    return cli_fail(
        CLI_NO,
        "version %llu of the policy has no tier `%.*s`%s%s%s; nothing was changed, --force does it all the same",
        (unsigned long long)number, (int)len, tier, near ? " (did you mean `" : "", near ? near : "",
        near ? "`?)" : "");
}

/* Holds the tiers (every second word) against the policy that is current on the store, when it has one. */
static int check_tiers(const struct cli_call *call, struct cli_store *store, const struct sl_word *pairs, size_t n)
{
    uint64_t number = 0;
    struct sl_policy *policy = cli_store_policy(store, &number);
    bool force = ((const struct keys_values *)call->values)->force;
    int status = 0;

    for (size_t i = 1; policy && !force && i < n && !status; i += 2)
        status = check_tier(policy, number, pairs[i].bytes, pairs[i].len);
    if (policy && !status && !sl_policy_has_keys_store(policy))
        cli_fail(
            CLI_DONE,
            "warning: version %llu of the policy does not say `tiers: {keys_store: true}`: no instance looks there",
            (unsigned long long)number);
    sl_policy_unref(policy);
    return status;
}

static int run_set(const struct cli_call *call)
{
    const char *key = call->words[0], *tier = call->words[1];
    struct sl_word pair[2];
    struct cli_store store;
    int status = open_store(call, &store);

    if (status)
        return status;
    pair[0] = (struct sl_word){key, strlen(key)};
    pair[1] = (struct sl_word){tier, strlen(tier)};
    status = check_tiers(call, &store, pair, 2);
    if (!status)
        status = cli_key_tier_set_many(&store, pair, 2);
    cli_store_close(&store);
    if (status)
        return status;
    if (call->values->json)
        return tell_json(key, tier, strlen(tier), CLI_DONE);
    printf("in tier `%s`: instances know within a minute\n", tier);
    return CLI_DONE;
}

static int run_get(const struct cli_call *call)
{
    const char *key = call->words[0];
    struct cli_key_tier tier;
    struct cli_store store;
    int status = open_store(call, &store);

    if (status)
        return status;
    status = cli_key_tier_get(&store, key, strlen(key), &tier);
    cli_store_close(&store);
    if (status)
        return status;
    if (call->values->json)
        return tell_json(key, tier.found ? tier.text : NULL, tier.len, tier.found ? CLI_DONE : CLI_NO);
    if (!tier.found)
        return cli_fail(CLI_NO, "the store has no tier for this key");
    printf("%.*s\n", (int)tier.len, tier.text);
    return CLI_DONE;
}

static int run_remove(const struct cli_call *call)
{
    const char *key = call->words[0];
    struct cli_store store;
    bool old;
    int status = open_store(call, &store);

    if (status)
        return status;
    status = cli_key_tier_remove(&store, key, strlen(key), &old);
    cli_store_close(&store);
    if (status)
        return status;
    if (call->values->json)
        return tell_json(key, NULL, 0, old ? CLI_DONE : CLI_NO);
    if (!old)
        return cli_fail(CLI_NO, "the store has no tier for this key");
    printf("removed: instances know within a minute\n");
    return CLI_DONE;
}

/* ---- import */

struct pairs {
    struct sl_word *words;
    size_t n, room;
    bool nomem;
};

static void add_pair(void *ctx, const char *key, size_t len, const char *tier)
{
    struct pairs *pairs = ctx;

    if (pairs->n == pairs->room) {
        size_t room = pairs->room ? 2 * pairs->room : 1024;
        struct sl_word *words = realloc(pairs->words, room * sizeof *words);

        pairs->nomem |= !words;
        if (!words)
            return;
        pairs->words = words;
        pairs->room = room;
    }
    pairs->words[pairs->n++] = (struct sl_word){key, len};
    pairs->words[pairs->n++] = (struct sl_word){tier, strlen(tier)};
}

/* Read as the keys_file of a policy of its own: by the same rules, and with the same findings. */
static struct sl_policy *read_keys_file(const char *path)
{
    static const char yaml[] = "version: 1\nlimits: []\ntiers: {keys_file: keys}\n";
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, true);
    struct sl_policy *policy = NULL;
    char reason[SL_FILE_WHY_MAX], *text = NULL;
    struct sl_diags diags;
    size_t len;

    if (sl_file_read(path, SL_POLICY_BYTES_MAX, &options.alloc, &text, &len, reason)) {
        cli_fail(CLI_USAGE, "%s: %s", path, reason);
        return NULL;
    }
    options.detached = true;
    options.keys_text = text;
    options.keys_len = len;
    sl_diags_init(&diags, options.alloc);
    if (sl_policy_parse(yaml, sizeof yaml - 1, path, &options, &policy, &diags))
        policy = NULL;
    for (size_t i = 0; i < diags.n; i++)
        if (diags.list[i].severity == SL_DIAG_ERROR)
            fprintf(stderr, "%s:%u:%u: error: %s\n", path, diags.list[i].line, diags.list[i].column,
                    diags.list[i].message);
    sl_diags_fini(&diags);
    sl_free(&options.alloc, text);
    return policy;
}

static int import(const struct cli_call *call, const struct sl_policy *policy)
{
    const struct keys_values *values = (const struct keys_values *)call->values;
    struct pairs pairs = {.words = NULL};
    struct cli_store store;
    int status;

    sl_policy_each_key(policy, add_pair, &pairs);
    if (pairs.nomem) {
        free(pairs.words);
        return cli_fail(CLI_USAGE, "out of memory");
    }
    status = cli_store_open(&store, &values->at);
    if (status == 0) {
        status = check_tiers(call, &store, pairs.words, pairs.n);
        if (!status)
            status = cli_key_tier_set_many(&store, pairs.words, pairs.n);
        cli_store_close(&store);
    }
    free(pairs.words);
    if (status)
        return status;
    if (call->values->json)
        return cli_print_json(json_pack("{s:I}", "keys", (json_int_t)(pairs.n / 2)), CLI_DONE);
    printf("%zu %s: instances know within a minute\n", pairs.n / 2, pairs.n == 2 ? "key" : "keys");
    return CLI_DONE;
}

static int run_import(const struct cli_call *call)
{
    struct sl_policy *policy = read_keys_file(call->words[0]);
    int status;

    if (!policy)
        return CLI_USAGE;
    status = import(call, policy);
    sl_policy_unref(policy);
    return status;
}

static const struct sl_option rows[] = {
    CLI_STORE_ROWS(struct keys_values, "the store that the instances share; @/PATH reads it from a file"),
    CLI_COMMON_ROWS(struct keys_values),
};

static const struct sl_option write_rows[] = {
    CLI_STORE_ROWS(struct keys_values, "the store that the instances share; @/PATH reads it from a file"),
    {.group = "Keys",
     .name = "force",
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct keys_values, force),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "also a tier that the store's current policy does not name"},
    CLI_COMMON_ROWS(struct keys_values),
};

const struct cli_command cli_keys_set = {
    .name = "keys set",
    .arguments = "KEY TIER",
    .min_words = 2,
    .max_words = 2,
    .summary = "put a key into a tier",
    .manual = "Writes the key's tier to the store, where instances whose policy has `tiers.keys_store` look it up. It "
              "counts on all of\n"
              "them within a minute. A tier that the store's current policy (`sluice policy push`) does not name is "
              "refused, status 1.\n"
              "Addresses are written as they are counted: 192.0.2.1, 2001:db8:1:2::/64.\n\n"
              "  sluice keys set acct_8812 enterprise --store redis://cache",
    .rows = write_rows,
    .n_rows = sizeof write_rows / sizeof write_rows[0],
    .values_size = sizeof(struct keys_values),
    .run = run_set,
};

const struct cli_command cli_keys_import = {
    .name = "keys import",
    .arguments = "FILE",
    .min_words = 1,
    .max_words = 1,
    .summary = "put many keys into their tiers",
    .manual = "Reads `key,tier` lines, written as a policy's keys_file is, and writes them to the store; keys that are "
              "not in "
              "the file\n"
              "stay as they are. A file with a mistake, or a tier that the store's current policy does not name, is\n"
              "not written at all.\n\n"
              "  sluice keys import tiers.csv --store redis://cache",
    .rows = write_rows,
    .n_rows = sizeof write_rows / sizeof write_rows[0],
    .values_size = sizeof(struct keys_values),
    .run = run_import,
};

const struct cli_command cli_keys_get = {
    .name = "keys get",
    .arguments = "KEY",
    .min_words = 1,
    .max_words = 1,
    .summary = "ask which tier the store has for a key",
    .manual = "Prints the tier; the status is 1 when there is none.\n\n"
              "  sluice keys get acct_8812 --store redis://cache",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .values_size = sizeof(struct keys_values),
    .run = run_get,
};

const struct cli_command cli_keys_remove = {
    .name = "keys remove",
    .arguments = "KEY",
    .min_words = 1,
    .max_words = 1,
    .summary = "take a key's tier from the store",
    .manual = "The key is then what the policy says of unknown keys, on all instances within a minute. The status is 1 "
              "when it had no\n"
              "tier there.\n\n"
              "  sluice keys remove acct_8812 --store redis://cache",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .values_size = sizeof(struct keys_values),
    .run = run_remove,
};
