/* Runs sl_http1_parse over a stream as a connection does: reads of given sizes, kept bytes, one request after the
 * other; prints what came out as text, so that two ways of cutting the same bytes can be compared. Every read happens
 * in memory of the exact size. */
#ifndef TESTS_SERVER_HTTP1_READER_H
#define TESTS_SERVER_HTTP1_READER_H

#include "server/http1.h"

#define READER_OUT_MAX (256u << 10)

/* step: bytes a read; 0: all at once. Writes at most READER_OUT_MAX bytes with the NUL:
 *   "GET /path keep 1:a=b body=xyz\n" for each request, "bad 400\n", "more\n" or "end\n" last. */
void read_stream(const char *bytes, size_t len, size_t step, const struct sl_http1_limits *limits, char *out);

#endif
