/* `sluice policy check | show | explain | diff`: a policy, from a file or a store, looked at from all sides. */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/key_tier.h"
#include "cli/override.h"
#include "cli/policy_live.h"
#include "cli/policy_source.h"
#include "policy/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define INSTANCES_MAX 1000 /* as many as a fleet may have */

struct policy_values {
    struct cli_common common;
    struct cli_request_options request; /* explain */
    uint64_t instances;                 /* explain */
    bool strict;                        /* check */
    unsigned text;                      /* show */
    struct cli_store_options at;
    struct cli_connect connect; /* show, diff */
    bool has_store;             /* check */
    char *region;
};

enum { TEXT_NONE, TEXT_POLICY, TEXT_KEYS };
static const char *const text_words[] = {[TEXT_NONE] = "none", [TEXT_POLICY] = "policy", [TEXT_KEYS] = "keys", NULL};

static int open_policy(const struct cli_call *call, const char *word, enum cli_status invalid,
                       struct cli_policy *ret_policy)
{
    const struct policy_values *values = (const struct policy_values *)call->values;
    bool asks = values->connect.admin != NULL; /* it has the option */

    return cli_policy_open(call, word, asks ? &values->connect : NULL, &values->at, values->region, invalid,
                           ret_policy);
}

/* ---- check ---- */

static json_t *finding_json(const struct sl_diag *diag)
{
    return json_pack("{s:s,s:s,s:i,s:i,s:s,s:s}", "severity", diag->severity == SL_DIAG_ERROR ? "error" : "warning",
                     "file", diag->file ? diag->file : "", "line", (int)diag->line, "column", (int)diag->column,
                     "field", diag->field ? diag->field : "", "message", diag->message ? diag->message : "");
}

/* {"file","valid","limits","hash","errors","warnings","findings"}. */
static json_t *check_json(const char *path, const struct sl_policy *policy, const struct sl_diags *diags)
{
    json_t *findings = json_array();

    for (size_t i = 0; i < diags->n; i++)
        json_array_append_new(findings, finding_json(&diags->list[i]));
    return json_pack("{s:s,s:b,s:o,s:o,s:I,s:I,s:o}", "file", path, "valid", policy != NULL, "limits",
                     policy ? json_integer((json_int_t)sl_policy_n_limits(policy)) : json_null(), "hash",
                     policy ? json_string(sl_policy_hash(policy)) : json_null(), "errors", (json_int_t)diags->n_errors,
                     "warnings", (json_int_t)diags->n_warnings, "findings", findings);
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void check_text(const struct cli_call *call, const char *path, const struct sl_policy *policy,
                       const struct sl_diags *diags)
{
    struct cli_style style = cli_style(call->values, stdout);

    sl_diags_print(diags, stderr);
    if (policy)
        printf("%s: %svalid%s, %zu limit%s, %zu warning%s\n", path, style.good, style.end, sl_policy_n_limits(policy),
               plural(sl_policy_n_limits(policy)), diags->n_warnings, plural(diags->n_warnings));
    else
        printf("%s: %snot valid%s, %zu error%s, %zu warning%s\n", path, style.bad, style.end, diags->n_errors,
               plural(diags->n_errors), diags->n_warnings, plural(diags->n_warnings));
}

static bool check_one(const struct cli_call *call, const char *path, json_t *results)
{
    const struct policy_values *values = (const struct policy_values *)call->values;
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, values->has_store);
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    bool good;

    options.region = values->region;
    sl_diags_init(&diags, options.alloc);
    if (sl_policy_load(path, &options, &policy, &diags))
        policy = NULL;
    if (results)
        json_array_append_new(results, check_json(path, policy, &diags));
    else
        check_text(call, path, policy, &diags);
    good = policy && !(values->strict && diags.n_warnings);
    sl_policy_unref(policy);
    sl_diags_fini(&diags);
    return good;
}

