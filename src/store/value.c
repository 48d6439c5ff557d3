/* Keys and values of the store. */
#include "store/codec.h"

#include "base/err.h"
#include "core/span.h"
#include "store/bytes.h"

#include <string.h>

#define LOW_BITS 30
#define LOW_MASK ((UINT64_C(1) << LOW_BITS) - 1)

static char *put_base64url(char *p, uint64_t x, unsigned bits)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    for (; bits >= 6; bits -= 6)
        *p++ = digits[(x >> (bits - 6)) & 63];
    if (bits)
        *p++ = digits[(x << (6 - bits)) & 63];
    return p;
}

size_t sl_store_key(char buf[static SL_STORE_KEY_MAX], const char *ns, size_t ns_len, struct sl_hash128 who,
                    uint64_t id)
{
    char *p = buf;

    memcpy(p, ns, ns_len);
    p += ns_len;
    *p++ = ':';
    *p++ = '{';
    p = put_base64url(p, who.a, 64);
    p = put_base64url(p, who.b, 64);
    *p++ = '}';
    *p++ = ':';
    p = put_base64url(p, id, 64);
    return (size_t)(p - buf);
}

size_t sl_value_write(enum sl_algorithm algorithm, struct sl_state state, uint8_t buf[static SL_VALUE_MAX])
{
    uint64_t whole = sl_state_whole_us(state);
    uint64_t version = (state.lo >> SL_STATE_VERSION_SHIFT) & SL_STATE_VERSION_MASK;
    uint8_t *p = buf;

    p = sl_put(p, SL_VALUE_TAG + algorithm + (whole >> 52 ? SL_VALUE_TAG_FAR : 0), 1);
    p = sl_put(p, version << 34 | ((whole >> 48) & 15) << LOW_BITS | (state.hi & LOW_MASK), 5);
    p = sl_put(p, whole, 6);
    if (algorithm == SL_SLIDING_WINDOW_COUNTER)
        p = sl_put(p, state.hi >> 32, 4);
    return (size_t)(p - buf);
}

int sl_value_read(enum sl_algorithm algorithm, const void *bytes, size_t len, struct sl_state *ret_state)
{
    const uint8_t *p = bytes;
    uint64_t x, whole;
    bool counter = algorithm == SL_SLIDING_WINDOW_COUNTER;

    if (len != (counter ? 16 : 12) || (p[0] & ~SL_VALUE_TAG_FAR) != SL_VALUE_TAG + (unsigned)algorithm)
        return SL_EFORMAT;
    x = sl_get(p + 1, 5);
    whole = sl_get(p + 6, 6) | ((x >> LOW_BITS) & 15) << 48 | (uint64_t)((p[0] & SL_VALUE_TAG_FAR) != 0) << 52;
    ret_state->lo = (x >> 34) << SL_STATE_VERSION_SHIFT | whole;
    ret_state->hi = (x & LOW_MASK) | (counter ? sl_get(p + 12, 4) << 32 : 0);
    return 0;
}

uint64_t sl_value_expires_ms(enum sl_algorithm algorithm, struct sl_state state)
{
    return sl_ms_ceil(sl_state_whole_us(state) + (sl_algorithm_is_bucket(algorithm) && (uint32_t)state.hi != 0));
}
