#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *system_realloc(void *ctx, void *p, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, size);
}

struct sl_alloc sl_alloc_system(void)
{
    return (struct sl_alloc){.realloc = system_realloc, .ctx = NULL};
}

void *sl_calloc(const struct sl_alloc *a, size_t n, size_t size)
{
    void *p = sl_reallocarray(a, NULL, n, size);

    if (p)
        memset(p, 0, n * size);
    return p;
}

void *sl_reallocarray(const struct sl_alloc *a, void *p, size_t n, size_t size)
{
    if (n == 0 || size == 0)
        n = size = 1;
    if (n > SIZE_MAX / size)
        return NULL;
    return a->realloc(a->ctx, p, n * size);
}

char *sl_strndup(const struct sl_alloc *a, const char *s, size_t len)
{
    char *copy = len == SIZE_MAX ? NULL : a->realloc(a->ctx, NULL, len + 1);

    if (copy) {
        memcpy(copy, s, len);
        copy[len] = '\0';
    }
    return copy;
}

void sl_free(const struct sl_alloc *a, void *p)
{
    if (p)
        a->realloc(a->ctx, p, 0);
}
