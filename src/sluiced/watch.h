/* Tells when a file, or a second one that goes with it, has another content, however it came about: written in place,
 * renamed over, deleted and created, or reached through symbolic links that were swapped (as a Kubernetes ConfigMap
 * is).
 *
 * The folder of each path is watched with inotify, which sees all of these where the links live in it; and every
 * SL_WATCH_POLL_MS the paths are looked at through all its links, which sees the rest and every file system without
 * inotify. A change is told of when both files have been still for SL_WATCH_SETTLE_MS, so that a file being written is
 * not read half-way, and two that change together are read together; it is told of at the latest after SL_WATCH_SETTLE_MAX_MS. So a change is told of within 2 s. One thread:
 * the loop's. */
#ifndef SL_SLUICED_WATCH_H
#define SL_SLUICED_WATCH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <uv.h>

#define SL_WATCH_POLL_MS 1000
#define SL_WATCH_SETTLE_MS 100
#define SL_WATCH_SETTLE_MAX_MS 900

/* What of a file changes when its content does; all zero when there is none. */
struct sl_file_mark {
    uint64_t device, inode, size, modified_ns, changed_ns;
};

/* What the path leads to now, and whether that is the same. */
struct sl_file_mark sl_file_mark(const char *path);
bool sl_file_mark_same(const struct sl_file_mark *a, const struct sl_file_mark *b);

/* One of the two files. */
struct sl_watched {
    uv_fs_event_t event;
    char *path;                     /* NULL: none */
    struct sl_file_mark told, seen; /* as last told of; as last looked at */
};

struct sl_watch {
    struct sl_watched file, second;
    uv_timer_t poll, settle;
    void (*changed)(void *ctx);
    /* Writes the path of the second file as it is now, "" for none: it may be another after each change. May be
     * NULL. */
    void (*name_second)(void *ctx, char *buf, size_t size);
    void *ctx;
    bool started;
    uint64_t since_ms; /* when the change under way was first seen; 0: none is */
};

/* Starts watching `path` (copied) on `loop`; what both files are now counts as told. Of a second file that is named
 * later, nothing counts as told: whoever named it may have read another content than it has when it is looked at
 * first. Returns 0 or SL_ENOMEM. Works without inotify too, by looking. */
int sl_watch_start(struct sl_watch *watch, uv_loop_t *loop, const char *path, void (*changed)(void *ctx),
                   void (*name_second)(void *ctx, char *buf, size_t size), void *ctx);

/* Closes the handles of a started watch (a zeroed one has none); the memory of `watch` is the loop's until it has run
 * once more. */
void sl_watch_stop(struct sl_watch *watch);

#endif
