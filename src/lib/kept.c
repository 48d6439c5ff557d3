#include "lib/kept.h"

#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void sl_kept_init(struct sl_kept *kept)
{
    memset(kept, 0, sizeof *kept);
    pthread_mutex_init(&kept->lock, NULL);
}

void sl_kept_fini(struct sl_kept *kept, const struct sl_alloc *alloc)
{
    sl_kept_text_free(&kept->text, alloc);
    sl_version_text_free(alloc, &kept->version_text);
    sl_overrides_unref(kept->overrides);
    pthread_mutex_destroy(&kept->lock);
}

int sl_kept_copy(struct policy_text *text, const struct sl_alloc *alloc, struct sl_kept_text *ret_text)
{
    struct sl_kept_text copy = {.name = sl_strndup(alloc, text->name, strlen(text->name)),
                                .bytes = text->owned ? text->owned : sl_strndup(alloc, text->bytes, text->len),
                                .len = text->len};

    if (!copy.name || !copy.bytes) {
        if (text->owned)
            copy.bytes = NULL;
        sl_kept_text_free(&copy, alloc);
        return SL_ENOMEM;
    }
    text->owned = NULL;
    *ret_text = copy;
    return 0;
}

void sl_kept_text_free(struct sl_kept_text *text, const struct sl_alloc *alloc)
{
    sl_free(alloc, text->bytes);
    sl_free(alloc, text->name);
}

int sl_kept_compile_version(const struct sl_version *version, const struct sl_version_text *text,
                            const struct sluice *handle, const struct sl_secret *secret,
                            const struct finding_sink *sink, struct sl_policy **ret_policy, char *ret_why,
                            size_t why_size)
{
    char name[32];
    const struct policy_text body = {.bytes = text->body, .len = text->body_len, .name = name};
    const struct sl_policy_options options = {.secret = *secret,
                                              .alloc = handle->alloc,
                                              .has_store = true,
                                              .region = handle->region,
                                              .detached = true,
                                              .keys_text = text->keys,
                                              .keys_len = text->keys_len};

    snprintf(name, sizeof name, "version %" PRIu64, version->number);
    return sl_lib_compile(&body, &options, sink, ret_policy, ret_why, why_size);
}
