/* Text in columns: exactly as wide as asked, whatever is in it. */
#include "cli/screen.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *text, unsigned columns, const char *wanted)
{
    char buf[256];

    screen_fit(text, columns, buf, sizeof buf);
    assert_string_equal(buf, wanted);
}

static void text_is_filled_up_or_cut(void **state)
{
    (void)state;
    expect("abc", 5, "abc  ");
    expect("abc", 3, "abc");
    expect("abcd", 3, "ab\xe2\x80\xa6");
    expect("abc", 1, "\xe2\x80\xa6");
    expect("abc", 0, "");
    expect("", 2, "  ");
    expect("", 0, "");
}

static void characters_count_as_wide_as_they_are(void **state)
{
    (void)state;
    expect("\xc3\xa9t\xc3\xa9", 4, "\xc3\xa9t\xc3\xa9 ");
    expect("\xe6\xbc\xa2\xe5\xad\x97", 5, "\xe6\xbc\xa2\xe5\xad\x97 "); /* two columns each */
    expect("\xe6\xbc\xa2\xe5\xad\x97", 3, "\xe6\xbc\xa2\xe2\x80\xa6");
    expect("\xe6\xbc\xa2\xe5\xad\x97", 2, "\xe2\x80\xa6 "); /* half of one is none */
    expect("e\xcc\x81x", 3, "e\xcc\x81x ");                 /* an accent takes no column */
    expect("\xff\xc3", 3, "\xff\xc3 ");                     /* not fit to be shown, and still bounded */
}

/* A thousand accents on one character, and a screen that is wider than the buffer: cut, never beyond it. */
static void the_buffer_is_never_left(void **state)
{
    char *text = calloc(1, 4001), *buf = malloc(64); /* of the heap, so that a sanitizer sees a byte too many */

    (void)state;
    for (unsigned i = 0; i < 4000; i++)
        text[i] = (char)(i % 2 ? 0x81 : 0xcc);
    for (unsigned columns = 0; columns < 300; columns++) {
        memset(buf, 'x', 64);
        screen_fit(text, columns, buf, 64);
        assert_true(memchr(buf, '\0', 64) != NULL);
        memset(buf, 'x', 64);
        screen_fit("plain text", columns, buf, 64);
        assert_true(memchr(buf, '\0', 64) != NULL);
    }
    free(text);
    free(buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_filled_up_or_cut),
        cmocka_unit_test(characters_count_as_wide_as_they_are),
        cmocka_unit_test(the_buffer_is_never_left),
    };

    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
