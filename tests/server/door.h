/* The routes without a network: a limiter on a clock that stands still, and requests written as text. */
#ifndef TESTS_SERVER_DOOR_H
#define TESTS_SERVER_DOOR_H

#include "../limiter/kit.h"

#include "server/route.h"

struct door {
    struct kit kit; /* kit.now_us is the time */
    struct sl_shared shared;
    struct sl_service service;
    struct sl_service *services[1];
    struct sl_http_response response; /* of the last request */
    const char *peer;                 /* an address; "127.0.0.1" after door_open */
    bool unix_socket;
    struct sl_http_asker *asker; /* lent with each request; NULL: nothing can be answered later */
};

/* Opens with the policy "version: 1\n" and `yaml`. */
void door_open(struct door *door, const char *yaml);
void door_close(struct door *door);

/* Asks on the public listener, or on the admin one: "GET /auth\nName: value\n\nbody". Returns the status, or 0 when the
 * answer comes later. */
int door_ask(struct door *door, const char *text);
int door_ask_admin(struct door *door, const char *text);

/* A header of the last answer, or NULL when it is not there. The text stays until the eighth call after. */
const char *door_header(const struct door *door, const char *name);

/* The body of the last answer. */
const char *door_body(struct door *door);

#endif
