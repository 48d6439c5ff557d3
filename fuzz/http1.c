/* HTTP/1 streams: read whole and byte by byte they are the same requests, and no byte beyond the block is touched. */
#include "server/http1_reader.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of several faults in one head, which is seen first depends on how the bytes came; that it is refused does not. */
static void forget_status(char *text)
{
    char *bad = strstr(text, "bad ");

    if (bad)
        memset(bad + 4, 'x', 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sl_http1_limits limits = {.header_bytes = 1024, .body_bytes = 256};
    static const size_t steps[] = {1, 3, 17};
    static char whole[READER_OUT_MAX], cut[READER_OUT_MAX];

    if (size > 8192)
        return 0;
    read_stream((const char *)data, size, 0, &limits, whole);
    forget_status(whole);
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        read_stream((const char *)data, size, steps[i], &limits, cut);
        forget_status(cut);
        if (strcmp(whole, cut) != 0) {
            fprintf(stderr, "whole:\n%s\nin pieces of %zu:\n%s\n", whole, steps[i], cut);
            abort();
        }
    }
    return 0;
}
