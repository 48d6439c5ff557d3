#include "lib/mailbox.h"

#include <stddef.h>

void sl_mailbox_init(struct sl_mailbox *mailbox)
{
    *mailbox = (struct sl_mailbox){.first = NULL};
    pthread_mutex_init(&mailbox->lock, NULL);
}

void sl_mailbox_fini(struct sl_mailbox *mailbox)
{
    pthread_mutex_destroy(&mailbox->lock);
}

static void append(struct sl_mailbox *mailbox, struct sl_ticket *ticket)
{
    ticket->posted = true;
    ticket->next = NULL;
    ticket->prev = mailbox->last;
    *(mailbox->last ? &mailbox->last->next : &mailbox->first) = ticket;
    mailbox->last = ticket;
}

bool sl_mailbox_post(struct sl_mailbox *mailbox, struct sl_ticket *chain, bool *ret_wake)
{
    bool open;

    pthread_mutex_lock(&mailbox->lock);
    open = !mailbox->closed;
    if (open)
        *ret_wake = !mailbox->first;
    while (open && chain) {
        struct sl_ticket *next = chain->next;

        append(mailbox, chain);
        chain = next;
    }
    pthread_mutex_unlock(&mailbox->lock);
    return open;
}

static void unlink_ticket(struct sl_mailbox *mailbox, struct sl_ticket *ticket)
{
    *(ticket->prev ? &ticket->prev->next : &mailbox->first) = ticket->next;
    *(ticket->next ? &ticket->next->prev : &mailbox->last) = ticket->prev;
    ticket->posted = false;
}

bool sl_mailbox_take_back(struct sl_mailbox *mailbox, struct sl_ticket *ticket)
{
    bool posted;

    pthread_mutex_lock(&mailbox->lock);
    posted = ticket->posted;
    if (posted)
        unlink_ticket(mailbox, ticket);
    pthread_mutex_unlock(&mailbox->lock);
    return posted;
}

struct sl_ticket *sl_mailbox_take(struct sl_mailbox *mailbox)
{
    struct sl_ticket *ticket;

    pthread_mutex_lock(&mailbox->lock);
    ticket = mailbox->first;
    if (ticket)
        unlink_ticket(mailbox, ticket);
    pthread_mutex_unlock(&mailbox->lock);
    return ticket;
}

void sl_mailbox_close(struct sl_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    mailbox->closed = true;
    pthread_mutex_unlock(&mailbox->lock);
}

bool sl_mailbox_is_done(struct sl_mailbox *mailbox)
{
    bool done;

    pthread_mutex_lock(&mailbox->lock);
    done = mailbox->closed && !mailbox->first;
    pthread_mutex_unlock(&mailbox->lock);
    return done;
}
