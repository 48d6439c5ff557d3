#include "store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned spaces;
static char space[16] = "t0";

static void point_at_server(struct store *store)
{
    char next[128];

    snprintf(next, sizeof next, "%s.next", store->link);
    assert_int_equal(symlink(store->server.socket, next), 0);
    assert_int_equal(rename(next, store->link), 0);
}

void store_open(struct store *store)
{
    char *path = temporary_path();

    memset(store, 0, sizeof *store);
    snprintf(store->link, sizeof store->link, "%s", path);
    snprintf(store->url, sizeof store->url, "redis+unix://%s", path);
    free(path);
    store_start(store);
}

void store_start(struct store *store)
{
    store->server = redis_start(NULL);
    store->runs = true;
    point_at_server(store);
}

void store_stop(struct store *store)
{
    if (store->runs)
        redis_stop(&store->server);
    store->runs = false;
}

void store_freeze(struct store *store)
{
    assert_int_equal(kill(store->server.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(store->server.pid, NULL, WUNTRACED), store->server.pid);
}

void store_thaw(struct store *store)
{
    assert_int_equal(kill(store->server.pid, SIGCONT), 0);
}

void store_close(struct store *store)
{
    store_stop(store);
    unlink(store->link);
}

void next_namespace(void)
{
    snprintf(space, sizeof space, "t%u", ++spaces);
}

struct sluice_options shared_options(const struct store *store, const char *yaml)
{
    struct sluice_options options = sluice_options_default();

    options.policy_text = yaml;
    options.policy_text_len = strlen(yaml);
    options.policy_name = "test.yaml";
    options.table_keys = 1000;
    options.store = store->url;
    options.store_namespace = space;
    options.timeout_us = PATIENT_US;
    options.store_wait_ms = 20000;
    return options;
}

struct sluice *open_with(const struct sluice_options *options)
{
    struct sluice *limiter = NULL;
    char why[SLUICE_WHY_MAX];

    if (sluice_open(options, &limiter, why, sizeof why) != 0)
        fail_msg("%s", why);
    return limiter;
}

struct sluice *open_shared(const struct store *store, const char *yaml)
{
    struct sluice_options options = shared_options(store, yaml);

    return open_with(&options);
}

struct sluice_stats stats_of(struct sluice *limiter)
{
    struct sluice_stats stats;

    assert_int_equal(sluice_stats(limiter, &stats, sizeof stats), 0);
    return stats;
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

void wait_reached(struct sluice *limiter, bool reached)
{
    for (int i = 0; i < 20000 && stats_of(limiter).store_reached != reached; i++)
        pause_us(1000);
    assert_int_equal(stats_of(limiter).store_reached, reached);
}

void later_done(void *ctx)
{
    atomic_fetch_add(&((struct later *)ctx)->done, 1);
}

void begin_later(struct sluice *limiter, const char *key, struct later *later)
{
    struct sluice_request request = request_of(key, 1);

    atomic_init(&later->done, 0);
    later->result = sluice_check_async(limiter, &request, &later->verdict, later_done, later);
    assert_true(later->result == SLUICE_OK || later->result == SLUICE_PENDING);
}

void wait_later(struct later *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned want = list[i].result == SLUICE_PENDING;

        for (int k = 0; k < 100000 && atomic_load(&list[i].done) < want; k++)
            pause_us(200);
        assert_int_equal(atomic_load(&list[i].done), want);
    }
}
