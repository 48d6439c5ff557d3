#include "server/wheel.h"

#include <stddef.h>

static void list_init(struct sl_wheel_node *head)
{
    head->next = head->prev = head;
}

static void list_append(struct sl_wheel_node *head, struct sl_wheel_node *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

void sl_wheel_init(struct sl_wheel *wheel, uint64_t now_ms)
{
    for (unsigned i = 0; i < SL_WHEEL_SLOTS; i++)
        list_init(&wheel->slots[i]);
    wheel->now_tick = now_ms / SL_WHEEL_TICK_MS;
}

void sl_wheel_remove(struct sl_wheel_node *node)
{
    if (!node->next)
        return;
    node->next->prev = node->prev;
    node->prev->next = node->next;
    node->next = node->prev = NULL;
}

void sl_wheel_move(struct sl_wheel *wheel, struct sl_wheel_node *node)
{
    /* The first tick at or after the deadline, at least the next one, at most one round ahead: later ones are looked at
     * in between. */
    uint64_t tick = node->deadline_ms / SL_WHEEL_TICK_MS + (node->deadline_ms % SL_WHEEL_TICK_MS != 0);

    sl_wheel_remove(node);
    if (tick <= wheel->now_tick)
        tick = wheel->now_tick + 1;
    if (tick - wheel->now_tick >= SL_WHEEL_SLOTS)
        tick = wheel->now_tick + SL_WHEEL_SLOTS - 1;
    node->visit_ms = tick * SL_WHEEL_TICK_MS;
    list_append(&wheel->slots[tick % SL_WHEEL_SLOTS], node);
}

/* Takes all nodes of a slot out into `local`, so that nodes set again meanwhile are not met twice. */
static void take_slot(struct sl_wheel_node *slot, struct sl_wheel_node *local)
{
    list_init(local);
    if (slot->next == slot)
        return;
    local->next = slot->next;
    local->prev = slot->prev;
    local->next->prev = local->prev->next = local;
    list_init(slot);
}

static void visit_slot(struct sl_wheel *wheel, struct sl_wheel_node *slot, uint64_t now_ms,
                       void (*expired)(struct sl_wheel_node *node))
{
    struct sl_wheel_node local;

    take_slot(slot, &local);
    while (local.next != &local) {
        struct sl_wheel_node *node = local.next;

        sl_wheel_remove(node);
        if (node->deadline_ms <= now_ms)
            expired(node);
        else
            sl_wheel_move(wheel, node);
    }
}

void sl_wheel_advance(struct sl_wheel *wheel, uint64_t now_ms, void (*expired)(struct sl_wheel_node *node))
{
    uint64_t tick = now_ms / SL_WHEEL_TICK_MS;

    /* After a long sleep every slot is visited once, not once a missed round. */
    if (tick > wheel->now_tick + SL_WHEEL_SLOTS)
        wheel->now_tick = tick - SL_WHEEL_SLOTS;
    while (wheel->now_tick < tick) {
        wheel->now_tick++;
        visit_slot(wheel, &wheel->slots[wheel->now_tick % SL_WHEEL_SLOTS], now_ms, expired);
    }
}
