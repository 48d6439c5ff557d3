/* Overrides in the state folder. */
#include "base/err.h"
#include "policy/file.h"
#include "policy/override_json.h"
#include "sluiced/keep.h"
#include "sluiced/overrides.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FORMAT "sluice-overrides 1"
#define FILE_BYTES_MAX (128u << 20)

static void name_file(const struct sl_store_url *url, const char *ns, char name[static SL_KEEP_NAME_MAX])
{
    if (url)
        sl_keep_name("overrides", url, ns, name);
    else
        snprintf(name, SL_KEEP_NAME_MAX, "overrides.json");
}

/* ---- writing */

static json_t *records_of(const struct sl_overrides *list)
{
    json_t *records = json_array();

    for (size_t i = 0; records && list && i < list->n; i++)
        if (json_array_append_new(records, sl_override_json(&list->list[i], SL_OVERRIDE_RECORD))) {
            json_decref(records);
            return NULL;
        }
    return records;
}

int sl_keep_overrides(const char *dir, const struct sl_store_url *url, const char *ns, const struct sl_overrides *list,
                      const struct sl_revision *revision, const json_t *log, char *why, size_t why_size)
{
    json_t *root = json_pack("{s:s,s:I,s:s,s:o,s:o}", "format", FORMAT, "revision",
                             (json_int_t)(list ? list->revision : 0), "mark", revision->text, "overrides",
                             records_of(list), "log", log ? json_incref((json_t *)log) : json_array());
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL, name[SL_KEEP_NAME_MAX];
    int err = SL_ENOMEM;

    json_decref(root);
    name_file(url, ns, name);
    if (text)
        err = sl_keep_write(dir, name, text, strlen(text), why, why_size);
    else
        snprintf(why, why_size, "%s", sl_err_text(err));
    free(text);
    return err;
}

/* ---- reading */

static int read_records(const json_t *records, uint64_t revision, struct sl_overrides **ret_list)
{
    struct sl_alloc alloc = sl_alloc_system();
    size_t n = json_array_size(records), i;
    struct sl_override *list = n <= SL_OVERRIDES_MAX ? sl_calloc(&alloc, n + 1, sizeof *list) : NULL;
    const char *field;
    json_t *record;
    int err = n <= SL_OVERRIDES_MAX ? SL_ENOMEM : SL_EFORMAT;

    if (!list)
        return err;
    err = json_is_array(records) ? 0 : SL_EFORMAT;
    json_array_foreach(records, i, record)
    {
        if (!err && sl_override_read(record, SL_OVERRIDE_RECORD, &list[i], &field))
            err = SL_EFORMAT;
    }
    if (!err)
        err = sl_overrides_new(&alloc, list, n, revision, ret_list);
    sl_free(&alloc, list);
    return err;
}

static int read_root(const json_t *root, struct sl_kept_overrides *ret_kept)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *mark = json_object_get(root, "mark");
    json_int_t revision = json_integer_value(json_object_get(root, "revision"));
    struct sl_kept_overrides kept = {.list = NULL};
    int err;

    if (!format || strcmp(format, FORMAT) != 0 || revision < 0 || !json_is_string(mark) ||
        sl_revision_read(json_string_value(mark), json_string_length(mark), &kept.revision) ||
        !json_is_array(json_object_get(root, "log")))
        return SL_EFORMAT;
    err = read_records(json_object_get(root, "overrides"), (uint64_t)revision, &kept.list);
    if (err)
        return err;
    kept.log = json_incref(json_object_get(root, "log"));
    *ret_kept = kept;
    return 0;
}

static void put_aside(const char *path)
{
    char aside[4224];

    snprintf(aside, sizeof aside, "%s.unreadable", path);
    (void)rename(path, aside);
}

int sl_keep_find_overrides(const char *dir, const struct sl_store_url *url, const char *ns,
                           struct sl_kept_overrides *ret_kept, char *why, size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    char path[4160], name[SL_KEEP_NAME_MAX], reason[SL_FILE_WHY_MAX], *text = NULL;
    struct stat st;
    json_t *root;
    size_t len;
    int err;

    name_file(url, ns, name);
    snprintf(path, sizeof path, "%.4096s/%s", dir, name);
    if (stat(path, &st) && errno == ENOENT)
        return SL_ENOTFOUND;
    err = sl_file_read(path, FILE_BYTES_MAX, &alloc, &text, &len, reason);
    if (err) {
        snprintf(why, why_size, "%s: %s", path, err == SL_EIO ? reason : sl_err_text(err));
        return err;
    }
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    err = read_root(root, ret_kept);
    if (err)
        snprintf(why, why_size, "%s: %s", path, sl_err_text(err));
    if (err == SL_EFORMAT)
        put_aside(path);
    json_decref(root);
    sl_free(&alloc, text);
    return err;
}
