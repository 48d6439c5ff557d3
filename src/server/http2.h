/* HTTP/2 (RFC 9113) by nghttp2: bytes to requests, responses to bytes. No I/O. nghttp2 is spoken to from http2.c alone.
 *
 * Bounds: max_streams streams at once, header_bytes of header and body_bytes of body a stream, twice body_bytes of
 * bodies and out_bytes (and one) of answers a connection, those to come included: while more answers than that are not
 * taken, whole requests wait undecided. nghttp2 bounds the header block itself and the acknowledgements a flood can ask for. A client that
 * resets more streams than it lets finish is sent away. */
#ifndef SL_SERVER_HTTP2_H
#define SL_SERVER_HTTP2_H

#include "server/http.h"

#define SL_HTTP2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SL_HTTP2_PREFACE_LEN 24u

struct sl_http2;

/* What the connection lends; borrowed for the session's life. */
struct sl_http2_host {
    void *ctx;
    /* Answers a request. Returns true; or false when sl_http2_answer will, with about how long that answer will be. */
    bool (*handle)(void *ctx, int32_t stream, const struct sl_http_request *request, struct sl_http_response *response,
                   size_t *ret_bytes);
    /* The Date header's value, SL_HTTP_DATE_LEN bytes. */
    const char *(*date)(void *ctx);
    struct sl_http_response *response; /* scratch, cleared before each use */
    unsigned max_streams, header_bytes, body_bytes, out_bytes;
};

/* A session with its SETTINGS queued, or NULL: out of memory. */
struct sl_http2 *sl_http2_new(const struct sl_http2_host *host);
void sl_http2_free(struct sl_http2 *h2); /* accepts NULL */

/* Takes bytes from the client and answers the requests that are complete, while there is room. Returns 0; or a
 * negative code: send what sl_http2_fill still gives, then close. */
int sl_http2_feed(struct sl_http2 *h2, const char *data, size_t len);

/* Appends frames to `out` until it holds `limit` bytes or nothing can go, and answers requests that had to wait.
 * Returns 0, or a negative code: close. */
int sl_http2_fill(struct sl_http2 *h2, struct sl_buf *out, size_t limit);

/* Answers a request whose answer was to come later; not from inside `handle`. Nothing goes out before sl_http2_fill.
 * Returns 0, SL_ENOTFOUND (the stream is gone: nobody waits any more), or SL_ENOMEM: close. */
int sl_http2_answer(struct sl_http2 *h2, int32_t stream, const struct sl_http_response *response);

/* True when the session has come to its end and the connection can be closed once everything is sent. */
bool sl_http2_is_done(struct sl_http2 *h2);

unsigned sl_http2_n_streams(const struct sl_http2 *h2);    /* open streams */
unsigned sl_http2_n_pending(const struct sl_http2 *h2);    /* streams whose answer is to come later */
unsigned sl_http2_n_incomplete(const struct sl_http2 *h2); /* streams whose request has not arrived whole */
uint64_t sl_http2_n_answered(const struct sl_http2 *h2);   /* requests answered since the start */
size_t sl_http2_n_untaken(const struct sl_http2 *h2);      /* bytes of answers that wait for the client's window */
uint64_t sl_http2_n_taken(const struct sl_http2 *h2);      /* bytes of answers put into frames since the start */

/* Asks the client to open no further stream; `final`: those it has opened since are not served either, and the session
 * is done when the open ones are. */
void sl_http2_goaway(struct sl_http2 *h2, bool final);

#endif
