/* A doubly linked list with its links inside the objects: an object may leave whichever list it is on without knowing
 * which. */
#ifndef SL_STORE_LIST_H
#define SL_STORE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct sl_link {
    struct sl_link *next, *prev; /* both NULL when on no list */
};

#define SL_CONTAINER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void sl_list_init(struct sl_link *head)
{
    head->next = head->prev = head;
}

static inline bool sl_list_empty(const struct sl_link *head)
{
    return head->next == head;
}

/* Puts `link` right after `at`. */
static inline void sl_list_insert(struct sl_link *at, struct sl_link *link)
{
    link->prev = at;
    link->next = at->next;
    at->next->prev = link;
    at->next = link;
}

static inline void sl_list_append(struct sl_link *head, struct sl_link *link)
{
    sl_list_insert(head->prev, link);
}

/* Takes `link` off its list, if it is on one. */
static inline void sl_list_remove(struct sl_link *link)
{
    if (!link->next)
        return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
}

/* Takes the first off, or returns NULL. */
static inline struct sl_link *sl_list_take(struct sl_link *head)
{
    struct sl_link *first = head->next;

    if (first == head)
        return NULL;
    sl_list_remove(first);
    return first;
}

/* Moves everything from `from` to the empty list `to`. */
static inline void sl_list_move(struct sl_link *to, struct sl_link *from)
{
    sl_list_init(to);
    if (sl_list_empty(from))
        return;
    *to = *from;
    to->next->prev = to;
    to->prev->next = to;
    sl_list_init(from);
}

#endif
