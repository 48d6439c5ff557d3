#include "control/text.h"

#include "base/err.h"
#include "policy/digest.h"
#include "policy/file.h"

#include <stdio.h>
#include <string.h>

int sl_version_text_make(const struct sl_alloc *alloc, size_t body_len, bool has_keys, size_t keys_len,
                         struct sl_version_text *ret_text)
{
    struct sl_version_text text = {.body_len = body_len, .keys_len = has_keys ? keys_len : 0};

    text.bytes = sl_calloc(alloc, body_len + 1 + text.keys_len + 1, 1);
    if (!text.bytes)
        return SL_ENOMEM;
    text.body = text.bytes;
    text.keys = has_keys ? text.bytes + body_len + 1 : NULL;
    *ret_text = text;
    return 0;
}

void sl_version_text_free(const struct sl_alloc *alloc, struct sl_version_text *text)
{
    sl_free(alloc, text->bytes);
    *text = (struct sl_version_text){.bytes = NULL};
}

/* ---- from files */

struct file {
    char *bytes; /* NULL: there is none */
    size_t len;
};

static int read_file(const struct sl_alloc *alloc, const char *path, struct file *ret_file, char *why, size_t why_size)
{
    char reason[SL_FILE_WHY_MAX];
    int err = sl_file_read(path, SL_POLICY_BYTES_MAX, alloc, &ret_file->bytes, &ret_file->len, reason);

    if (err)
        snprintf(why, why_size, "%s: %s", path, err == SL_EIO ? reason : sl_err_text(err));
    return err;
}

/* The keys_file stands in the policy's folder or at an absolute path. */
static int read_keys(const struct sl_alloc *alloc, const char *policy_path, const char *name, struct file *ret_file,
                     char *why, size_t why_size)
{
    const char *slash = strrchr(policy_path, '/');
    size_t folder = name[0] != '/' && slash ? (size_t)(slash - policy_path) + 1 : 0, size = folder + strlen(name) + 1;
    char *path = sl_calloc(alloc, size, 1);
    int err;

    if (!path) {
        snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
        return SL_ENOMEM;
    }
    snprintf(path, size, "%.*s%s", (int)folder, policy_path, name);
    err = read_file(alloc, path, ret_file, why, why_size);
    sl_free(alloc, path);
    return err;
}

static int put_together(const struct sl_alloc *alloc, const struct sl_policy *policy, const struct file *body,
                        const struct file *keys, struct sl_version_text *ret_text, char *why, size_t why_size)
{
    char hash[SL_HASH_HEX + 1];
    int err = sl_digest(body->bytes, body->len, keys->bytes, keys->len, hash);

    if (!err && strcmp(hash, sl_policy_hash(policy)) != 0) {
        snprintf(why, why_size, "the files changed while they were read");
        return SL_EIO;
    }
    if (!err)
        err = sl_version_text_make(alloc, body->len, keys->bytes != NULL, keys->len, ret_text);
    if (err) {
        snprintf(why, why_size, "%s", sl_err_text(err));
        return err;
    }
    memcpy(ret_text->bytes, body->bytes, body->len);
    if (keys->bytes)
        memcpy(ret_text->bytes + body->len + 1, keys->bytes, keys->len);
    return 0;
}

int sl_version_text_read(const struct sl_alloc *alloc, const char *path, const struct sl_policy *policy,
                         struct sl_version_text *ret_text, char *why, size_t why_size)
{
    const char *keys_file = sl_policy_keys_file(policy);
    struct file body = {.bytes = NULL}, keys = {.bytes = NULL};
    int err = read_file(alloc, path, &body, why, why_size);

    if (!err && keys_file)
        err = read_keys(alloc, path, keys_file, &keys, why, why_size);
    if (!err)
        err = put_together(alloc, policy, &body, &keys, ret_text, why, why_size);
    sl_free(alloc, body.bytes);
    sl_free(alloc, keys.bytes);
    return err;
}

/* ---- to policies */

int sl_version_text_compile(const struct sl_version_text *text, const char *name,
                            const struct sl_policy_options *options, struct sl_policy **ret_policy,
                            struct sl_diags *diags)
{
    struct sl_policy_options detached = *options;

    detached.detached = true;
    detached.keys_text = text->keys;
    detached.keys_len = text->keys_len;
    return sl_policy_parse(text->body, text->body_len, name, &detached, ret_policy, diags);
}
