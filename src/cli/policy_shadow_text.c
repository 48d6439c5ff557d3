/* Reports about candidates and dry runs, for people. They come made fit by admin_fit. */
#include "cli/policy_shadow.h"

#include <string.h>

static long long number(const json_t *value, const char *name)
{
    return (long long)json_integer_value(json_object_get(value, name));
}

static const char *text(const json_t *value, const char *name)
{
    const char *found = json_string_value(json_object_get(value, name));

    return found ? found : "";
}

static void print_head(const json_t *report, const struct cli_style *style)
{
    const json_t *candidate = json_object_get(report, "candidate"), *live = json_object_get(report, "live");
    long long version = number(candidate, "version"), beside = number(live, "version");
    char age[48], of[32] = "", by[32] = "";

    cli_format_ms(1000 * number(report, "seconds"), age, sizeof age);
    if (version)
        snprintf(of, sizeof of, " %lld", version);
    if (beside)
        snprintf(by, sizeof by, "version %lld, ", beside);
    printf("%sCandidate%s%s (%.12s, %lld limits) by %s%s%s\n", style->bold, of, style->end, text(candidate, "hash"),
           number(candidate, "limits"), text(candidate, "author"), text(candidate, "comment")[0] ? ": " : "",
           text(candidate, "comment"));
    printf("beside the policy in force (%s%.12s) since %s, %s ago\n", by, text(live, "hash"), text(report, "since"),
           age);
    if (json_is_true(json_object_get(report, "liveChanged")))
        printf("%sanother policy has been put in force since the candidate was started; counts began anew then%s\n",
               style->warn, style->end);
    if (1000 * number(report, "seconds") < number(candidate, "longestMs")) {
        cli_format_ms(number(candidate, "longestMs"), age, sizeof age);
        printf("%sthe candidate began with whole buckets, and some of its limits take %s to be whole again: until "
               "then it rejects too little%s\n",
               style->dim, age, style->end);
    }
}

static void print_count(const char *what, long long n, long long all, const char *color, const struct cli_style *style)
{
    char count[32];

    cli_format_count((unsigned long long)n, count, sizeof count);
    printf("  %-16s %s%14s%s  %5.1f %%\n", what, n ? color : "", count, n ? style->end : "",
           all ? 100.0 * (double)n / (double)all : 0.0);
}

static void print_counts(const char *whose, const json_t *counts, const struct cli_style *style)
{
    long long all = number(counts, "decisions");
    char count[32];

    cli_format_count((unsigned long long)all, count, sizeof count);
    printf("\n%s%s: %s decisions compared%s\n", style->bold, whose, count, style->end);
    print_count("both allow", number(counts, "allowed"), all, "", style);
    print_count("both reject", number(counts, "rejected"), all, "", style);
    print_count("newly rejected", number(counts, "newlyRejected"), all, style->bad, style);
    print_count("newly allowed", number(counts, "newlyAllowed"), all, style->good, style);
    if (number(counts, "dropped") + number(counts, "undecided") + number(counts, "refused") > 0)
        printf("  %snot compared: %lld dropped for want of room, %lld undecided (store), %lld not valid there%s\n",
               style->warn, number(counts, "dropped"), number(counts, "undecided"), number(counts, "refused"),
               style->end);
}

static void print_limits(const char *title, const json_t *limits, const struct cli_style *style)
{
    const json_t *row;
    size_t i, shown = 0;

    json_array_foreach(limits, i, row)
    {
        if (number(row, "newlyRejected") + number(row, "newlyAllowed") == 0)
            continue;
        if (!shown++)
            printf("\n%s%-32s %12s %12s %14s %14s%s\n", style->bold, title, "BOTH ALLOW", "BOTH REJECT",
                   "NEWLY REJECTED", "NEWLY ALLOWED", style->end);
        printf("%-32s %12lld %12lld %14lld %14lld\n", text(row, "name")[0] ? text(row, "name") : "(none)",
               number(row, "allowed"), number(row, "rejected"), number(row, "newlyRejected"),
               number(row, "newlyAllowed"));
    }
}

static void print_keys(const char *title, const json_t *keys, const struct cli_style *style)
{
    const json_t *row;
    size_t i;

    if (json_array_size(keys))
        printf("\n%s%-40s %-12s %-24s %14s%s\n", style->bold, title, "TYPE", "LIMIT", "TIMES", style->end);
    json_array_foreach(keys, i, row)
    {
        bool sure = number(row, "atLeast") == number(row, "atMost");

        printf("%-40s %-12s %-24s %s%13lld\n", text(row, "key"), text(row, "keyType"),
               text(row, "limit")[0] ? text(row, "limit") : "(none)", sure ? " " : ">", number(row, "atLeast"));
    }
}

void cli_shadow_print(const json_t *report, const struct cli_style *style)
{
    const json_t *fleet = json_object_get(report, "fleet"), *keys = json_object_get(report, "keys");
    char whose[64];

    print_head(report, style);
    if (json_is_object(fleet)) {
        snprintf(whose, sizeof whose, "All instances (%lld)", number(fleet, "instances"));
        print_counts(whose, fleet, style);
    }
    print_counts("This instance", report, style);
    if (number(report, "evictions"))
        printf("  %sthe candidate's table is too small for this traffic: %lld buckets were evicted%s\n", style->warn,
               number(report, "evictions"), style->end);
    print_limits("LIMIT OF THE CANDIDATE", json_object_get(report, "limits"), style);
    print_limits("LIMIT IN FORCE", json_object_get(report, "liveLimits"), style);
    print_keys("NEWLY REJECTED KEY", json_object_get(keys, "newlyRejected"), style);
    print_keys("NEWLY ALLOWED KEY", json_object_get(keys, "newlyAllowed"), style);
}

void cli_dry_print(const json_t *report, const struct cli_style *style)
{
    const json_t *limits = json_object_get(report, "limits"), *row;
    char age[48], count[32];
    size_t i;

    cli_format_ms(1000 * number(report, "seconds"), age, sizeof age);
    cli_format_count((unsigned long long)number(report, "wouldReject"), count, sizeof count);
    printf("%s requests would have been rejected by a dry-run limit since %s, %s ago\n", count, text(report, "since"),
           age);
    if (json_array_size(limits))
        printf("\n%s%-32s %14s %14s%s\n", style->bold, "LIMIT", "HAD ROOM", "WOULD REJECT", style->end);
    json_array_foreach(limits, i, row)
    {
        printf("%-32s %14lld %14lld\n", text(row, "name"), number(row, "allowed"), number(row, "rejected"));
    }
    print_keys("KEY", json_object_get(report, "keys"), style);
}
