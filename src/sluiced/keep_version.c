/* The last good version of a store's policy: one line with number, hash and lengths, then the texts, a NUL between them. */
#include "base/err.h"
#include "control/text.h"
#include "policy/digest.h"
#include "policy/file.h"
#include "sluiced/keep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_MAX 160
#define HEAD_FORMAT "sluice-kept-version 1 "

int sl_keep_version(const char *dir, const struct sl_store_url *store, const char *ns, const struct sl_pointer *version,
                    const struct sl_version_text *text, char *why, size_t why_size)
{
    size_t texts = text->body_len + (text->keys ? 1 + text->keys_len : 0), head;
    char name[SL_KEEP_NAME_MAX], *bytes = malloc(HEAD_MAX + texts);
    int err;

    if (!bytes) {
        snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
        return SL_ENOMEM;
    }
    head = (size_t)snprintf(bytes, HEAD_MAX, HEAD_FORMAT "%" PRIu64 " %s %zu %s%zu\n", version->number, version->hash,
                            text->body_len, text->keys ? "" : "-", text->keys ? text->keys_len : 0);
    memcpy(bytes + head, text->bytes, texts);
    sl_keep_name("version", store, ns, name);
    err = sl_keep_write(dir, name, bytes, head + texts, why, why_size);
    free(bytes);
    return err;
}

struct head {
    struct sl_pointer version;
    uint64_t body_len, keys_len;
    bool has_keys;
};

static bool read_length(char **at, uint64_t *ret_len)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *ret_len = strtoull(*at, &end, 10);
    *at = end;
    return !errno && *ret_len <= SL_POLICY_BYTES_MAX;
}

/* `line` is NUL-terminated in the place of its end. */
static bool read_head(char *line, struct head *head)
{
    char *at = line + strlen(HEAD_FORMAT), *space;

    if (strncmp(line, HEAD_FORMAT, strlen(HEAD_FORMAT)) != 0)
        return false;
    space = strchr(at, ' ');
    space = space ? strchr(space + 1, ' ') : NULL;
    if (!space || sl_pointer_read(at, (size_t)(space - at), &head->version))
        return false;
    at = space + 1;
    if (!read_length(&at, &head->body_len) || *at++ != ' ')
        return false;
    head->has_keys = *at != '-';
    at += !head->has_keys;
    return read_length(&at, &head->keys_len) && !*at && (head->has_keys || head->keys_len == 0);
}

static int take_texts(const struct head *head, const char *bytes, size_t len, struct sl_version_text *ret_text)
{
    struct sl_alloc alloc = sl_alloc_system();
    size_t wanted = head->body_len + (head->has_keys ? 1 + head->keys_len : 0);
    char hash[SL_HASH_HEX + 1];
    int err;

    if (len != wanted || (head->has_keys && bytes[head->body_len] != '\0'))
        return SL_EFORMAT;
    err = sl_version_text_make(&alloc, head->body_len, head->has_keys, head->keys_len, ret_text);
    if (err)
        return err;
    memcpy(ret_text->bytes, bytes, len);
    err = sl_digest(ret_text->body, ret_text->body_len, ret_text->keys, ret_text->keys_len, hash);
    if (!err && strcmp(hash, head->version.hash) != 0)
        err = SL_EFORMAT;
    if (err)
        sl_version_text_free(&alloc, ret_text);
    return err;
}

static int take(char *bytes, size_t len, struct sl_pointer *ret_version, struct sl_version_text *ret_text)
{
    char *end = memchr(bytes, '\n', len < HEAD_MAX ? len : HEAD_MAX);
    struct head head = {.has_keys = false};
    int err;

    if (!end)
        return SL_EFORMAT;
    *end = '\0';
    if (!read_head(bytes, &head))
        return SL_EFORMAT;
    err = take_texts(&head, end + 1, len - (size_t)(end + 1 - bytes), ret_text);
    if (!err)
        *ret_version = head.version;
    return err;
}

int sl_keep_find_version(const char *dir, const struct sl_store_url *store, const char *ns,
                         struct sl_pointer *ret_version, struct sl_version_text *ret_text, char *why, size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    char path[4096], name[SL_KEEP_NAME_MAX], reason[SL_FILE_WHY_MAX], *bytes = NULL;
    struct stat st;
    size_t len;
    int err;

    sl_keep_name("version", store, ns, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (stat(path, &st) && errno == ENOENT)
        return SL_ENOTFOUND;
    err = sl_file_read(path, 2 * SL_POLICY_BYTES_MAX + HEAD_MAX, &alloc, &bytes, &len, reason);
    if (err) {
        snprintf(why, why_size, "%s: %s", path, err == SL_EIO ? reason : sl_err_text(err));
        return err;
    }
    err = take(bytes, len, ret_version, ret_text);
    if (err)
        snprintf(why, why_size, "%s: %s", path, sl_err_text(err));
    sl_free(&alloc, bytes);
    return err;
}
