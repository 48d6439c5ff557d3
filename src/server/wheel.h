/* Deadlines of many connections for one timer: a hashed timing wheel.
 *
 * Moving a deadline later, which every request does, is one store: the node is looked at when its old slot comes round
 * and is then moved on. Resolution is one tick; a deadline never fires early. One thread. */
#ifndef SL_SERVER_WHEEL_H
#define SL_SERVER_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define SL_WHEEL_TICK_MS 50u
#define SL_WHEEL_SLOTS 512u

struct sl_wheel_node {
    struct sl_wheel_node *next, *prev; /* NULL when not on the wheel */
    uint64_t deadline_ms;              /* UINT64_MAX: never */
    uint64_t visit_ms;                 /* when its slot comes round */
};

struct sl_wheel {
    struct sl_wheel_node slots[SL_WHEEL_SLOTS];
    uint64_t now_tick;
};

void sl_wheel_init(struct sl_wheel *wheel, uint64_t now_ms);

/* The out-of-line part of sl_wheel_set. */
void sl_wheel_move(struct sl_wheel *wheel, struct sl_wheel_node *node);

/* Sets or moves the deadline of a node (zeroed before its first use). */
static inline void sl_wheel_set(struct sl_wheel *wheel, struct sl_wheel_node *node, uint64_t deadline_ms)
{
    node->deadline_ms = deadline_ms;
    if (!node->next || node->visit_ms > deadline_ms)
        sl_wheel_move(wheel, node);
}

/* Takes the node off the wheel; it may be off already. */
void sl_wheel_remove(struct sl_wheel_node *node);

/* Calls `expired` once for each node whose deadline is <= now_ms; the node is off the wheel then, and the callback may
 * set any node again or remove any. */
void sl_wheel_advance(struct sl_wheel *wheel, uint64_t now_ms, void (*expired)(struct sl_wheel_node *node));

#endif
