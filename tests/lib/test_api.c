/* The public API, function by function. */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEN "version: 1\nlimits:\n  - {name: ten, rate: 10/m, on_store_failure: closed}\n"

static void the_defaults_are_zero(void **state)
{
    struct sluice_options options = sluice_options_default();
    const unsigned char *bytes = (const unsigned char *)&options;

    (void)state;
    assert_int_equal(options.struct_size, sizeof options);
    for (size_t i = sizeof options.struct_size; i < sizeof options; i++)
        assert_int_equal(bytes[i], 0);
}

static int try_open(const struct sluice_options *options, char *why)
{
    struct sluice *limiter = NULL;
    int err = sluice_open(options, &limiter, why, SLUICE_WHY_MAX);

    if (err == 0)
        sluice_close(&limiter);
    assert_null(limiter);
    return err;
}

static void bad_options_are_refused_with_a_reason(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice_options good = options_for(TEN, &now_us), bad;
    char why[SLUICE_WHY_MAX];

    (void)state;
    assert_int_equal(try_open(&good, why), 0);
    bad = good;
    bad.policy_file = "also.yaml";
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_non_null(strstr(why, "policy_file"));
    bad = good;
    bad.policy_text = NULL;
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    bad = good;
    bad.mono_us = NULL;
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_non_null(strstr(why, "mono_us"));
    bad = good;
    bad.store = "http://localhost";
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_ptr_equal(strstr(why, "store: "), why);
    bad.store = "redis:///";
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    bad.store = "redis://localhost?password_file=/nowhere/at/all";
    assert_int_equal(try_open(&bad, why), SLUICE_EIO);
    assert_non_null(strstr(why, "/nowhere/at/all"));
    bad.store = "rediss://localhost?ca=/nowhere/at/all.pem";
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_non_null(strstr(why, "/nowhere/at/all.pem"));
    bad.store = "memory:";
    assert_int_equal(try_open(&bad, why), 0);
    bad = good;
    bad.table_keys = 1;
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    bad = good;
    bad.table_path = "/nowhere/at/all/table";
    assert_int_equal(try_open(&bad, why), SLUICE_EIO);
    assert_non_null(strstr(why, "/nowhere/at/all/table"));
    bad = good;
    bad.store_namespace = "a{b";
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_non_null(strstr(why, "store_namespace"));
    bad.store_namespace = "";
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    bad = good;
    bad.timeout_us = 999;
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_non_null(strstr(why, "timeout_us"));
    bad = good;
    bad.instances = 1001;
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_non_null(strstr(why, "instances"));
    bad = good;
    bad.store_wait_ms = SLUICE_NO_WAIT - 1;
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_non_null(strstr(why, "store_wait_ms"));
    bad = good;
    bad.region = "EU";
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_non_null(strstr(why, "region"));
    bad.region = "";
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    bad = good;
    bad.struct_size = 0;
    assert_int_equal(try_open(&bad, why), SLUICE_EINVALID);
    assert_int_equal(sluice_open(&bad, NULL, NULL, 0), SLUICE_EINVALID); /* nobody wants the reason */
}

/* Programs built against an older or a newer header. */
static void options_may_be_shorter_or_longer(void **state)
{
    struct {
        struct sluice_options known;
        uint64_t unknown;
    } newer = {.unknown = 0};
    uint64_t now_us = T0_US;
    char why[SLUICE_WHY_MAX];

    (void)state;
    newer.known = options_for(TEN, &now_us);
    newer.known.struct_size = sizeof newer;
    assert_int_equal(try_open(&newer.known, why), 0);
    newer.unknown = 1;
    assert_int_equal(try_open(&newer.known, why), SLUICE_EUNSUPPORTED);

    struct sluice_options older = options_for(TEN, &now_us);

    older.struct_size = offsetof(struct sluice_options, finding);
    older.finding = (sluice_finding_fn *)(uintptr_t)1; /* beyond the size: never looked at */
    assert_int_equal(try_open(&older, why), 0);
}

struct findings {
    unsigned errors, warnings;
    unsigned line;
    char text[SLUICE_WHY_MAX], field[64];
};

