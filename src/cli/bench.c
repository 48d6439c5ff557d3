#include "cli/bench.h"

#include "limiter/limiter.h"
#include "sluice/sluice.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_ns(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t bench_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t bench_thread_cpu_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Fields 14 and 15 of /proc/PID/stat, user and system time in clock ticks. The second is the name in parentheses and
 * may hold anything, so counting begins after the last of them, at field 3. */
static uint64_t cpu_ticks(const char *stat)
{
    const char *at = strrchr(stat, ')');
    uint64_t ticks = 0;

    for (unsigned field = 3; at && field <= 15; field++) {
        at = strchr(at + 1, ' ');
        if (at && field >= 14)
            ticks += strtoull(at + 1, NULL, 10);
    }
    return at ? ticks : 0;
}

uint64_t bench_process_cpu_ns(pid_t pid)
{
    char path[64], text[1024];
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    f = fopen(path, "r");
    if (!f)
        return 0;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    return cpu_ticks(text) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_median(double *numbers, unsigned n)
{
    qsort(numbers, n, sizeof *numbers, compare_numbers);
    return n % 2 ? numbers[n / 2] : (numbers[n / 2 - 1] + numbers[n / 2]) / 2;
}

/* The value of the first line of /proc/cpuinfo that begins with "model name". */
static void cpu_name(char *buf, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[512];

    snprintf(buf, size, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        snprintf(buf, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f)
        fclose(f);
}

static void huge_pages(char *buf, size_t size)
{
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    char line[128] = "";
    const char *open_at, *close_at;

    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0';
    if (f)
        fclose(f);
    open_at = strchr(line, '['), close_at = strchr(line, ']');
    if (open_at && close_at)
        snprintf(buf, size, "%.*s", (int)(close_at - open_at - 1), open_at + 1);
    else
        snprintf(buf, size, "unknown");
}

json_t *bench_machine_json(void)
{
    char cpu[256], huge[64], version[32];
    struct utsname uts;

    uname(&uts);
    cpu_name(cpu, sizeof cpu);
    huge_pages(huge, sizeof huge);
    snprintf(version, sizeof version, "%d.%d.%d", SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH);
    return json_pack("{s:s,s:I,s:s,s:s,s:s,s:s}", "cpu", cpu, "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
                     "kernel", uts.release, "hugePages", huge, "compiler", __VERSION__, "version", version);
}

void bench_print_machine(FILE *out)
{
    json_t *machine = bench_machine_json();

    fprintf(out, "on %s, %lld cores, Linux %s, huge pages %s, compiled by %s, sluice %s\n\n",
            json_string_value(json_object_get(machine, "cpu")),
            (long long)json_integer_value(json_object_get(machine, "cores")),
            json_string_value(json_object_get(machine, "kernel")),
            json_string_value(json_object_get(machine, "hugePages")),
            json_string_value(json_object_get(machine, "compiler")),
            json_string_value(json_object_get(machine, "version")));
    json_decref(machine);
}

json_t *bench_hdr_json(const struct hdr *hdr)
{
    return json_pack("{s:I,s:f,s:I,s:I,s:I,s:I,s:I,s:I}", "n", (json_int_t)hdr->n, "mean", hdr_mean(hdr), "min",
                     (json_int_t)(hdr->n ? hdr->least : 0), "p50", (json_int_t)hdr_percentile(hdr, 50000), "p90",
                     (json_int_t)hdr_percentile(hdr, 90000), "p99", (json_int_t)hdr_percentile(hdr, 99000), "p999",
                     (json_int_t)hdr_percentile(hdr, 99900), "max", (json_int_t)hdr->most);
}

/* Enough operations that the clock does not matter, and not more than the time asked for. */
static double time_subject(const struct bench_subject *subject, unsigned ms)
{
    uint64_t chunk = 1024, n = 0, started = bench_thread_cpu_ns(), spent = 0;

    while (spent < (uint64_t)ms * 1000000) {
        subject->run(subject->ctx, chunk);
        n += chunk;
        spent = bench_thread_cpu_ns() - started;
    }
    return (double)spent / (double)n;
}

void bench_alternate(struct bench_subject *subjects, size_t n, unsigned rounds, unsigned ms)
{
    for (size_t i = 0; i < n; i++) /* caches, branch predictors, page tables */
        time_subject(&subjects[i], ms / 4 + 1);
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < n; i++)
            subjects[i].ns[round] = time_subject(&subjects[i], ms);
    }
}

