/* `sluice doctor`: what an operator would look at by hand before a first start, and when something is odd. */
#include "cli/admin.h"
#include "cli/doctor.h"
#include "cli/files.h"
#include "cli/http_client.h"

#include "store/codec.h"

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
    char *admin_token, *policy;
    char *store, *namespace;
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
    {.name = "admin-token",
     .type = SL_OPTION_SECRET,
     .offset = offsetof(struct doctor_values, admin_token),
     .argument = "TOKEN",
     .sentence = "the bearer token that it asks for, for its alarms; @/PATH reads it from a file"},
    {.name = "policy",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct doctor_values, policy),
     .argument = "FILE",
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "a policy to check too"},
    {.name = "store",
     .type = SL_OPTION_SECRET,
     .offset = offsetof(struct doctor_values, store),
     .argument = "URL",
     .preset = "memory:",
     .sentence = "a store to look at too, as sluiced is told it; @/PATH reads it from a file"},
    {.name = "namespace",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct doctor_values, namespace),
     .argument = "NAME",
     .preset = "sluice",
     .sentence = "the namespace of the instances on that store"},
    CLI_COMMON_ROWS(struct doctor_values),
};

static const char *const state_words[DOCTOR_STATES] = {"ok", "odd", "bad", "away"};

void doctor_add(struct doctor_findings *findings, const char *name, enum doctor_state state, const char *format, ...)
{
    char text[5120];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    findings->count[state]++;
    json_array_append_new(findings->list,
                          json_pack("{s:s,s:s,s:s}", "check", name, "state", state_words[state], "detail", text));
}

static void check_kernel(struct doctor_findings *findings)
{
    struct utsname uts;
    unsigned long major, minor;
    char *dot;

    uname(&uts);
    major = strtoul(uts.release, &dot, 10);
    minor = *dot == '.' ? strtoul(dot + 1, NULL, 10) : 0;
    if (major > 4 || (major == 4 && minor >= 18))
        doctor_add(findings, "kernel", DOCTOR_GOOD, "%s %s", uts.sysname, uts.release);
    else
        doctor_add(findings, "kernel", DOCTOR_ODD, "%s %s; 4.18 or newer is what sluice is tested on", uts.sysname,
                   uts.release);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        doctor_add(findings, "processor", DOCTOR_GOOD, "x86-64 with AVX: 16-byte loads are atomic");
    else
        doctor_add(findings, "processor", DOCTOR_ODD, "x86-64 without AVX: the table reads twice");
#else
    doctor_add(findings, "processor", DOCTOR_ODD, "%s; sluice is tested on x86-64", uts.machine);
#endif
}

static void check_huge_pages(struct doctor_findings *findings)
{
    char line[128] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0';
    if (f)
        fclose(f);
    if (strstr(line, "[always]") || strstr(line, "[madvise]"))
        doctor_add(findings, "huge pages", DOCTOR_GOOD, "transparent huge pages are there for large tables");
    else
        doctor_add(findings, "huge pages", DOCTOR_ODD,
                   "transparent huge pages are off: large tables in memory are some 20 %% slower");
}

static void check_files(struct doctor_findings *findings)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max >= 10064)
        doctor_add(findings, "open files", DOCTOR_GOOD, "hard limit %llu", (unsigned long long)limit.rlim_max);
    else
        doctor_add(findings, "open files", DOCTOR_ODD, "hard limit %llu: too few for the default of 10,000 connections",
                   (unsigned long long)limit.rlim_max);
}

/* How far two readings of the wall clock, a moment apart, stray from the clock since boot; and whether the year is a
 * sane one. */
static void check_clock(struct doctor_findings *findings)
{
    struct timespec wall, boot, resolution;
    time_t now = time(NULL);

    if (clock_gettime(CLOCK_BOOTTIME, &boot) || clock_gettime(CLOCK_REALTIME, &wall) ||
        clock_getres(CLOCK_BOOTTIME, &resolution)) {
        doctor_add(findings, "clock", DOCTOR_BAD, "CLOCK_BOOTTIME cannot be read");
        return;
    }
    if (now < 1704067200) /* 2024 */
        doctor_add(findings, "clock", DOCTOR_BAD, "the wall clock says %ld s since 1970: it was never set", (long)now);
    else if (resolution.tv_sec || resolution.tv_nsec > 1000)
        doctor_add(findings, "clock", DOCTOR_ODD, "CLOCK_BOOTTIME has steps of %ld ns", resolution.tv_nsec);
    else
        doctor_add(findings, "clock", DOCTOR_GOOD, "set, in steps of %ld ns", resolution.tv_nsec);
}

static void check_policy(struct doctor_findings *findings, const char *path)
{
    struct sl_policy_options options = {.alloc = sl_alloc_system()};
    struct sl_policy *policy = NULL;
    struct sl_diags diags;

    if (!path)
        return;
    sl_diags_init(&diags, options.alloc);
    if (sl_policy_load(path, &options, &policy, &diags))
        doctor_add(findings, "policy", DOCTOR_BAD, "%s has %zu error%s; `sluice policy check %s` lists them", path,
                   diags.n_errors, diags.n_errors == 1 ? "" : "s", path);
    else
        doctor_add(findings, "policy", diags.n_warnings ? DOCTOR_ODD : DOCTOR_GOOD, "%s: %zu limit%s, %zu warning%s",
                   path, sl_policy_n_limits(policy), sl_policy_n_limits(policy) == 1 ? "" : "s", diags.n_warnings,
                   diags.n_warnings == 1 ? "" : "s");
    sl_policy_unref(policy);
    sl_diags_fini(&diags);
}

