/* A server whose /auth answers when it is told to, for test_later.py.
 *
 *     later_server [name=value...]      write_ms=, idle_ms=, header_ms=, request_ms=, out_bytes=, cert=, key=
 *
 * prints "public ADDRESS" and "admin ADDRESS", then "ready"; stops at "stop MS" on its standard input,
 * prints "stopped drained" or "stopped cut", and ends at the end of input. Any method, on the public listener:
 *
 *     /auth/now/TEXT             answers TEXT at once
 *     /auth/hold/NAME[/SIZE]     answers NAME, or SIZE times its first letter, once it is released
 *     /auth/after/MS/TEXT        answers TEXT after that time
 *     /auth/release/NAME         releases all held under NAME, from a callback of the loop
 *     /auth/held                 how many are held now
 *     /auth/sends                how often send(2) was called so far */
#include "../limiter/kit.h"

#include "server/route.h"
#include "server/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_LEN 64
#define SIZE_LIMIT (1u << 20)

struct held {
    struct held *next;
    struct sl_http_later *later;
    uv_timer_t timer; /* of `after` and `release` */
    char name[NAME_MAX_LEN];
    size_t size;
};

static struct held *all_held; /* the one public loop's */
static atomic_ulong n_sends;

ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
sl_handler __wrap_sl_handle_auth;

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    atomic_fetch_add(&n_sends, 1);
    return __real_send(fd, data, len, flags);
}

static void say(struct sl_http_response *response, const char *text, size_t size)
{
    response->content_type = "text/plain";
    if (!size)
        sl_buf_text(&response->body, text);
    for (size_t i = 0; i < size; i++)
        sl_buf_add(&response->body, text, 1);
}

static void answer(struct held *held)
{
    say(sl_http_later_begin(held->later), held->name, held->size);
    sl_http_later_send(held->later);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_after(uv_timer_t *timer)
{
    answer(timer->data);
    uv_close((uv_handle_t *)timer, on_closed);
}

static void on_release(uv_timer_t *timer)
{
    struct held *order = timer->data, *released = NULL;

    for (struct held **at = &all_held, *held; (held = *at);) {
        if (strcmp(held->name, order->name) != 0) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        held->next = released; /* the oldest comes first again */
        released = held;
    }
    for (struct held *next; released; released = next) {
        next = released->next;
        answer(released);
        free(released);
    }
    uv_close((uv_handle_t *)timer, on_closed);
}

static struct held *new_held(const char *name)
{
    struct held *held = calloc(1, sizeof *held);

    if (!held)
        abort();
    snprintf(held->name, sizeof held->name, "%.*s", (int)sizeof held->name - 1, name);
    return held;
}

static void start_timer(struct sl_service *service, struct held *held, uv_timer_cb callback, unsigned ms)
{
    struct sl_worker *worker = (struct sl_worker *)((char *)service - offsetof(struct sl_worker, service));

    uv_timer_init(&worker->loop, &held->timer);
    held->timer.data = held;
    uv_timer_start(&held->timer, callback, ms, 0);
}

static void hold(struct sl_call *call, const char *name, size_t size)
{
    struct held *held = new_held(name);

    held->size = size;
    held->later = sl_call_later(call, size ? size : strlen(name));
    if (!held->later)
        abort();
    held->next = all_held;
    all_held = held;
}

static void answer_after(struct sl_call *call, unsigned ms, const char *text)
{
    struct held *held = new_held(text);

    held->later = sl_call_later(call, strlen(text));
    if (!held->later)
        abort();
    start_timer(call->service, held, on_after, ms);
}

static void say_number(struct sl_http_response *response, size_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%zu", n);
    say(response, text, 0);
}

/* What follows the prefix; NULL when the text begins otherwise. */
static char *behind(char *text, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

/* Cuts the text at its first slash; returns what follows, "" when there is none. */
static char *cut(char *text)
{
    char *slash = strchr(text, '/');

    if (!slash)
        return text + strlen(text);
    *slash = '\0';
    return slash + 1;
}

static size_t count_held(void)
{
    size_t n = 0;

    for (struct held *held = all_held; held; held = held->next)
        n++;
    return n;
}

void __wrap_sl_handle_auth(struct sl_call *call, const struct sl_http_request *request,
                           struct sl_http_response *response)
{
    char path[256], *name, *rest;

    (void)request;
    snprintf(path, sizeof path, "%.*s", (int)call->path.len, call->path.text);
    if ((name = behind(path, "/auth/now/"))) {
        say(response, name, 0);
    } else if ((name = behind(path, "/auth/hold/"))) {
        rest = cut(name);
        hold(call, name, strtoul(rest, NULL, 10) % SIZE_LIMIT);
    } else if ((name = behind(path, "/auth/after/"))) {
        rest = cut(name);
        answer_after(call, (unsigned)strtoul(name, NULL, 10), rest);
    } else if ((name = behind(path, "/auth/release/"))) {
        start_timer(call->service, new_held(name), on_release, 0);
        say(response, "released", 0);
    } else {
        say_number(response, strcmp(path, "/auth/sends") == 0 ? atomic_load(&n_sends) : count_held());
    }
}

static void stopped(void *ctx, bool drained)
{
    (void)ctx;
    printf("stopped %s\n", drained ? "drained" : "cut");
    fflush(stdout);
}

static void read_argument(struct sl_server_options *options, char *argument)
{
    char *value = strchr(argument, '=');
    const struct {
        const char *name;
        unsigned *to;
    } numbers[] = {{"idle_ms", &options->limits.idle_timeout_ms},
                   {"header_ms", &options->limits.header_timeout_ms},
                   {"request_ms", &options->limits.request_timeout_ms},
                   {"write_ms", &options->limits.write_timeout_ms},
                   {"out_bytes", &options->limits.out_bytes}};

    if (!value)
        abort();
    *value++ = '\0';
    if (!strcmp(argument, "cert"))
        options->tls_cert = value;
    if (!strcmp(argument, "key"))
        options->tls_key = value;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(argument, numbers[i].name))
            *numbers[i].to = (unsigned)strtoul(value, NULL, 10);
}

int main(int argc, char **argv)
{
    struct sl_server_options options = sl_server_defaults();
    const char *listen[] = {"127.0.0.1:0"}, *admin[] = {"127.0.0.1:0"};
    struct sl_server *server = NULL;
    struct kit kit;
    char why[256], line[64], *ms;

    for (int i = 1; i < argc; i++)
        read_argument(&options, argv[i]);
    options.listen = listen;
    options.admin = admin;
    options.n_listen = options.n_admin = 1;
    options.hooks.stopped = stopped;
    kit_open(&kit, "limits: [{name: all, rate: 10/s}]\n");
    if (sl_server_new(&options, kit.limiter, &server, why, sizeof why) || sl_server_start(server, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        return 2;
    }
    printf("public %s\nadmin %s\nready\n", sl_server_address(server, false, 0), sl_server_address(server, true, 0));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        if ((ms = behind(line, "stop ")))
            sl_server_stop(server, strtoul(ms, NULL, 10));
    sl_server_free(&server);
    kit_close(&kit);
    return 0;
}
