#include "replay/replay.h"

static void free_compare(const struct sl_alloc *alloc, struct sl_replay_compare *compare)
{
    if (!compare)
        return;
    for (size_t i = 0; i < compare->n_keys; i++)
        sl_free(alloc, compare->keys[i].key);
    sl_free(alloc, compare->keys);
    sl_free(alloc, compare->limits);
    sl_free(alloc, compare);
}

void sl_replay_summary_free(struct sl_replay_summary **summary)
{
    struct sl_replay_summary *s = *summary;
    struct sl_alloc alloc;

    if (!s)
        return;
    alloc = s->alloc;
    for (size_t i = 0; i < s->n_top_rejected; i++)
        sl_free(&alloc, s->top_rejected[i].key);
    for (size_t i = 0; i < s->n_malformed_shown; i++) {
        sl_free(&alloc, s->malformed_shown[i].path);
        sl_free(&alloc, s->malformed_shown[i].reason);
    }
    sl_free(&alloc, s->top_rejected);
    sl_free(&alloc, s->limits);
    free_compare(&alloc, s->compare);
    sl_free(&alloc, s);
    *summary = NULL;
}
