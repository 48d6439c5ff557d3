#include "lib/kept.h"

#include "base/err.h"

#include <string.h>

void sl_kept_init(struct sl_kept *kept)
{
    memset(kept, 0, sizeof *kept);
    pthread_mutex_init(&kept->lock, NULL);
}

void sl_kept_fini(struct sl_kept *kept, const struct sl_alloc *alloc)
{
    sl_kept_text_free(&kept->text, alloc);
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
