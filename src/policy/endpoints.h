/* Which endpoint a scope belongs to: the one whose matching glob has the longest literal text, at a tie the first in
 * the file.
 *
 * Globs hang in a radix tree by their literal prefix, so a look-up walks the scope once and tries only globs whose
 * prefix it has. A glob without wildcard hits where the scope ends. Filled by one load, then read only. */
#ifndef SL_POLICY_ENDPOINTS_H
#define SL_POLICY_ENDPOINTS_H

#include "policy/arena.h"
#include "policy/glob.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_endpoint {
    const char *name;
    size_t name_len;
    int64_t cost; /* -1: not given */
    unsigned first_glob, n_globs;
    uint8_t enforced_in, named_in; /* layers, as bits, where an enforcing limit, or one of any mode but off, names it */
};

struct sl_endpoint_glob {
    struct sl_glob glob;
    uint32_t endpoint; /* number of the endpoint, from 1 */
};

struct sl_endpoint_node {
    const char *label; /* literal bytes that lead here from the parent */
    uint32_t label_len;
    uint32_t first_child, n_children; /* in `nodes`; ascending by first byte */
    uint32_t first_try, n_tries;      /* in `tries`: globs whose prefix ends here, best first */
};

/* A glob as the walk tries it, where its prefix has been seen already. */
struct sl_endpoint_try {
    uint32_t glob, endpoint;
    uint32_t literal_len;
    bool any_rest;     /* the rest is `*`: nothing is left to compare */
    uint32_t rest_len; /* of the glob after its prefix */
    const char *rest;
};

struct sl_endpoints {
    struct sl_endpoint *list; /* list[0] stands for no endpoint */
    uint32_t n;
    struct sl_endpoint_glob *globs; /* in file order */
    uint32_t n_globs;
    struct sl_endpoint_node *nodes; /* [0] is the root */
    uint8_t *first_bytes;           /* of each node's label, parallel to nodes: children are found in them */
    uint32_t n_nodes;
    struct sl_endpoint_try *tries; /* grouped by node */
    bool layered; /* an endpoint may win where another, named by more layers, matches too: look-ups go by layer */
};

/* Builds the tree; list and globs must be filled. Returns 0 or SL_ENOMEM. `scratch` is used during the call only. */
int sl_endpoints_build(struct sl_endpoints *endpoints, struct sl_arena *arena, struct sl_arena *scratch);

/* Once list[].enforced_in and named_in are known: finds out whether the winner can differ between layers. */
void sl_endpoints_find_layered(struct sl_endpoints *endpoints);

/* The winners by layer, when `layered`: among the endpoints that the layer's enforcing limits name, and among those
 * that its limits of either mode name. 0: none. */
#define SL_ENDPOINT_LAYERS 8
struct sl_layer_endpoints {
    uint32_t enforced[SL_ENDPOINT_LAYERS], named[SL_ENDPOINT_LAYERS];
};
void sl_endpoints_match_layers(const struct sl_endpoints *endpoints, const char *scope, size_t len,
                               struct sl_layer_endpoints *ret_endpoints);

/* The endpoint's number, 0 when none matches. *ret_glob (may be NULL) is the index of the glob that won. */
uint32_t sl_endpoints_match(const struct sl_endpoints *endpoints, const char *scope, size_t len, uint32_t *ret_glob);

#endif
