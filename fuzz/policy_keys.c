/* Any bytes as a keys_file: every line a key with its tier, or a finding; never a key out of range. */
#include "policy/draft.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_tiers_draft tiers = {.n_keys = 0};
    struct sl_arena arena;
    struct sl_diags diags;

    sl_arena_init(&arena, sl_alloc_system());
    sl_diags_init(&diags, sl_alloc_system());
    struct sl_reader reader = {.arena = &arena, .diags = &diags, .file = "p.yaml"};
    sl_keys_file_parse(&reader, (const char *)data, size, "keys.csv", &tiers);
    for (size_t i = 0; i < tiers.n_keys; i++) {
        const struct sl_key_draft *key = &tiers.keys[i];

        if (key->key_len < 1 || key->key_len > SLUICE_KEY_MAX || memchr(key->key, '\n', key->key_len) ||
            !key->tier[0] || strlen(key->tier) >= SLUICE_NAME_MAX || key->line < 1)
            abort();
    }
    sl_diags_fini(&diags);
    sl_arena_fini(&arena);
    return 0;
}
