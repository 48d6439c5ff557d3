/* What survives a restart, kept in a folder: the last good policy (policy.yaml and, beside it, the keys_file that it
 * names), and the secrets of fleets (one file for each store and namespace). */
#ifndef SL_SLUICED_KEEP_H
#define SL_SLUICED_KEEP_H

#include "base/hash.h"
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

/* Writes a file of the folder: complete on the disk before it takes its place. As above. */
int sl_keep_write(const char *dir, const char *name, const char *bytes, size_t len, char *why, size_t why_size);

#endif
