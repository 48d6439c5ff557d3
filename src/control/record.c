#include "control/record.h"

#include "base/err.h"
#include "policy/policy.h"
#include "policy/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_DIGITS_MAX 15u
#define TIME_DIGITS_MAX 18u
#define VERSION_FORMAT "sluice-version 1"
#define RUNNING_FORMAT "sluice-running 1"

static_assert(SL_RECORD_MAX > SL_AUTHOR_MAX + SL_COMMENT_MAX + 300, "a record fits");
static_assert(SL_RECORD_MAX > SL_HOST_TEXT_MAX + SL_REFUSAL_MAX + 2 * SL_PLACE_TEXT_MAX + 300, "a record fits");

/* ---- small readers: the whole text, nothing else */

static bool read_number(const char *text, size_t len, size_t digits_max, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (len < 1 || len > digits_max || (text[0] == '0' && len > 1))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    *ret_number = number;
    return true;
}

static bool read_hex(const char *text, size_t len, size_t digits, char *buf)
{
    if (len != digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    }
    memcpy(buf, text, digits);
    buf[digits] = '\0';
    return true;
}

static bool read_text(const char *text, size_t len, size_t max, char *buf)
{
    if (len > max || !sl_text_printable(text, len) || sl_text_utf8_prefix(text, len) != len)
        return false;
    memcpy(buf, text, len);
    buf[len] = '\0';
    return true;
}

/* The lines of a record; each is handed out once, in order. */
struct lines {
    const char *at, *end;
    bool over; /* one more was wanted than there are */
};

static struct sl_word next_line(struct lines *lines)
{
    const char *start = lines->at, *end = start ? memchr(start, '\n', (size_t)(lines->end - start)) : NULL;

    if (!end) {
        lines->over = true;
        return (struct sl_word){"", 0};
    }
    lines->at = end + 1;
    return (struct sl_word){start, (size_t)(end - start)};
}

static bool next_is(struct lines *lines, const char *text)
{
    struct sl_word line = next_line(lines);

    return line.len == strlen(text) && !memcmp(line.bytes, text, line.len);
}

static bool next_number(struct lines *lines, size_t digits_max, uint64_t *ret_number)
{
    struct sl_word line = next_line(lines);

    return read_number(line.bytes, line.len, digits_max, ret_number);
}

static bool next_hex(struct lines *lines, size_t digits, char *buf)
{
    struct sl_word line = next_line(lines);

    return read_hex(line.bytes, line.len, digits, buf);
}

static bool next_text(struct lines *lines, size_t max, char *buf)
{
    struct sl_word line = next_line(lines);

    return read_text(line.bytes, line.len, max, buf);
}

static bool is_over(const struct lines *lines)
{
    return !lines->over && lines->at == lines->end;
}

/* ---- pointers */

int sl_pointer_read(const char *text, size_t len, struct sl_pointer *ret_pointer)
{
    const char *space = memchr(text, ' ', len);
    struct sl_pointer pointer;
    size_t n = space ? (size_t)(space - text) : 0;

    if (!space || !read_number(text, n, NUMBER_DIGITS_MAX, &pointer.number) || pointer.number == 0 ||
        !read_hex(space + 1, len - n - 1, SL_HASH_HEX, pointer.hash))
        return SL_EFORMAT;
    *ret_pointer = pointer;
    return 0;
}

bool sl_pointer_equal(const struct sl_pointer *a, const struct sl_pointer *b)
{
    return a->number == b->number && (a->number == 0 || !strcmp(a->hash, b->hash));
}

/* ---- versions */

size_t sl_version_write_before(const struct sl_version *version, char buf[static SL_RECORD_MAX])
{
    return (size_t)snprintf(buf, SL_RECORD_MAX, VERSION_FORMAT "\n%s\n", version->hash);
}

size_t sl_version_write_after(const struct sl_version *version, char buf[static SL_RECORD_MAX])
{
    char keys[24] = "-";

    if (version->has_keys)
        snprintf(keys, sizeof keys, "%zu", version->keys_len);
    return (size_t)snprintf(buf, SL_RECORD_MAX, "\n%zu\n%s\n%" PRIu64 "\n%s\n%s\n%s\n", version->body_len, keys,
                            version->from, version->token, version->author, version->comment);
}

static bool read_length(struct lines *lines, size_t *ret_len)
{
    uint64_t len;

    if (!next_number(lines, 9, &len) || len > SL_POLICY_BYTES_MAX)
        return false;
    *ret_len = (size_t)len;
    return true;
}

static bool read_keys_length(struct lines *lines, struct sl_version *version)
{
    struct lines ahead = *lines;

    if (next_is(&ahead, "-")) {
        *lines = ahead;
        return true;
    }
    version->has_keys = true;
    return read_length(lines, &version->keys_len);
}

