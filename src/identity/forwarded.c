/* The walk over a forwarding header, from the right.
 *
 * Everything to the right of the client's own text was written by trusted proxies, so reading from the right finds the
 * client before it looks at a byte the client chose. That also holds for quoting: a client that sends an open quote
 * cannot swallow the element a proxy appends behind it, as it could if the line were read from the left. */
#include "identity/forwarded.h"

#include "base/err.h"

#include <string.h>
#include <strings.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct sl_slice trim(struct sl_slice s)
{
    while (s.len > 0 && is_space(s.text[0]))
        s.text++, s.len--;
    while (s.len > 0 && is_space(s.text[s.len - 1]))
        s.len--;
    return s;
}

/* tchar of RFC 9110, and what unquoted nodes and hosts are written with in practice: ":", "[", "]", "/". */
static bool is_value_char(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c != '\0' && strchr("!#$%&'*+-.^_`|~:[]/", c);
}

/* True when the quote at text[i] is written as \" inside a quoted string. */
static bool is_escaped(const char *text, size_t i)
{
    size_t n = 0;

    while (i > n && text[i - n - 1] == '\\')
        n++;
    return n % 2 == 1;
}

/* Cuts the last piece behind `separator` off *rest, separators inside quotes aside when `quoted`. Returns false when an
 * open quote is met; the piece is then everything that is left. *rest becomes a NULL text when nothing is left. */
static bool cut_last(struct sl_slice *rest, char separator, bool quoted, struct sl_slice *ret_piece)
{
    bool in_quotes = false;
    size_t i = rest->len;

    while (i > 0) {
        char c = rest->text[i - 1];

        if (quoted && c == '"' && !(in_quotes && is_escaped(rest->text, i - 1)))
            in_quotes = !in_quotes;
        if (c == separator && !in_quotes)
            break;
        i--;
    }
    *ret_piece = (struct sl_slice){rest->text + i, rest->len - i};
    *rest = i > 0 ? (struct sl_slice){rest->text, i - 1} : (struct sl_slice){NULL, 0};
    return !in_quotes;
}

/* The node of for=: as anywhere, but IPv6 must stand in brackets (RFC 7239, section 6), or its end could be a port. */
static int parse_for(struct sl_slice value, struct sl_address *ret_address)
{
    const char *colon;

    if (memchr(value.text, '"', value.len) || value.len == 0)
        return SL_EINVALID;
    colon = memchr(value.text, ':', value.len);
    if (value.text[0] != '[' && colon && memchr(colon + 1, ':', value.len - (size_t)(colon + 1 - value.text)))
        return SL_EINVALID;
    return sl_address_parse_node(value.text, value.len, ret_address);
}

/* Splits "name=value"; takes the quotes off. Returns false when it is no pair. */
static bool split_pair(struct sl_slice pair, struct sl_slice *ret_name, struct sl_slice *ret_value)
{
    const char *equals = memchr(pair.text, '=', pair.len);
    struct sl_slice name, value;

    if (!equals)
        return false;
    name = (struct sl_slice){pair.text, (size_t)(equals - pair.text)};
    value = (struct sl_slice){equals + 1, pair.len - name.len - 1};
    if (name.len == 0 || value.len == 0)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        if (!is_value_char(name.text[i]) || strchr(":[]/", name.text[i]))
            return false;
    }
    if (value.len >= 2 && value.text[0] == '"' && value.text[value.len - 1] == '"') {
        value.text++, value.len -= 2;
    } else {
        for (size_t i = 0; i < value.len; i++) {
            if (!is_value_char(value.text[i]))
                return false;
        }
    }
    *ret_name = name;
    *ret_value = value;
    return true;
}

/* One element of Forwarded: pairs between semicolons, exactly one of them for=. */
static int parse_element(struct sl_slice element, struct sl_address *ret_address)
{
    bool found = false;

    while (element.text) {
        struct sl_slice pair, name, value;

        cut_last(&element, ';', true, &pair);
        pair = trim(pair);
        if (pair.len == 0)
            continue;
        if (!split_pair(pair, &name, &value))
            return SL_EINVALID;
        if (name.len == 3 && strncasecmp(name.text, "for", 3) == 0) {
            if (found || parse_for(value, ret_address))
                return SL_EINVALID;
            found = true;
        }
    }
    return found ? 0 : SL_EINVALID;
}

enum step { GO_ON, STOP };

struct walk {
    const struct sl_cidr *trusted;
    size_t n_trusted;
    struct sl_forwarded_result result;
};

/* Takes in one node, or its failure: the first address that is not trusted ends the walk, and so does a bad element. */
static enum step take_node(struct walk *walk, int error, const struct sl_address *address)
{
    if (error) {
        walk->result.malformed = true;
        return STOP;
    }
    walk->result.client = *address;
    walk->result.from_header = true;
    return sl_cidrs_contain(walk->trusted, walk->n_trusted, address) ? GO_ON : STOP;
}

/* Walks one line of a list. Empty elements are skipped (RFC 9110, 5.6.1), but a line of nothing else is malformed. */
static enum step walk_line(struct walk *walk, enum sl_forwarded_kind kind, struct sl_slice line)
{
    bool any = false, blank = trim(line).len == 0;

    while (line.text) {
        struct sl_address address;
        struct sl_slice element;
        bool closed = cut_last(&line, ',', kind == SL_FORWARDED_RFC7239, &element);
        int error;

        element = trim(element);
        if (closed && element.len == 0)
            continue;
        any = true;
        if (!closed)
            error = SL_EINVALID;
        else if (kind == SL_FORWARDED_RFC7239)
            error = parse_element(element, &address);
        else
            error = sl_address_parse_node(element.text, element.len, &address);
        if (take_node(walk, error, &address) == STOP)
            return STOP;
    }
    if (!any && !blank)
        walk->result.malformed = true;
    return GO_ON;
}

/* A header that holds one address: several lines, like a comma, are a list, and nobody knows which one is meant. */
static void take_single(struct walk *walk, const struct sl_slice *lines, size_t n_lines)
{
    struct sl_address address;
    int error;

    if (n_lines == 0 || (n_lines == 1 && trim(lines[0]).len == 0))
        return;
    error = n_lines > 1 ? SL_EINVALID : sl_address_parse_node(lines[0].text, lines[0].len, &address);
    take_node(walk, error, &address);
}

struct sl_forwarded_result sl_forwarded_client(enum sl_forwarded_kind kind, const struct sl_address *peer,
                                               const struct sl_cidr *trusted, size_t n_trusted,
                                               const struct sl_slice *lines, size_t n_lines)
{
    struct walk walk = {.trusted = trusted, .n_trusted = n_trusted, .result = {.client = *peer}};

    if (!sl_cidrs_contain(trusted, n_trusted, peer))
        return walk.result;
    if (kind == SL_FORWARDED_SINGLE) {
        take_single(&walk, lines, n_lines);
        return walk.result;
    }
    for (size_t i = n_lines; i > 0; i--) {
        if (walk_line(&walk, kind, lines[i - 1]) == STOP)
            break;
    }
    return walk.result;
}
