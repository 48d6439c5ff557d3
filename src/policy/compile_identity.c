/* identity and http as the doors need them: struct sl_door. */
#include "policy/compiled.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *key_type, *header;
} usual_headers[] = {{"api_key", "x-api-key"}, {"user", "x-user-id"}};

static const char *const usual_order[] = {"api_key", "user", "address"};
#define USUAL_ORDER (sizeof usual_order / sizeof *usual_order)

static const char *header_of(const struct sl_identity_draft *identity, const char *key_type)
{
    for (size_t i = 0; i < identity->n_headers; i++)
        if (!strcmp(identity->headers[i].key_type, key_type))
            return identity->headers[i].header;
    for (size_t i = 0; i < sizeof usual_headers / sizeof *usual_headers; i++)
        if (!strcmp(usual_headers[i].key_type, key_type))
            return usual_headers[i].header;
    return NULL;
}

static bool contains(const struct sl_texts *texts, const char *text)
{
    for (size_t i = 0; i < texts->n; i++)
        if (!strcmp(texts->list[i].text, text))
            return true;
    return false;
}

static void add_rule(struct sl_load *load, const char *key_type, const struct sl_node *node)
{
    const struct sl_identity_draft *identity = &load->draft.identity;
    struct sl_door *door = &load->policy->door;
    struct sl_identity_rule rule = {.key_type = key_type};
    char path[SL_PATH_MAX];

    if (strcmp(key_type, "address") != 0) {
        rule.header = header_of(identity, key_type);
        rule.trusted_only = identity->given.at[SL_IF_TRUSTED_HEADERS] ? contains(&identity->trusted_headers, key_type)
                                                                      : !strcmp(key_type, "user");
    }
    if (!rule.header && strcmp(key_type, "address") != 0) {
        snprintf(path, sizeof path, "identity.order[%u]", door->n_order);
        if (sl_given_ok(&identity->given, SL_IF_HEADERS) || !identity->given.at[SL_IF_HEADERS])
            sl_load_error(load, node, path, "no header is known for key type `%s`: add it to identity.headers",
                          key_type);
    }
    door->order[door->n_order++] = rule;
}

static void compile_order(struct sl_load *load)
{
    const struct sl_identity_draft *identity = &load->draft.identity;
    const struct sl_node *node = identity->given.at[SL_IF_ORDER];

    if (!node) {
        for (size_t i = 0; i < USUAL_ORDER; i++)
            add_rule(load, usual_order[i], NULL);
        return;
    }
    if (identity->order.n > SL_KEY_TYPES_MAX) {
        sl_load_error(load, node, "identity.order", "at most %d key types", SL_KEY_TYPES_MAX);
        return;
    }
    for (size_t i = 0; i < identity->order.n; i++)
        add_rule(load, identity->order.list[i].text, identity->order.list[i].node);
}

static const char *rule_type(const void *ctx, size_t i)
{
    return ((const struct sl_identity_rule *)ctx)[i].key_type;
}

static bool in_order(const struct sl_door *door, const char *key_type)
{
    for (unsigned i = 0; i < door->n_order; i++)
        if (!strcmp(door->order[i].key_type, key_type))
            return true;
    return false;
}

/* A trusted header that is spelled wrong would be read from anybody: an error, not a warning. */
static void check_trusted_headers(struct sl_load *load)
{
    const struct sl_identity_draft *identity = &load->draft.identity;
    const struct sl_door *door = &load->policy->door;
    struct sl_names names = {.at = rule_type, .ctx = door->order, .n = door->n_order};
    char path[SL_PATH_MAX], hint[SL_HINT_MAX];

    for (size_t i = 0; i < identity->trusted_headers.n; i++) {
        const struct sl_placed_text *type = &identity->trusted_headers.list[i];

        if (in_order(door, type->text))
            continue;
        snprintf(path, sizeof path, "identity.trusted_headers[%zu]", i);
        sl_load_error(load, type->node, path, "`%.64s` is not a key type of identity.order%s", type->text,
                      sl_read_hint(type->text, type->len, names, hint));
    }
}

static enum sl_forwarded_kind forwarded_kind(const char *header)
{
    if (!strcmp(header, "x-forwarded-for"))
        return SL_FORWARDED_XFF;
    return strcmp(header, "forwarded") ? SL_FORWARDED_SINGLE : SL_FORWARDED_RFC7239;
}

void sl_compile_identity(struct sl_load *load)
{
    const struct sl_draft *draft = &load->draft;
    struct sl_door *door = &load->policy->door;

    door->trusted = draft->identity.trusted;
    door->n_trusted = draft->identity.n_trusted;
    door->forwarded_header = draft->identity.forwarded;
    door->forwarded_kind = forwarded_kind(door->forwarded_header);
    door->ipv6_prefix = draft->identity.ipv6_prefix;
    door->headers = (enum sl_header_style)draft->http.headers;
    door->problem_errors = draft->http.errors == 1;
    door->closed_status = (int)draft->http.closed_status;
    compile_order(load);
    check_trusted_headers(load);
}