static int run_check(const struct cli_call *call)
{
    struct policy_values *values = (struct policy_values *)call->values;
    json_t *results;
    bool good = true;
    int status = cli_read_store(values->at.store, &values->has_store);

    if (!status)
        status = cli_check_region(values->region);
    if (status)
        return status;
    results = call->values->json ? json_array() : NULL;
    for (size_t i = 0; i < call->n_words; i++)
        good = check_one(call, call->words[i], results) && good;
    if (results)
        return cli_print_json(results, good ? CLI_DONE : CLI_NO);
    return good ? CLI_DONE : CLI_NO;
}

/* ---- show, explain, diff ---- */

/* As it was pushed, byte by byte. */
static int show_source(const struct cli_policy *found, unsigned which)
{
    const struct sl_version_text *text = &found->text;
    const char *bytes = which == TEXT_KEYS ? text->keys : text->body;
    size_t len = which == TEXT_KEYS ? text->keys_len : text->body_len;

    if (!found->version.number)
        return cli_fail(CLI_USAGE, "--text is for versions (@N or @current)");
    if (!bytes)
        return cli_fail(CLI_NO, "version %" PRIu64 " has no keys_file", found->version.number);
    if (fwrite(bytes, 1, len, stdout) != len || fflush(stdout))
        return cli_fail(CLI_USAGE, "cannot write the answer");
    return CLI_DONE;
}

/* Of a daemon, when no policy is named. */
static int show_live(const struct cli_call *call, const struct policy_values *values)
{
    struct cli_connect connect = values->connect;

    if (values->text != TEXT_NONE)
        return cli_fail(CLI_USAGE, "--text is for versions (@N or @current)");
    connect.timeout_us = values->at.timeout_us;
    return cli_policy_live(call, &connect);
}

static int run_show(const struct cli_call *call)
{
    const struct policy_values *values = (const struct policy_values *)call->values;
    unsigned which = values->text;
    struct cli_policy found;
    int status;

    if (!call->n_words)
        return show_live(call, values);
    status = open_policy(call, call->words[0], CLI_NO, &found);
    if (status)
        return status;
    if (which != TEXT_NONE)
        status = show_source(&found, which);
    else if (call->values->json)
        status = cli_print_json(sl_policy_show_json(found.policy), CLI_DONE);
    else
        sl_policy_show_text(found.policy, stdout);
    cli_policy_close(&found);
    return status;
}

/* The tier is the store's to say (keys_store): it is asked. */
static int explain_asked(const struct policy_values *values, const struct sl_policy *policy,
                         const struct sluice_request *request, json_t **ret_explained)
{
    struct cli_store store;
    struct cli_key_tier tier;
    int status = cli_store_open(&store, &values->at);

    if (status)
        return status;
    status = cli_key_tier_get(&store, request->key, request->key_len, &tier);
    cli_store_close(&store);
    if (status == 0)
        *ret_explained = sl_policy_explain_asked_json(policy, request, (unsigned)values->instances,
                                                      tier.found ? tier.text : NULL, tier.len);
    return status;
}

static int explain(const struct cli_call *call, const struct sl_policy *policy, const struct sluice_request *request)
{
    const struct policy_values *values = (const struct policy_values *)call->values;
    unsigned instances = (unsigned)values->instances;
    struct sl_request_buffer buffer;
    struct sluice_request checked;
    const char *field, *why;
    json_t *explained;
    int status;

    if (sl_request_check(policy, request, &checked, &buffer, &field, &why))
        return cli_fail(CLI_USAGE, "%s: %s", field, why);
    explained = sl_policy_explain_json(policy, &checked, instances);
    if (values->at.store && sl_policy_asks_store(policy, &checked)) {
        json_decref(explained);
        status = explain_asked(values, policy, &checked, &explained);
        if (status)
            return status;
    }
    if (call->values->json)
        return cli_print_json(explained, CLI_DONE);
    sl_policy_print_explained(explained, stdout);
    json_decref(explained);
    return CLI_DONE;
}

