#include "observe/sketch.h"

#include "observe/show.h"

#include <string.h>

static const char usual_type[] = "api_key";

void sl_sketch_keep_text(struct sl_sketch_text *text, const struct sluice_request *request)
{
    const char *type = request->key_type ? request->key_type : usual_type;
    size_t type_len = request->key_type ? request->key_type_len : sizeof usual_type - 1;
    size_t kept = request->key_len < SL_SKETCH_KEY_MAX ? request->key_len : SL_SKETCH_KEY_MAX;

    text->key_len = (uint16_t)request->key_len;
    text->type_len = (uint8_t)type_len;
    memcpy(text->key, request->key, kept);
    memcpy(text->type, type, type_len < SL_SKETCH_TYPE_MAX ? type_len : SL_SKETCH_TYPE_MAX);
}

void sl_sketch_add(struct sl_sketch *sketch, uint64_t hash, const struct sluice_request *request)
{
    unsigned at = (unsigned)(hash >> 32) % SL_SKETCH_SETS, least = 0;
    struct sl_sketch_set *set = &sketch->sets[at];

    for (unsigned i = 0; i < SL_SKETCH_WAYS; i++) {
        if (set->hash[i] == hash) {
            set->count[i] += set->count[i] < UINT32_MAX;
            return;
        }
        if (set->count[i] < set->count[least])
            least = i;
    }
    set->hash[least] = hash;
    set->error[least] = set->count[least];
    set->count[least] += set->count[least] < UINT32_MAX;
    sl_sketch_keep_text(&sketch->texts[at][least], request);
}

void sl_sketch_clear(struct sl_sketch *sketch)
{
    memset(sketch->sets, 0, sizeof sketch->sets);
}

/* ---- for people */

void sl_sketch_show(const char *text, size_t len, size_t max, char *to)
{
    sl_show(to, text, len, len < max ? len : max);
}
