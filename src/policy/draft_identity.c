/* The fields of `identity`: who the key of a request is, as the HTTP doors find it. */
#include "policy/draft.h"

#include "policy/text.h"

#include <ctype.h>
#include <string.h>

#define HEADER_MAX 64
#define PROXIES_MAX 1024
#define NAME_BYTES (SLUICE_NAME_MAX - 1)

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("!#$%&'*+-.^_`|~", text[i]))
            return false;
    return len > 0 && len <= HEADER_MAX;
}

/* A header's name, checked and in lower case; NULL after an error. */
static const char *read_header_name(struct sl_reader *r, const struct sl_node *value)
{
    char quoted[SL_QUOTE_MAX], *name;

    if (!sl_read_is_text(r, value, 4096))
        return NULL;
    if (!is_token(value->text, value->len)) {
        sl_read_error(r, value, "`%s` is not a header's name (at most %d letters, digits and -)",
                      sl_text_quote(value->text, value->len, quoted), HEADER_MAX);
        return NULL;
    }
    name = sl_read_copy(r, value);
    for (char *c = name; c && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return name;
}

static bool read_headers(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_identity_draft *identity = target;
    bool ok = true;

    (void)field;
    if (!sl_read_is_map(r, value))
        return false;
    if (value->n > SL_KEY_TYPES_MAX)
        return sl_read_error(r, value, "at most %d headers, not %zu", SL_KEY_TYPES_MAX, value->n);
    identity->headers = sl_read_alloc(r, value->n, sizeof *identity->headers);
    for (const struct sl_node *member = value->first; member && identity->headers; member = member->next) {
        struct sl_header_draft *header = &identity->headers[identity->n_headers];
        size_t base = sl_path_field(&r->path, member->key->text, member->key->len);

        header->node = member;
        if (!sl_read_is_text(r, member->key, NAME_BYTES))
            ok = false;
        else if (!strcmp(member->key->text, "address"))
            ok = sl_read_error(r, member,
                               "an address comes from the connection and `forwarded`, not from a header here");
        else if ((header->header = read_header_name(r, member)) == NULL)
            ok = false;
        else if ((header->key_type = sl_read_copy(r, member->key)) != NULL)
            identity->n_headers++;
        sl_path_cut(&r->path, base);
    }
    return ok && !r->nomem;
}

static bool read_proxies(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_identity_draft *identity = target;
    const char *why;
    size_t i = 0;
    bool ok = true;

    (void)field;
    if (!sl_read_is_list(r, value))
        return false;
    if (value->n > PROXIES_MAX)
        return sl_read_error(r, value, "at most %d networks, not %zu", PROXIES_MAX, value->n);
    identity->trusted = sl_read_alloc(r, value->n, sizeof *identity->trusted);
    for (const struct sl_node *item = value->first; item && identity->trusted; item = item->next, i++) {
        size_t base = sl_path_index(&r->path, i);

        if (!sl_read_is_text(r, item, 4096))
            ok = false;
        else if (sl_cidr_parse(item->text, item->len, &identity->trusted[identity->n_trusted], &why) != 0)
            ok = sl_read_error(r, item, "%s", why);
        else
            identity->n_trusted++;
        sl_path_cut(&r->path, base);
    }
    return ok && !r->nomem;
}

static bool read_forwarded(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_identity_draft *identity = target;
    const char *name = read_header_name(r, value);

    (void)field;
    if (name)
        identity->forwarded = name;
    return name != NULL;
}

#define AT(member) offsetof(struct sl_identity_draft, member)

static const struct sl_field identity_rows[SL_IDENTITY_FIELDS] = {
    [SL_IF_ORDER] = {"order", "list of key types", "[api_key, user, address]",
                     "Forward-auth and nginx: the first one present is the key.", sl_read_texts, AT(order), 1,
                     NAME_BYTES, NULL},
    [SL_IF_HEADERS] = {"headers", "mapping of key type to header", "{api_key: X-Api-Key, user: X-User-Id}",
                       "Where each key type but `address` is read.", read_headers, AT(headers), 0, 0, NULL},
    [SL_IF_TRUSTED_HEADERS] = {"trusted_headers", "list of key types", "[user]",
                               "Key types that are read from trusted peers only.", sl_read_texts, AT(trusted_headers),
                               0, NAME_BYTES, NULL},
    [SL_IF_TRUSTED_PROXIES] = {"trusted_proxies", "list of networks", "[]",
                               "Peers whose forwarding header is believed.", read_proxies, AT(trusted), 0, 0, NULL},
    [SL_IF_FORWARDED] =
        {"forwarded", "name of a header", "x-forwarded-for",
         "`x-forwarded-for`, `forwarded` (RFC 7239), or a header with one address; only this one is read.",
         read_forwarded, AT(forwarded), 0, 0, NULL},
    [SL_IF_IPV6_PREFIX] = {"ipv6_prefix", "whole number, 1 ... 128", "64",
                           "IPv6 addresses are one key per this prefix.", sl_read_u32, AT(ipv6_prefix), 1, 128, NULL},
};
const struct sl_fields sl_identity_fields = {.what = "`identity`", .list = identity_rows, .n = SL_IDENTITY_FIELDS};

bool sl_read_identity(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_identity_draft *identity = (void *)((char *)target + field->offset);

    return sl_read_fields(r, value, &sl_identity_fields, identity, &identity->given);
}
