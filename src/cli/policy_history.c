/* `sluice policy history`: the versions on a store, and which instance runs which. */
#include "cli/cli.h"
#include "cli/store_visit.h"
#include "control/report.h"

#include <inttypes.h>
#include <string.h>

struct history_values {
    struct cli_common common;
    struct cli_store_options at;
    uint64_t limit, before;
};

struct told {
    const struct cli_call *call;
    bool done;
    int status; /* of what was printed */
    enum sl_control outcome;
    char why[SL_CONTROL_WHY_MAX];
};

/* ---- for people */

static void print_version(const struct sl_version *version, const struct sl_history *history,
                          const struct cli_style *style)
{
    bool current = version->number == history->current.number;
    char time[SL_VERSION_TIME_MAX], from[48] = "";

    if (!version->hash[0]) {
        printf("  %-8" PRIu64 " %sits record cannot be read%s\n", version->number, style->bad, style->end);
        return;
    }
    sl_version_time(version, false, time);
    if (version->from)
        snprintf(from, sizeof from, "[back to %" PRIu64 "]%s", version->from, version->comment[0] ? " " : "");
    printf("%s%c %-8" PRIu64 "%s %s  %.12s  %-24s  %s%s\n", current ? style->bold : "", current ? '*' : ' ',
           version->number, current ? style->end : "", time, version->hash, version->author, from, version->comment);
}

static void print_running(const struct sl_running *running, const struct sl_history *history,
                          const struct cli_style *style)
{
    bool current = running->version.number == history->current.number;
    char number[24] = "its file";

    if (running->version.number)
        snprintf(number, sizeof number, "%" PRIu64, running->version.number);
    printf("  %-24s %-12s %-22s %016" PRIx64 "  %s%s%s  %.12s", running->host,
           running->region[0] ? running->region : "-", running->address[0] ? running->address : "-", running->id,
           current ? style->good : style->warn, number, style->end, running->version.hash);
    if (running->from_file)
        printf("  follows its file");
    if (running->refused)
        printf("  %srefused %" PRIu64 "%s: %s", style->bad, running->refused, style->end, running->why);
    putchar('\n');
}

static void print_history(const struct sl_history *history, const struct cli_style *style)
{
    size_t up_to_date = 0, unheard = history->n_instances - history->n_running;

    if (history->n_versions)
        printf("%s  VERSION  TIME (UTC)           HASH          AUTHOR                    COMMENT%s\n", style->bold,
               style->end);
    else
        printf("no version yet: each instance runs its file\n");
    for (size_t i = 0; i < history->n_versions; i++)
        print_version(&history->versions[i], history, style);
    for (size_t i = 0; i < history->n_running; i++)
        up_to_date += history->running[i].version.number == history->current.number;
    if (!history->n_instances)
        return;
    if (history->current.number)
        printf("\n%sInstances%s: %zu, %zu of them on version %" PRIu64 "\n", style->bold, style->end,
               history->n_instances, up_to_date, history->current.number);
    else
        printf("\n%sInstances%s: %zu\n", style->bold, style->end, history->n_instances);
    if (history->n_running)
        printf("%s  %-24s %-12s %-22s %-16s  RUNS%s\n", style->bold, "HOST", "REGION", "ADDRESS", "INSTANCE",
               style->end);
    for (size_t i = 0; i < history->n_running; i++)
        print_running(&history->running[i], history, style);
    if (unheard)
        printf("  %zu more do not say what they run\n", unheard);
}

static void on_told(void *ctx, enum sl_control outcome, const struct sl_history *history, const char *why)
{
    struct told *told = ctx;
    struct cli_style style = cli_style(told->call->values, stdout);

    told->done = true;
    told->outcome = outcome;
    snprintf(told->why, sizeof told->why, "%s", why);
    if (outcome != SL_CONTROL_OK)
        return;
    if (told->call->values->json)
        told->status = cli_print_json(sl_history_json(history), CLI_DONE);
    else
        print_history(history, &style);
}

static int run_history(const struct cli_call *call)
{
    const struct history_values *values = (const struct history_values *)call->values;
    struct told told = {.call = call};
    struct cli_store store;
    enum sl_control outcome;
    int status = cli_store_open(&store, &values->at);

    if (status)
        return status;
    outcome = sl_versions_history(&store.place, values->before ? values->before - 1 : 0, (unsigned)values->limit,
                                  on_told, &told);
    if (outcome == SL_CONTROL_OK) {
        cli_store_wait(&store, &told.done);
        outcome = told.outcome;
    }
    status = outcome == SL_CONTROL_OK ? told.status : cli_store_fail(&store, outcome, told.why);
    cli_store_close(&store);
    return status;
}

static const struct sl_option history_rows[] = {
    CLI_STORE_ROWS(struct history_values, "the store that the instances share; @/PATH reads it from a file"),
    {.group = "History",
     .name = "count",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct history_values, limit),
     .argument = "N",
     .preset = "20",
     .min = 1,
     .max = SL_HISTORY_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "how many versions, the newest first"},
    {.name = "before",
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct history_values, before),
     .argument = "N",
     .min = 2,
     .max = SL_VERSION_NUMBER_MAX,
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "only versions older than N"},
    CLI_COMMON_ROWS(struct history_values),
};

const struct cli_command cli_policy_history = {
    .name = "policy history",
    .arguments = "",
    .summary = "list the versions of the policy, and who runs which",
    .manual = "Prints the versions on a store, the newest first and the current one with a star, and what each "
              "instance that is\n"
              "alive runs: its version, or its file, and the version that it could not take, with the reason.\n\n"
              "  sluice policy history --store redis://cache\n"
              "  sluice policy history --store redis://cache --before 100 --count 50 --json",
    .rows = history_rows,
    .n_rows = sizeof history_rows / sizeof history_rows[0],
    .values_size = sizeof(struct history_values),
    .run = run_history,
};
