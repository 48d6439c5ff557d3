/* `sluice policy promote`: the candidate becomes the policy; as a version on the store, or in the daemon's file. */
#include "cli/admin.h"
#include "cli/files.h"
#include "cli/policy_shadow.h"
#include "control/text.h"
#include "policy/file.h"
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEFORE ".before"

static const char *text(const json_t *value, const char *name)
{
    const char *found = json_string_value(json_object_get(value, name));

    return found ? found : "";
}

/* The ETag of version N, when that is current; NULL after it has said that it is not. */
static char *match_of(const struct cli_call *call, uint64_t wanted, int *ret_status)
{
    json_t *policy = cli_shadow_ask(call, "GET", "/v1/policy", NULL, NULL, ret_status);
    uint64_t version = (uint64_t)json_integer_value(json_object_get(policy, "version"));
    char *match = NULL;

    if (!policy)
        return NULL;
    if (version != wanted)
        *ret_status =
            cli_fail(CLI_NO, "version %" PRIu64 " is current, not %" PRIu64 ": nothing was changed", version, wanted);
    else if (asprintf(&match, "\"%s\"", text(policy, "hash")) < 0)
        *ret_status = cli_fail(CLI_USAGE, "out of memory");
    json_decref(policy);
    return match;
}

/* ---- what may be promoted */

static json_int_t decisions(const json_t *counts)
{
    return json_integer_value(json_object_get(counts, "decisions"));
}

/* The candidate's warnings, as a push of it would judge them; a good one prints nothing. */
static int judge_warnings(const json_t *report, enum sl_warnings refused)
{
    const json_t *body = json_object_get(report, "policy"), *keys = json_object_get(report, "keysFile");
    const struct sl_version_text text = {.body = json_string_value(body),
                                         .body_len = json_string_length(body),
                                         .keys = json_string_value(keys),
                                         .keys_len = json_string_length(keys)};
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, true);
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    int status = 0;

    sl_diags_init(&diags, options.alloc);
    if (!sl_version_text_compile(&text, "the candidate", &options, &policy, &diags)) {
        status = cli_warnings_judge("the candidate", &diags, refused);
        sl_policy_unref(policy);
    }
    if (status)
        sl_diags_print(&diags, stderr);
    sl_diags_fini(&diags);
    return status;
}

/* 0 when there is a candidate, and something is known of it. */
static int check_report(const struct cli_call *call, const json_t *report)
{
    const struct cli_shadow_values *values = cli_shadow_values(call);
    enum sl_warnings refused;
    int status = cli_warnings_read(&values->warnings, &refused);

    if (status)
        return status;
    if (!json_is_true(json_object_get(report, "active")) || !json_is_string(json_object_get(report, "policy")))
        return cli_fail(CLI_NO, "no candidate policy runs: `sluice policy shadow FILE` starts one");
    if (!values->force && decisions(report) == 0 && decisions(json_object_get(report, "fleet")) == 0)
        return cli_fail(CLI_NO, "no decision has been compared yet, so nothing is known of the candidate: nothing was "
                                "changed; --force promotes it all the same");
    return judge_warnings(report, refused);
}

/* What runs, with its text; NULL after it has said what is wrong. */
static json_t *get_report(const struct cli_call *call, int *ret_status)
{
    json_t *report = cli_shadow_ask(call, "GET", "/v1/shadow?text=1", NULL, NULL, ret_status);

    if (!report)
        return NULL;
    *ret_status = check_report(call, report);
    if (*ret_status == 0)
        return report;
    json_decref(report);
    return NULL;
}

/* ---- on the store */

static int promote_version(const struct cli_call *call)
{
    int status = CLI_DONE;
    char *match = NULL;
    json_t *answer = get_report(call, &status), *version;

    if (!answer)
        return status;
    json_decref(answer);
    if (cli_given(call, "expect")) {
        match = match_of(call, cli_shadow_values(call)->expect, &status);
        if (!match)
            return status;
    }
    answer = cli_shadow_ask(call, "POST", "/v1/shadow/promote", cli_shadow_signature(call), match, &status);
    free(match);
    if (!answer)
        return status;
    if (call->values->json)
        return cli_print_json(answer, CLI_DONE);
    admin_fit(answer);
    version = json_object_get(answer, "version");
    printf("version %lld is current: %.12s, by %s; the candidate is stopped\n",
           (long long)json_integer_value(json_object_get(version, "version")), text(version, "hash"),
           text(version, "author"));
    json_decref(answer);
    return CLI_DONE;
}

