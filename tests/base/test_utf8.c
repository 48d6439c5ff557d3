/* Every sequence of up to four bytes that could matter, against the definition: decode, encode again, compare. */
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

/* The shortest encoding of a code point: its length. */
static size_t encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* The code point that n bytes would mean, whatever bits their heads have. */
static uint32_t decode(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);

    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3f);
    return c;
}

static size_t slow_len(const char *text, size_t left)
{
    for (size_t n = 1; n <= 4 && n <= left; n++) {
        uint32_t c = decode(text, n);
        char again[4];

        if (c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) && encode(c, again) == n && !memcmp(again, text, n))
            return n;
    }
    return 0;
}

static void sequences_are_what_the_definition_says(void **state)
{
    static const unsigned char tails[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xe0, 0xf4, 0xff};
    const size_t n = sizeof tails;

    (void)state;
    for (unsigned first = 0; first < 256; first++) {
        for (size_t i = 0; i < n * n * n; i++) {
            char text[4] = {(char)first, (char)tails[i % n], (char)tails[i / n % n], (char)tails[i / n / n]};

            for (size_t left = 1; left <= sizeof text; left++)
                assert_int_equal(sl_utf8_len(text, left), slow_len(text, left));
        }
    }
}

static void every_code_point_is_taken_whole(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char text[4];
        size_t n = encode(c, text);

        assert_int_equal(sl_utf8_len(text, n), c >= 0xd800 && c <= 0xdfff ? 0 : n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_are_what_the_definition_says),
        cmocka_unit_test(every_code_point_is_taken_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
