/* HTTP/2 clients: whatever the bytes and however they are cut, requests within the bounds, each handled once, answered
 * at once or later, and no answer beyond what the client makes room for. The first byte says how the rest is cut, the
 * second which requests are answered later and when. */
#include "server/http2.h"

#include "base/err.h"

#include <stdlib.h>

#define STREAMS_MAX 8u
#define HEADER_BYTES 1024u
#define BODY_BYTES 256u
#define OUT_BYTES 512u
#define ANSWER_BYTES 300u
#define OUT_MAX (1u << 20)
#define HANDLED_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the handler has seen. */
struct seen {
    int32_t handled[HANDLED_MAX], later[STREAMS_MAX];
    unsigned n_handled, n_later;
    unsigned later_mask; /* requests whose number has one of these bits are answered later */
    uint64_t sum;        /* of all bytes of the requests, so that each is read */
};

static void require(int holds)
{
    if (!holds)
        abort();
}

static void read_bytes(struct seen *seen, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        seen->sum += (unsigned char)text[i];
}

static void read_request(struct seen *seen, const struct sl_http_request *request)
{
    require(request->target.len > 0 && request->method_text.len > 0 && request->n_fields <= SL_HTTP_FIELDS_MAX);
    require(request->body_len <= BODY_BYTES);
    read_bytes(seen, request->method_text.text, request->method_text.len);
    read_bytes(seen, request->target.text, request->target.len);
    read_bytes(seen, request->body, request->body_len);
    for (unsigned i = 0; i < request->n_fields; i++) {
        const struct sl_http_field *field = &request->fields[i];

        require(field->name_len > 0 && field->name_len + field->value_len <= HEADER_BYTES);
        read_bytes(seen, request->base + field->name_off, field->name_len);
        read_bytes(seen, request->base + field->value_off, field->value_len);
    }
}

static void write_answer(struct sl_http_response *response, uint64_t sum)
{
    response->content_type = "text/plain";
    sl_http_header_int(response, "X-Sum", (int64_t)sum);
    for (unsigned i = 0; i < ANSWER_BYTES; i++)
        sl_buf_add(&response->body, "a", 1);
}

static bool handle(void *ctx, int32_t stream, const struct sl_http_request *request, struct sl_http_response *response,
                   size_t *ret_bytes)
{
    struct seen *seen = ctx;

    read_request(seen, request);
    for (unsigned i = 0; i < seen->n_handled; i++)
        require(seen->handled[i] != stream);
    require(seen->n_handled < HANDLED_MAX);
    seen->handled[seen->n_handled++] = stream;
    if (seen->n_later < STREAMS_MAX && seen->n_handled & seen->later_mask) {
        seen->later[seen->n_later++] = stream;
        *ret_bytes = ANSWER_BYTES;
        return false;
    }
    write_answer(response, seen->sum);
    return true;
}

static const char *date(void *ctx)
{
    (void)ctx;
    return "Sun, 06 Nov 1994 08:49:37 GMT";
}

static void answer_later(struct sl_http2 *h2, struct seen *seen, struct sl_http_response *response)
{
    while (seen->n_later > 0) {
        int err;

        sl_http_response_clear(response);
        write_answer(response, seen->sum);
        err = sl_http2_answer(h2, seen->later[--seen->n_later], response);
        require(err == 0 || err == SL_ENOTFOUND);
    }
}

static void check_bounds(const struct sl_http2 *h2)
{
    require(sl_http2_n_streams(h2) <= STREAMS_MAX);
    require(sl_http2_n_incomplete(h2) + sl_http2_n_pending(h2) <= sl_http2_n_streams(h2));
    /* Refusals are answered whether or not there is room; they are small. */
    require(sl_http2_n_untaken(h2) <= OUT_BYTES + STREAMS_MAX * ANSWER_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct seen seen;
    struct sl_http_response now, later;
    struct sl_buf out = sl_buf_make(OUT_MAX);
    struct sl_http2_host host = {.ctx = &seen,
                                 .handle = handle,
                                 .date = date,
                                 .response = &now,
                                 .max_streams = STREAMS_MAX,
                                 .header_bytes = HEADER_BYTES,
                                 .body_bytes = BODY_BYTES,
                                 .out_bytes = OUT_BYTES};
    size_t piece = size > 0 && data[0] < 255 ? data[0] + 1u : size + 1;
    unsigned how = size > 1 ? data[1] : 0, turn = 0;
    struct sl_http2 *h2;
    int err = 0;

    if (size > 16384)
        return 0;
    seen = (struct seen){.later_mask = how & 7};
    sl_http_response_init(&now, 4096);
    sl_http_response_init(&later, 4096);
    h2 = sl_http2_new(&host);
    require(h2 != NULL);
    for (size_t at = 2; at < size && err == 0 && !sl_http2_is_done(h2); at += piece) {
        err = sl_http2_feed(h2, (const char *)data + at, size - at < piece ? size - at : piece);
        check_bounds(h2);
        if (how & 8 && ++turn % 4 == 0)
            answer_later(h2, &seen, &later);
        if (sl_http2_fill(h2, &out, out.len + 4096) != 0)
            err = SL_EIO;
        check_bounds(h2);
        if (out.len > OUT_MAX / 2)
            sl_buf_clear(&out);
    }
    if (how & 16)
        sl_http2_goaway(h2, how & 32);
    answer_later(h2, &seen, &later);
    (void)sl_http2_fill(h2, &out, out.len + 4096);
    check_bounds(h2);
    sl_http2_free(h2);
    sl_http_response_fini(&now);
    sl_http_response_fini(&later);
    sl_buf_fini(&out);
    return 0;
}
