/* The keyed hash against libsodium's SipHash-2-4-128, and its independence of alignment and neighbours. */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sodium.h>
#include <string.h>

static const struct sl_secret secret = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

static void every_length_equals_libsodium(void **state)
{
    unsigned char data[600], want[16], key[16];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + 11);
    memcpy(key, &secret, sizeof key);
    for (size_t len = 0; len <= sizeof data; len++) {
        struct sl_hash128 got = sl_hash24(secret, data, len);

        crypto_shorthash_siphashx24(want, data, len, key);
        assert_memory_equal(&got, want, sizeof want);
    }
}

static void one_round_hash_reads_only_its_bytes(void **state)
{
    unsigned char a[64], b[64];

    (void)state;
    for (size_t len = 0; len < 40; len++) {
        for (size_t shift = 0; shift < 8; shift++) {
            memset(a, 0xAA, sizeof a);
            memset(b, 0x55, sizeof b);
            for (size_t i = 0; i < len; i++)
                a[shift + i] = b[i] = (unsigned char)i;
            struct sl_hash128 x = sl_hash13(secret, a + shift, len), y = sl_hash13(secret, b, len);
            assert_true(x.a == y.a && x.b == y.b);
        }
    }
}

static void derived_secrets_do_not_join_ambiguously(void **state)
{
    struct sl_secret x = sl_secret_derive(secret, "ab", "c", 1), y = sl_secret_derive(secret, "a", "bc", 2);

    (void)state;
    assert_true(x.k0 != y.k0 && x.k1 != y.k1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_equals_libsodium),
        cmocka_unit_test(one_round_hash_reads_only_its_bytes),
        cmocka_unit_test(derived_secrets_do_not_join_ambiguously),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
