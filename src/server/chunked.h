/* Chunked bodies (RFC 9112, 7.1), read strictly: lines end with CR LF and nothing else, a chunk is followed by CR LF,
 * sizes are plain hex. The parser library skips over whatever stands in those places, and two readers that disagree
 * about where a body ends are how requests are smuggled.
 *
 * Extensions and trailers are read and ignored; both together are bounded. Pure. */
#ifndef SL_SERVER_CHUNKED_H
#define SL_SERVER_CHUNKED_H

#include <stddef.h>
#include <stdint.h>

enum sl_chunked_result {
    SL_CHUNKED_MORE,
    SL_CHUNKED_DONE,
    SL_CHUNKED_BAD,       /* malformed */
    SL_CHUNKED_BODY_LONG, /* more body than allowed */
    SL_CHUNKED_LINE_LONG, /* more extensions and trailers than allowed */
};

/* Zero it before the first call. */
struct sl_chunked {
    uint8_t state;
    uint8_t n_digits;
    uint32_t left;  /* size being read, then bytes of the chunk still to come */
    uint32_t extra; /* bytes of extensions and trailers so far */
};

struct sl_chunked_limits {
    uint32_t body_bytes, extra_bytes;
};

/* Reads data[0 ... len) and moves what belongs to the body to `body` + *body_len, which lies at or before `data`; adds
 * to *body_len. Returns what came of it; with DONE *ret_used says how much of data belongs to this body, else all of it
 * was read. */
enum sl_chunked_result sl_chunked_read(struct sl_chunked *c, const struct sl_chunked_limits *limits, const char *data,
                                       size_t len, char *body, uint32_t *body_len, size_t *ret_used);

#endif
