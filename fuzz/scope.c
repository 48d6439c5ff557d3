/* Request targets from any bytes: the method, a newline, the target. A scope is normal after one pass. */
#include "identity/scope.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *newline = size ? memchr(text, '\n', size) : NULL;
    char once[512], twice[512];
    size_t method_len, len, again;

    if (!newline)
        return 0;
    method_len = (size_t)(newline - text);
    if (sl_scope_from_http(text, method_len, newline + 1, size - method_len - 1, once, sizeof once, &len))
        return 0;
    if (len > sizeof once || memcmp(once, text, method_len) != 0 || once[method_len] != ' ')
        abort();
    if (sl_scope_from_http(once, method_len, once + method_len + 1, len - method_len - 1, twice, sizeof twice, &again))
        abort();
    if (len != again || memcmp(once, twice, len) != 0)
        abort();
    return 0;
}
