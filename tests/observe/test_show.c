/* What clients sent, made fit to be shown. */
#include "observe/show.h"

#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FFFD "\xef\xbf\xbd"

static void expect(const char *text, const char *wanted)
{
    char shown[SL_SHOWN_MAX(256)];

    sl_show(shown, text, strlen(text), strlen(text));
    assert_string_equal(shown, wanted);
}

static void text_stays_as_it_is(void **state)
{
    (void)state;
    expect("", "");
    expect("acct_8812 \"quoted\" \\ '$(x)'", "acct_8812 \"quoted\" \\ '$(x)'");
    expect("caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80 \xc2\xa0", "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80 \xc2\xa0");
}

static void what_acts_is_replaced(void **state)
{
    (void)state;
    expect("a\x1b[2J\x7f\n\t", "a" FFFD "[2J" FFFD FFFD FFFD);
    expect("\xc2\x9b"
           "31m\xc2\x85",
           FFFD "31m" FFFD);                                                     /* C1 */
    expect("\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c", FFFD FFFD FFFD FFFD); /* turns the direction */
    expect("a\xe2\x80\x8b"
           "b\xef\xbb\xbf\xe2\x81\xa0\xc2\xad",
           "a" FFFD "b" FFFD FFFD FFFD);           /* has no width */
    expect("\xe2\x80\xa8\xe2\x80\xa9", FFFD FFFD); /* ends a line */
    expect("\xf3\xa0\x81\x81", FFFD);              /* a tag */
}

static void what_is_no_utf8_is_replaced_byte_by_byte(void **state)
{
    (void)state;
    expect("\xff\xc3(\xe2\x82", FFFD FFFD "(" FFFD FFFD);
    expect("\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD);
}

static void what_is_cut_ends_with_an_ellipsis(void **state)
{
    char shown[SL_SHOWN_MAX(8)];

    (void)state;
    sl_show(shown, "12345678", 9, 8);
    assert_string_equal(shown, "12345678\xe2\x80\xa6");
    sl_show(shown, "123456\xe2\x82", 9, 8); /* no half of a character */
    assert_string_equal(shown, "123456\xe2\x80\xa6");
    sl_show(shown, "12345\xf0\x9f\x98", 9, 8);
    assert_string_equal(shown, "12345\xe2\x80\xa6");
    sl_show(shown, "x", 1, 0);
    assert_string_equal(shown, "\xe2\x80\xa6");
}

/* Any bytes, cut anywhere: it fits, and it is UTF-8 without a control character. */
static void anything_fits_and_is_harmless(void **state)
{
    uint64_t random = 88172645463325252u;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        char text[24], *shown;
        size_t len, kept, at = 0, n;

        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        len = random % 25;
        kept = random >> 8 & 1 ? len : (random >> 16) % (len + 1);
        for (size_t j = 0; j < len; j++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            text[j] = (char)(random >> 32 & 1 ? random : 0x80 | (random & 0xff));
        }
        shown = malloc(SL_SHOWN_MAX(kept)); /* exactly, for a sanitizer */
        assert_non_null(shown);
        sl_show(shown, text, len, kept);
        for (; shown[at]; at += n) {
            n = sl_utf8_len(shown + at, strlen(shown + at));
            assert_true(n > 0);
            assert_true((unsigned char)shown[at] >= 0x20 && shown[at] != 0x7f);
            assert_false(n == 2 && (unsigned char)shown[at] == 0xc2 && (unsigned char)shown[at + 1] < 0xa0);
        }
        free(shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_stays_as_it_is),
        cmocka_unit_test(what_acts_is_replaced),
        cmocka_unit_test(what_is_no_utf8_is_replaced_byte_by_byte),
        cmocka_unit_test(what_is_cut_ends_with_an_ellipsis),
        cmocka_unit_test(anything_fits_and_is_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
