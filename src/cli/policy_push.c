/* `sluice policy push | rollback`: a new version of the policy for all instances on a store, straight there or through one of
 * them. */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/policy_source.h"
#include "cli/versions.h"
#include "control/report.h"
#include "control/text.h"
#include "policy/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

struct push_values {
    struct cli_common common;
    struct cli_connect connect; /* timeout_us: that of `at` */
    struct cli_store_options at;
    char *author, *comment;
    uint64_t expect; /* only when given */
    struct cli_warnings warnings;
};

/* One push: what is there, what is to be. */
struct job {
    const struct cli_call *call;
    struct cli_versions versions;
    enum sl_warnings refused;
    struct cli_policy now, next; /* now.policy NULL: there is no version, or none that is valid here */
    uint64_t from;               /* a rollback: the version that is brought back */
    json_t *diff;                /* NULL: there is nothing to compare with */
};

/* ---- what is expected */

/* What is current, and compiled if that can be done here. Its absence is none. */
static int look_at_current(struct job *job)
{
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, true);
    bool found;
    int status = cli_versions_fetch(&job->versions, 0, &found, &job->now.version, &job->now.text);
    struct sl_diags diags;

    if (status || !found)
        return status;
    sl_diags_init(&diags, options.alloc);
    if (sl_version_text_compile(&job->now.text, "@current", &options, &job->now.policy, &diags))
        job->now.policy = NULL;
    sl_diags_fini(&diags);
    return 0;
}

/* ---- the push */

