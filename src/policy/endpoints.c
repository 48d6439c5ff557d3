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

/* Adds the children of one node: one for each next byte among its entries. Sorted entries put a range's shortest
 * common prefix between its first and its last. */
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

static inline __attribute__((always_inline)) const struct sl_endpoint_node *
child(const struct sl_endpoints *e, const struct sl_endpoint_node *node, const char *rest, size_t left)
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

/* ---- by layer --------------------------------------------------------------------------------------------------- */

#define PAIRS_MAX 100000

/* x before y in precedence: more literal text, at a tie earlier in the file. */
static bool goes_before(const struct sl_endpoint_glob *x, const struct sl_endpoint_glob *y)
{
    if (x->glob.literal_len != y->glob.literal_len)
        return x->glob.literal_len > y->glob.literal_len;
    return x < y; /* both are in the array of the file's order */
}

/* Whether a scope that both globs match would belong to one of them in some layer and to the other in another. */
static bool may_differ(const struct sl_endpoints *e, const struct sl_endpoint_glob *x, const struct sl_endpoint_glob *y)
{
    const struct sl_endpoint_glob *first = goes_before(x, y) ? x : y, *second = first == x ? y : x;
    const struct sl_endpoint *winner = &e->list[first->endpoint], *loser = &e->list[second->endpoint];

    return ((loser->enforced_in & ~winner->enforced_in) || (loser->named_in & ~winner->named_in)) &&
           sl_glob_overlap(x->glob.text, x->glob.len, y->glob.text, y->glob.len);
}

/* Too many pairs to look at count as a yes: then every look-up goes by layer, which is slower and never wrong. */
void sl_endpoints_find_layered(struct sl_endpoints *e)
{
    size_t pairs = 0;

    e->layered = false;
    for (uint32_t i = 0; i < e->n_globs && !e->layered; i++)
        for (uint32_t k = i + 1; k < e->n_globs && !e->layered; k++) {
            if (e->globs[i].endpoint == e->globs[k].endpoint)
                continue;
            e->layered = ++pairs > PAIRS_MAX || may_differ(e, &e->globs[i], &e->globs[k]);
        }
}

static void keep_better(const struct sl_endpoints *e, uint32_t best[SL_ENDPOINT_LAYERS], unsigned layers, uint32_t glob)
{
    for (; layers; layers &= layers - 1) {
        uint32_t *kept = &best[__builtin_ctz(layers)];

        if (*kept == UINT32_MAX || goes_before(&e->globs[glob], &e->globs[*kept]))
            *kept = glob;
    }
}

static void to_endpoints(const struct sl_endpoints *e, uint32_t best[SL_ENDPOINT_LAYERS])
{
    for (int i = 0; i < SL_ENDPOINT_LAYERS; i++)
        best[i] = best[i] == UINT32_MAX ? 0 : e->globs[best[i]].endpoint;
}

void sl_endpoints_match_layers(const struct sl_endpoints *e, const char *scope, size_t len,
                               struct sl_layer_endpoints *ret)
{
    const struct sl_endpoint_node *node = &e->nodes[0];
    size_t at = 0;

    memset(ret, 0xff, sizeof *ret); /* UINT32_MAX: none yet; globs first, endpoints at the end */
    while (node) {
        for (uint32_t i = 0; i < node->n_tries; i++) {
            const struct sl_endpoint_try *t = &e->tries[node->first_try + i];
            const struct sl_endpoint *endpoint = &e->list[t->endpoint];

            if (!endpoint->named_in || !sl_glob_match(t->rest, t->rest_len, scope + at, len - at))
                continue;
            keep_better(e, ret->enforced, endpoint->enforced_in, t->glob);
            keep_better(e, ret->named, endpoint->named_in, t->glob);
        }
        node = child(e, node, scope + at, len - at);
        at += node ? node->label_len : 0;
    }
    to_endpoints(e, ret->enforced);
    to_endpoints(e, ret->named);
}