static void collect(void *ctx, const struct sluice_finding *finding)
{
    struct findings *f = ctx;

    if (finding->severity == SLUICE_ERROR && f->errors++ == 0) {
        f->line = finding->line;
        snprintf(f->text, sizeof f->text, "%s", finding->text);
        snprintf(f->field, sizeof f->field, "%s", finding->field);
    }
    f->warnings += finding->severity == SLUICE_WARNING;
}

#define WRONG "version: 1\nlimits:\n  - {name: a, rate: 0/s}\n  - {name: b, key: k, rate: 1/s, burst: x}\n"

static void a_wrong_policy_is_refused_with_all_findings(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice_options options = options_for(WRONG, &now_us);
    struct findings findings = {.errors = 0};
    char why[SLUICE_WHY_MAX];

    (void)state;
    options.finding = collect;
    options.finding_ctx = &findings;
    assert_int_equal(try_open(&options, why), SLUICE_EPOLICY);
    assert_int_equal(findings.errors, 2);
    assert_int_equal(findings.line, 3);
    assert_string_equal(findings.field, "limits[0].rate");
    assert_non_null(strstr(findings.text, "test.yaml:3:"));
    assert_non_null(strstr(why, "test.yaml:3:"));
    assert_non_null(strstr(why, "1 more"));

    options = sluice_options_default();
    options.policy_file = "/nowhere/policy.yaml";
    assert_int_equal(try_open(&options, why), SLUICE_EPOLICY);
    assert_non_null(strstr(why, "/nowhere/policy.yaml"));
}

static void a_reason_is_cut_to_its_buffer(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice_options options = options_for(WRONG, &now_us);
    struct sluice *limiter;
    char why[12];

    (void)state;
    memset(why, 'x', sizeof why);
    assert_int_equal(sluice_open(&options, &limiter, why, 8), SLUICE_EPOLICY);
    assert_int_equal(strlen(why), 7);
    assert_int_equal(why[8], 'x');
}

static void a_check_decides_and_the_clock_is_the_callers(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice *limiter = open_for(TEN, &now_us);

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(check_key(limiter, "a", SLUICE_COST_DEFAULT).remaining, 9 - i);
    struct sluice_verdict verdict = check_key(limiter, "a", 1);

    assert_false(verdict.allowed);
    assert_int_equal(verdict.retry_after_ms, 6000);
    assert_string_equal(verdict.policy, "ten");
    now_us += 6000000;
    assert_true(check_key(limiter, "a", 1).allowed);
    assert_false(check_key(limiter, "a", 1).allowed);
    sluice_close(&limiter);
    assert_null(limiter);
    sluice_close(&limiter);
    sluice_close(NULL);
}

static void a_bad_request_is_explained(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice *limiter = open_for(TEN, &now_us);
    struct sluice_request request = request_of("a\nb", 1);
    struct sluice_verdict verdict;
    char why[SLUICE_WHY_MAX] = "";

    (void)state;
    assert_int_equal(sluice_check(limiter, &request, &verdict), SLUICE_EINVALID);
    assert_int_equal(sluice_validate(limiter, &request, why, sizeof why), SLUICE_EINVALID);
    assert_ptr_equal(strstr(why, "key: "), why);
    assert_int_equal(sluice_validate(limiter, &request, NULL, 0), SLUICE_EINVALID);
    request = request_of("a", SLUICE_COST_MAX);
    assert_int_equal(sluice_validate(limiter, &request, NULL, 0), 0);
    request.cost++;
    assert_int_equal(sluice_validate(limiter, &request, NULL, 0), SLUICE_EINVALID);
    sluice_close(&limiter);
}

