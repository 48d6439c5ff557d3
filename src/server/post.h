/* What comes back to a loop from another thread: work that a handler has given away, to be answered there.
 *
 *     sl_post_begin(&service->post);             on the loop: one more is out; the loop does not end before it is back
 *     ...
 *     sl_post_send(&service->post, &job->post);  any thread: it will arrive, once, on the loop, from no handler */
#ifndef SL_SERVER_POST_H
#define SL_SERVER_POST_H

#include <pthread.h>
#include <stdbool.h>

struct sl_post {
    struct sl_post *next;
    void (*arrived)(struct sl_post *post);
};

struct sl_postbox {
    bool made;
    pthread_mutex_t lock;
    struct sl_post *first;   /* what has been sent; the newest first */
    unsigned n_out;          /* the loop's own */
    void (*wake)(void *ctx); /* any thread: makes the loop call sl_post_collect; NULL: it does so by itself */
    void *ctx;
};

void sl_postbox_init(struct sl_postbox *box);
void sl_postbox_fini(struct sl_postbox *box); /* again does nothing */

void sl_post_begin(struct sl_postbox *box);
void sl_post_send(struct sl_postbox *box, struct sl_post *post);
/* On the loop: lets all that was sent arrive, in the order sent. */
void sl_post_collect(struct sl_postbox *box);

#endif
