/* A version's texts and the policies they make. */
#ifndef SL_CONTROL_TEXT_H
#define SL_CONTROL_TEXT_H

#include "control/versions.h"
#include "policy/policy.h"

/* Room for the texts of these lengths, zeroed; keys_len is ignored unless has_keys. Returns 0 or SL_ENOMEM. */
int sl_version_text_make(const struct sl_alloc *alloc, size_t body_len, bool has_keys, size_t keys_len,
                         struct sl_version_text *ret_text);

/* The files that `policy` was loaded from, when they still are what it was made of (their digest says so). Returns 0; SL_EIO
 * (also when they have changed since) or SL_ENOMEM with a sentence. */
int sl_version_text_read(const struct sl_alloc *alloc, const char *path, const struct sl_policy *policy,
                         struct sl_version_text *ret_text, char *why, size_t why_size);

/* As sl_policy_parse, with no file read. `name` stands for the file in findings. The options' own fields about the keys are
 * ignored. */
int sl_version_text_compile(const struct sl_version_text *text, const char *name,
                            const struct sl_policy_options *options, struct sl_policy **ret_policy,
                            struct sl_diags *diags);

#endif
