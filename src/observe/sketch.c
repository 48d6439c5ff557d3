#include "observe/sketch.h"

#include "base/utf8.h"

#include <stdbool.h>
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

/* Is this the beginning of a character whose end has been cut off? */
static bool is_cut_off(const char *text, size_t kept)
{
    const unsigned char *bytes = (const unsigned char *)text;

    if (kept > 3 || bytes[0] < 0xc2 || bytes[0] > 0xf4)
        return false;
    for (size_t i = 1; i < kept; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return false;
    return true;
}

void sl_sketch_show(const char *text, size_t len, size_t max, char *to)
{
    static const char replacement[] = "\xef\xbf\xbd", ellipsis[] = "\xe2\x80\xa6";
    size_t kept = len < max ? len : max;
    bool cut = kept < len;

    while (kept > 0) {
        size_t n = sl_utf8_len(text, kept);
        bool whole = n > 0 && (unsigned char)*text >= 0x20 && *text != 0x7f;

        if (n == 0 && cut && is_cut_off(text, kept))
            break;
        memcpy(to, whole ? text : replacement, whole ? n : 3);
        to += whole ? n : 3;
        n += n == 0;
        text += n;
        kept -= n;
    }
    memcpy(to, cut ? ellipsis : "", cut ? sizeof ellipsis : 1);
}
