/* HTTP/1.0 and 1.1: bytes to requests, responses to bytes. No I/O, so tests and fuzzers can call it.
 *
 * http_parser reads heads and counted bodies; this part keeps offsets into the connection's block, so that the block
 * may move while a request is incomplete, gathers a chunked body into one piece in place, and refuses what the parser
 * lets pass and two readers could understand differently: spaces in or after a field's name, folded lines, bare LF,
 * both or several lengths, codings other than `chunked`, no or several Hosts. */
#ifndef SL_SERVER_HTTP1_H
#define SL_SERVER_HTTP1_H

#include "server/chunked.h"
#include "server/http.h"

#include <http_parser.h>

struct sl_http1_limits {
    unsigned header_bytes, body_bytes;
};

enum sl_http1_result {
    SL_HTTP1_MORE,    /* the request is not complete */
    SL_HTTP1_REQUEST, /* a whole request: fields below, and sl_http1_request */
    SL_HTTP1_BAD,     /* refused: `status` and `detail`; the connection cannot be read any further */
};

struct sl_http1 {
    http_parser parser;
    const struct sl_http1_limits *limits;
    char *base;                      /* only while parsing */
    uint32_t n_kept;                 /* bytes at the block's front that belong to this request */
    uint32_t method_off, method_len; /* of a method the parser does not know; method_len 0: it knows it */
    uint32_t target_off, target_len;
    uint32_t piece_end; /* end of the last field piece seen */
    uint32_t body_off, body_len;
    uint16_t n_fields;
    uint8_t piece; /* what the last piece was */
    struct sl_chunked chunked;
    bool odd_method; /* the parser does not know the method: it is read here */
    bool head_done;
    bool is_chunked;
    bool complete;
    bool expects_continue; /* the client waits for 100 before it sends the body */
    bool keep_alive;       /* valid once complete */
    int status;            /* of SL_HTTP1_BAD: 400, 413, 417, 431, 501, 505 */
    const char *detail;
    struct sl_http_field fields[SL_HTTP_FIELDS_MAX];
};

/* Makes ready for the next request. Borrows `limits`. */
void sl_http1_init(struct sl_http1 *h, const struct sl_http1_limits *limits);

/* Parses a block of len bytes whose first h->n_kept were parsed by earlier calls (and have not changed). After MORE the
 * first h->n_kept bytes must be kept, the rest of the block is done with; after REQUEST the request took h->n_kept
 * bytes and the next one begins there. The block may be changed (chunked bodies are moved together). */
enum sl_http1_result sl_http1_parse(struct sl_http1 *h, char *block, size_t len);

/* The request just parsed, borrowing from block and h. */
void sl_http1_request(const struct sl_http1 *h, char *block, struct sl_http_request *ret_request);

/* How a response is to be written for one request. */
struct sl_http1_reply {
    bool keep_alive;
    bool head_only; /* HEAD: all headers, no body */
    bool http_1_0;
    const char *date; /* "Sun, 06 Nov 1994 08:49:37 GMT", SL_HTTP_DATE_LEN bytes */
};

/* Appends status line, headers and body. */
void sl_http1_write(struct sl_buf *out, const struct sl_http_response *response, const struct sl_http1_reply *reply);

#endif
