#include "policy/arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define ALIGN 16u
#define CHUNK_FIRST 4096u
#define CHUNK_MAX (1u << 20)

struct sl_arena_chunk {
    struct sl_arena_chunk *next;
    size_t size;
};

static_assert(sizeof(struct sl_arena_chunk) % ALIGN == 0, "blocks behind the chunk's head must stay aligned");

void sl_arena_init(struct sl_arena *arena, struct sl_alloc alloc)
{
    *arena = (struct sl_arena){.alloc = alloc, .chunk_size = CHUNK_FIRST};
}

void sl_arena_fini(struct sl_arena *arena)
{
    struct sl_arena_chunk *chunk = arena->chunks;

    while (chunk) {
        struct sl_arena_chunk *next = chunk->next;

        sl_free(&arena->alloc, chunk);
        chunk = next;
    }
    *arena = (struct sl_arena){.alloc = arena->alloc, .chunk_size = CHUNK_FIRST};
}

static struct sl_arena_chunk *new_chunk(struct sl_arena *arena, size_t size)
{
    struct sl_arena_chunk *chunk = sl_reallocarray(&arena->alloc, NULL, 1, sizeof *chunk + size);

    if (chunk) {
        chunk->size = size;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    return chunk;
}

static char *take(struct sl_arena *arena, size_t size)
{
    struct sl_arena_chunk *chunk;
    char *block;

    if (size > arena->left) {
        if (size > arena->chunk_size / 4) { /* a chunk of its own; the current one keeps its rest */
            chunk = new_chunk(arena, size);
            return chunk ? (char *)(chunk + 1) : NULL;
        }
        chunk = new_chunk(arena, arena->chunk_size);
        if (!chunk)
            return NULL;
        arena->next = (char *)(chunk + 1);
        arena->left = chunk->size;
        if (arena->chunk_size < CHUNK_MAX)
            arena->chunk_size *= 2;
    }
    block = arena->next;
    arena->next += size;
    arena->left -= size;
    return block;
}

void *sl_arena_calloc(struct sl_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    char *block;

    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = bytes ? (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    block = take(arena, bytes);
    if (block)
        memset(block, 0, bytes);
    return block;
}

char *sl_arena_strndup(struct sl_arena *arena, const char *text, size_t len)
{
    char *copy = len < SIZE_MAX ? sl_arena_calloc(arena, len + 1, 1) : NULL;

    if (copy && len)
        memcpy(copy, text, len);
    return copy;
}
