/* Lines out of files: plain, gzip of several members, CRLF, no final newline, lines beyond the bound, damage. */
#include "replay/log_reader.h"

#include "base/err.h"
#include "replay/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char folder[] = "/tmp/sluice-reader-XXXXXX";
static char paths[3][64];
static char why[SL_REPLAY_WHY_MAX];

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        unlink(paths[i]);
    return rmdir(folder);
}

static void write_file(int i, const char *mode, const void *data, size_t len)
{
    FILE *f;

    snprintf(paths[i], sizeof paths[i], "%s/%d", folder, i);
    f = fopen(paths[i], mode);
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Appends one gzip member. */
static size_t gzip(const char *text, size_t len, unsigned char *out, size_t room)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)text, .avail_in = (unsigned)len};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_out = out;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

/* All lines as "number:text;", with "too long" for those; then the error, if any. */
static const char *lines_of(int n_files, FILE *input)
{
    static char out[4096];
    const char *list[3] = {paths[0], paths[1], paths[2]};
    const char *standard = "-";
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_log_reader *reader = NULL;
    struct sl_log_reader_line line;
    size_t len = 0;
    int result = sl_log_reader_new(&alloc, input ? &standard : list, input ? 1 : (size_t)n_files, input, &reader, why,
                                   sizeof why);

    out[0] = '\0';
    if (result)
        return why;
    while ((result = sl_log_reader_next(reader, &line, why, sizeof why)) > 0)
        len += (size_t)snprintf(out + len, sizeof out - len, "%d:%.*s;", (int)line.number,
                                line.too_long ? 8 : (int)line.text.len, line.too_long ? "too long" : line.text.text);
    if (!input)
        assert_true(result < 0 || sl_log_reader_bytes(reader) == sl_log_reader_total(reader));
    sl_log_reader_free(reader);
    if (result < 0)
        snprintf(out + len, sizeof out - len, "%s", why);
    return out;
}

static const char *lines_of_text(const char *text)
{
    write_file(0, "wb", text, strlen(text));
    return lines_of(1, NULL);
}

static void b188_crlf_and_no_final_newline(void **state)
{
    (void)state;
    assert_string_equal(lines_of_text("a\nb\n"), "1:a;2:b;");
    assert_string_equal(lines_of_text("a\r\nb\r\n"), "1:a;2:b;");
    assert_string_equal(lines_of_text("a\nb"), "1:a;2:b;");
    assert_string_equal(lines_of_text("a\r\rb\r\n\n\nc\r"), "1:a\r\rb;2:;3:;4:c;");
    assert_string_equal(lines_of_text(""), "");
    assert_string_equal(lines_of_text("x"), "1:x;");
    assert_string_equal(lines_of_text("\n"), "1:;");
}

static void files_are_read_one_after_another_each_with_its_own_numbers(void **state)
{
    (void)state;
    write_file(0, "wb", "a\nb", 3);
    write_file(1, "wb", "", 0);
    write_file(2, "wb", "c\nd\n", 4);
    assert_string_equal(lines_of(3, NULL), "1:a;2:b;1:c;2:d;");
}

static void gzip_of_several_members_and_padding(void **state)
{
    unsigned char data[4096];
    size_t len = gzip("one\ntw", 6, data, sizeof data);

    (void)state;
    len += gzip("o\nthree\n", 8, data + len, sizeof data - len);
    write_file(0, "wb", data, len);
    assert_string_equal(lines_of(1, NULL), "1:one;2:two;3:three;");
    write_file(0, "ab", "\0\0\0\0", 4);
    assert_string_equal(lines_of(1, NULL), "1:one;2:two;3:three;");
    write_file(0, "ab", "x", 1);
    assert_non_null(strstr(lines_of(1, NULL), "something that is not gzip follows"));
}

