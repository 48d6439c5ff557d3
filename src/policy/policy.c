/* From text to a policy, and a policy's life. */
#include "base/err.h"
#include "policy/compiled.h"
#include "policy/digest.h"
#include "policy/file.h"
#include "policy/override.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- loading ---------------------------------------------------------------------------------------------------- */

/* keys_file is relative to the folder of the policy's file. */
static char *keys_path(struct sl_load *load)
{
    const char *name = load->draft.tiers.keys_file, *slash = strrchr(load->reader.file, '/');
    size_t folder = name[0] == '/' || !slash ? 0 : (size_t)(slash - load->reader.file) + 1;
    size_t size = folder + strlen(name) + 1;
    char *path = sl_read_alloc(&load->reader, size, 1);

    if (path)
        snprintf(path, size, "%.*s%s", (int)folder, load->reader.file, name);
    return path;
}

static int read_keys_file(struct sl_load *load, char **ret_text, size_t *ret_len)
{
    char *path = keys_path(load), why[SL_FILE_WHY_MAX];
    int rc = path ? sl_file_read(path, SL_POLICY_BYTES_MAX, &load->options->alloc, ret_text, ret_len, why) : SL_ENOMEM;

    if (rc == SL_EIO)
        sl_load_error(load, load->draft.tiers.given.at[SL_TF_KEYS_FILE], "tiers.keys_file", "cannot read %s: %s", path,
                      why);
    else if (rc == 0)
        sl_keys_file_parse(&load->reader, *ret_text, *ret_len, path, &load->draft.tiers);
    return rc == SL_ENOMEM ? rc : 0;
}

/* The keys_file came with the text. One that is not named is part of the digest all the same: it was pushed. */
static int digest_detached(struct sl_load *load, const char *text, size_t len)
{
    const struct sl_policy_options *options = load->options;
    const char *name = load->draft.tiers.keys_file;

    if (name && options->keys_text)
        sl_keys_file_parse(&load->reader, options->keys_text, options->keys_len, name, &load->draft.tiers);
    else if (name)
        sl_load_error(load, load->draft.tiers.given.at[SL_TF_KEYS_FILE], "tiers.keys_file",
                      "%s did not come with this policy", name);
    return sl_digest(text, len, options->keys_text, options->keys_len, load->policy->hash);
}

static int digest(struct sl_load *load, const char *text, size_t len)
{
    char *keys = NULL;
    size_t keys_len = 0;
    int rc = 0;

    if (load->options->detached)
        return digest_detached(load, text, len);
    if (load->draft.tiers.keys_file)
        rc = read_keys_file(load, &keys, &keys_len);
    if (rc == 0)
        rc = sl_digest(text, len, keys, keys_len, load->policy->hash);
    sl_free(&load->options->alloc, keys);
    return rc;
}

static void compile(struct sl_load *load)
{
    sl_compile_identity(load);
    sl_check_keys(load);
    if (load->reader.nomem)
        return;
    sl_compile_names(load);
    if (load->reader.nomem)
        return;
    sl_compile_limits(load);
    sl_check_limits(load);
    if (load->reader.nomem)
        return;
    sl_lint_settings(load);
    if (sl_load_failed(load))
        return;
    sl_compile_shared(load);
    sl_compile_index(load);
    if (!load->reader.nomem)
        sl_lint_resolution(load);
}

static int run(struct sl_load *load, const char *text, size_t len)
{
    struct sl_node *root;
    int rc = sl_yaml_parse(text, len, load->reader.file, &load->scratch, load->reader.diags, &root);

    if (rc)
        return rc;
    sl_draft_read(&load->reader, root, &load->draft);
    if (load->reader.nomem)
        return SL_ENOMEM;
    rc = digest(load, text, len);
    if (rc)
        return rc;
    compile(load);
    if (load->reader.nomem)
        return SL_ENOMEM;
    return sl_load_failed(load) ? SL_EPOLICY : 0;
}

static struct sl_policy *new_policy(const char *file, const struct sl_policy_options *options)
{
    struct sl_policy *policy = sl_calloc(&options->alloc, 1, sizeof *policy);

    if (!policy)
        return NULL;
    atomic_init(&policy->refs, 1);
    sl_arena_init(&policy->arena, options->alloc);
    policy->has_store = options->has_store;
    policy->secret = options->secret;
    policy->file = sl_arena_strndup(&policy->arena, file, strlen(file));
    if (options->region && options->region[0])
        policy->region = sl_arena_strndup(&policy->arena, options->region, strlen(options->region));
    if (policy->file && (policy->region || !options->region || !options->region[0]))
        return policy;
    sl_policy_unref(policy);
    return NULL;
}