/* Whether it answers as it should. */
static bool check_listener(struct doctor_findings *findings, const struct doctor_values *values, const char *name,
                           const char *server, const char *path)
{
    struct http_request http = {.server = server,
                                .method = "GET",
                                .path = path,
                                .ca_file = values->connect.ca_file,
                                .timeout_ms = values->connect.timeout_us / 1000};
    struct http_answer answer;
    char why[512];
    bool good;

    if (http_call(&http, &answer, why, sizeof why))
        doctor_add(findings, name, DOCTOR_AWAY, "%s", why);
    else if (answer.status == 200)
        doctor_add(findings, name, DOCTOR_GOOD, "%s%s answers 200", server, path);
    else
        doctor_add(findings, name, DOCTOR_BAD, "%s%s answers %ld", server, path, answer.status);
    good = answer.status == 200;
    http_answer_fini(&answer);
    return good;
}

/* A daemon that answers may be alarmed all the same. */
static void check_alarms(struct doctor_findings *findings, const struct doctor_values *values)
{
    struct cli_connect connect = values->connect;
    char kind[ADMIN_TEXT_MAX], sentence[ADMIN_TEXT_MAX], runbook[ADMIN_TEXT_MAX], why[1024];
    const json_t *raised, *alarm;
    struct admin_path path;
    json_t *answer;
    long status;
    size_t i;

    connect.token = values->admin_token;
    admin_path_begin(&path, "/v1/alarms");
    answer = admin_ask(&connect, "GET", &path, &status, why, sizeof why);
    raised = json_object_get(answer, "raised");
    if (!json_is_array(raised))
        doctor_add(findings, "alarms", DOCTOR_ODD, "not known: %s%s", answer ? "the answer is not one of alarms" : why,
                   status == 401 || status == 403 ? " See --admin-token" : "");
    else if (!json_array_size(raised))
        doctor_add(findings, "alarms", DOCTOR_GOOD, "none is raised");
    json_array_foreach(raised, i, alarm)
    {
        doctor_add(findings, "alarm", DOCTOR_ODD, "%s: %s; what to do: %s", admin_text(alarm, "kind", kind),
                   admin_text(alarm, "sentence", sentence), admin_text(alarm, "runbook", runbook));
    }
    json_decref(answer);
}

static void print_findings(const struct doctor_findings *findings, const struct cli_style *style)
{
    const char *const colors[DOCTOR_STATES] = {style->good, style->warn, style->bad, style->warn};
    size_t i;
    json_t *finding;

    json_array_foreach(findings->list, i, finding)
    {
        const char *state = json_string_value(json_object_get(finding, "state"));
        const char *color = "";

        for (unsigned s = 0; s < DOCTOR_STATES; s++) {
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
    struct doctor_findings findings = {.list = NULL};
    struct sl_store_url url;
    char why[512];
    int status;

    if (sl_store_url_parse(values->store, &url, why, sizeof why) || sl_store_url_read_files(&url, why, sizeof why)) {
        sl_store_url_fini(&url);
        return cli_fail(CLI_USAGE, "--store: %s", why);
    }
    if (!values->namespace[0] || strlen(values->namespace) > SL_NAMESPACE_MAX || strpbrk(values->namespace, "{}")) {
        sl_store_url_fini(&url);
        return cli_fail(CLI_USAGE, "--namespace: 1 to %d characters without braces", SL_NAMESPACE_MAX);
    }
    findings.list = json_array();
    check_kernel(&findings);
    check_huge_pages(&findings);
    check_files(&findings);
    check_clock(&findings);
    check_policy(&findings, values->policy);
    if (url.kind != SL_STORE_MEMORY)
        doctor_check_store(&findings, &url, values->namespace, values->connect.timeout_us);
    sl_store_url_fini(&url);
    check_listener(&findings, values, "daemon", values->connect.server, "/readyz");
    if (check_listener(&findings, values, "admin", values->connect.admin, "/healthz"))
        check_alarms(&findings, values);
    status = findings.count[DOCTOR_BAD] ? CLI_NO : findings.count[DOCTOR_AWAY] ? CLI_UNREACHABLE : CLI_DONE;
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
    .manual =
        "Checks what sluice stands on: kernel and processor, huge pages, the limit of open files, the clock, a policy "
        "file, a\n"
        "store, whether a daemon answers, and what it is alarmed by. `odd` works but is worth knowing; `bad` does not\n"
        "(status 1); `away` means that no daemon or no store was reached (status 3). Of a store: how soon it answers,\n"
        "its version, module or script, whether it evicts keys, its clock, and the instances that are on it. Nothing\n"
        "is written there.\n\n"
        "  sluice doctor\n"
        "  sluice doctor --store redis://10.0.0.9\n"
        "  sluice doctor --policy policy.yaml --server http://10.0.0.5:8080 --admin http://10.0.0.5:6070",
    .rows = doctor_rows,
    .n_rows = sizeof doctor_rows / sizeof doctor_rows[0],
    .values_size = sizeof(struct doctor_values),
    .run = run,
};
