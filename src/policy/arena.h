/* Memory that lives and dies together: everything of one compiled policy, or everything of one load.
 *
 * Blocks come from a struct sl_alloc in growing chunks and are released all at once. Not thread-safe: one load runs on
 * one thread, and a finished policy is read only. */
#ifndef SL_POLICY_ARENA_H
#define SL_POLICY_ARENA_H

#include "base/alloc.h"

#include <stddef.h>

struct sl_arena_chunk;

struct sl_arena {
    struct sl_alloc alloc;
    struct sl_arena_chunk *chunks;
    char *next;
    size_t left, chunk_size;
};

void sl_arena_init(struct sl_arena *arena, struct sl_alloc alloc);
void sl_arena_fini(struct sl_arena *arena);

/* Zeroed memory for n objects of `size` bytes, aligned for any type; NULL when out of memory or n * size overflows. */
void *sl_arena_calloc(struct sl_arena *arena, size_t n, size_t size);

/* A NUL-terminated copy of len bytes, or NULL. */
char *sl_arena_strndup(struct sl_arena *arena, const char *text, size_t len);

#endif