static void a_batch_is_decided_in_order_or_not_at_all(void **state)
{
    static struct sluice_request requests[SLUICE_BATCH_MAX + 1];
    static struct sluice_verdict verdicts[SLUICE_BATCH_MAX];
    uint64_t now_us = T0_US;
    struct sluice *limiter = open_for(TEN, &now_us);
    size_t bad = 0;

    (void)state;
    for (int i = 0; i <= SLUICE_BATCH_MAX; i++)
        requests[i] = request_of(i % 2 ? "a" : "b", 1);
    assert_int_equal(sluice_check_batch(limiter, requests, SLUICE_BATCH_MAX + 1, verdicts, &bad), SLUICE_EINVALID);
    assert_int_equal(bad, SLUICE_BATCH_MAX + 1);
    requests[40].cost = -7;
    assert_int_equal(sluice_check_batch(limiter, requests, SLUICE_BATCH_MAX, verdicts, &bad), SLUICE_EINVALID);
    assert_int_equal(bad, 40);
    requests[40].cost = 1;
    assert_int_equal(sluice_check_batch(limiter, requests, SLUICE_BATCH_MAX, verdicts, NULL), 0);
    for (int i = 0; i < SLUICE_BATCH_MAX; i++)
        assert_int_equal(verdicts[i].allowed, i < 20);
    assert_int_equal(verdicts[19].remaining, 0);
    assert_int_equal(sluice_check_batch(limiter, NULL, 0, NULL, NULL), 0);
    sluice_close(&limiter);
}

static int reload(struct sluice *limiter, const char *yaml, struct findings *findings)
{
    return sluice_reload_text(limiter, yaml, strlen(yaml), "new.yaml", findings ? collect : NULL, findings);
}

static void a_reload_is_whole_or_not_at_all(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice *limiter = open_for(TEN, &now_us);
    struct findings findings = {.errors = 0};
    struct sluice_stats stats;

    (void)state;
    check_key(limiter, "a", 4);
    assert_int_equal(reload(limiter, WRONG, &findings), SLUICE_EPOLICY);
    assert_int_equal(findings.errors, 2);
    assert_non_null(strstr(findings.text, "new.yaml:3:"));
    assert_int_equal(reload(limiter, "", NULL), SLUICE_EPOLICY);
    assert_int_equal(sluice_reload_file(limiter, "/nowhere/policy.yaml", NULL, NULL), SLUICE_EPOLICY);
    assert_int_equal(check_key(limiter, "a", 0).remaining, 6);
    assert_int_equal(reload(limiter, "version: 1\nlimits:\n  - {name: ten, rate: 10/m, burst: 20}\n", NULL), 0);
    struct sluice_verdict verdict = check_key(limiter, "a", 0);

    assert_int_equal(verdict.limit, 20);
    assert_int_equal(verdict.remaining, 16); /* the debt of 4 stays */
    assert_int_equal(sluice_stats(limiter, &stats, sizeof stats), 0);
    assert_int_equal(stats.reloads, 1);
    sluice_close(&limiter);
}

#define DIVIDED(count) \
    "version: 1\nlimits: [{name: a, rate: " count "/m, on_store_failure: local, regions: {eu: 60%, us: 40%}}]\n"

static void a_region_has_its_share_also_after_a_reload(void **state)
{
    static const char next[] = DIVIDED("200");
    uint64_t now_us = T0_US;
    struct sluice_options options = options_for(DIVIDED("100"), &now_us);
    char region[] = "us", why[SLUICE_WHY_MAX];
    struct sluice *limiter;

    (void)state;
    options.region = region;
    assert_int_equal(sluice_open(&options, &limiter, why, sizeof why), 0);
    memset(region, 'x', 2); /* it was copied */
    assert_int_equal(check_key(limiter, "k", 40).limit, 40);
    assert_false(check_key(limiter, "k", 1).allowed);
    assert_int_equal(sluice_reload_text(limiter, next, strlen(next), NULL, NULL, NULL), 0);
    assert_int_equal(check_key(limiter, "k", 0).limit, 80);
    sluice_close(&limiter);
}