static int conflict(struct job *job, const struct cli_pushed *pushed)
{
    char time[SL_VERSION_TIME_MAX];

    if (job->call->values->json)
        return cli_print_json(json_pack("{s:b,s:s,s:o}", "pushed", 0, "error", pushed->why, "current",
                                        pushed->has_version ? sl_version_json(&pushed->version) : json_null()),
                              CLI_NO);
    if (!pushed->has_version)
        return cli_fail(CLI_NO, "%s", pushed->why);
    sl_version_time(&pushed->version, false, time);
    return cli_fail(CLI_NO, "%s\n        %s  %.12s  %s", pushed->why, time, pushed->version.hash,
                    pushed->version.comment);
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static int tell_pushed(struct job *job, const struct sl_version *version)
{
    char back[40] = "";

    if (job->call->values->json) {
        json_t *diff = job->diff ? json_incref(json_object_get(job->diff, "changes")) : json_null();

        return cli_print_json(json_pack("{s:b,s:o,s:o,s:I}", "pushed", 1, "version", sl_version_json(version),
                                        "changes", diff, "warnings", (json_int_t)job->next.n_warnings),
                              CLI_DONE);
    }
    if (version->from)
        snprintf(back, sizeof back, ", back to %" PRIu64, version->from);
    printf("version %" PRIu64 " is current%s: %.12s, by %s%s%s\n", version->number, back, version->hash,
           version->author, version->comment[0] ? ": " : "", version->comment);
    if (job->next.n_warnings)
        printf("it was pushed with %zu warning%s; --strict refuses them\n", job->next.n_warnings,
               plural(job->next.n_warnings));
    return CLI_DONE;
}

static int push(struct job *job)
{
    const struct push_values *values = (const struct push_values *)job->call->values;
    const struct sl_version_text *text = &job->next.text;
    struct cli_pushed pushed;
    char author[SL_AUTHOR_MAX + 1];
    int status;
    struct sl_version_draft draft = {
        .body = text->body,
        .body_len = text->body_len,
        .keys = text->keys,
        .keys_len = text->keys_len,
        .author = values->author ? values->author : author,
        .comment = values->comment ? values->comment : "",
        .expected = cli_given(job->call, "expect") ? values->expect : job->now.version.number,
        .from = job->from,
    };

    cli_default_author(author, sizeof author);
    status = cli_versions_push(&job->versions, &draft, &job->now.version, job->refused, &pushed);
    if (status)
        return status;
    return pushed.conflict ? conflict(job, &pushed) : tell_pushed(job, &pushed.version);
}

/* What is current already is not pushed again. */
static int tell_same(struct job *job)
{
    const struct sl_version *version = &job->now.version;

    if (job->call->values->json)
        return cli_print_json(json_pack("{s:b,s:o,s:[]}", "pushed", 0, "version", sl_version_json(version), "changes"),
                              CLI_DONE);
    printf("version %" PRIu64 " is this policy, and current: nothing to do\n", version->number);
    return CLI_DONE;
}

static void show_changes(struct job *job)
{
    size_t n;

    if (!job->now.policy) {
        if (!job->call->values->json)
            printf("%zu limit%s, and no version to compare with\n", sl_policy_n_limits(job->next.policy),
                   plural(sl_policy_n_limits(job->next.policy)));
        return;
    }
    job->diff = sl_policy_diff_json(job->now.policy, job->next.policy);
    n = json_array_size(json_object_get(job->diff, "changes"));
    if (job->call->values->json)
        return;
    printf("%zu change%s against version %" PRIu64 "\n", n, plural(n), job->now.version.number);
    if (n)
        sl_policy_diff_text(job->now.policy, job->next.policy, stdout);
}

static bool is_same(const struct job *job)
{
    const struct push_values *values = (const struct push_values *)job->call->values;
    uint64_t number = job->now.version.number;

    return number && !strcmp(job->now.version.hash, sl_policy_hash(job->next.policy)) &&
           (!cli_given(job->call, "expect") || values->expect == number);
}

static int compare_and_push(struct job *job)
{
    int status;

    if (is_same(job))
        return tell_same(job);
    show_changes(job);
    status = push(job);
    json_decref(job->diff);
    return status;
}

static void close_job(struct job *job)
{
    cli_policy_close(&job->now);
    cli_policy_close(&job->next);
    cli_versions_close(&job->versions);
}

static int run_push(const struct cli_call *call)
{
    const struct push_values *values = (const struct push_values *)call->values;
    struct job job = {.call = call};
    struct cli_policy next;
    int status = cli_warnings_read(&values->warnings, &job.refused);

    if (!status)
        status = cli_policy_open_file(call->words[0], job.refused, &next);
    if (status)
        return status;
    status = cli_versions_open(call, &values->connect, &values->at, &job.versions);
    if (status) {
        cli_policy_close(&next);
        return status;
    }
    job.next = next;
    status = look_at_current(&job);
    if (!status)
        status = compare_and_push(&job);
    close_job(&job);
    return status;
}

/* ---- back */

static int choose_before(struct job *job, uint64_t *ret_number)
{
    int status = cli_versions_before(&job->versions, job->now.version.number, ret_number);

    if (status || *ret_number)
        return status;
    return cli_fail(CLI_NO, "version 1 is the first: there is none before it");
}

/* The version to bring back: as given, else the one before the current one. */
static int choose_old(struct job *job, uint64_t *ret_number)
{
    const struct cli_call *call = job->call;
    uint64_t current = job->now.version.number;
    char word[32];

    if (current == 0)
        return cli_fail(CLI_NO, "the store has no version of the policy");
    if (call->n_words == 0)
        return choose_before(job, ret_number);
    snprintf(word, sizeof word, "%s%s", call->words[0][0] == '@' ? "" : "@", call->words[0]);
    if (!cli_is_version(word, ret_number) || *ret_number == 0)
        return cli_fail(CLI_USAGE, "`%s`: write the number of a version", call->words[0]);
    return 0;
}

static int run_rollback(const struct cli_call *call)
{
    const struct push_values *values = (const struct push_values *)call->values;
    struct job job = {.call = call};
    int status = cli_versions_open(call, &values->connect, &values->at, &job.versions);

    if (status)
        return status;
    status = look_at_current(&job);
    if (!status)
        status = choose_old(&job, &job.from);
    if (!status)
        status = cli_policy_open_version(&job.versions, job.from, NULL, CLI_NO, &job.next);
    if (!status)
        status = compare_and_push(&job);
    close_job(&job);
    return status;
}

/* ---- the commands */

#define PUSH_ROWS                                                                                                      \
    CLI_VERSIONS_ROWS(struct push_values), CLI_SIGNATURE_ROWS("Version", struct push_values, CLI_COMMENT_IS),          \
        {.name = "expect",                                                                                             \
         .type = SL_OPTION_COUNT,                                                                                      \
         .offset = offsetof(struct push_values, expect),                                                               \
         .argument = "N",                                                                                              \
         .max = SL_VERSION_NUMBER_MAX - 1,                                                                             \
         .flags = SL_OPTION_FLAG_ONLY,                                                                                 \
         .sentence = "the version that must still be current (0: none); without it the one that is when this begins"}, \
        CLI_COMMON_ROWS(struct push_values)

static const struct sl_option push_rows[] = {PUSH_ROWS, CLI_WARNINGS_ROWS(struct push_values)};
static const struct sl_option rollback_rows[] = {PUSH_ROWS};

const struct cli_command cli_policy_push = {
    .name = "policy push",
    .arguments = "FILE",
    .min_words = 1,
    .max_words = 1,
    .summary = "make a policy the current version on a store",
    .manual = "Checks the policy, says what it changes, and makes it the new current version: every instance on the "
              "store takes it\n"
              "within a second. Its keys_file goes with it. A policy with errors is not pushed, nor one that names a "
              "tier or key type\n"
              "that no key has and that looks misspelt: whom it should limit would be without a limit (status 1; "
              "--allow-warnings\n"
              "pushes it). Other warnings are told, and --strict refuses them too. When somebody else has pushed in "
              "between, nothing\n"
              "is changed, and the status is 1 too; the message says who it was.\n\n"
              "  sluice policy push policy.yaml --store redis://cache --comment 'acme pays for more'\n"
              "  sluice policy push policy.yaml --admin http://10.0.0.5:6070 --admin-token @/etc/sluice/token\n"
              "  sluice policy push policy.yaml --store redis://cache --expect 12 --author ci",
    .rows = push_rows,
    .n_rows = sizeof push_rows / sizeof push_rows[0],
    .values_size = sizeof(struct push_values),
    .run = run_push,
};

const struct cli_command cli_policy_rollback = {
    .name = "policy rollback",
    .arguments = "[N]",
    .max_words = 1,
    .summary = "bring an old version of the policy back",
    .manual =
        "Makes the policy of version N (without it: of the version before the current one) the new current "
        "version. Nothing is\n"
        "taken out of the history: the old policy comes back under a new number. A second rollback without N goes on\n"
        "back: after 13, which brought 11 back, it brings back 10. Name N to return to what a rollback left.\n\n"
        "  sluice policy rollback --comment 'searches were rejected'\n"
        "  sluice policy rollback 9 --store redis://cache",
    .rows = rollback_rows,
    .n_rows = sizeof rollback_rows / sizeof rollback_rows[0],
    .values_size = sizeof(struct push_values),
    .run = run_rollback,
};
