/* What survives a restart, kept in a folder: the last good policy (policy.yaml and, beside it, the keys_file that it
 * names); and of each store and namespace, a file each, the fleet's secret and the last good version of the policy. */
#ifndef SL_SLUICED_KEEP_H
#define SL_SLUICED_KEEP_H

#include "base/hash.h"
#include "control/versions.h"
#include "policy/policy.h"
#include "store/url.h"

/* Copies the files that `policy` was compiled from, when they still are what it was compiled from (their digest says
 * so; else the next reload keeps the newer ones). Each copy is complete on the disk before it takes its place. A
 * keys_file in another folder than the policy's is not copied: it is read from where it is. Returns 0, or SL_EIO or
 * SL_ENOMEM with a sentence. */
int sl_keep_save(const char *dir, const char *policy_path, const struct sl_policy *policy, char *why, size_t why_size);

/* The policy that was kept, or NULL when there is none or it does not compile any more. `policy_path` is where it came
 * from. */
struct sl_policy *sl_keep_load(const char *dir, const char *policy_path, const struct sl_policy_options *options);

/* Keeps the secret that the instances on this store and namespace share, in a file that only its owner may read.
 * Returns 0, or SL_EIO or SL_ENOMEM with a sentence. */
int sl_keep_secret(const char *dir, const struct sl_store_url *store, const char *ns, const struct sl_secret *secret,
                   char *why, size_t why_size);

/* Finds it again: 0; SL_ENOTFOUND; or SL_EIO, SL_EFORMAT or SL_ENOMEM with a sentence. */
int sl_keep_find_secret(const char *dir, const struct sl_store_url *store, const char *ns, struct sl_secret *ret_secret,
                        char *why, size_t why_size);

/* ---- keep_version.c: the last good version of a store's policy, number and texts in one file */

int sl_keep_version(const char *dir, const struct sl_store_url *store, const char *ns, const struct sl_pointer *version,
                    const struct sl_version_text *text, char *why, size_t why_size);

/* Finds it again: 0 and texts to be freed (sl_version_text_free with the system's allocator); SL_ENOTFOUND; or SL_EIO,
 * SL_EFORMAT (also when they are not what their hash says) or SL_ENOMEM with a sentence. */
int sl_keep_find_version(const char *dir, const struct sl_store_url *store, const char *ns,
                         struct sl_pointer *ret_version, struct sl_version_text *ret_text, char *why, size_t why_size);

/* ---- between the files of this header */

/* The file's name for what is kept of a store and namespace; it does not tell which they are. */
#define SL_KEEP_NAME_MAX 48
void sl_keep_name(const char *what, const struct sl_store_url *store, const char *ns,
                  char name[static SL_KEEP_NAME_MAX]);

/* Writes a file of the folder: complete on the disk before it takes its place. As above. */
int sl_keep_write(const char *dir, const char *name, const char *bytes, size_t len, char *why, size_t why_size);

#endif
