/* `sluice doctor`: what an operator would look at by hand before a first start, and when something is odd. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/files.h"
#include "cli/http_client.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

struct doctor_values {
    struct cli_common common;
    struct cli_connect connect;
    char *policy;
};

static const struct sl_option doctor_rows[] = {
    CLI_SERVER_ROW(struct doctor_values),
    CLI_CONNECT_ROWS(struct doctor_values, "check-token"),
    {.name = "admin",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct doctor_values, connect.admin),
     .argument = "URL",
     .preset = "http://127.0.0.1:6070",
     .sentence = "the daemon's admin listener"},
    {.name = "policy",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct doctor_values, policy),
     .argument = "FILE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "a policy to check too"},
    CLI_COMMON_ROWS(struct doctor_values),
};

enum state { GOOD, ODD, BAD, AWAY, STATES };
static const char *const state_words[STATES] = {"ok", "odd", "bad", "away"};

struct findings {
    json_t *list;
    unsigned count[STATES];
};

static void __attribute__((format(printf, 4, 5)))
add(struct findings *findings, const char *name, enum state state, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    findings->count[state]++;
    json_array_append_new(findings->list,
                          json_pack("{s:s,s:s,s:s}", "check", name, "state", state_words[state], "detail", text));
}

static void check_kernel(struct findings *findings)
{
    struct utsname uts;
    unsigned long major, minor;
    char *dot;

    uname(&uts);
    major = strtoul(uts.release, &dot, 10);
    minor = *dot == '.' ? strtoul(dot + 1, NULL, 10) : 0;
    if (major > 4 || (major == 4 && minor >= 18))
        add(findings, "kernel", GOOD, "%s %s", uts.sysname, uts.release);
    else
        add(findings, "kernel", ODD, "%s %s; 4.18 or newer is what sluice is tested on", uts.sysname, uts.release);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        add(findings, "processor", GOOD, "x86-64 with AVX: 16-byte loads are atomic");
    else
        add(findings, "processor", ODD, "x86-64 without AVX: the table reads twice");
#else
    add(findings, "processor", ODD, "%s; sluice is tested on x86-64", uts.machine);
#endif
}

static void check_huge_pages(struct findings *findings)
{
    char line[128] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0';
    if (f)
        fclose(f);
    if (strstr(line, "[always]") || strstr(line, "[madvise]"))
        add(findings, "huge pages", GOOD, "transparent huge pages are there for large tables");
    else
        add(findings, "huge pages", ODD,
            "transparent huge pages are off: large tables in memory are some 20 %% slower");
}

static void check_files(struct findings *findings)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max >= 10064)
        add(findings, "open files", GOOD, "hard limit %llu", (unsigned long long)limit.rlim_max);
    else
        add(findings, "open files", ODD, "hard limit %llu: too few for the default of 10,000 connections",
            (unsigned long long)limit.rlim_max);
}

/* How far two readings of the wall clock, a moment apart, stray from the clock since boot; and whether the year is a
 * sane one. */
static void check_clock(struct findings *findings)
{
    struct timespec wall, boot, resolution;
    time_t now = time(NULL);

    if (clock_gettime(CLOCK_BOOTTIME, &boot) || clock_gettime(CLOCK_REALTIME, &wall) ||
        clock_getres(CLOCK_BOOTTIME, &resolution)) {
        add(findings, "clock", BAD, "CLOCK_BOOTTIME cannot be read");
        return;
    }
    if (now < 1704067200) /* 2024 */
        add(findings, "clock", BAD, "the wall clock says %ld s since 1970: it was never set", (long)now);
    else if (resolution.tv_sec || resolution.tv_nsec > 1000)
        add(findings, "clock", ODD, "CLOCK_BOOTTIME has steps of %ld ns", resolution.tv_nsec);
    else
        add(findings, "clock", GOOD, "set, in steps of %ld ns", resolution.tv_nsec);
}

static void check_policy(struct findings *findings, const char *path)
{
    struct sl_policy_options options = {.alloc = sl_alloc_system()};
    struct sl_policy *policy = NULL;
    struct sl_diags diags;

    if (!path)
        return;
    sl_diags_init(&diags, options.alloc);
    if (sl_policy_load(path, &options, &policy, &diags))
        add(findings, "policy", BAD, "%s has %zu errors; `sluice policy check %s` lists them", path, diags.n_errors,
            path);
    else
        add(findings, "policy", diags.n_warnings ? ODD : GOOD, "%s: %zu limits, %zu warnings", path,
            sl_policy_n_limits(policy), diags.n_warnings);
    sl_policy_unref(policy);
    sl_diags_fini(&diags);
}

static void check_listener(struct findings *findings, const struct doctor_values *values, const char *name,
                           const char *server, const char *path)
{
    struct http_request http = {.server = server,
                                .method = "GET",
                                .path = path,
                                .ca_file = values->connect.ca_file,
                                .timeout_ms = values->connect.timeout_us / 1000};
    struct http_answer answer;
    char why[512];

    if (http_call(&http, &answer, why, sizeof why))
        add(findings, name, AWAY, "%s", why);
    else if (answer.status == 200)
        add(findings, name, GOOD, "%s%s answers 200", server, path);
    else
        add(findings, name, BAD, "%s%s answers %ld", server, path, answer.status);
    http_answer_fini(&answer);
}

static void print_findings(const struct findings *findings, const struct cli_style *style)
{
    const char *const colors[STATES] = {style->good, style->warn, style->bad, style->warn};
    size_t i;
    json_t *finding;

    json_array_foreach(findings->list, i, finding)
    {
        const char *state = json_string_value(json_object_get(finding, "state"));
        const char *color = "";

        for (unsigned s = 0; s < STATES; s++) {
            if (!strcmp(state, state_words[s]))
                color = colors[s];
        }
        printf("%s%-5s%s %-11s %s\n", color, state, style->end, json_string_value(json_object_get(finding, "check")),
               json_string_value(json_object_get(finding, "detail")));
    }
}

static int run(const struct cli_call *call)
{
    const struct doctor_values *values = (const struct doctor_values *)call->values;
    struct cli_style style = cli_style(call->values, stdout);
    struct findings findings = {.list = json_array()};
    int status;

    check_kernel(&findings);
    check_huge_pages(&findings);
    check_files(&findings);
    check_clock(&findings);
    check_policy(&findings, values->policy);
    check_listener(&findings, values, "daemon", values->connect.server, "/readyz");
    check_listener(&findings, values, "admin", values->connect.admin, "/healthz");
    status = findings.count[BAD] ? CLI_NO : findings.count[AWAY] ? CLI_UNREACHABLE : CLI_DONE;
    if (call->values->json)
        return cli_print_json(json_pack("{s:b,s:o}", "healthy", status == CLI_DONE, "checks", findings.list), status);
    print_findings(&findings, &style);
    json_decref(findings.list);
    return status;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "look over machine, policy and daemon",
    .manual = "Checks what sluice stands on: kernel and processor, huge pages, the limit of open files, the clock, a "
              "policy file, and\n"
              "whether a daemon answers. `odd` works but is worth knowing; `bad` does not (status 1); `away` means "
              "that no daemon\n"
              "was reached (status 3).\n\n"
              "  sluice doctor\n"
              "  sluice doctor --policy policy.yaml --server http://10.0.0.5:8080 --admin http://10.0.0.5:6070",
    .rows = doctor_rows,
    .n_rows = sizeof doctor_rows / sizeof doctor_rows[0],
    .values_size = sizeof(struct doctor_values),
    .run = run,
};
