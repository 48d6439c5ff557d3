/* `sluice policy show` without a policy: what a daemon runs, and whether the latest one it was offered is that. */
#include "cli/policy_live.h"
#include "cli/admin.h"

#include <jansson.h>
#include <string.h>

static void print(json_t *answer, const struct cli_style *style)
{
    const char *source = "", *hash = "", *region = NULL, *refused = NULL;
    json_int_t version = 0, limits = 0;
    int failed = 0, kept = 0;

    json_unpack(answer, "{s?s}", "region", &region); /* null when it has none; so the next */
    json_unpack(answer, "{s?s}", "refused", &refused);
    json_unpack(answer, "{s?I, s?s, s?b, s?s, s?I, s?b}", "version", &version, "source", &source, "keptCopy", &kept,
                "hash", &hash, "limits", &limits, "lastReloadFailed", &failed);
    if (!strcmp(source, "store"))
        printf("%sversion%s  %lld\n", style->bold, style->end, (long long)version);
    else
        printf("%sversion%s  none\n", style->bold, style->end);
    printf("%ssource%s   %s%s\n", style->bold, style->end, source,
           kept ? ", as it was last good: the copy in --state" : "");
    printf("%shash%s     %s\n", style->bold, style->end, hash);
    printf("%slimits%s   %lld\n", style->bold, style->end, (long long)limits);
    printf("%sregion%s   %s\n", style->bold, style->end, region ? region : "none");
    if (failed)
        printf("%srefused%s  the latest policy it was offered; this one stays in force until one is valid. %s\n",
               style->bad, style->end, refused ? refused : "Its log says what is wrong");
}

int cli_policy_live(const struct cli_call *call, const struct cli_connect *connect)
{
    struct cli_style style = cli_style(call->values, stdout);
    struct admin_path path;
    char why[1024];
    json_t *answer;
    long status;

    admin_path_begin(&path, "/v1/policy");
    answer = admin_ask(connect, "GET", &path, &status, why, sizeof why);
    if (!answer)
        return cli_fail(CLI_UNREACHABLE, "%s", why);
    if (call->values->json)
        return cli_print_json(answer, CLI_DONE);
    admin_fit(answer);
    print(answer, &style);
    json_decref(answer);
    return CLI_DONE;
}
