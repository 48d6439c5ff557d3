#include "base/hash.h"

#include "base/err.h"

#include <string.h>
#include <sys/random.h>

#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = ROTL(s->v1, 13) ^ s->v0;
    s->v0 = ROTL(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = ROTL(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = ROTL(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = ROTL(s->v1, 17) ^ s->v2;
    s->v2 = ROTL(s->v2, 32);
}

static inline void sip_rounds(struct sip *s, int n)
{
    for (int i = 0; i < n; i++)
        sip_round(s);
}

static inline uint64_t load_le64(const unsigned char *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

/* The last 1..7 bytes and the length, as the reference code packs them. Reads no byte outside the data: behind at
 * least eight bytes it takes a whole word that ends with them and shifts the earlier ones out. */
static inline uint64_t load_tail(const unsigned char *p, size_t left, size_t len)
{
    uint64_t word = (uint64_t)len << 56;

    if (len >= 8)
        return word | load_le64(p + left - 8) >> (8 * (8 - left));
    for (size_t i = 0; i < left; i++)
        word |= (uint64_t)p[i] << (8 * i);
    return word;
}

static inline struct sl_hash128 siphash(struct sl_secret k, const unsigned char *p, size_t len, int c, int d)
{
    struct sip s = {
        k.k0 ^ 0x736f6d6570736575u,
        k.k1 ^ 0x646f72616e646f6du ^ 0xee,
        k.k0 ^ 0x6c7967656e657261u,
        k.k1 ^ 0x7465646279746573u,
    };
    struct sl_hash128 h;
    size_t left = len;
    uint64_t word;

    for (; left >= 8; p += 8, left -= 8) {
        word = load_le64(p);
        s.v3 ^= word;
        sip_rounds(&s, c);
        s.v0 ^= word;
    }
    word = left ? load_tail(p, left, len) : (uint64_t)len << 56;
    s.v3 ^= word;
    sip_rounds(&s, c);
    s.v0 ^= word;
    s.v2 ^= 0xee;
    sip_rounds(&s, d);
    h.a = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    s.v1 ^= 0xdd;
    sip_rounds(&s, d);
    h.b = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    return h;
}

struct sl_hash128 sl_hash13(struct sl_secret secret, const void *data, size_t len)
{
    return siphash(secret, data, len, 1, 3);
}

struct sl_hash128 sl_hash24(struct sl_secret secret, const void *data, size_t len)
{
    return siphash(secret, data, len, 2, 4);
}

struct sl_secret sl_secret_derive(struct sl_secret secret, const char *domain, const void *name, size_t name_len)
{
    /* Two steps, so that ("ab", "c") and ("a", "bc") differ: the domain makes a secret, that secret hashes the name. */
    struct sl_hash128 d = sl_hash24(secret, domain, strlen(domain));
    struct sl_hash128 h = sl_hash24((struct sl_secret){d.a, d.b}, name, name_len);

    return (struct sl_secret){h.a, h.b};
}

int sl_secret_random(struct sl_secret *ret_secret)
{
    struct sl_secret s;

    if (getrandom(&s, sizeof s, 0) != (ssize_t)sizeof s)
        return SL_EIO;
    *ret_secret = s;
    return 0;
}