static void damaged_gzip_is_an_error_that_names_the_file(void **state)
{
    unsigned char data[4096];
    size_t len = gzip("one\ntwo\nthree\n", 14, data, sizeof data);

    (void)state;
    write_file(0, "wb", data, len - 4);
    assert_non_null(strstr(lines_of(1, NULL), "end in the middle"));
    assert_non_null(strstr(why, paths[0]));
    data[len - 6] ^= 0xff; /* the checksum */
    write_file(0, "wb", data, len);
    assert_non_null(strstr(lines_of(1, NULL), "damaged"));
}

static void lines_up_to_the_bound_are_read_and_longer_ones_skipped(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    const char *path;
    size_t sizes[] = {SL_REPLAY_LINE_MAX, SL_REPLAY_LINE_MAX + 1, 5 * SL_REPLAY_LINE_MAX + 7, 3};
    char *text = malloc(8 * SL_REPLAY_LINE_MAX), *at = text;
    struct sl_log_reader_line line;
    struct sl_log_reader *reader;

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < 4; i++) {
        memset(at, 'a' + i, sizes[i]);
        at += sizes[i];
        *at++ = '\n';
    }
    write_file(0, "wb", text, (size_t)(at - text));
    path = paths[0];
    assert_int_equal(sl_log_reader_new(&alloc, &path, 1, NULL, &reader, why, sizeof why), 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(sl_log_reader_next(reader, &line, why, sizeof why), 1);
        assert_int_equal(line.number, i + 1);
        assert_int_equal(line.too_long, i == 1 || i == 2);
        assert_int_equal(line.text.len, line.too_long ? 0 : sizes[i]);
        if (!line.too_long)
            assert_int_equal(line.text.text[sizes[i] - 1], 'a' + i);
    }
    assert_int_equal(sl_log_reader_next(reader, &line, why, sizeof why), 0);
    sl_log_reader_free(reader);
    free(text);
}

/* A gigabyte without a newline: memory stays what it was, and it is one line. */
static void a_line_without_end_is_bounded(void **state)
{
    static char block[1 << 20];
    gzFile out;

    (void)state;
    memset(block, 'x', sizeof block);
    snprintf(paths[0], sizeof paths[0], "%s/0", folder);
    out = gzopen(paths[0], "wb1");
    assert_non_null(out);
    for (int i = 0; i < 1024; i++)
        assert_int_equal(gzwrite(out, block, sizeof block), sizeof block);
    assert_int_equal(gzputs(out, "\nnext\n"), 6);
    assert_int_equal(gzclose(out), Z_OK);
    assert_string_equal(lines_of(1, NULL), "1:too long;2:next;");
}

static void standard_input_is_a_path(void **state)
{
    FILE *input;

    (void)state;
    write_file(0, "wb", "a\nb\n", 4);
    input = fopen(paths[0], "rb");
    assert_non_null(input);
    assert_string_equal(lines_of(1, input), "1:a;2:b;");
    assert_int_equal(fclose(input), 0);
}

static void what_cannot_be_read_is_told_before_anything_is_read(void **state)
{
    (void)state;
    write_file(0, "wb", "a\n", 2);
    snprintf(paths[1], sizeof paths[1], "%s/none", folder);
    assert_non_null(strstr(lines_of(2, NULL), "none: No such file"));
    snprintf(paths[1], sizeof paths[1], "%s", folder);
    assert_non_null(strstr(lines_of(2, NULL), "is a directory"));
    snprintf(paths[1], sizeof paths[1], "%s/1", folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b188_crlf_and_no_final_newline),
        cmocka_unit_test(files_are_read_one_after_another_each_with_its_own_numbers),
        cmocka_unit_test(gzip_of_several_members_and_padding),
        cmocka_unit_test(damaged_gzip_is_an_error_that_names_the_file),
        cmocka_unit_test(lines_up_to_the_bound_are_read_and_longer_ones_skipped),
        cmocka_unit_test(a_line_without_end_is_bounded),
        cmocka_unit_test(standard_input_is_a_path),
        cmocka_unit_test(what_cannot_be_read_is_told_before_anything_is_read),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
