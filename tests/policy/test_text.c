/* Text helpers: UTF-8, control characters, names, suggestions; and globs against a plain recursive matcher. */
#include "support.h"

#include "policy/glob.h"
#include "policy/path.h"
#include "policy/text.h"

#include <stdlib.h>
#include <string.h>

static void control_characters_are_found_at_every_place(void **state)
{
    char text[40];

    (void)state;
    for (size_t len = 0; len <= 33; len++) {
        memset(text, 'a', sizeof text);
        assert_true(sl_text_printable(text, len));
        for (size_t at = 0; at < len; at++) {
            for (int c = 0; c < 256; c++) {
                text[at] = (char)c;
                assert_int_equal(sl_text_printable(text, len), c >= 0x20 && c != 0x7f);
            }
            text[at] = 'a';
        }
        text[len] = '\n'; /* the byte behind is not looked at */
        assert_true(sl_text_printable(text, len));
    }
}

static void utf8_is_checked_strictly(void **state)
{
    static const struct {
        const char *text;
        size_t good;
    } cases[] = {
        {"plain", 5},
        {"\xc3\xa9", 2},
        {"\xe2\x82\xac", 3},
        {"\xf0\x9f\x98\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"a\x80", 1},
        {"a\xc0\x80", 1},
        {"a\xc1\xbf", 1},
        {"a\xe0\x9f\xbf", 1},
        {"a\xed\xa0\x80", 1},
        {"a\xf0\x8f\xbf", 1},
        {"a\xf4\x90\x80\x80", 1},
        {"a\xf5\x80\x80", 1},
        {"a\xe2\x82", 1},
        {"a\xc3", 1},
        {"a\xe2\x82\x41", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sl_text_utf8_prefix(cases[i].text, strlen(cases[i].text)), cases[i].good);
}

static void names_have_their_alphabet(void **state)
{
    char longest[65];

    (void)state;
    memset(longest, 'a', sizeof longest);
    assert_true(sl_text_is_name("a.b_c-9", 7));
    assert_true(sl_text_is_name(longest, 63));
    assert_false(sl_text_is_name(longest, 64));
    assert_false(sl_text_is_name("", 0));
    assert_false(sl_text_is_name("A", 1));
    assert_false(sl_text_is_name("a b", 3));
    assert_false(sl_text_is_name("a/b", 3));
}

static const char *word(const void *ctx, size_t i)
{
    return ((const char *const *)ctx)[i];
}

static void near_words_are_suggested_and_far_ones_not(void **state)
{
    static const char *const words[] = {"rate", "rates", "burst", "on_store_failure", "tier"};
    static const struct {
        const char *typed, *meant;
    } cases[] = {{"ratee", "rate"},  {"bursts", "burst"},
                 {"brust", "burst"}, {"on_store_failur", "on_store_failure"},
                 {"Tier", "tier"},   {"on_store_fail", "on_store_failure"},
                 {"x", NULL},        {"zzzz", NULL},
                 {"colour", NULL},   {"tire", "tier"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = sl_text_suggest(cases[i].typed, strlen(cases[i].typed), word, words, 5);

        if (cases[i].meant)
            assert_string_equal(got, cases[i].meant);
        else
            assert_null(got);
    }
}

static void quoted_text_is_printable_and_bounded(void **state)
{
    char buf[SL_QUOTE_MAX], text[200];

    (void)state;
    assert_string_equal(sl_text_quote("a\nb\xff", 4, buf), "a?b?");
    memset(text, 'x', sizeof text);
    sl_text_quote(text, sizeof text, buf);
    assert_int_equal(strlen(buf), SL_QUOTE_MAX - 1);
    assert_string_equal(buf + SL_QUOTE_MAX - 4, "...");
}

static void paths_are_cut_not_overrun(void **state)
{
    struct sl_path path = {.len = 0};
    size_t first;

    (void)state;
    sl_path_field(&path, "limits", 6);
    first = sl_path_index(&path, 2);
    assert_string_equal(path.text, "limits[2]");
    for (int i = 0; i < 50; i++)
        sl_path_field(&path, "something", 9);
    assert_true(path.len < SL_PATH_MAX);
    assert_int_equal(strlen(path.text), path.len);
    assert_string_equal(path.text + path.len - 3, "...");
    sl_path_cut(&path, first);
    assert_string_equal(path.text, "limits");
}

/* ---- globs ------------------------------------------------------------------------------------------------------ */

static bool plain_match(const char *glob, const char *text)
{
    if (*glob == '*')
        return plain_match(glob + 1, text) || (*text && plain_match(glob, text + 1));
    if (!*glob || !*text)
        return !*glob && !*text;
    return (*glob == '?' || *glob == *text) && plain_match(glob + 1, text + 1);
}

static void write_random(char *buf, const char *alphabet, size_t max)
{
    size_t len = (size_t)rand() % (max + 1);

    for (size_t i = 0; i < len; i++)
        buf[i] = alphabet[(size_t)rand() % strlen(alphabet)];
    buf[len] = '\0';
}

static void globs_match_as_a_plain_matcher_does(void **state)
{
    char glob[12], text[12];

    (void)state;
    srand(7);
    for (int i = 0; i < 200000; i++) {
        write_random(glob, "ab*?", 8);
        write_random(text, "ab", 8);
        assert_int_equal(sl_glob_match(glob, strlen(glob), text, strlen(text)), plain_match(glob, text));
    }
    assert_true(sl_glob_match("a*b", 3, "a/x/y\0b", 7)); /* bytes, not strings; slashes are nothing special */
}

/* All texts over {a, b, c} up to four bytes: enough to tell globs of five bytes over {a, b} apart. */
#define TEXTS (1 + 3 + 9 + 27 + 81 + 243 + 729)

static void list_texts(char texts[TEXTS][8])
{
    size_t n = 1;

    texts[0][0] = '\0';
    for (size_t i = 0; n < TEXTS; i++)
        for (const char *c = "abc"; *c && n < TEXTS; c++) {
            size_t len = strlen(texts[i]);

            memcpy(texts[n], texts[i], len);
            texts[n][len] = *c;
            texts[n++][len + 1] = '\0';
        }
}

static void globs_overlap_and_cover_as_their_texts_do(void **state)
{
    static char texts[TEXTS][8];
    char x[8], y[8];
    unsigned covers = 0;

    (void)state;
    list_texts(texts);
    srand(11);
    for (int i = 0; i < 4000; i++) {
        bool overlap = false, all = true;

        write_random(x, "ab*?", 3);
        write_random(y, "ab*?", 3);
        for (size_t t = 0; t < TEXTS; t++) {
            bool in_x = plain_match(x, texts[t]), in_y = plain_match(y, texts[t]);

            overlap |= in_x && in_y;
            all &= in_x || !in_y;
        }
        assert_int_equal(sl_glob_overlap(x, strlen(x), y, strlen(y)), overlap);
        if (sl_glob_covers(x, strlen(x), y, strlen(y))) {
            assert_true(all); /* never claims a wrong one */
            covers++;
        }
    }
    assert_true(covers > 200);
    assert_true(sl_glob_covers("GET *", 5, "GET /v1/*", 9));
    assert_false(sl_glob_covers("GET /v1/*", 9, "GET *", 5));
}

static void globs_know_their_literal_text(void **state)
{
    struct sl_glob glob = sl_glob_init("GET /v1/*/x?", 12), exact = sl_glob_init("login", 5);

    (void)state;
    assert_int_equal(glob.prefix_len, 8);
    assert_int_equal(glob.literal_len, 10);
    assert_false(sl_glob_is_literal(&glob));
    assert_true(sl_glob_is_literal(&exact));
    assert_int_equal(exact.literal_len, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_found_at_every_place),
        cmocka_unit_test(utf8_is_checked_strictly),
        cmocka_unit_test(names_have_their_alphabet),
        cmocka_unit_test(near_words_are_suggested_and_far_ones_not),
        cmocka_unit_test(quoted_text_is_printable_and_bounded),
        cmocka_unit_test(paths_are_cut_not_overrun),
        cmocka_unit_test(globs_match_as_a_plain_matcher_does),
        cmocka_unit_test(globs_overlap_and_cover_as_their_texts_do),
        cmocka_unit_test(globs_know_their_literal_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