static void a_file_is_read_anew(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice_options options = options_for(TEN, &now_us);
    struct sluice *limiter;
    char *path = temporary_path();
    FILE *file = fopen(path, "w");

    (void)state;
    fputs(TEN, file);
    fclose(file);
    options.policy_text = NULL;
    options.policy_text_len = 0;
    options.policy_file = path;
    assert_int_equal(sluice_open(&options, &limiter, NULL, 0), 0);
    assert_int_equal(check_key(limiter, "a", 1).limit, 10);
    file = fopen(path, "w");
    fputs("version: 1\nlimits:\n  - {name: ten, rate: 30/m}\n", file);
    fclose(file);
    assert_int_equal(sluice_reload_file(limiter, path, NULL, NULL), 0);
    assert_int_equal(check_key(limiter, "a", 1).limit, 30);
    sluice_close(&limiter);
    remove_path(path);
}

struct log {
    unsigned n[3];
};

static void count_messages(void *ctx, int level, const char *message)
{
    struct log *log = ctx;

    assert_in_range(level, SLUICE_LOG_ERROR, SLUICE_LOG_INFO);
    assert_null(strchr(message, '\n'));
    log->n[level]++;
}

/* A limit that another with the same matcher hides is only warned about. */
#define ODD                                          \
    "version: 1\nlimits:\n"                          \
    "  - {name: tiered, tier: nowhere, rate: 1/s}\n" \
    "  - {name: ten, rate: 10/m, lease: {block: 5}}\n"

static void warnings_go_to_the_callback_or_to_the_log(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice_options options = options_for(ODD, &now_us);
    struct sluice *limiter;
    struct log log = {{0}};
    struct findings findings = {.errors = 0};

    (void)state;
    options.log = count_messages;
    options.log_ctx = &log;
    assert_int_equal(sluice_open(&options, &limiter, NULL, 0), 0);
    unsigned warnings = log.n[SLUICE_LOG_WARNING];

    assert_true(warnings > 0);
    assert_int_equal(log.n[SLUICE_LOG_INFO], 1);
    assert_int_equal(reload(limiter, ODD, &findings), 0);
    assert_int_equal(findings.warnings, warnings);
    assert_int_equal(log.n[SLUICE_LOG_WARNING], warnings);
    assert_int_equal(log.n[SLUICE_LOG_INFO], 2);
    assert_int_equal(log.n[SLUICE_LOG_ERROR], 0);
    sluice_close(&limiter);
}

static void sum_up(void *ctx, const struct sluice_bucket *bucket)
{
    int64_t *left = ctx;

    assert_string_equal(bucket->policy, "ten");
    assert_string_equal(bucket->endpoint, "");
    assert_int_equal(bucket->limit, 10);
    assert_int_equal(bucket->period_ms, 60000);
    assert_false(bucket->dry_run);
    assert_int_equal(bucket->reset_after_ms, (10 - bucket->remaining) * 6000);
    *left += bucket->remaining;
}

