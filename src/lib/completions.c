#include "lib/completions.h"

#include "base/err.h"

#include <sys/eventfd.h>
#include <unistd.h>

void sl_completions_init(struct sl_completions *list, const struct sl_alloc *alloc)
{
    *list = (struct sl_completions){.alloc = *alloc, .fd = -1};
    list->last = &list->first;
    pthread_mutex_init(&list->lock, NULL);
}

void sl_completions_fini(struct sl_completions *list, bool inherited)
{
    if (list->fd >= 0)
        close(list->fd);
    if (inherited)
        return;
    for (struct sl_completed *c; (c = list->first);) {
        list->first = c->next;
        sl_free(&list->alloc, c);
    }
    pthread_mutex_destroy(&list->lock);
}

/* The eventfd's count is 1 while there are completions, else 0: neither call can find it otherwise, nor block. */
static void make_readable(struct sl_completions *list)
{
    if (list->fd >= 0)
        eventfd_write(list->fd, 1);
}

static void make_unreadable(struct sl_completions *list)
{
    eventfd_t count;

    if (list->fd >= 0)
        eventfd_read(list->fd, &count);
}

void sl_completions_add(struct sl_completions *list, struct sl_completed *completed)
{
    completed->next = NULL;
    pthread_mutex_lock(&list->lock);
    if (!list->first)
        make_readable(list);
    *list->last = completed;
    list->last = &completed->next;
    pthread_mutex_unlock(&list->lock);
}

size_t sl_completions_take(struct sl_completions *list, struct sluice_completion *ret_list, size_t max)
{
    struct sl_completed *taken, *c;
    size_t n = 0;

    pthread_mutex_lock(&list->lock);
    taken = list->first;
    for (c = taken; c && n < max; c = c->next)
        ret_list[n++] = c->completion;
    list->first = c;
    if (n > 0 && !c) {
        list->last = &list->first;
        make_unreadable(list);
    }
    pthread_mutex_unlock(&list->lock);
    for (size_t i = 0; i < n; i++) {
        c = taken->next;
        sl_free(&list->alloc, taken);
        taken = c;
    }
    return n;
}

int sl_completions_fd(struct sl_completions *list)
{
    int fd;

    pthread_mutex_lock(&list->lock);
    if (list->fd < 0)
        list->fd = eventfd(list->first != NULL, EFD_CLOEXEC | EFD_NONBLOCK);
    fd = list->fd;
    pthread_mutex_unlock(&list->lock);
    return fd >= 0 ? fd : SL_EIO;
}
