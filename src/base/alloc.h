/* Memory, handed in: the caller of the library may bring its own allocator, and tests bring one that fails.
 *
 * Everything that is allocated while opening, loading a policy or growing a buffer goes through one of these.
 * The decision path allocates nothing at all. */
#ifndef SL_BASE_ALLOC_H
#define SL_BASE_ALLOC_H

#include <stddef.h>

struct sl_alloc {
    /* As realloc(3): p == NULL allocates, size == 0 frees and returns NULL. Must be thread-safe. */
    void *(*realloc)(void *ctx, void *p, size_t size);
    void *ctx;
};

/* malloc(3) and free(3). */
struct sl_alloc sl_alloc_system(void);

/* Zeroed memory for n objects of `size` bytes, or NULL (also when n * size overflows). */
void *sl_calloc(const struct sl_alloc *a, size_t n, size_t size);

/* As reallocarray(3): NULL, and `p` untouched, on failure or overflow. */
void *sl_reallocarray(const struct sl_alloc *a, void *p, size_t n, size_t size);

/* A NUL-terminated copy of len bytes, or NULL. */
char *sl_strndup(const struct sl_alloc *a, const char *s, size_t len);

/* Accepts NULL. */
void sl_free(const struct sl_alloc *a, void *p);

#endif
