#include "policy/endpoints.h"

#include "base/err.h"
#include "policy/bytes.h"

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

/* Adds the children of one node: one for each next byte among its entries. Sorted entries put a range's shortest common
 * prefix between its first and its last. */
static void add_children(struct sl_endpoints *e, const struct entry *entries, struct pending job, struct pending *queue,
                         uint32_t *n_queue)
{
    uint32_t i = job.first;
    struct sl_endpoint_node *node = &e->nodes[job.node];

    while (i < job.last && entries[i].len == job.depth)
        i++;
    node->first_try = job.first;
    node->n_tries = i - job.first;
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

static struct sl_endpoint_try make_try(const struct entry *entry)
{
    const struct sl_glob *glob = &entry->glob->glob;
    size_t rest_len = glob->len - glob->prefix_len;

    return (struct sl_endpoint_try){.glob = entry->number,
                                    .endpoint = entry->glob->endpoint,
                                    .literal_len = (uint32_t)glob->literal_len,
                                    .any_rest = rest_len == 1 && glob->text[glob->prefix_len] == '*',
                                    .rest_len = (uint32_t)rest_len,
                                    .rest = glob->text + glob->prefix_len};
}

int sl_endpoints_build(struct sl_endpoints *e, struct sl_arena *arena, struct sl_arena *scratch)
{
    size_t max_nodes = 2 * (size_t)e->n_globs + 1;
    struct entry *entries = sl_arena_calloc(scratch, e->n_globs, sizeof *entries);
    struct pending *queue = sl_arena_calloc(scratch, max_nodes, sizeof *queue);
    uint32_t n_queue = 1;

    e->nodes = sl_arena_calloc(arena, max_nodes, sizeof *e->nodes);
    e->first_bytes = sl_arena_calloc(arena, max_nodes + SL_BYTE_FIND_PAD, sizeof *e->first_bytes);
    e->tries = sl_arena_calloc(arena, e->n_globs, sizeof *e->tries);
    if (!entries || !queue || !e->nodes || !e->first_bytes || !e->tries)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < e->n_globs; i++)
        entries[i] = (struct entry){e->globs[i].glob.text, e->globs[i].glob.prefix_len, &e->globs[i], i};
    if (e->n_globs)
        qsort(entries, e->n_globs, sizeof *entries, compare_entries);
    for (uint32_t i = 0; i < e->n_globs; i++)
        e->tries[i] = make_try(&entries[i]);
    e->n_nodes = 1;
    queue[0] = (struct pending){.last = e->n_globs};
    for (uint32_t i = 0; i < n_queue; i++)
        add_children(e, entries, queue[i], queue, &n_queue);
    return 0;
}

/* ---- matching --------------------------------------------------------------------------------------------------- */

/* Tries the globs that hang at a node, best first, until one matches or none can beat what is known. */
static const struct sl_endpoint_try *try_node(const struct sl_endpoint_try *tries, uint32_t n, const char *rest,
                                              size_t left, const struct sl_endpoint_try *best)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct sl_endpoint_try *t = &tries[i];

        if (best &&
            (t->literal_len < best->literal_len || (t->literal_len == best->literal_len && t->glob > best->glob)))
            break;
        if (t->any_rest || (t->rest_len == 0 ? left == 0 : sl_glob_match(t->rest, t->rest_len, rest, left)))
            return t;
    }
    return best;
}

static const struct sl_endpoint_node *child(const struct sl_endpoints *e, const struct sl_endpoint_node *node,
                                            const char *rest, size_t left)
{
    const struct sl_endpoint_node *next;
    uint32_t i;

    if (!left || !node->n_children)
        return NULL;
    i = 0; /* an only child's label says by itself whether it fits */
    if (node->n_children > 1) {
        i = sl_byte_find(e->first_bytes + node->first_child, node->n_children, (uint8_t)rest[0]);
        if (i == node->n_children)
            return NULL;
    }
    next = &e->nodes[node->first_child + i];
    return next->label_len <= left && sl_bytes_equal(next->label, rest, next->label_len) ? next : NULL;
}

uint32_t sl_endpoints_match(const struct sl_endpoints *e, const char *scope, size_t len, uint32_t *ret_glob)
{
    const struct sl_endpoint_node *node = &e->nodes[0];
    const struct sl_endpoint_try *best = NULL;
    size_t at = 0;

    if (!e->n_globs)
        return 0;
    while (node) {
        if (node->n_tries)
            best = try_node(&e->tries[node->first_try], node->n_tries, scope + at, len - at, best);
        node = child(e, node, scope + at, len - at);
        at += node ? node->label_len : 0;
    }
    if (!best)
        return 0;
    if (ret_glob)
        *ret_glob = best->glob;
    return best->endpoint;
}
