#include "replay/log_line.h"

#include "base/err.h"
#include "replay/log_time.h"

#include <stdbool.h>
#include <string.h>

static struct sl_slice span(const char *start, const char *end)
{
    return (struct sl_slice){start, (size_t)(end - start)};
}

/* Finds the bracketed time and the quote that follows it. A user name may hold brackets, but no raw quote: servers
 * escape it. Returns the byte behind the opening quote of the request, and where the time's bracket is. */
static const char *find_time(const char *line, const char *end, const char **ret_bracket, uint64_t *ret_us)
{
    const char *at = line;

    while ((at = memchr(at, '[', (size_t)(end - at)))) {
        size_t n = sl_log_time_parse(at + 1, (size_t)(end - at - 1), ret_us);

        if (n > 0 && end - at - 1 - (ptrdiff_t)n >= 3 && memcmp(at + 1 + n, "] \"", 3) == 0) {
            *ret_bracket = at;
            return at + 1 + n + 3;
        }
        at++;
    }
    return NULL;
}

/* The closing quote: the first that no odd run of backslashes escapes. */
static const char *find_close(const char *start, const char *end)
{
    const char *at = start;

    while ((at = memchr(at, '"', (size_t)(end - at)))) {
        const char *back = at;

        while (back > start && back[-1] == '\\')
            back--;
        if ((at - back) % 2 == 0)
            return at;
        at++;
    }
    return NULL;
}

/* The next word of *rest, which loses it and the spaces before it; empty at the end. */
static struct sl_slice next_word(struct sl_slice *rest)
{
    struct sl_slice word;
    const char *space;

    while (rest->len > 0 && rest->text[0] == ' ')
        rest->text++, rest->len--;
    space = memchr(rest->text, ' ', rest->len);
    word = span(rest->text, space ? space : rest->text + rest->len);
    rest->text += word.len;
    rest->len -= word.len;
    return word;
}

static bool is_address(struct sl_slice word, struct sl_address *ret_address)
{
    return word.len > 0 && word.text[0] != '-' && sl_address_parse_node(word.text, word.len, ret_address) == 0;
}

/* Two more words, identity and user, must stand between the client and the time. */
static bool has_two_words(struct sl_slice rest)
{
    next_word(&rest);
    return next_word(&rest).len > 0;
}

/* Splits a list at its last comma: what is behind it is the peer. */
static bool split_list(struct sl_log_line *line)
{
    const char *comma = memrchr(line->first.text, ',', line->first.len);

    if (!comma)
        return false;
    line->forwarded = span(line->first.text, comma);
    line->client = SL_LOG_LIST;
    return sl_address_parse_node(comma + 1, (size_t)(line->first.text + line->first.len - comma - 1), &line->peer) == 0;
}

/* The first field: one word; or words that end in commas and one more (a forwarded list), then perhaps the peer, an
 * address of its own. What is a list but has no address for a peer, or what is no address at all, stays opaque. */
static bool parse_client(struct sl_slice rest, struct sl_log_line *line)
{
    const char *start;
    struct sl_slice word = next_word(&rest), peer, behind;
    struct sl_address address;

    start = word.text;
    while (word.len > 0 && word.text[word.len - 1] == ',')
        word = next_word(&rest);
    line->first = span(start, word.text + word.len);
    if (word.len == 0 || !has_two_words(rest))
        return false;
    behind = rest;
    peer = next_word(&behind);
    if (is_address(peer, &line->peer) && has_two_words(behind)) {
        line->client = SL_LOG_LIST;
        line->forwarded = line->first;
        line->first = span(start, peer.text + peer.len);
        return true;
    }
    if (sl_address_parse(line->first.text, line->first.len, &address) == 0)
        line->client = SL_LOG_ADDRESS;
    else if (!split_list(line))
        line->client = SL_LOG_OPAQUE;
    return true;
}

static bool is_token(struct sl_slice word)
{
    for (size_t i = 0; i < word.len; i++) {
        unsigned char c = (unsigned char)word.text[i];

        if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            continue;
        if (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c))
            return false;
    }
    return word.len > 0;
}

/* Method: the first word; version: the last, if it begins with HTTP/; path: all between, up to the query. */
static const char *parse_request(struct sl_slice request, struct sl_log_line *line)
{
    struct sl_slice rest = request;
    const char *query, *last;

    line->method = next_word(&rest);
    if (line->method.len == 0)
        return "the request is empty";
    if (!is_token(line->method))
        return "the request is not HTTP: its first word is no method";
    last = memrchr(rest.text, ' ', rest.len);
    if (last && rest.text + rest.len - last > 5 && memcmp(last + 1, "HTTP/", 5) == 0)
        rest = span(rest.text, last);
    while (rest.len > 0 && rest.text[0] == ' ')
        rest.text++, rest.len--;
    query = memchr(rest.text, '?', rest.len);
    line->path = query ? span(rest.text, query) : rest;
    return line->path.len > 0 ? NULL : "the request has no path";
}

/* " 200" behind the request, or " -", and then the end or a space. */
static bool has_status(const char *at, const char *end)
{
    size_t n = 0;

    if (at == end || *at++ != ' ')
        return false;
    while (at + n < end && n < 3 && at[n] >= '0' && at[n] <= '9')
        n++;
    if (n == 0 && at < end && *at == '-')
        n = 1;
    else if (n != 3)
        return false;
    return at + n == end || at[n] == ' ';
}

int sl_log_line_parse(const char *line, size_t len, struct sl_log_line *ret_line, const char **ret_why)
{
    const char *end = line + len, *bracket, *request, *close;

    if (len == 0) {
        *ret_why = "the line is empty";
        return SL_EINVALID;
    }
    request = find_time(line, end, &bracket, &ret_line->t_us);
    if (!request) {
        *ret_why = "no time as in [17/May/2015:10:05:03 +0000] with a quoted request behind it";
        return SL_EINVALID;
    }
    if (!parse_client(span(line, bracket), ret_line)) {
        *ret_why = "fewer than three fields (client, identity, user) stand before the time";
        return SL_EINVALID;
    }
    close = find_close(request, end);
    if (!close) {
        *ret_why = "the quotes of the request are not closed";
        return SL_EINVALID;
    }
    *ret_why = parse_request(span(request, close), ret_line);
    if (*ret_why)
        return SL_EINVALID;
    if (!has_status(close + 1, end)) {
        *ret_why = "no status behind the request";
        return SL_EINVALID;
    }
    return 0;
}
