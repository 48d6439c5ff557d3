#include "notify/post.h"

#include "base/err.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MAX 65536u /* of an answer's body, which nobody reads, so much is waited for */
#define SPARE_CONNECTIONS 16L

struct transfer {
    struct transfer *next, **at; /* in `open` */
    struct sl_poster *poster;
    CURL *easy;
    struct curl_slist *headers;
    size_t answered; /* bytes of the body */
    sl_post_done *done;
    void *ctx;
    char error[CURL_ERROR_SIZE];
};

struct sl_poster {
    uv_loop_t *loop;
    const char *ca_file;
    CURLM *multi;
    uv_timer_t timer;
    struct transfer *open;
};

/* ---- libcurl's sockets and timer on the loop */

static void finish_all(struct sl_poster *poster);

static void on_socket_ready(uv_poll_t *poll, int status, int events)
{
    struct sl_poster *poster = poll->data;
    uv_os_fd_t fd;
    int flags = status < 0 ? CURL_CSELECT_ERR : 0, running;

    flags |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
    flags |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
    if (uv_fileno((uv_handle_t *)poll, &fd))
        return;
    curl_multi_socket_action(poster->multi, fd, flags, &running);
    finish_all(poster);
}

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static int watch(struct sl_poster *poster, uv_poll_t *poll, curl_socket_t fd, int what)
{
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);

    if (!poll) {
        poll = malloc(sizeof *poll);
        if (!poll)
            return -1;
        if (uv_poll_init_socket(poster->loop, poll, fd)) {
            free(poll);
            return -1;
        }
        poll->data = poster;
        curl_multi_assign(poster->multi, fd, poll);
    }
    return uv_poll_start(poll, events, on_socket_ready) ? -1 : 0;
}

/* `what`: CURL_POLL_IN, _OUT, _INOUT or _REMOVE. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
    struct sl_poster *poster = ctx;
    uv_poll_t *poll = socket_ctx;

    (void)easy;
    if (what != CURL_POLL_REMOVE)
        return watch(poster, poll, fd, what);
    if (poll) {
        curl_multi_assign(poster->multi, fd, NULL);
        uv_close((uv_handle_t *)poll, on_poll_closed);
    }
    return 0;
}

static void on_timeout(uv_timer_t *timer)
{
    struct sl_poster *poster = timer->data;
    int running;

    curl_multi_socket_action(poster->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    finish_all(poster);
}

static int on_timer(CURLM *multi, long timeout_ms, void *ctx)
{
    struct sl_poster *poster = ctx;

    (void)multi;
    if (timeout_ms < 0)
        uv_timer_stop(&poster->timer);
    else
        uv_timer_start(&poster->timer, on_timeout, (uint64_t)timeout_ms, 0);
    return 0;
}

/* ---- life */

