/* The last good policy, kept in a folder: policy.yaml and, beside it, the keys_file that it names. */
#ifndef SL_SLUICED_KEEP_H
#define SL_SLUICED_KEEP_H

#include "policy/policy.h"

/* Copies the files that `policy` was compiled from, when they still are what it was compiled from (their digest says
 * so; else the next reload keeps the newer ones). Each copy is complete on the disk before it takes its place. A
 * keys_file in another folder than the policy's is not copied: it is read from where it is. Returns 0, or SL_EIO or
 * SL_ENOMEM with a sentence. */
int sl_keep_save(const char *dir, const char *policy_path, const struct sl_policy *policy, char *why, size_t why_size);

/* The policy that was kept, or NULL when there is none or it does not compile any more. `policy_path` is where it came
 * from. */
struct sl_policy *sl_keep_load(const char *dir, const char *policy_path, const struct sl_policy_options *options);

#endif
