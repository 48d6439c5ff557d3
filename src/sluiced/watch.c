#include "sluiced/watch.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

struct sl_file_mark sl_file_mark(const char *path)
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

bool sl_file_mark_same(const struct sl_file_mark *a, const struct sl_file_mark *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified_ns == b->modified_ns &&
           a->changed_ns == b->changed_ns;
}

static void look(struct sl_watch *watch);

static void settled(uv_timer_t *timer)
{
    look(timer->data);
}

static void look_unless_settling(struct sl_watch *watch)
{
    if (!uv_is_active((uv_handle_t *)&watch->settle))
        look(watch);
}

static void on_poll(uv_timer_t *timer)
{
    look_unless_settling(timer->data);
}

/* Which name the event is about does not matter: any of them may be a link on the way. */
static void on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    (void)status;
    look_unless_settling(event->data);
}

/* ---- one file */

static void watch_folder(struct sl_watched *watched)
{
    char *folder = strdup(watched->path);
    char *slash = folder ? strrchr(folder, '/') : NULL;

    if (!folder)
        return;
    if (slash)
        slash[slash == folder] = '\0';
    uv_fs_event_start(&watched->event, on_event, slash ? folder : ".", 0);
    free(folder);
}

/* Watches the path instead, "" for none. What there is counts as told, or else nothing does. Returns 0 or SL_ENOMEM: then
 * nothing is watched. */
static int point_at(struct sl_watched *watched, const char *path, bool told)
{
    uv_fs_event_stop(&watched->event);
    free(watched->path);
    watched->path = path[0] ? strdup(path) : NULL;
    watched->told = watched->seen = (struct sl_file_mark){0};
    if (!watched->path)
        return path[0] ? SL_ENOMEM : 0;
    watched->seen = sl_file_mark(path);
    if (told)
        watched->told = watched->seen;
    watch_folder(watched);
    return 0;
}

/* *still: it is what it was at the last look. Returns whether it is what was told of. */
static bool look_at(struct sl_watched *watched, bool *still)
{
    struct sl_file_mark now = {0};

    if (watched->path)
        now = sl_file_mark(watched->path);
    *still = *still && sl_file_mark_same(&now, &watched->seen);
    watched->seen = now;
    return sl_file_mark_same(&now, &watched->told);
}

/* ---- both */

static void name_second(struct sl_watch *watch, bool told)
{
    char path[PATH_MAX] = "";

    if (watch->name_second)
        watch->name_second(watch->ctx, path, sizeof path);
    if (strcmp(path, watch->second.path ? watch->second.path : "") != 0)
        point_at(&watch->second, path, told); /* out of memory: the next look tries again */
}

static void tell(struct sl_watch *watch)
{
    watch->file.told = watch->file.seen;
    watch->second.told = watch->second.seen;
    watch->since_ms = 0;
    watch->changed(watch->ctx);
    name_second(watch, false); /* what was read of a new one, nobody has marked */
}

/* One look: tells of a change that is over, waits on for one that is not. */
static void look(struct sl_watch *watch)
{
    uint64_t now_ms = uv_now(watch->poll.loop);
    bool still = true, as_told;

    name_second(watch, false);
    as_told = look_at(&watch->file, &still);
    as_told = look_at(&watch->second, &still) && as_told;
    if (as_told) {
        watch->since_ms = 0;
        return;
    }
    if (watch->since_ms == 0) {
        watch->since_ms = now_ms;
        still = false;
    }
    if (still || now_ms - watch->since_ms >= SL_WATCH_SETTLE_MAX_MS)
        tell(watch);
    else
        uv_timer_start(&watch->settle, settled, SL_WATCH_SETTLE_MS, 0);
}

int sl_watch_start(struct sl_watch *watch, uv_loop_t *loop, const char *path, void (*changed)(void *ctx),
                   void (*second)(void *ctx, char *buf, size_t size), void *ctx)
{
    *watch = (struct sl_watch){.changed = changed, .name_second = second, .ctx = ctx};
    uv_timer_init(loop, &watch->poll);
    uv_timer_init(loop, &watch->settle);
    uv_fs_event_init(loop, &watch->file.event);
    uv_fs_event_init(loop, &watch->second.event);
    watch->poll.data = watch->settle.data = watch->file.event.data = watch->second.event.data = watch;
    watch->started = true;
    if (point_at(&watch->file, path, true) != 0)
        return SL_ENOMEM;
    name_second(watch, true);
    uv_timer_start(&watch->poll, on_poll, SL_WATCH_POLL_MS, SL_WATCH_POLL_MS);
    return 0;
}

void sl_watch_stop(struct sl_watch *watch)
{
    if (!watch->started)
        return;
    uv_close((uv_handle_t *)&watch->poll, NULL);
    uv_close((uv_handle_t *)&watch->settle, NULL);
    uv_close((uv_handle_t *)&watch->file.event, NULL);
    uv_close((uv_handle_t *)&watch->second.event, NULL);
    free(watch->file.path);
    free(watch->second.path);
    watch->file.path = watch->second.path = NULL;
    watch->started = false;
}
