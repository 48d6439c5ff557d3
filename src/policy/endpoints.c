#include "policy/endpoints.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

/* ---- building --------------------------------------------------------------------------------------------------- */

/* Globs sorted by literal prefix make the tree: a node is a range of them that shares a prefix. */
struct entry {
    const char *prefix;
    size_t len;
    const struct sl_endpoint_glob *glob;
    uint32_t number;
};

static int compare_entries(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    int order = memcmp(a->prefix, b->prefix, a->len < b->len ? a->len : b->len);

    if (order)
        return order;
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    if (a->glob->glob.literal_len != b->glob->glob.literal_len)
        return a->glob->glob.literal_len > b->glob->glob.literal_len ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

/* A node that waits for its children: the range of entries below it, and how much of their prefix is spent. */
struct pending {
    uint32_t node, first, last;
    size_t depth;
};

static size_t common_prefix(const struct entry *x, const struct entry *y, size_t from)
{
    size_t max = x->len < y->len ? x->len : y->len;

    while (from < max && x->prefix[from] == y->prefix[from])
        from++;
    return from;
}

/* Adds the children of one node: one for each next byte among its entries. Sorted entries put a range's shortest common prefix between its
 * first and its last. */
static void add_children(struct sl_endpoints *e, const struct entry *entries, struct pending job, struct pending *queue,
                         uint32_t *n_queue)
{
    uint32_t i = job.first;
    struct sl_endpoint_node *node = &e->nodes[job.node];

    while (i < job.last && entries[i].len == job.depth)
        i++;
    node->first_glob = job.first;
    node->n_globs = i - job.first;
    node->first_child = e->n_nodes;
    while (i < job.last) {
        uint32_t from = i, child = e->n_nodes++;
        size_t end;

        while (i < job.last && entries[i].prefix[job.depth] == entries[from].prefix[job.depth])
            i++;
        end = common_prefix(&entries[from], &entries[i - 1], job.depth);
        e->nodes[child] = (struct sl_endpoint_node){.label = entries[from].prefix + job.depth,
                                                    .label_len = (uint32_t)(end - job.depth)};
        e->first_bytes[child] = (uint8_t)entries[from].prefix[job.depth];
        node->n_children++;
        queue[(*n_queue)++] = (struct pending){.node = child, .first = from, .last = i, .depth = end};
    }
}

int sl_endpoints_build(struct sl_endpoints *e, struct sl_arena *arena, struct sl_arena *scratch)
{
    size_t max_nodes = 2 * (size_t)e->n_globs + 1;
    struct entry *entries = sl_arena_calloc(scratch, e->n_globs, sizeof *entries);
    struct pending *queue = sl_arena_calloc(scratch, max_nodes, sizeof *queue);
    uint32_t n_queue = 1;

    e->nodes = sl_arena_calloc(arena, max_nodes, sizeof *e->nodes);
    e->first_bytes = sl_arena_calloc(arena, max_nodes, sizeof *e->first_bytes);
    e->order = sl_arena_calloc(arena, e->n_globs, sizeof *e->order);
    if (!entries || !queue || !e->nodes || !e->first_bytes || !e->order)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < e->n_globs; i++)
        entries[i] = (struct entry){e->globs[i].glob.text, e->globs[i].glob.prefix_len, &e->globs[i], i};
    if (e->n_globs)
        qsort(entries, e->n_globs, sizeof *entries, compare_entries);
    for (uint32_t i = 0; i < e->n_globs; i++)
        e->order[i] = entries[i].number;
    e->n_nodes = 1;
    queue[0] = (struct pending){.last = e->n_globs};
    for (uint32_t i = 0; i < n_queue; i++)
        add_children(e, entries, queue[i], queue, &n_queue);
    return 0;
}

/* ---- matching --------------------------------------------------------------------------------------------------- */

struct best {
    size_t literal_len;
    uint32_t glob; /* UINT32_MAX: none yet */
};

/* Tries the globs that hang at a node, best first, until one matches or none can beat what is known. */
static void try_node(const struct sl_endpoints *e, const struct sl_endpoint_node *node, const char *rest, size_t left,
                     struct best *best)
{
    for (uint32_t i = 0; i < node->n_globs; i++) {
        uint32_t number = e->order[node->first_glob + i];
        const struct sl_glob *glob = &e->globs[number].glob;

        if (best->glob != UINT32_MAX &&
            (glob->literal_len < best->literal_len || (glob->literal_len == best->literal_len && number > best->glob)))
            return;
        if (sl_glob_match(glob->text + glob->prefix_len, glob->len - glob->prefix_len, rest, left)) {
            *best = (struct best){glob->literal_len, number};
            return;
        }
    }
}

static const struct sl_endpoint_node *child(const struct sl_endpoints *e, const struct sl_endpoint_node *node,
                                            const char *rest, size_t left)
{
    const uint8_t *bytes = e->first_bytes + node->first_child, *hit;
    const struct sl_endpoint_node *next;

    if (!left || !node->n_children)
        return NULL;
    if (node->n_children == 1)
        hit = bytes[0] == (uint8_t)rest[0] ? bytes : NULL;
    else
        hit = memchr(bytes, (uint8_t)rest[0], node->n_children);
    if (!hit)
        return NULL;
    next = &e->nodes[node->first_child + (uint32_t)(hit - bytes)];
    return next->label_len <= left && !memcmp(next->label, rest, next->label_len) ? next : NULL;
}

uint32_t sl_endpoints_match(const struct sl_endpoints *e, const char *scope, size_t len, uint32_t *ret_glob)
{
    const struct sl_endpoint_node *node = &e->nodes[0];
    struct best best = {.glob = UINT32_MAX};
    size_t at = 0;

    if (!e->n_globs)
        return 0;
    while (node) {
        if (node->n_globs)
            try_node(e, node, scope + at, len - at, &best);
        node = child(e, node, scope + at, len - at);
        at += node ? node->label_len : 0;
    }
    if (best.glob == UINT32_MAX)
        return 0;
    if (ret_glob)
        *ret_glob = best.glob;
    return e->globs[best.glob].endpoint;
}
