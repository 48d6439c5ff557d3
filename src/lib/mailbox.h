/* What threads of the program ask the background thread to do: a list under a lock, from which they may take back what
 * it has not begun. Order is kept. Any thread. */
#ifndef SL_LIB_MAILBOX_H
#define SL_LIB_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>

struct sl_lane;

/* Embedded in whatever is asked for, which must stay until `go` was called or it was taken back. */
struct sl_ticket {
    struct sl_ticket *next, *prev;
    bool posted;
    void (*go)(struct sl_ticket *ticket, struct sl_lane *lane); /* on the background thread */
};

struct sl_mailbox {
    pthread_mutex_t lock;
    struct sl_ticket *first, *last;
    bool closed;
};

void sl_mailbox_init(struct sl_mailbox *mailbox);
void sl_mailbox_fini(struct sl_mailbox *mailbox);

/* Appends a ticket and those that follow it by `next`, together: nobody takes some while others are not there yet.
 * *ret_wake is set when the mailbox was empty. False when it is closed; then none was appended. */
bool sl_mailbox_post(struct sl_mailbox *mailbox, struct sl_ticket *chain, bool *ret_wake);

/* True when it was still there: then `go` will not be called. */
bool sl_mailbox_take_back(struct sl_mailbox *mailbox, struct sl_ticket *ticket);

/* The oldest one, NULL when there is none. */
struct sl_ticket *sl_mailbox_take(struct sl_mailbox *mailbox);

/* Nothing can be posted from now on; what is there stays. */
void sl_mailbox_close(struct sl_mailbox *mailbox);

/* True when it is closed and empty. */
bool sl_mailbox_is_done(struct sl_mailbox *mailbox);

#endif
