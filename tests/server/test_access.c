/* Who may do what on the admin listener, for every route of the table, with each method and each kind of token: a route that is added is tested here without
 * being named. */
#include "door.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned bit;
} methods[] = {{"GET", SL_HTTP_GET},
               {"HEAD", SL_HTTP_HEAD},
               {"POST", SL_HTTP_POST},
               {"PUT", SL_HTTP_PUT},
               {"DELETE", SL_HTTP_DELETE}};

/* What everybody may ask, and why: probes have no token, and say nothing but yes or no. */
static const char *const open_paths[] = {"/healthz", "/readyz"};

enum { NONE, WRONG, READER, WRITER, CREDENTIALS };

/* A wrong one is as long as a right one, a part of it, more than it, or right but for its last letter. */
static const char *const given[] = {[NONE] = "",
                                    [WRONG] = NULL,
                                    [READER] = "Authorization: Bearer reader\n",
                                    [WRITER] = "Authorization: Bearer writer\n"};
static const char *const wrong[] = {"Authorization: Bearer rwader\n",  "Authorization: Bearer write\n",
                                    "Authorization: Bearer writerr\n", "Authorization: Bearer writeR\n",
                                    "Authorization: Basic writer\n",   "Authorization: Bearer \n",
                                    "X-Authorization: Bearer writer\n"};

static bool is_open(const char *path)
{
    for (size_t i = 0; i < sizeof open_paths / sizeof *open_paths; i++)
        if (!strcmp(path, open_paths[i]))
            return true;
    return false;
}

/* 401, 403, or 0: let in, whatever the handler then says of a request that means nothing. */
static int ask(struct door *d, const struct sl_route *route, const char *method, const char *header)
{
    int stem = (int)strcspn(route->path, "{"), status;
    char text[256];

    snprintf(text, sizeof text, "%s %.*s%s\n%s", method, stem, route->path, route->path[stem] ? "1" : "", header);
    status = door_ask_admin(d, text);
    return status == 401 || status == 403 ? status : 0;
}

static int wanted(const struct sl_route *route, unsigned method, int credential, bool has_reader, bool has_writer)
{
    bool read = method & (SL_HTTP_GET | SL_HTTP_HEAD);

    if (is_open(route->path) || (!has_reader && !has_writer))
        return 0;
    if (credential == WRITER && has_writer)
        return 0;
    if (credential == READER && has_reader)
        return read ? 0 : 403;
    return 401;
}

static void expect(struct door *d, const struct sl_route *route, size_t m, const char *header, int want)
{
    int found = ask(d, route, methods[m].name, header);

    if (found != want)
        fail_msg("%s %s with `%.40s`: %d, not %d", methods[m].name, route->path, header, found, want);
    if (found)
        assert_non_null(door_header(d, "WWW-Authenticate"));
}

/* Every method of a route, with everything a caller may have in hand. */
static unsigned try_route(struct door *d, const struct sl_route *route)
{
    unsigned n = 0;

    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        if (!(route->methods & methods[m].bit))
            continue;
        for (int c = 0; c < CREDENTIALS; c++) {
            int want = wanted(route, methods[m].bit, c, d->shared.admin_read_token, d->shared.admin_token);

            if (c != WRONG)
                expect(d, route, m, given[c], want);
            for (size_t i = 0; c == WRONG && i < sizeof wrong / sizeof *wrong; i++)
                expect(d, route, m, wrong[i], want);
            n++;
        }
    }
    return n;
}

static void every_route_with_every_token(void **state)
{
    struct door d;
    unsigned n = 0;

    (void)state;
    door_open(&d, "limits: [{name: all, rate: 10/m}]\n");
    for (unsigned tokens = 0; tokens < 4; tokens++) { /* none, the reader's, the writer's, both */
        d.shared.admin_read_token = tokens & 1 ? "reader" : NULL;
        d.shared.admin_token = tokens & 2 ? "writer" : NULL;
        for (unsigned i = 0; i < sl_n_routes; i++)
            if (sl_routes[i].listener & SL_ADMIN)
                n += try_route(&d, &sl_routes[i]);
    }
    assert_true(n >= 4 * 4 * 20);
    door_close(&d);
}

/* A route that is added without an access of its own choosing is SL_OPEN, which is 0. */
static void no_route_is_open_that_is_not_named_here(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sl_n_routes; i++) {
        const struct sl_route *route = &sl_routes[i];

        if (route->listener & SL_ADMIN && !is_open(route->path) && route->access != SL_ADMIN_TOKEN)
            fail_msg("%s needs no token on the admin listener", route->path);
        if (route->listener == SL_PUBLIC && route->access == SL_ADMIN_TOKEN)
            fail_msg("%s is for administrators and on the public listener", route->path);
    }
}

/* A listener that only its owner can reach is let in without; that is what makes a fleet of sidecars bearable. */
static void a_unix_socket_needs_no_token(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "limits: [{name: all, rate: 10/m}]\n");
    d.shared.admin_token = "writer";
    d.unix_socket = true;
    for (unsigned i = 0; i < sl_n_routes; i++)
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
            if (sl_routes[i].listener & SL_ADMIN && sl_routes[i].methods & methods[m].bit)
                assert_int_equal(ask(&d, &sl_routes[i], methods[m].name, ""), 0);
    door_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_with_every_token),
        cmocka_unit_test(no_route_is_open_that_is_not_named_here),
        cmocka_unit_test(a_unix_socket_needs_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
