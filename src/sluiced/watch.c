#include "sluiced/watch.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static struct sl_file_mark mark_of(const char *path)
{
    struct stat st;

    if (stat(path, &st))
        return (struct sl_file_mark){0};
    return (struct sl_file_mark){
        .device = st.st_dev,
        .inode = st.st_ino,
        .size = (uint64_t)st.st_size,
        .modified_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec,
        .changed_ns = (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec,
    };
}

static bool same_mark(const struct sl_file_mark *a, const struct sl_file_mark *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified_ns == b->modified_ns &&
           a->changed_ns == b->changed_ns;
}

static void look(struct sl_watch *watch);

static void settled(uv_timer_t *timer)
{
    look(timer->data);
}

/* One look: tells of a change that is over, waits on for one that is not. */
static void look(struct sl_watch *watch)
{
    struct sl_file_mark now = mark_of(watch->path);
    uint64_t now_ms = uv_now(watch->poll.loop);
    bool still = same_mark(&now, &watch->seen);

    watch->seen = now;
    if (same_mark(&now, &watch->told)) {
        watch->since_ms = 0;
        return;
    }
    if (watch->since_ms == 0) {
        watch->since_ms = now_ms;
        still = false;
    }
    if (still || now_ms - watch->since_ms >= SL_WATCH_SETTLE_MAX_MS) {
        watch->told = now;
        watch->since_ms = 0;
        watch->changed(watch->ctx);
    } else {
        uv_timer_start(&watch->settle, settled, SL_WATCH_SETTLE_MS, 0);
    }
}

static void on_poll(uv_timer_t *timer)
{
    struct sl_watch *watch = timer->data;

    if (!uv_is_active((uv_handle_t *)&watch->settle))
        look(watch);
}

/* Which name the event is about does not matter: any of them may be a link on the way. */
static void on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
    struct sl_watch *watch = event->data;

    (void)name;
    (void)events;
    (void)status;
    if (!uv_is_active((uv_handle_t *)&watch->settle))
        look(watch);
}

static void watch_folder(struct sl_watch *watch)
{
    char *folder = strdup(watch->path);
    char *slash = folder ? strrchr(folder, '/') : NULL;

    if (!folder)
        return;
    if (slash)
        slash[slash == folder] = '\0';
    uv_fs_event_start(&watch->event, on_event, slash ? folder : ".", 0);
    free(folder);
}

int sl_watch_start(struct sl_watch *watch, uv_loop_t *loop, const char *path, void (*changed)(void *ctx), void *ctx)
{
    *watch = (struct sl_watch){.path = strdup(path), .changed = changed, .ctx = ctx};
    if (!watch->path)
        return SL_ENOMEM;
    watch->told = watch->seen = mark_of(path);
    uv_timer_init(loop, &watch->poll);
    uv_timer_init(loop, &watch->settle);
    uv_fs_event_init(loop, &watch->event);
    watch->poll.data = watch->settle.data = watch->event.data = watch;
    uv_timer_start(&watch->poll, on_poll, SL_WATCH_POLL_MS, SL_WATCH_POLL_MS);
    watch_folder(watch);
    return 0;
}

void sl_watch_stop(struct sl_watch *watch)
{
    if (!watch->path)
        return;
    uv_close((uv_handle_t *)&watch->poll, NULL);
    uv_close((uv_handle_t *)&watch->settle, NULL);
    uv_close((uv_handle_t *)&watch->event, NULL);
    free(watch->path);
    watch->path = NULL;
}