double bench_subject_ns(const struct bench_subject *subject, unsigned rounds)
{
    double sorted[BENCH_ROUNDS_MAX] = {0};

    memcpy(sorted, subject->ns, rounds * sizeof *sorted);
    return bench_median(sorted, rounds);
}

double bench_subject_ratio(const struct bench_subject *a, const struct bench_subject *b, unsigned rounds)
{
    double ratios[BENCH_ROUNDS_MAX] = {0};

    for (unsigned i = 0; i < rounds; i++)
        ratios[i] = a->ns[i] / b->ns[i];
    return bench_median(ratios, rounds);
}

json_t *bench_subjects_json(const struct bench_subject *subjects, size_t n, unsigned rounds)
{
    json_t *all = json_object();

    for (size_t i = 0; i < n; i++) {
        json_t *each = json_array();

        for (unsigned r = 0; r < rounds; r++)
            json_array_append_new(each, json_real(subjects[i].ns[r]));
        json_object_set_new(all, subjects[i].name,
                            json_pack("{s:f,s:o}", "ns", bench_subject_ns(&subjects[i], rounds), "rounds", each));
    }
    return all;
}

struct sl_limiter *bench_open_limiter(const char *policy_text, uint64_t keys)
{
    struct sl_table_options table_options = sl_table_defaults();
    struct sl_policy_options options = {.alloc = sl_alloc_system()};
    struct sl_limiter *limiter = NULL;
    struct sl_policy *policy = NULL;
    struct sl_table *table;
    struct sl_diags diags;
    char why[512];

    table_options.keys = keys;
    table_options.log_entries = 0;
    if (sl_table_open(&table_options, &table, why, sizeof why)) {
        cli_fail(CLI_USAGE, "%s", why);
        return NULL;
    }
    options.secret = sl_table_secret(table);
    sl_diags_init(&diags, options.alloc);
    if (sl_policy_parse(policy_text, strlen(policy_text), "benchmark", &options, &policy, &diags)) {
        sl_diags_print(&diags, stderr);
        policy = NULL;
    }
    sl_diags_fini(&diags);
    if (!policy || sl_limiter_new(table, policy, &options.alloc, &limiter)) {
        cli_fail(CLI_USAGE, "cannot open a limiter");
        sl_policy_unref(policy);
        sl_table_close(&table);
        return NULL;
    }
    return limiter;
}

char *bench_policy_text(unsigned n_limits, const char *rate)
{
    unsigned n_endpoints = n_limits < 200 ? 1 : n_limits / 100;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        return NULL;
    fprintf(out, "version: 1\ndefaults: {on_store_failure: local}\n");
    fprintf(out, "endpoints:\n");
    for (unsigned i = 0; i < n_endpoints; i++)
        fprintf(out, "  e%u: {match: [\"GET /v1/resource-%u*\"]}\n", i, i);
    fprintf(out, "limits:\n  - {name: everybody, rate: %s}\n", rate);
    for (unsigned i = 0; i < n_endpoints; i++)
        fprintf(out, "  - {name: endpoint-%u, endpoint: e%u, rate: %s}\n", i, i, rate);
    for (unsigned i = n_endpoints + 1; i < n_limits; i++)
        fprintf(out, "  - {name: key-%u, key: key-%05u, rate: %s}\n", i, i, rate);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}
