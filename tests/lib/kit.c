#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t read_clock(void *ctx)
{
    return __atomic_load_n((const uint64_t *)ctx, __ATOMIC_RELAXED);
}

struct sluice_options options_for(const char *yaml, const uint64_t *now_us)
{
    struct sluice_options options = sluice_options_default();

    options.policy_text = yaml;
    options.policy_text_len = strlen(yaml);
    options.policy_name = "test.yaml";
    options.table_keys = 1000;
    options.wall_us = options.mono_us = read_clock;
    options.clock_ctx = (void *)(uintptr_t)now_us;
    return options;
}

struct sluice *open_for(const char *yaml, const uint64_t *now_us)
{
    struct sluice_options options = options_for(yaml, now_us);
    struct sluice *limiter;
    char why[SLUICE_WHY_MAX];

    if (sluice_open(&options, &limiter, why, sizeof why) != 0)
        fail_msg("%s", why);
    return limiter;
}

struct sluice_request request_of(const char *key, int64_t cost)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;

    request.key = key;
    request.key_len = strlen(key);
    request.cost = cost;
    return request;
}

struct sluice_verdict check_key(struct sluice *limiter, const char *key, int64_t cost)
{
    struct sluice_request request = request_of(key, cost);
    struct sluice_verdict verdict;

    assert_int_equal(sluice_check(limiter, &request, &verdict), 0);
    return verdict;
}

char *temporary_path(void)
{
    const char *dir = getenv("TMPDIR");
    char *path;

    assert_true(asprintf(&path, "%s/sluice-table-XXXXXX", dir ? dir : "/tmp") > 0);
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    return path;
}

void remove_path(char *path)
{
    unlink(path);
    free(path);
}

void *counting_realloc(void *ctx, void *p, size_t size)
{
    struct allocator *a = ctx;

    if (size == 0) {
        __atomic_sub_fetch(&a->outstanding, p != NULL, __ATOMIC_RELAXED);
        free(p);
        return NULL;
    }
    if (__atomic_add_fetch(&a->calls, 1, __ATOMIC_RELAXED) >= a->fail_at && a->fail_at != 0)
        return NULL;
    void *q = realloc(p, size);

    if (q && !p)
        __atomic_add_fetch(&a->outstanding, 1, __ATOMIC_RELAXED);
    return q;
}
