#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One connection to the puppet; they form a list. */
struct strings {
    uv_pipe_t pipe;
    struct puppet *puppet;
    struct strings *next;
    size_t len;
    char bytes[65536];
};

int puppet_politely(const char *command, char *reply, size_t size)
{
    if (strstr(command, "EVALSHA"))
        return snprintf(reply, size, ":7\r\n");
    if (strstr(command, "\r\nCOMMAND\r\n"))
        return snprintf(reply, size, "*1\r\n*-1\r\n");
    if (strstr(command, "\r\nPING\r\n"))
        return snprintf(reply, size, "+PONG\r\n");
    return snprintf(reply, size, "+OK\r\n");
}

static void on_closed(uv_handle_t *handle)
{
    struct strings *s = handle->data;

    s->puppet->n_open--;
    free(s);
}

static void hang_up(struct strings *s)
{
    struct strings **at = &s->puppet->strings;

    if (uv_is_closing((uv_handle_t *)&s->pipe))
        return;
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
    uv_close((uv_handle_t *)&s->pipe, on_closed);
}

/* Length of the first whole command (an array of strings), 0 when there is none yet. */
static size_t command_length(const char *bytes, size_t len)
{
    const char *at = bytes, *end = bytes + len;
    long n = strtol(at + 1, NULL, 10);

    for (long i = -1; i < n; i++) {
        const char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
        long word = i < 0 ? 0 : strtol(at + 1, NULL, 10) + 2;

        if (!line_end || word > end - line_end - 2)
            return 0;
        at = line_end + 2 + word;
    }
    return (size_t)(at - bytes);
}

static void answer(struct strings *s, size_t len)
{
    struct puppet *puppet = s->puppet;
    char *command = calloc(1, len + 1), *reply = malloc(65536);
    uv_buf_t buf;
    int n;

    memcpy(command, s->bytes, len);
    memmove(s->bytes, s->bytes + len, s->len - len);
    s->len -= len;
    puppet->received += strstr(command, "EVALSHA") != NULL;
    n = puppet->speak ? puppet->speak(puppet, command, reply, 65536) : puppet_politely(command, reply, 65536);
    buf = uv_buf_init(reply, n > 0 ? (unsigned)n : 0);
    if (n > 0)
        uv_try_write((uv_stream_t *)&s->pipe, &buf, 1);
    if (n < 0)
        hang_up(s);
    free(command);
    free(reply);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct strings *s = handle->data;

    (void)suggested;
    *ret_buf = uv_buf_init(s->bytes + s->len, (unsigned)(sizeof s->bytes - s->len - 1));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct strings *s = stream->data;
    size_t len;

    (void)buf;
    if (n < 0) {
        hang_up(s);
        return;
    }
    s->len += (size_t)n;
    s->bytes[s->len] = '\0';
    while (s->len && !uv_is_closing((uv_handle_t *)&s->pipe) && (len = command_length(s->bytes, s->len)))
        answer(s, len);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct puppet *puppet = listener->data;
    struct strings *s;

    if (status)
        return;
    s = calloc(1, sizeof *s);
    s->puppet = puppet;
    uv_pipe_init(&puppet->rig->loop, &s->pipe, 0);
    s->pipe.data = s;
    puppet->n_open++;
    puppet->accepted++;
    s->next = puppet->strings;
    puppet->strings = s;
    if (uv_accept(listener, (uv_stream_t *)&s->pipe) || uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read))
        hang_up(s);
}

void puppet_start(struct puppet *puppet, struct rig *rig, const char *path)
{
    unlink(path);
    puppet->rig = rig;
    snprintf(puppet->path, sizeof puppet->path, "%s", path);
    assert_int_equal(uv_pipe_init(&rig->loop, &puppet->listener, 0), 0);
    puppet->listener.data = puppet;
    assert_int_equal(uv_pipe_bind(&puppet->listener, path), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&puppet->listener, 128, on_connection), 0);
    puppet->listening = true;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct puppet *puppet = handle->data;

    puppet->listening = false;
}

void puppet_stop(struct puppet *puppet)
{
    uv_close((uv_handle_t *)&puppet->listener, on_listener_closed);
    while (puppet->strings)
        hang_up(puppet->strings);
    while (puppet->listening || puppet->n_open)
        uv_run(&puppet->rig->loop, UV_RUN_ONCE);
    unlink(puppet->path);
}