/* ---- in a file */

/* Compiles a policy as the daemon that reads this file would; findings go to standard error. */
static struct sl_policy *compile(const char *path, const char *body, size_t len)
{
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, false);
    struct sl_policy *policy = NULL;
    struct sl_diags diags;

    sl_diags_init(&diags, options.alloc);
    if (sl_policy_parse(body, len, path, &options, &policy, &diags)) {
        sl_diags_print(&diags, stderr);
        policy = NULL;
    }
    sl_diags_fini(&diags);
    return policy;
}

/* The file must be what the candidate was compared with, and the keys_file beside it the candidate's. */
static int check_file(const char *path, const json_t *report)
{
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, false);
    const json_t *body = json_object_get(report, "policy");
    struct sl_policy *now = cli_load_policy(path, &options), *next;
    bool expected, same;

    if (!now)
        return cli_fail(CLI_USAGE, "%s is not the policy of that daemon: nothing was changed", path);
    expected = !strcmp(sl_policy_hash(now), text(json_object_get(report, "against"), "hash"));
    sl_policy_unref(now);
    if (!expected)
        return cli_fail(CLI_NO,
                        "%s is not the policy that the candidate was started beside: nothing was changed. Start the "
                        "candidate again, and look at what it changes now",
                        path);
    next = compile(path, json_string_value(body), json_string_length(body));
    if (!next)
        return cli_fail(CLI_NO, "the candidate is not valid beside %s: nothing was changed", path);
    same = !strcmp(sl_policy_hash(next), text(json_object_get(report, "candidate"), "hash"));
    sl_policy_unref(next);
    return same ? 0
                : cli_fail(CLI_NO, "the keys_file beside %s is not the candidate's: put that in its place first", path);
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return fsync(fd) == 0;
}

/* Puts the bytes into the file that is open at `fd`, with the mode and, where it differs, the owner that another one
 * had. */
static bool fill(int fd, const struct stat *was, const char *bytes, size_t len)
{
    bool done = fchmod(fd, was->st_mode & 07777) == 0 && write_all(fd, bytes, len);

    if (done && (was->st_uid != geteuid() || was->st_gid != getegid()))
        done = fchown(fd, was->st_uid, was->st_gid) == 0;
    return close(fd) == 0 && done;
}

/* A new file of that name, whole or not at all; `was`: whose mode and owner it gets. */
static int put_file(const char *path, const struct stat *was, const char *bytes, size_t len)
{
    char fresh[PATH_MAX + sizeof ".before.XXXXXX"];
    int fd, saved;
    bool done;

    snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    fd = mkostemp(fresh, O_CLOEXEC);
    done = fd >= 0 && fill(fd, was, bytes, len) && rename(fresh, path) == 0;
    saved = errno;
    if (fd >= 0 && !done)
        unlink(fresh);
    return done ? 0 : cli_fail(CLI_USAGE, "cannot write %s: %s", path, strerror(saved));
}

/* What is replaced stays beside it as FILE.before. */
static int replace(const char *path, const char *bytes, size_t len)
{
    char before[PATH_MAX + sizeof BEFORE], *old, why[SL_FILE_WHY_MAX];
    struct sl_alloc alloc = sl_alloc_system();
    struct stat was;
    size_t old_len;
    int status;

    if (stat(path, &was))
        return cli_fail(CLI_USAGE, "cannot write %s: %s", path, strerror(errno));
    if (sl_file_read(path, SL_POLICY_BYTES_MAX, &alloc, &old, &old_len, why))
        return cli_fail(CLI_USAGE, "cannot keep a copy of %s: %s", path, why);
    snprintf(before, sizeof before, "%s" BEFORE, path);
    status = put_file(before, &was, old, old_len);
    sl_free(&alloc, old);
    return status ? status : put_file(path, &was, bytes, len);
}