static void initialise(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

int sl_poster_new(uv_loop_t *loop, const char *ca_file, struct sl_poster **ret_poster)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sl_poster *poster = calloc(1, sizeof *poster);

    pthread_once(&once, initialise);
    if (!poster)
        return SL_ENOMEM;
    poster->multi = curl_multi_init();
    if (!poster->multi || uv_timer_init(loop, &poster->timer)) {
        curl_multi_cleanup(poster->multi);
        free(poster);
        return SL_ENOMEM;
    }
    poster->loop = loop;
    poster->ca_file = ca_file;
    poster->timer.data = poster;
    curl_multi_setopt(poster->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(poster->multi, CURLMOPT_SOCKETDATA, poster);
    curl_multi_setopt(poster->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(poster->multi, CURLMOPT_TIMERDATA, poster);
    curl_multi_setopt(poster->multi, CURLMOPT_MAXCONNECTS, SPARE_CONNECTIONS);
    *ret_poster = poster;
    return 0;
}

static void end(struct transfer *transfer)
{
    *transfer->at = transfer->next;
    if (transfer->next)
        transfer->next->at = transfer->at;
    curl_multi_remove_handle(transfer->poster->multi, transfer->easy);
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    free(transfer);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void sl_poster_free(struct sl_poster *poster)
{
    static const struct sl_posted ended = {.why = "it was ended"};

    if (!poster)
        return;
    for (struct transfer *transfer = poster->open, *next; transfer; transfer = next) {
        sl_post_done *done = transfer->done;
        void *ctx = transfer->ctx;

        next = transfer->next;
        end(transfer);
        done(ctx, &ended);
    }
    curl_multi_cleanup(poster->multi);
    uv_close((uv_handle_t *)&poster->timer, on_timer_closed);
}

/* ---- a request */

static size_t skip_body(char *data, size_t size, size_t n, void *ctx)
{
    struct transfer *transfer = ctx;

    (void)data;
    transfer->answered += size * n;
    return transfer->answered > ANSWER_MAX ? 0 : size * n;
}

static bool add_header(struct transfer *transfer, const char *line)
{
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);

    if (longer)
        transfer->headers = longer;
    return longer != NULL;
}

static bool set_headers(struct transfer *transfer, const struct sl_post *post)
{
    bool good = add_header(transfer, "Expect:"); /* no waiting for a 100 */

    for (unsigned i = 0; i < post->n_headers; i++)
        good = good && add_header(transfer, post->headers[i]);
    return good && !curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers);
}

/* Whatever can fail for want of memory. */
static bool set_texts(struct transfer *transfer, const struct sl_post *post)
{
    CURL *easy = transfer->easy;

    return !curl_easy_setopt(easy, CURLOPT_URL, post->url) &&
           !curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !(transfer->poster->ca_file && curl_easy_setopt(easy, CURLOPT_CAINFO, transfer->poster->ca_file)) &&
           set_headers(transfer, post);
}

static void set_options(struct transfer *transfer, const struct sl_post *post)
{
    CURL *easy = transfer->easy;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* the end does not wait for a resolver */
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)SL_POST_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)SL_POST_CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, skip_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->len);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, post->body);
}

static void link_in(struct sl_poster *poster, struct transfer *transfer)
{
    transfer->next = poster->open;
    transfer->at = &poster->open;
    if (transfer->next)
        transfer->next->at = &transfer->next;
    poster->open = transfer;
}

int sl_poster_post(struct sl_poster *poster, const struct sl_post *post, sl_post_done *done, void *ctx)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);

    if (!transfer)
        return SL_ENOMEM;
    transfer->poster = poster;
    transfer->done = done;
    transfer->ctx = ctx;
    transfer->easy = curl_easy_init();
    link_in(poster, transfer);
    if (transfer->easy && set_texts(transfer, post)) {
        set_options(transfer, post);
        if (curl_multi_add_handle(poster->multi, transfer->easy) == CURLM_OK)
            return 0;
    }
    end(transfer);
    return SL_ENOMEM;
}

/* ---- its end */

static struct sl_posted result_of(const struct transfer *transfer, CURLcode code)
{
    struct sl_posted posted = {.why = ""};
    long status = 0;
    curl_off_t retry_after_s = 0;

    if (code != CURLE_OK && code != CURLE_WRITE_ERROR) { /* the latter: too much of an answer */
        posted.why = transfer->error[0] ? transfer->error : curl_easy_strerror(code);
        return posted;
    }
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    posted.status = (unsigned)status;
    posted.retry_after_s = retry_after_s > 0 ? (uint64_t)retry_after_s : 0;
    return posted;
}

/* Tells of everything that has ended. The callee may begin further ones, but not free the poster. */
static void finish_all(struct sl_poster *poster)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(poster->multi, &left))) {
        struct transfer *transfer = NULL;
        struct sl_posted posted;
        char why[SL_POST_WHY_MAX];
        sl_post_done *done;
        void *ctx;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        posted = result_of(transfer, message->data.result);
        snprintf(why, sizeof why, "%s", posted.why);
        posted.why = why;
        done = transfer->done;
        ctx = transfer->ctx;
        end(transfer);
        done(ctx, &posted);
    }
}
