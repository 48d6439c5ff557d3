/* YAML text as a tree of nodes with places, bounded in every direction.
 *
 * The only file that speaks to libfyaml is yaml.c. Accepted is the plain part of YAML 1.2 that a configuration needs:
 * one document of mappings with scalar keys, sequences and scalars. Aliases, tags, directives, further documents,
 * duplicate keys, nesting deeper than SL_YAML_DEPTH_MAX, lines longer than SL_YAML_LINE_MAX, more than
 * SL_YAML_NODES_MAX nodes, and bytes that are not UTF-8 text are errors with their place. */
#ifndef SL_POLICY_YAML_H
#define SL_POLICY_YAML_H

#include "policy/arena.h"
#include "policy/diag.h"

#include <stdbool.h>
#include <stddef.h>

#define SL_YAML_DEPTH_MAX 32
#define SL_YAML_LINE_MAX (64u << 10)
#define SL_YAML_NODES_MAX (8u << 20)

enum sl_node_kind { SL_NODE_SCALAR, SL_NODE_LIST, SL_NODE_MAP };

struct sl_node {
    enum sl_node_kind kind;
    bool plain;            /* a scalar without quotes */
    unsigned line, column; /* from 1 */
    const char *text;      /* scalars: NUL-terminated, may hold NULs inside when quoted */
    size_t len;
    struct sl_node *key;   /* of a mapping's member, else NULL */
    struct sl_node *first; /* lists and mappings: members in file order, linked by `next` */
    struct sl_node *next;
    size_t n; /* members */
};

/* Builds the tree in `arena`. Returns 0 and the document's root; SL_EPOLICY with an error in `diags`; SL_ENOMEM.
 * Duplicate keys are errors in `diags` beside a returned tree that has both members, so that one pass finds whatever
 * else is wrong. */
int sl_yaml_parse(const char *text, size_t len, const char *file, struct sl_arena *arena, struct sl_diags *diags,
                  struct sl_node **ret_root);

#endif