static int take_effect(const struct cli_call *call, const char *path, const char *real, const json_t *report)
{
    const char *hash = text(json_object_get(report, "candidate"), "hash");
    int status = CLI_DONE;
    json_t *answer;

    if (!cli_shadow_wait(call, "/v1/policy", NULL, hash))
        return cli_fail(CLI_UNREACHABLE,
                        "%s is written (what it was is in %s" BEFORE
                        "), but the daemon has not taken it yet; see its log",
                        path, real);
    answer = cli_shadow_ask(call, "DELETE", "/v1/shadow", cli_shadow_signature(call), NULL, &status);
    if (!answer)
        return status;
    json_decref(answer);
    if (call->values->json)
        return cli_print_json(json_pack("{s:s, s:s, s:s+}", "file", path, "hash", hash, "before", real, BEFORE),
                              CLI_DONE);
    printf("%s is written and in force: %.12s; the candidate is stopped. What it was is in %s" BEFORE "\n", path, hash,
           real);
    return CLI_DONE;
}

/* A version is not written to a file. */
static int check_has_file(const json_t *report)
{
    if (json_integer_value(json_object_get(json_object_get(report, "candidate"), "version")))
        return cli_fail(CLI_USAGE, "that daemon has a store, where candidates become versions: leave out --policy");
    return 0;
}

/* A link stays one: what it leads to is replaced. */
static int promote_file(const struct cli_call *call, const char *path)
{
    int status = CLI_DONE;
    char real[PATH_MAX];
    json_t *report;
    const json_t *body;

    if (!realpath(path, real))
        return cli_fail(CLI_USAGE, "%s: %s", path, strerror(errno));
    report = get_report(call, &status);
    if (!report)
        return status;
    body = json_object_get(report, "policy");
    status = check_has_file(report);
    if (!status)
        status = check_file(path, report);
    if (!status)
        status = replace(real, json_string_value(body), json_string_length(body));
    if (!status)
        status = take_effect(call, path, real, report);
    json_decref(report);
    return status;
}

static int run_promote(const struct cli_call *call)
{
    const char *path = cli_shadow_values(call)->policy;

    if (path && cli_given(call, "expect"))
        return cli_fail(CLI_USAGE, "--expect is for versions on a store, --policy for a daemon without one");
    return path ? promote_file(call, path) : promote_version(call);
}

/* ---- the command */

static const struct sl_option promote_rows[] = {
    CLI_ADMIN_ROW(struct cli_shadow_values),
    CLI_CONNECT_ROWS(struct cli_shadow_values, "admin-token"),
    {.group = "Promote",
     .name = "expect",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct cli_shadow_values, expect),
     .argument = "N",
     .max = SL_VERSION_NUMBER_MAX - 1,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "the version to be replaced (0: the file's policy); without it the one that was in force when the "
                 "candidate was started"},
    {.name = "policy",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct cli_shadow_values, policy),
     .argument = "FILE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "the policy's file, of a daemon without a store: the candidate takes its place"},
    CLI_SIGNATURE_ROWS(NULL, struct cli_shadow_values, CLI_COMMENT_IS "; without it `promoted from shadow N`"),
    {.name = "force",
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct cli_shadow_values, force),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "promote it although no decision has been compared yet"},
    CLI_WARNINGS_ROWS(struct cli_shadow_values),
    CLI_COMMON_ROWS(struct cli_shadow_values),
};

const struct cli_command cli_policy_promote = {
    .name = "policy promote",
    .arguments = "",
    .summary = "make the candidate the policy",
    .manual =
        "Makes the candidate that runs beside the policy the next version, for every instance on the store, and stops "
        "it. The policy\n"
        "it was compared with must still be the current one: when somebody has pushed another since, nothing is "
        "changed, and the\n"
        "status is 1; --expect N replaces version N all the same. A daemon without a store follows its file: with "
        "--policy FILE\n"
        "the candidate is written there, whole or not at all, and the daemon takes it; what was there before is kept "
        "as "
        "FILE.before.\n"
        "A candidate of which no decision has been compared yet is refused (--force), as are misspelt names "
        "(--allow-warnings).\n\n"
        "  sluice policy promote --comment 'rehearsed for a week'\n"
        "  sluice policy promote --expect 12\n"
        "  sluice policy promote --policy /etc/sluice/policy.yaml",
    .rows = promote_rows,
    .n_rows = sizeof promote_rows / sizeof promote_rows[0],
    .values_size = sizeof(struct cli_shadow_values),
    .run = run_promote,
};