int sl_version_read(uint64_t number, const char *text, size_t len, struct sl_version *ret_version)
{
    struct lines lines = {.at = text, .end = text + len};
    struct sl_version version = {.number = number};

    if (!next_is(&lines, VERSION_FORMAT) || !next_hex(&lines, SL_HASH_HEX, version.hash) ||
        !next_number(&lines, TIME_DIGITS_MAX, &version.time_us) || !read_length(&lines, &version.body_len) ||
        !read_keys_length(&lines, &version) || !next_number(&lines, NUMBER_DIGITS_MAX, &version.from) ||
        !next_hex(&lines, SL_TOKEN_HEX, version.token) || !next_text(&lines, SL_AUTHOR_MAX, version.author) ||
        !next_text(&lines, SL_COMMENT_MAX, version.comment) || !is_over(&lines))
        return SL_EFORMAT;
    *ret_version = version;
    return 0;
}

const char *sl_version_check_texts(const char *author, const char *comment)
{
    char text[SL_COMMENT_MAX + 1];

    if (!author[0])
        return "the author is empty";
    if (strlen(author) > SL_AUTHOR_MAX)
        return "the author is longer than 128 bytes";
    if (!read_text(author, strlen(author), SL_AUTHOR_MAX, text))
        return "the author holds control characters or is not UTF-8";
    if (strlen(comment) > SL_COMMENT_MAX)
        return "the comment is longer than 1024 bytes";
    if (!read_text(comment, strlen(comment), SL_COMMENT_MAX, text))
        return "the comment holds control characters (a line break?) or is not UTF-8";
    return NULL;
}

/* ---- instances */

/* What comes from a message or a host's name: one line of valid text, cut if need be. */
static const char *tame(const char *text, size_t max, char *buf)
{
    size_t len = strnlen(text, max);

    len = sl_text_utf8_prefix(text, len);
    memcpy(buf, text, len);
    buf[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)buf[i] < 0x20 || buf[i] == 0x7f)
            buf[i] = ' ';
    }
    return buf;
}

size_t sl_running_write(const struct sl_running *running, char buf[static SL_RECORD_MAX])
{
    const struct sl_pointer *version = &running->version;
    char host[SL_HOST_TEXT_MAX + 1], why[SL_REFUSAL_MAX + 1];
    char region[SL_PLACE_TEXT_MAX + 1], address[SL_PLACE_TEXT_MAX + 1];

    return (size_t)snprintf(buf, SL_RECORD_MAX, RUNNING_FORMAT "\n%" PRIu64 "\n%s\n%s\n%s\n%" PRIu64 "\n%s\n%s\n%s\n",
                            version->number, version->hash, running->from_file ? "file" : "store",
                            tame(running->host, SL_HOST_TEXT_MAX, host), running->refused,
                            tame(running->why, SL_REFUSAL_MAX, why), tame(running->region, SL_PLACE_TEXT_MAX, region),
                            tame(running->address, SL_PLACE_TEXT_MAX, address));
}

static bool next_origin(struct lines *lines, bool *ret_from_file)
{
    struct sl_word line = next_line(lines);

    *ret_from_file = line.len == 4 && !memcmp(line.bytes, "file", 4);
    return *ret_from_file || (line.len == 5 && !memcmp(line.bytes, "store", 5));
}

/* Not there in what was written before they were. */
static bool next_place(struct lines *lines, struct sl_running *running)
{
    return is_over(lines) || (next_text(lines, SL_PLACE_TEXT_MAX, running->region) &&
                              next_text(lines, SL_PLACE_TEXT_MAX, running->address) && is_over(lines));
}

int sl_running_read(uint64_t id, const char *text, size_t len, struct sl_running *ret_running)
{
    struct lines lines = {.at = text, .end = text + len};
    struct sl_running running = {.id = id};

    if (!next_is(&lines, RUNNING_FORMAT) || !next_number(&lines, NUMBER_DIGITS_MAX, &running.version.number) ||
        !next_hex(&lines, SL_HASH_HEX, running.version.hash) || !next_origin(&lines, &running.from_file) ||
        !next_text(&lines, SL_HOST_TEXT_MAX, running.host) ||
        !next_number(&lines, NUMBER_DIGITS_MAX, &running.refused) || !next_text(&lines, SL_REFUSAL_MAX, running.why) ||
        !next_place(&lines, &running))
        return SL_EFORMAT;
    *ret_running = running;
    return 0;
}

/* ---- names */

struct sl_control_key sl_control_key(const char *ns, const char *rest, ...)
{
    struct sl_control_key key;
    va_list args;

    key.len = (size_t)snprintf(key.text, sizeof key.text, "%.*s:{fleet}:", SL_NAMESPACE_MAX, ns);
    va_start(args, rest);
    key.len += (size_t)vsnprintf(key.text + key.len, sizeof key.text - key.len, rest, args);
    va_end(args);
    return key;
}
