#include "door.h"

#include <stdio.h>
#include <string.h>

void door_open(struct door *door, const char *yaml)
{
    memset(door, 0, sizeof *door);
    kit_open(&door->kit, yaml);
    door->shared.limiter = door->kit.limiter;
    door->services[0] = &door->service;
    door->shared.services = door->services;
    door->shared.n_services = 1;
    atomic_store(&door->shared.ready, true);
    assert_int_equal(sl_service_init(&door->service, &door->shared), 0);
    sl_http_response_init(&door->response, 4u << 20);
    door->peer = "127.0.0.1";
}

void door_close(struct door *door)
{
    sl_http_response_fini(&door->response);
    sl_service_fini(&door->service);
    kit_close(&door->kit);
}

/* Fills the fields from "Name: value" lines; returns where the body begins. */
static char *read_fields(char *text, char *at, struct sl_http_field *fields, unsigned *n)
{
    while (*at && *at != '\n') {
        char *end = strchr(at, '\n'), *colon = strstr(at, ": ");
        struct sl_http_field *f = &fields[(*n)++];

        assert_true(end && colon && colon < end && *n < SL_HTTP_FIELDS_MAX);
        f->name_off = (uint32_t)(at - text);
        f->name_len = (uint32_t)(colon - at);
        f->value_off = (uint32_t)(colon + 2 - text);
        f->value_len = (uint32_t)(end - colon - 2);
        at = end + 1;
    }
    return *at ? at + 1 : at;
}

static int ask(struct door *door, enum sl_listener_kind listener, const char *wanted)
{
    char text[32768], *line_end, *space;
    struct sl_http_field fields[SL_HTTP_FIELDS_MAX];
    bool now;
    struct sl_http_request q = {.base = text, .fields = fields, .trusted_channel = door->unix_socket};

    assert_true(strlen(wanted) < sizeof text - 1);
    snprintf(text, sizeof text, "%s%s", wanted, strchr(wanted, '\n') ? "" : "\n");
    line_end = strchr(text, '\n');
    space = strchr(text, ' ');
    q.method_text = (struct sl_slice){text, (size_t)(space - text)};
    q.method = sl_http_method_of(text, q.method_text.len);
    q.target = (struct sl_slice){space + 1, (size_t)(line_end - space - 1)};
    q.body = read_fields(text, line_end + 1, fields, &q.n_fields);
    q.body_len = strlen(q.body);
    assert_int_equal(sl_address_parse(door->peer, strlen(door->peer), &q.peer), 0);
    sl_http_response_clear(&door->response);
    now = sl_route(&door->service, listener, &q, door->asker, &door->response);
    sl_service_turn_ended(&door->service);
    return now ? door->response.status : 0;
}

int door_ask(struct door *door, const char *text)
{
    return ask(door, SL_PUBLIC, text);
}

int door_ask_admin(struct door *door, const char *text)
{
    return ask(door, SL_ADMIN, text);
}

const char *door_header(const struct door *door, const char *name)
{
    static char texts[8][4096];
    static unsigned next;
    char *text = texts[next++ % 8];

    for (unsigned i = 0; i < door->response.n_headers; i++) {
        const struct sl_http_header *h = &door->response.headers[i];

        if (strcmp(h->name, name) != 0)
            continue;
        snprintf(text, sizeof texts[0], "%.*s", (int)h->value_len, door->response.values.data + h->value_off);
        return text;
    }
    return NULL;
}

const char *door_body(struct door *door)
{
    sl_buf_add(&door->response.body, "", 1);
    door->response.body.len--;
    return door->response.body.data;
}