int sl_policy_parse(const char *text, size_t len, const char *file, const struct sl_policy_options *options,
                    struct sl_policy **ret_policy, struct sl_diags *diags)
{
    struct sl_load load = {.options = options, .errors_before = diags->n_errors};
    int rc;

    if (len > SL_POLICY_BYTES_MAX) {
        sl_diags_add(diags, SL_DIAG_ERROR, file, 0, 0, "", "larger than %u bytes", SL_POLICY_BYTES_MAX);
        return SL_EPOLICY;
    }
    load.policy = new_policy(file, options);
    if (!load.policy)
        return SL_ENOMEM;
    sl_arena_init(&load.scratch, options->alloc);
    load.reader = (struct sl_reader){.arena = &load.policy->arena, .diags = diags, .file = load.policy->file};
    rc = run(&load, text, len);
    sl_arena_fini(&load.scratch);
    if (rc == 0)
        *ret_policy = load.policy;
    else
        sl_policy_unref(load.policy);
    return rc;
}

int sl_policy_load(const char *path, const struct sl_policy_options *options, struct sl_policy **ret_policy,
                   struct sl_diags *diags)
{
    char *text = NULL, why[SL_FILE_WHY_MAX];
    size_t len;
    int rc = sl_file_read(path, SL_POLICY_BYTES_MAX, &options->alloc, &text, &len, why);

    if (rc == SL_EIO) {
        sl_diags_add(diags, SL_DIAG_ERROR, path, 0, 0, "", "cannot read the policy: %s", why);
        return SL_EPOLICY;
    }
    if (rc == 0)
        rc = sl_policy_parse(text, len, path, options, ret_policy, diags);
    sl_free(&options->alloc, text);
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

struct sl_policy *sl_policy_ref(struct sl_policy *policy)
{
    atomic_fetch_add_explicit(&policy->refs, 1, memory_order_relaxed);
    return policy;
}

/* A policy with overrides holds the one below it, which goes with it or later. */
bool sl_policy_is_alone(const struct sl_policy *policy)
{
    return atomic_load_explicit(&policy->refs, memory_order_acquire) == 1;
}

void sl_policy_unref(struct sl_policy *policy)
{
    while (policy && atomic_fetch_sub_explicit(&policy->refs, 1, memory_order_acq_rel) == 1) {
        struct sl_alloc alloc = policy->arena.alloc;
        struct sl_policy *base = policy->base;

        sl_overrides_unref(policy->overrides);
        sl_arena_fini(&policy->arena);
        sl_free(&alloc, policy);
        policy = base;
    }
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

const struct sl_door *sl_policy_door(const struct sl_policy *policy)
{
    return &policy->door;
}

const char *sl_policy_region(const struct sl_policy *policy)
{
    return policy->region;
}

size_t sl_policy_n_limits(const struct sl_policy *policy)
{
    return policy->n_limits;
}

const struct sl_limit *sl_policy_limit(const struct sl_policy *policy, size_t index)
{
    assert(index < policy->n_limits);
    return &policy->limits[index];
}

const struct sl_limit *sl_policy_ceiling(const struct sl_policy *policy)
{
    return policy->has_ceiling ? &policy->ceiling : NULL;
}

const char *sl_policy_keys_file(const struct sl_policy *policy)
{
    return policy->keys_file;
}

const char *sl_policy_hash(const struct sl_policy *policy)
{
    return policy->hash;
}

size_t sl_policy_n_dedicated(const struct sl_policy *policy)
{
    return policy->n_dedicated;
}

const char *sl_policy_dedicated_store(const struct sl_policy *policy, size_t index)
{
    assert(index < policy->n_dedicated);
    return policy->dedicated[index].store;
}

size_t sl_policy_n_endpoints(const struct sl_policy *policy)
{
    return policy->endpoints.n;
}

const char *sl_policy_endpoint_name(const struct sl_policy *policy, size_t index)
{
    assert(index < policy->endpoints.n);
    return policy->endpoints.list[index + 1].name;
}

size_t sl_policy_n_layers(const struct sl_policy *policy)
{
    return policy->n_layers;
}

const char *sl_policy_layer_name(const struct sl_policy *policy, size_t index)
{
    assert(index < policy->n_layers);
    return policy->layers[index].name;
}
