/* Keyed hashing: SipHash with a 128-bit result (Aumasson, Bernstein 2012; the 128-bit variant of the reference
 * code).
 *
 * Keys are never stored: a bucket is found by a 128-bit fingerprint under a secret, so nobody can aim at another's
 * bucket or at one group of the table. SipHash-1-3 is what the table uses; 2-4 exists so that a test can compare
 * the code bit for bit with libsodium's. Results are the same on every machine: little-endian words. */
#ifndef SL_BASE_HASH_H
#define SL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct sl_secret {
    uint64_t k0, k1;
};

struct sl_hash128 {
    uint64_t a, b;
};

/* SipHash-1-3-128 of len bytes under `secret`. `data` may be NULL when len is 0. Any thread. */
struct sl_hash128 sl_hash13(struct sl_secret secret, const void *data, size_t len);

/* SipHash-2-4-128, for comparison with other implementations. */
struct sl_hash128 sl_hash24(struct sl_secret secret, const void *data, size_t len);

/* A secret derived from `secret` for one named use ("key type user", "limit free"): independent of every other
 * name's, the same in every process that has the same secret. */
struct sl_secret sl_secret_derive(struct sl_secret secret, const char *domain, const void *name, size_t name_len);

/* Fills `secret` from getrandom(2). Returns 0, or SL_EIO. */
int sl_secret_random(struct sl_secret *ret_secret);

/* Combines two independent fingerprints into one (both halves added, so order does not matter and equal parts do
 * not cancel as they would under exclusive or). */
static inline struct sl_hash128 sl_hash_join(struct sl_hash128 x, struct sl_hash128 y)
{
    return (struct sl_hash128){.a = x.a + y.a, .b = x.b + y.b};
}

#endif