static int run_explain(const struct cli_call *call)
{
    const struct policy_values *values = (const struct policy_values *)call->values;
    struct sluice_label labels[SLUICE_LABELS_MAX];
    struct sluice_request request;
    struct cli_policy found;
    int status = cli_make_request(call, call->words[1], call->n_words > 2 ? call->words[2] : NULL, &values->request,
                                  labels, &request);

    if (status == 0)
        status = open_policy(call, call->words[0], CLI_NO, &found);
    if (status)
        return status;
    if (found.version.number) /* what decides there is the version with the overrides over it */
        status = cli_override_lay(&values->at, &found.policy);
    if (!status)
        status = explain(call, found.policy, &request);
    cli_policy_close(&found);
    return status;
}

static int diff(const struct cli_call *call, const struct sl_policy *from, const struct sl_policy *to)
{
    json_t *changes = sl_policy_diff_json(from, to);
    int status = json_array_size(json_object_get(changes, "changes")) ? CLI_NO : CLI_DONE;

    if (call->values->json)
        return cli_print_json(changes, status);
    sl_policy_diff_text(from, to, stdout);
    json_decref(changes);
    return status;
}

/* That there is no answer is not that they differ: a policy with errors is a wrong argument here. */
static int run_diff(const struct cli_call *call)
{
    struct cli_policy from, to;
    int status = open_policy(call, call->words[0], CLI_USAGE, &from), other;

    other = open_policy(call, call->words[1], CLI_USAGE, &to);
    if (!status && !other)
        status = diff(call, from.policy, to.policy);
    else if (!status)
        status = other;
    cli_policy_close(&from);
    cli_policy_close(&to);
    return status;
}

/* ---- the commands ---- */

#define STORE_ROW                                                                                                      \
    {                                                                                                                  \
        .group = "Store", .name = "store", .type = SL_OPTION_TEXT, .offset = offsetof(struct policy_values, at.store), \
        .argument = "URL", .flags = SL_OPTION_FLAG_ONLY,                                                               \
        .sentence = "look at the policy as a daemon with this --store does; the store is not asked"                    \
    }

#define REGION_ROW                                                                                                     \
    {                                                                                                                  \
        .group = "Region", .name = "region", .type = SL_OPTION_TEXT, .offset = offsetof(struct policy_values, region), \
        .argument = "NAME", .flags = SL_OPTION_FLAG_ONLY,                                                              \
        .sentence = "look at the policy as a daemon with this --region does; without it limits are whole"              \
    }

#define VERSION_ROWS                                                                                                \
    CLI_STORE_ROWS(struct policy_values,                                                                            \
                   "where @N and @current are, unless --admin is given; a file is looked at as a daemon with this " \
                   "--store does; @/PATH reads it from a file")

static const struct sl_option check_rows[] = {
    {.group = "Checking",
     .name = "strict",
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct policy_values, strict),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "a warning makes it not valid too"},
    STORE_ROW,
    REGION_ROW,
    CLI_COMMON_ROWS(struct policy_values),
};
static const struct sl_option diff_rows[] = {
    CLI_ADMIN_ROW(struct policy_values),
    CLI_TOKEN_ROWS(struct policy_values, "admin-token"),
    VERSION_ROWS,
    REGION_ROW,
    CLI_COMMON_ROWS(struct policy_values),
};
static const struct sl_option show_rows[] = {
    CLI_ADMIN_ROW(struct policy_values),
    CLI_TOKEN_ROWS(struct policy_values, "admin-token"),
    VERSION_ROWS,
    REGION_ROW,
    CLI_COMMON_ROWS(struct policy_values),
    {.name = "text",
     .type = SL_OPTION_CHOICE,
     .offset = offsetof(struct policy_values, text),
     .argument = "WHICH",
     .preset = "none",
     .choices = text_words,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "print this text of a version as it was pushed: policy or keys"},
};
static const struct sl_option explain_rows[] = {
    CLI_REQUEST_ROWS(struct policy_values),
    VERSION_ROWS,
    REGION_ROW,
    {.name = "instances",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct policy_values, instances),
     .argument = "N",
     .preset = "1",
     .min = 1,
     .max = INSTANCES_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "how many daemons share the store: for the numbers of accuracy and outages"},
    CLI_COMMON_ROWS(struct policy_values),
};

