/* `sluice replay`: logs through a policy in virtual time. The engine is src/replay; here are its options and its
 * progress bar. */
#include "replay/replay.h"
#include "cli/cli.h"
#include "cli/files.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BAR_CELLS 30

struct replay_values {
    struct cli_common common;
    char *policy, *compare, *verdicts, *region;
    unsigned format;
    uint64_t reorder_us, table_keys, top;
};

static const char *const formats[] = {[SL_REPLAY_COMBINED] = "combined", [SL_REPLAY_JSONL] = "jsonl", NULL};

static const struct sl_option replay_rows[] = {
    {.group = "Replay",
     .name = "policy",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct replay_values, policy),
     .argument = "FILE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "the policy to run the logs through (required)"},
    {.name = "compare",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct replay_values, compare),
     .argument = "FILE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "a second policy, to see what it would decide differently"},
    {.name = "format",
     .type = SL_OPTION_CHOICE,
     .offset = offsetof(struct replay_values, format),
     .argument = "FORMAT",
     .preset = "combined",
     .choices = formats,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "combined is what Apache and nginx write, jsonl an object a line"},
    {.name = "reorder",
     .type = SL_OPTION_DURATION,
     .offset = offsetof(struct replay_values, reorder_us),
     .argument = "DURATION",
     .preset = "60s",
     .max = SL_REPLAY_REORDER_MAX_US,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "how far events may be out of order and still be put in order; 0s takes them as they come"},
    {.name = "verdicts",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct replay_values, verdicts),
     .argument = "FILE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "write a JSON line for each event, in the order decided"},
    {.name = "top",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct replay_values, top),
     .argument = "N",
     .preset = "10",
     .max = 100000,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "how many of the most rejected keys to name"},
    {.name = "table-keys",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct replay_values, table_keys),
     .argument = "N",
     .preset = "4000000",
     .min = 1000,
     .max = UINT64_C(1) << 32,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "buckets there is room for at one time"},
    {.name = "region",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct replay_values, region),
     .argument = "NAME",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "the logs are this region's: limits with `regions` are its shares; without it they are whole"},
    CLI_COMMON_ROWS(struct replay_values),
};

/* Redraws one line on a terminal. */
static void draw_progress(void *ctx, const struct sl_replay_progress *progress)
{
    char events[32], bar[BAR_CELLS + 1];
    bool *drawn = ctx;

    cli_format_count(progress->events, events, sizeof events);
    if (progress->bytes_total) {
        double share = (double)progress->bytes_read / (double)progress->bytes_total;
        unsigned cells = share >= 1 ? BAR_CELLS : (unsigned)(share * BAR_CELLS);

        memset(bar, '.', BAR_CELLS);
        memset(bar, '#', cells);
        bar[BAR_CELLS] = '\0';
        fprintf(stderr, "\r[%s] %3.0f %%  %s events\033[K", bar, share > 1 ? 100 : share * 100, events);
    } else {
        fprintf(stderr, "\r%s events\033[K", events);
    }
    fflush(stderr);
    *drawn = true;
}

static int run_with(const struct cli_call *call, const struct sl_replay_options *given)
{
    struct sl_replay_options options = *given;
    struct sl_replay_summary *summary = NULL;
    char why[SL_REPLAY_WHY_MAX];
    bool drawn = false;
    int err, status = CLI_DONE;

    if (isatty(STDERR_FILENO)) {
        options.progress = draw_progress;
        options.progress_ctx = &drawn;
    }
    err = sl_replay_run(&options, &summary, why, sizeof why);
    if (drawn)
        fputs("\r\033[K", stderr);
    if (err)
        return cli_fail(CLI_USAGE, "%s", why);
    if (call->values->json)
        status = cli_print_json(sl_replay_summary_json(summary), CLI_DONE);
    else
        sl_replay_print_text(summary, stdout);
    if (status == CLI_DONE && summary->events == 0 && summary->malformed > 0) /* an answer about nothing is none */
        status =
            cli_fail(CLI_NO, "not one line of the log could be read as an event: is --format what it is written in?");
    sl_replay_summary_free(&summary);
    return status;
}

static bool is_file(const char *path, const struct stat *file)
{
    struct stat st;

    return path && (strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, &st) : stat(path, &st)) == 0 &&
           st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* The file among what is read that `path` is too, by whatever name: writing would empty it first. NULL: none. */
static const char *find_input(const struct cli_call *call, const char *path)
{
    const struct replay_values *values = (const struct replay_values *)call->values;
    struct stat file;

    if (stat(path, &file) || !S_ISREG(file.st_mode))
        return NULL;
    for (size_t i = 0; i < call->n_words; i++)
        if (is_file(call->words[i], &file))
            return call->words[i];
    return is_file(values->policy, &file) ? values->policy : is_file(values->compare, &file) ? values->compare : NULL;
}

/* Opens what is written to, runs, and makes sure it was written. */
static int run_to_file(const struct cli_call *call, struct sl_replay_options *options, const char *path)
{
    const char *input = find_input(call, path);
    int status;

    if (input)
        return cli_fail(CLI_USAGE, "--verdicts %s would overwrite %s, which is read", path, input);
    options->verdicts = fopen(path, "w");
    if (!options->verdicts)
        return cli_fail(CLI_USAGE, "cannot write %s: %s", path, strerror(errno));
    status = run_with(call, options);
    if (fclose(options->verdicts) && status == CLI_DONE)
        return cli_fail(CLI_USAGE, "cannot write %s: %s", path, strerror(errno));
    return status;
}

static int run(const struct cli_call *call)
{
    const struct replay_values *values = (const struct replay_values *)call->values;
    struct sl_policy_options policy_options = cli_policy_options(sl_replay_secret(), false);
    struct sl_replay_options options = sl_replay_defaults();
    int status = CLI_NO;

    if (!values->policy)
        return cli_fail(CLI_USAGE, "replay needs --policy FILE");
    if (cli_check_region(values->region))
        return CLI_USAGE;
    policy_options.region = values->region;
    options.format = values->format;
    options.paths = (const char *const *)call->words;
    options.n_paths = call->n_words;
    options.reorder_us = values->reorder_us;
    options.table_keys = values->table_keys;
    options.top = (unsigned)values->top;
    options.policy = cli_load_policy(values->policy, &policy_options);
    if (values->compare && options.policy)
        options.compare = cli_load_policy(values->compare, &policy_options);
    if (options.policy && (options.compare || !values->compare))
        status = values->verdicts ? run_to_file(call, &options, values->verdicts) : run_with(call, &options);
    sl_policy_unref(options.policy);
    sl_policy_unref(options.compare);
    return status;
}

const struct cli_command cli_replay = {
    .name = "replay",
    .arguments = "LOG...",
    .min_words = 1,
    .max_words = 100000,
    .summary = "run logs through a policy and see what would have been rejected",
    .manual = "Reads access logs (plain or gzip, `-` is standard input) and decides every line at its own time, in "
              "virtual time, in\n"
              "this process, without a network. Lines out of order by less than --reorder are put in order.\n\n"
              "  sluice replay --policy policy.yaml access.log.2.gz access.log.1 access.log\n"
              "  sluice replay --policy policy.yaml --compare next.yaml access.log\n"
              "  zcat logs/*.gz | sluice replay --policy policy.yaml --json -\n"
              "  sluice replay --policy policy.yaml --format jsonl --verdicts verdicts.jsonl events.jsonl",
    .rows = replay_rows,
    .n_rows = sizeof replay_rows / sizeof replay_rows[0],
    .values_size = sizeof(struct replay_values),
    .run = run,
};
