#include "http1_reader.h"

#include <stdlib.h>
#include <string.h>

static void add(char *out, size_t *used, const char *text, size_t len)
{
    if (*used + len + 1 > READER_OUT_MAX)
        len = READER_OUT_MAX - 1 - *used;
    memcpy(out + *used, text, len);
    *used += len;
    out[*used] = '\0';
}

static void add_text(char *out, size_t *used, const char *text)
{
    add(out, used, text, strlen(text));
}

static void print_request(const struct sl_http1 *h, char *block, char *out, size_t *used)
{
    struct sl_http_request q;

    sl_http1_request(h, block, &q);
    add(out, used, q.method_text.text, q.method_text.len);
    add_text(out, used, " ");
    add(out, used, q.target.text, q.target.len);
    add_text(out, used, h->keep_alive ? " keep" : " close");
    for (unsigned i = 0; i < q.n_fields; i++) {
        add_text(out, used, " ");
        add(out, used, q.base + q.fields[i].name_off, q.fields[i].name_len);
        add_text(out, used, "=");
        add(out, used, q.base + q.fields[i].value_off, q.fields[i].value_len);
    }
    if (q.body_len) {
        add_text(out, used, " body=");
        add(out, used, q.body, q.body_len);
    }
    add_text(out, used, "\n");
}

struct reader {
    struct sl_http1 h;
    char *block; /* kept bytes of the current request, then what was just read */
    size_t len;
    bool bad;
};

/* The block in memory of its own exact size. */
static void fit(struct reader *r, size_t drop, size_t len, const char *more, size_t n)
{
    char *block = malloc(len + n ? len + n : 1);

    if (len)
        memcpy(block, r->block + drop, len);
    if (n)
        memcpy(block + len, more, n);
    free(r->block);
    r->block = block;
    r->len = len + n;
}

static void serve(struct reader *r, const struct sl_http1_limits *limits, char *out, size_t *used)
{
    while (r->len) {
        enum sl_http1_result result = sl_http1_parse(&r->h, r->block, r->len);

        if (result == SL_HTTP1_BAD) {
            char status[] = "bad 000\n";

            sl_write_int(status + 4, r->h.status);
            status[7] = '\n';
            add_text(out, used, status);
            r->bad = true;
            return;
        }
        if (result == SL_HTTP1_MORE) {
            fit(r, 0, r->h.n_kept, NULL, 0);
            return;
        }
        print_request(&r->h, r->block, out, used);
        fit(r, r->h.n_kept, r->len - r->h.n_kept, NULL, 0);
        sl_http1_init(&r->h, limits);
    }
}

void read_stream(const char *bytes, size_t len, size_t step, const struct sl_http1_limits *limits, char *out)
{
    struct reader r = {.block = NULL};
    size_t used = 0;

    out[0] = '\0';
    sl_http1_init(&r.h, limits);
    while (len > 0 && !r.bad) {
        size_t n = step && step < len ? step : len;

        fit(&r, 0, r.len, bytes, n);
        bytes += n;
        len -= n;
        serve(&r, limits, out, &used);
    }
    if (!r.bad)
        add_text(out, &used, r.h.n_kept ? "more\n" : "end\n");
    free(r.block);
}
