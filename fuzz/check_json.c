/* Bodies of /check: the hand-written reader accepts exactly what jansson and the shape accept, with the same values. */
#include "server/json_oracle.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *difference = json_disagreement((const char *)data, size);

    if (difference) {
        fprintf(stderr, "%s\n", difference);
        abort();
    }
    return 0;
}