const struct cli_command cli_policy_check = {
    .name = "policy check",
    .arguments = "FILE...",
    .min_words = 1,
    .max_words = 1000,
    .summary = "find every mistake in a policy",
    .manual = "Reads each policy whole and prints all that is wrong or odd with it in one pass, each with file, line "
              "and column.\n"
              "The status is 1 when one of them is not valid, so it fits before a commit or a deployment.\n\n"
              "  sluice policy check policy.yaml\n"
              "  sluice policy check --strict --json policies/*.yaml",
    .rows = check_rows,
    .n_rows = sizeof check_rows / sizeof check_rows[0],
    .values_size = sizeof(struct policy_values),
    .run = run_check,
};

const struct cli_command cli_policy_show = {
    .name = "policy show",
    .arguments = "[FILE|@N|@current]",
    .min_words = 0,
    .max_words = 1,
    .summary = "print a policy as it was understood, or which one a daemon runs",
    .manual = "Prints every limit with its effective rates (after defaults, ceiling and region), the layers, endpoints "
              "and tiers; of "
              "a file, or\n"
              "of a version on a store (@12, @current). With --text a version's text is printed as it was pushed.\n"
              "Without an argument a daemon is asked: number, source and hash of the policy in force, and whether the "
              "latest one it was offered was\n"
              "refused; with --json all of the policy as well.\n\n"
              "  sluice policy show\n"
              "  sluice policy show policy.yaml\n"
              "  sluice policy show @current --store redis://cache\n"
              "  sluice policy show @12 --text policy --store redis://cache > policy.yaml",
    .rows = show_rows,
    .n_rows = sizeof show_rows / sizeof show_rows[0],
    .values_size = sizeof(struct policy_values),
    .run = run_show,
};

const struct cli_command cli_policy_explain = {
    .name = "policy explain",
    .arguments = "FILE|@N|@current KEY [SCOPE]",
    .min_words = 2,
    .max_words = 3,
    .summary = "see which limits meet a request, and why",
    .manual =
        "Prints every step from a request to its limits: endpoint, tier, the candidates of each layer and why "
        "each lost,\n"
        "cost, ceiling, buckets, dry runs, and, with --store, how exact a fleet of --instances is and what an outage "
        "means.\n"
        "Nothing is charged. The store is asked for versions (@N), and for the key's tier where the policy has "
        "`tiers.keys_store`.\n\n"
        "  sluice policy explain policy.yaml acct_8812 api:search\n"
        "  sluice policy explain policy.yaml 203.0.113.9 'POST /login' --key-type address\n"
        "  sluice policy explain policy.yaml acct_8812 --store redis://cache --instances 4",
    .rows = explain_rows,
    .n_rows = sizeof explain_rows / sizeof explain_rows[0],
    .values_size = sizeof(struct policy_values),
    .run = run_explain,
};

const struct cli_command cli_policy_diff = {
    .name = "policy diff",
    .arguments = "FROM TO",
    .min_words = 2,
    .max_words = 2,
    .summary = "see what changes from one policy to another",
    .manual = "Compares what two policies mean, not how they are written, and says what becomes of the counts in the "
              "buckets of\n"
              "each changed limit. Each is a file, or a version on a store (@12, @current). The status is 1 when they "
              "differ, and 2\n"
              "when one of them cannot be read or is not valid.\n\n"
              "  sluice policy diff policy.yaml next.yaml\n"
              "  sluice policy diff @3 @5 --store redis://cache\n"
              "  sluice policy diff @current policy.yaml --store redis://cache",
    .rows = diff_rows,
    .n_rows = sizeof diff_rows / sizeof diff_rows[0],
    .values_size = sizeof(struct policy_values),
    .run = run_diff,
};
