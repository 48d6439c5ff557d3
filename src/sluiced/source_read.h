/* From texts to policies, as the source reads them: the file with its keys_file, and what the store or the state folder has.
 * What is wrong with one is logged, its first finding returned. All with the source's lock held, or before it is shared. */
#ifndef SL_SLUICED_SOURCE_READ_H
#define SL_SLUICED_SOURCE_READ_H

#include "sluiced/source.h"

/* What is logged, or-ed. */
#define SL_READ_SILENTLY 0u
#define SL_READ_WARNINGS 1u /* of a good text */
#define SL_READ_ERRORS 2u   /* all there is to say of a broken one */

/* A policy, and the text it was compiled from. */
struct sl_reading {
    struct sl_policy *policy;
    char *text;
    size_t len;
};

/* What policies are compiled with. */
struct sl_policy_options sl_source_options(const struct sl_source *source);

/* Compiles the file. Returns 0; or SL_EPOLICY or SL_ENOMEM with the first finding, and nothing in *ret_reading. */
int sl_source_load(const struct sl_source *source, unsigned logged, struct sl_reading *ret_reading, char *why,
                   size_t why_size);

/* Compiles the texts of a version. Likewise. */
int sl_source_compile(const struct sl_source *source, const struct sl_version_text *text, const char *name,
                      unsigned logged, struct sl_policy **ret_policy, char *why, size_t why_size);

/* The same, and thrown away. A warning of the `refused` ones is an error too. */
int sl_source_judge_text(const struct sl_source *source, const struct sl_version_text *text, const char *name,
                         enum sl_warnings refused, char *why, size_t why_size);

/* The file as it was last good, else what was kept of it. NULL: neither compiles. */
struct sl_policy *sl_source_recompile(const struct sl_source *source);

#endif
