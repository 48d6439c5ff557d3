/* The queue from many threads, towards a webhook that never answers: nobody waits, and all is accounted for. */
#include "notify/notifier.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4
#define EACH 3000u
#define OUTBOX 224u /* of an outbox' 256 places those for warnings */

static const struct sl_message_source source = {.instance = "test"};

struct hook {
    int fd;
    char url[64];
    char said[4096];
};

/* A port where connections are made by the kernel, and get no answer. */
static void listen_silently(struct hook *hook)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;

    hook->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(hook->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(hook->fd, 16), 0);
    assert_int_equal(getsockname(hook->fd, (struct sockaddr *)&address, &len), 0);
    snprintf(hook->url, sizeof hook->url, "http://127.0.0.1:%u/x", ntohs(address.sin_port));
    hook->said[0] = '\0';
}

static void on_say(void *owner, bool bad, const char *line)
{
    struct hook *hook = owner;
    size_t used = strlen(hook->said);

    (void)bad;
    snprintf(hook->said + used, sizeof hook->said - used, "%s\n", line);
}

/* A clock that stands until a test moves it. */
static atomic_uint_fast64_t now_us;

static uint64_t read_clock(void *ctx)
{
    (void)ctx;
    return atomic_load(&now_us);
}

static struct sl_notifier *open_notifier(struct hook *hook, const char *const *url)
{
    static const struct sl_clock clock = {.wall_us = read_clock, .mono_us = read_clock};
    struct sl_notifier_config config = {.urls = url,
                                        .n_urls = 1,
                                        .secret = "sixteen bytes!!!",
                                        .ns = "test",
                                        .say = on_say,
                                        .owner = hook,
                                        .clock = &clock};
    struct sl_notifier *notifier;
    char why[200];

    assert_int_equal(sl_notifier_new(&config, &notifier, why, sizeof why), 0);
    return notifier;
}

static struct sl_hash128 bucket(uint64_t i)
{
    return (struct sl_hash128){.a = i * UINT64_C(0x9E3779B97F4A7C15), .b = i};
}

static void put_warning(struct sl_notifier *notifier, struct sl_hash128 fp)
{
    struct sl_message *message = sl_message_test(&source, 0);

    if (message) {
        message->kind = SL_NOTICE_LIMIT_WARNING;
        message->fp = fp;
        message->window_us = SL_WARNING_WINDOW_US;
    }
    sl_notifier_put(notifier, message, SL_NOTICE_LIMIT_WARNING);
}

struct putter {
    pthread_t thread;
    struct sl_notifier *notifier;
    unsigned put;
};

/* All threads see the same buckets past their marks. */
static void *put_many(void *ctx)
{
    struct putter *putter = ctx;

    for (uint64_t i = 0; i < EACH; i++) {
        if (!sl_notifier_wants(putter->notifier, bucket(i), SL_WARNING_WINDOW_US))
            continue;
        put_warning(putter->notifier, bucket(i));
        putter->put++;
    }
    return NULL;
}

static uint64_t dropped(struct sl_notice_counts *counts)
{
    return atomic_load(&counts->n[SL_NOTICE_LIMIT_WARNING][SL_NOTICE_DROPPED]);
}

static void what_is_put_is_kept_or_dropped_and_counted(void **state)
{
    struct hook hook;
    struct putter putters[THREADS];
    const char *url = hook.url;
    struct sl_notifier *notifier;
    struct sl_notice_counts *counts;
    unsigned put = 0;

    (void)state;
    listen_silently(&hook);
    notifier = open_notifier(&hook, &url);
    counts = sl_notifier_counts(notifier);
    for (unsigned i = 0; i < THREADS; i++) {
        putters[i] = (struct putter){.notifier = notifier};
        assert_int_equal(pthread_create(&putters[i].thread, NULL, put_many, &putters[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(putters[i].thread, NULL);
        put += putters[i].put;
    }
    assert_true(put > OUTBOX);
    while (atomic_load(&counts->queued) > OUTBOX) /* until everything has been looked at */
        usleep(1000);
    assert_int_equal(atomic_load(&counts->queued), OUTBOX);
    assert_true(dropped(counts) >= put - OUTBOX);
    sl_notifier_free(notifier, 50);
    assert_non_null(strstr(hook.said, "224 notifications were not delivered before the end"));
    close(hook.fd);
}

/* A window that was used up by a notification nobody got would be an hour of silence. */
static void what_found_no_room_may_be_told_later(void **state)
{
    struct hook hook;
    const char *url = hook.url;
    struct sl_notifier *notifier;
    struct sl_notice_counts *counts;

    (void)state;
    atomic_store(&now_us, UINT64_C(1000000000));
    listen_silently(&hook);
    notifier = open_notifier(&hook, &url);
    counts = sl_notifier_counts(notifier);
    for (uint64_t i = 0; i <= OUTBOX; i++) {
        assert_true(sl_notifier_wants(notifier, bucket(i), SL_WARNING_WINDOW_US));
        put_warning(notifier, bucket(i));
    }
    while (dropped(counts) == 0) /* the last one */
        usleep(1000);
    assert_false(sl_notifier_wants(notifier, bucket(OUTBOX), SL_WARNING_WINDOW_US));
    atomic_fetch_add(&now_us, SL_NOTIFIER_AGAIN_US);
    assert_true(sl_notifier_wants(notifier, bucket(OUTBOX), SL_WARNING_WINDOW_US));
    assert_false(sl_notifier_wants(notifier, bucket(0), SL_WARNING_WINDOW_US));
    atomic_fetch_add(&now_us, SL_WARNING_WINDOW_US);
    assert_true(sl_notifier_wants(notifier, bucket(0), SL_WARNING_WINDOW_US));
    sl_notifier_free(notifier, 0);
    close(hook.fd);
}

static void one_that_has_nothing_to_do_ends_at_once(void **state)
{
    struct hook hook;
    const char *url = hook.url;

    (void)state;
    listen_silently(&hook);
    sl_notifier_free(open_notifier(&hook, &url), 3600000);
    assert_string_equal(hook.said, "");
    close(hook.fd);
}

static void a_message_without_memory_is_a_drop(void **state)
{
    struct hook hook;
    const char *url = hook.url;
    struct sl_notifier *notifier;

    (void)state;
    listen_silently(&hook);
    notifier = open_notifier(&hook, &url);
    sl_notifier_put(notifier, NULL, SL_NOTICE_ALARM);
    assert_int_equal(atomic_load(&sl_notifier_counts(notifier)->n[SL_NOTICE_ALARM][SL_NOTICE_DROPPED]), 1);
    sl_notifier_free(notifier, 0);
    close(hook.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_kept_or_dropped_and_counted),
        cmocka_unit_test(what_found_no_room_may_be_told_later),
        cmocka_unit_test(one_that_has_nothing_to_do_ends_at_once),
        cmocka_unit_test(a_message_without_memory_is_a_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
