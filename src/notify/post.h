/* HTTP requests that go out: POST with a body, and nothing of the answer but its status. libcurl is spoken to from post.c
 * and target.c alone; it runs on a libuv loop that is handed in.
 *
 * Redirects are not followed, certificates are checked, and an attempt ends after SL_POST_TIMEOUT_MS. Proxies are those of the
 * environment (https_proxy, no_proxy). Belongs to the loop's thread. */
#ifndef SL_NOTIFY_POST_H
#define SL_NOTIFY_POST_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define SL_POST_TIMEOUT_MS 10000
#define SL_POST_CONNECT_TIMEOUT_MS 5000
#define SL_POST_HEADERS_MAX 8u
#define SL_POST_WHY_MAX 256u

struct sl_poster;

/* ca_file: PEM, whom to trust for https; NULL: the system's. Borrowed. Returns 0 or SL_ENOMEM. */
int sl_poster_new(uv_loop_t *loop, const char *ca_file, struct sl_poster **ret_poster);

/* Ends what is open: there is no answer. Its handles of the loop are closed, and gone when the loop has run until then, as
 * *poster is. Nothing may be posted meanwhile. Accepts NULL. */
void sl_poster_free(struct sl_poster *poster);

struct sl_post {
    const char *url;
    const char *const *headers; /* n lines "Name: value" */
    unsigned n_headers;
    const char *body; /* borrowed until done */
    size_t len;
};

struct sl_posted {
    unsigned status;        /* 0: no answer, and `why` is a clause for people that shows no secret */
    uint64_t retry_after_s; /* 0: none */
    const char *why;
};

typedef void sl_post_done(void *ctx, const struct sl_posted *posted);

/* Returns 0 when done will be called, once and not before this returns; or SL_ENOMEM. */
int sl_poster_post(struct sl_poster *poster, const struct sl_post *post, sl_post_done *done, void *ctx);

#endif