static void buckets_are_shown_and_reset(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice *limiter = open_for(TEN, &now_us);
    struct sluice_request request = request_of("a", 1), bad = request_of("", 1);
    int64_t left = 0;
    size_t n = 99;

    (void)state;
    assert_int_equal(sluice_inspect(limiter, &request, sum_up, &left, &n), 0);
    assert_int_equal(n, 0);
    check_key(limiter, "a", 3);
    assert_int_equal(sluice_inspect(limiter, &request, sum_up, &left, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(left, 7);
    n = 0;
    assert_int_equal(sluice_inspect(limiter, &request, NULL, NULL, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(sluice_inspect(limiter, &bad, sum_up, &left, &n), SLUICE_EINVALID);
    assert_int_equal(sluice_reset(limiter, &bad, &n), SLUICE_EINVALID);
    assert_int_equal(n, 1);
    assert_int_equal(sluice_reset(limiter, &request, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(sluice_reset(limiter, &request, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(check_key(limiter, "a", 0).remaining, 10);
    sluice_close(&limiter);
}

static void find_ten(void *ctx, const struct sluice_limit_count *count)
{
    if (strcmp(count->policy, "ten") == 0)
        *(struct sluice_limit_count *)ctx = *count;
}

static void decisions_are_counted(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice *limiter = open_for(TEN, &now_us);
    struct sluice_stats stats;
    struct sluice_limit_count ten = {.decided_allowed = 0};

    (void)state;
    for (int i = 0; i < 14; i++)
        check_key(limiter, "a", 1);
    assert_int_equal(sluice_stats(limiter, &stats, sizeof stats), 0);
    assert_int_equal(stats.allowed, 10);
    assert_int_equal(stats.rejected, 4);
    assert_int_equal(stats.unmatched, 0);
    assert_int_equal(stats.table_live, 1);
    assert_true(stats.table_slots >= 1000);
    assert_true(stats.table_bytes >= stats.table_slots * 16);
    assert_int_equal(sluice_limit_counts(limiter, find_ten, &ten), 0);
    assert_int_equal(ten.decided_allowed, 10);
    assert_int_equal(ten.checks_rejected, 4);

    memset(&stats, 0xA5, sizeof stats); /* a program with a shorter struct */
    assert_int_equal(sluice_stats(limiter, &stats, 2 * sizeof(uint64_t)), 0);
    assert_int_equal(stats.rejected, 4);
    assert_int_equal(stats.unmatched, UINT64_C(0xA5A5A5A5A5A5A5A5));
    assert_int_equal(sluice_stats(limiter, &stats, 0), SLUICE_EINVALID);
    sluice_close(&limiter);
}

static void a_table_file_outlives_the_limiter(void **state)
{
    uint64_t now_us = T0_US;
    char *path = temporary_path(), why[SLUICE_WHY_MAX];
    struct sluice_options options = options_for(TEN, &now_us);
    struct sluice *limiter, *second;

    (void)state;
    options.table_path = path;
    assert_int_equal(sluice_open(&options, &limiter, NULL, 0), 0);
    check_key(limiter, "a", 4);
    sluice_close(&limiter);
    assert_int_equal(sluice_open(&options, &limiter, NULL, 0), 0);
    assert_int_equal(check_key(limiter, "a", 1).remaining, 5);
    assert_int_equal(sluice_open(&options, &second, NULL, 0), 0);
    assert_int_equal(check_key(second, "a", 1).remaining, 4); /* they count together */
    sluice_close(&second);
    sluice_close(&limiter);

    FILE *file = fopen(path, "w");

    fputs("something else, and long enough to be looked at", file);
    fclose(file);
    assert_int_equal(sluice_open(&options, &limiter, why, sizeof why), SLUICE_EFORMAT);
    assert_non_null(strstr(why, path));
    remove_path(path);
}

static void limiters_share_nothing_else(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice *x = open_for(TEN, &now_us), *y = open_for(TEN, &now_us);

    (void)state;
    check_key(x, "a", 10);
    assert_int_equal(check_key(y, "a", 0).remaining, 10);
    sluice_close(&x);
    assert_int_equal(check_key(y, "a", 1).remaining, 9);
    sluice_close(&y);
}

/* Lets allocation 1, 2, 3 ... and all after it fail. */
static void every_failed_allocation_is_a_clean_error(void **state)
{
    uint64_t now_us = T0_US, n = 0;
    struct allocator allocator = {.outstanding = 0};
    struct sluice_options options = options_for(TEN, &now_us);
    struct sluice *limiter;
    int err;

    (void)state;
    options.realloc = counting_realloc;
    options.realloc_ctx = &allocator;
    do {
        allocator.calls = 0;
        allocator.fail_at = ++n;
        err = sluice_open(&options, &limiter, NULL, 0);
        assert_true(err == 0 || err == SLUICE_ENOMEM);
        assert_true(err == 0 || allocator.outstanding == 0);
    } while (err != 0 && n < 100000);
    assert_int_equal(err, 0);
    assert_true(n > 5);

    check_key(limiter, "a", 4);
    n = 0;
    do {
        int64_t before = allocator.outstanding;

        allocator.calls = 0;
        allocator.fail_at = ++n;
        err = reload(limiter, "version: 1\nlimits:\n  - {name: ten, rate: 10/m, burst: 20}\n", NULL);
        assert_true(err == 0 || err == SLUICE_ENOMEM);
        assert_true(err == 0 || allocator.outstanding == before);
        assert_int_equal(check_key(limiter, "a", 0).remaining, err == 0 ? 16 : 6);
    } while (err != 0 && n < 100000);
    assert_int_equal(err, 0);

    allocator.calls = 0;
    allocator.fail_at = 1;
    assert_int_equal(check_key(limiter, "a", 1).remaining, 15); /* deciding allocates nothing */
    assert_int_equal(allocator.calls, 0);
    assert_int_equal(sluice_limit_counts(limiter, find_ten, NULL), SLUICE_ENOMEM);
    sluice_close(&limiter);
    assert_int_equal(allocator.outstanding, 0);
}

/* The most keys are more than a log can have entries: the default is what it can have. It is told by what fails next. */
static void the_largest_table_is_no_bad_option(void **state)
{
    uint64_t now_us = T0_US;
    struct allocator allocator = {.fail_at = 1};
    struct sluice_options options = options_for(TEN, &now_us);

    (void)state;
    options.realloc = counting_realloc;
    options.realloc_ctx = &allocator;
    options.table_keys = UINT64_C(1) << 32;
    assert_int_equal(sluice_open(&options, NULL, NULL, 0), SLUICE_ENOMEM);
    options.table_keys++;
    assert_int_equal(sluice_open(&options, NULL, NULL, 0), SLUICE_EINVALID);
}

static void codes_and_names_have_texts(void **state)
{
    (void)state;
    for (int code = SLUICE_EUNSUPPORTED; code <= SLUICE_OK; code++)
        assert_true(strlen(sluice_error_text(code)) > 0 && strcmp(sluice_error_text(code), "unknown error") != 0);
    assert_string_equal(sluice_error_text(-1000), "unknown error");
    assert_string_equal(sluice_source_name(SLUICE_LOCAL), "local");
    assert_string_equal(sluice_source_name(SLUICE_SHARED), "shared");
    assert_string_equal(sluice_source_name(SLUICE_DEGRADED), "degraded");
    assert_string_equal(sluice_source_name(3), "");
    assert_string_equal(sluice_source_name(-1), "");
    assert_string_equal(sluice_reason_name(SLUICE_REASON_NONE), "");
    assert_string_equal(sluice_reason_name(SLUICE_REASON_RATE_LIMITED), "rate_limited");
    assert_string_equal(sluice_reason_name(SLUICE_REASON_COST_EXCEEDS_LIMIT), "cost_exceeds_limit");
    assert_string_equal(sluice_reason_name(SLUICE_REASON_STORE_UNAVAILABLE), "store_unavailable");
    assert_string_equal(sluice_reason_name(SLUICE_REASON_BLOCKED), "blocked");
    assert_string_equal(sluice_reason_name(SLUICE_REASON_UNMATCHED), "unmatched");
    assert_string_equal(sluice_reason_name(6), "");
    assert_string_equal(sluice_reason_name(-1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_zero),
        cmocka_unit_test(bad_options_are_refused_with_a_reason),
        cmocka_unit_test(options_may_be_shorter_or_longer),
        cmocka_unit_test(a_wrong_policy_is_refused_with_all_findings),
        cmocka_unit_test(a_reason_is_cut_to_its_buffer),
        cmocka_unit_test(a_check_decides_and_the_clock_is_the_callers),
        cmocka_unit_test(a_bad_request_is_explained),
        cmocka_unit_test(a_batch_is_decided_in_order_or_not_at_all),
        cmocka_unit_test(a_reload_is_whole_or_not_at_all),
        cmocka_unit_test(a_region_has_its_share_also_after_a_reload),
        cmocka_unit_test(a_file_is_read_anew),
        cmocka_unit_test(warnings_go_to_the_callback_or_to_the_log),
        cmocka_unit_test(buckets_are_shown_and_reset),
        cmocka_unit_test(decisions_are_counted),
        cmocka_unit_test(a_table_file_outlives_the_limiter),
        cmocka_unit_test(limiters_share_nothing_else),
        cmocka_unit_test(every_failed_allocation_is_a_clean_error),
        cmocka_unit_test(the_largest_table_is_no_bad_option),
        cmocka_unit_test(codes_and_names_have_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
