#include "sluiced/keep.h"

#include "base/err.h"
#include "policy/digest.h"
#include "policy/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT_NAME "policy.yaml"

struct text {
    char *bytes; /* NULL: there is none */
    size_t len;
};

static int read_text(const char *path, struct text *ret_text, char *why, size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    char reason[SL_FILE_WHY_MAX];
    int err = sl_file_read(path, SL_POLICY_BYTES_MAX, &alloc, &ret_text->bytes, &ret_text->len, reason);

    if (err)
        snprintf(why, why_size, "%s: %s", path, err == SL_EIO ? reason : sl_err_text(err));
    return err;
}

static int write_and_sync(int fd, const char *bytes, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = write(fd, bytes + done, len - done);

        if (n < 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return fsync(fd);
}

/* Under a name of its own until it is on the disk, so that a crash leaves the old copy or the new one. What could not be
 * written goes again: on a disk that is full it would be what the next one finds no room for. */
int sl_keep_write(const char *dir, const char *name, const char *bytes, size_t len, char *why, size_t why_size)
{
    char *path = NULL, *next = NULL;
    int fd = -1, err = SL_ENOMEM;

    if (asprintf(&path, "%s/%s", dir, name) < 0 || asprintf(&next, "%s/%s.next", dir, name) < 0)
        goto out;
    err = SL_EIO;
    fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && write_and_sync(fd, bytes, len) == 0 && rename(next, path) == 0)
        err = 0;
out:
    if (err)
        snprintf(why, why_size, "%s/%s: %s", dir, name, err == SL_ENOMEM ? sl_err_text(err) : strerror(errno));
    if (fd >= 0 && err)
        (void)unlink(next);
    if (fd >= 0)
        close(fd);
    free(path);
    free(next);
    return err;
}

/* Reads the keys_file that stands in the policy's folder or at an absolute path; none leaves *ret_text empty. */
static int read_keys(const char *policy_path, const char *keys_file, struct text *ret_text, char *why, size_t why_size)
{
    const char *slash = strrchr(policy_path, '/');
    int folder_len = keys_file && keys_file[0] != '/' && slash ? (int)(slash - policy_path) + 1 : 0, err;
    char *path;

    if (!keys_file)
        return 0;
    if (asprintf(&path, "%.*s%s", folder_len, policy_path, keys_file) < 0) {
        snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
        return SL_ENOMEM;
    }
    err = read_text(path, ret_text, why, why_size);
    free(path);
    return err;
}

int sl_keep_save(const char *dir, const char *policy_path, const struct sl_policy *policy, char *why, size_t why_size)
{
    const char *keys_file = sl_policy_keys_file(policy);
    struct text body = {0}, keys = {0};
    char hash[65];
    int err = read_text(policy_path, &body, why, why_size);

    if (!err)
        err = read_keys(policy_path, keys_file, &keys, why, why_size);
    if (!err && (err = sl_digest(body.bytes, body.len, keys.bytes, keys.len, hash)))
        snprintf(why, why_size, "%s", sl_err_text(err));
    if (!err && !strcmp(hash, sl_policy_hash(policy))) {
        bool beside = keys_file && !strchr(keys_file, '/') && strcmp(keys_file, KEPT_NAME) != 0;

        if (beside)
            err = sl_keep_write(dir, keys_file, keys.bytes, keys.len, why, why_size);
        if (!err)
            err = sl_keep_write(dir, KEPT_NAME, body.bytes, body.len, why, why_size);
    }
    free(body.bytes);
    free(keys.bytes);
    return err;
}

/* Text that was kept, compiled as if it stood in its old place: a keys_file that was not copied is found. */
static struct sl_policy *compile_in_place(const char *kept, const char *policy_path,
                                          const struct sl_policy_options *options, struct sl_diags *diags)
{
    struct sl_policy *policy = NULL;
    struct text body = {0};
    char why[256];

    if (read_text(kept, &body, why, sizeof why) == 0 &&
        sl_policy_parse(body.bytes, body.len, policy_path, options, &policy, diags))
        policy = NULL;
    free(body.bytes);
    return policy;
}

struct sl_policy *sl_keep_load(const char *dir, const char *policy_path, const struct sl_policy_options *options)
{
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    char *kept;

    if (asprintf(&kept, "%s/" KEPT_NAME, dir) < 0)
        return NULL;
    sl_diags_init(&diags, options->alloc);
    if (sl_policy_load(kept, options, &policy, &diags))
        policy = compile_in_place(kept, policy_path, options, &diags);
    sl_diags_fini(&diags);
    free(kept);
    return policy;
}
