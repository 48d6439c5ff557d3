#include "server/post.h"

#include <stddef.h>

void sl_postbox_init(struct sl_postbox *box)
{
    *box = (struct sl_postbox){.made = true};
    pthread_mutex_init(&box->lock, NULL);
}

void sl_postbox_fini(struct sl_postbox *box)
{
    if (box->made)
        pthread_mutex_destroy(&box->lock);
    box->made = false;
}

void sl_post_begin(struct sl_postbox *box)
{
    box->n_out++;
}

/* Woken with the lock held, so that the loop cannot have ended in between. */
void sl_post_send(struct sl_postbox *box, struct sl_post *post)
{
    pthread_mutex_lock(&box->lock);
    post->next = box->first;
    box->first = post;
    if (box->wake)
        box->wake(box->ctx);
    pthread_mutex_unlock(&box->lock);
}

static struct sl_post *take_all(struct sl_postbox *box)
{
    struct sl_post *newest, *list = NULL, *next;

    pthread_mutex_lock(&box->lock);
    newest = box->first;
    box->first = NULL;
    pthread_mutex_unlock(&box->lock);
    for (; newest; newest = next) {
        next = newest->next;
        newest->next = list;
        list = newest;
    }
    return list;
}

void sl_post_collect(struct sl_postbox *box)
{
    struct sl_post *post = box->n_out ? take_all(box) : NULL, *next;

    for (; post; post = next) {
        next = post->next;
        box->n_out--;
        post->arrived(post);
    }
}
