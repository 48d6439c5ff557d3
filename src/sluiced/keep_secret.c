/* Secrets of fleets, each in a file named after its store and namespace: which they are is not in the name, so that a
 * folder listing tells nothing of where the stores are. */
#include "base/err.h"
#include "fleet/members.h"
#include "policy/file.h"
#include "sluiced/keep.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define STORE_TEXT_MAX 8192
#define FILE_BYTES_MAX 256

void sl_keep_name(const char *what, const struct sl_store_url *store, const char *ns,
                  char name[static SL_KEEP_NAME_MAX])
{
    char text[STORE_TEXT_MAX + 64];
    struct sl_hash128 hash;
    size_t len;

    sl_store_url_text(store, text, STORE_TEXT_MAX);
    len = strlen(text) + 1; /* the zero byte is between the two, since neither holds one */
    len += (size_t)snprintf(text + len, sizeof text - len, "%s", ns);
    hash = sl_hash13((struct sl_secret){0}, text, len);
    snprintf(name, SL_KEEP_NAME_MAX, "%s-%016llx%016llx", what, (unsigned long long)hash.a, (unsigned long long)hash.b);
}

int sl_keep_secret(const char *dir, const struct sl_store_url *store, const char *ns, const struct sl_secret *secret,
                   char *why, size_t why_size)
{
    char name[SL_KEEP_NAME_MAX], text[SL_MEMBERS_SECRET_LEN + 1];

    sl_keep_name("secret", store, ns, name);
    sl_members_write_secret(secret, text);
    text[SL_MEMBERS_SECRET_LEN] = '\n'; /* in the place of the zero byte */
    return sl_keep_write(dir, name, text, sizeof text, why, why_size);
}

int sl_keep_find_secret(const char *dir, const struct sl_store_url *store, const char *ns, struct sl_secret *ret_secret,
                        char *why, size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    char path[4096], name[SL_KEEP_NAME_MAX], reason[SL_FILE_WHY_MAX], *text = NULL;
    struct stat st;
    size_t len;
    int err;

    sl_keep_name("secret", store, ns, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (stat(path, &st) && errno == ENOENT)
        return SL_ENOTFOUND;
    err = sl_file_read(path, FILE_BYTES_MAX, &alloc, &text, &len, reason);
    if (err) {
        snprintf(why, why_size, "%s: %s", path, err == SL_EIO ? reason : sl_err_text(err));
        return err;
    }
    err = sl_members_read_secret(text, strcspn(text, "\n"), ret_secret);
    if (err)
        snprintf(why, why_size, "%s: not a secret of %u hex digits", path, SL_MEMBERS_SECRET_LEN);
    sl_free(&alloc, text);
    return err;
}
