#include "kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

struct rig rig;
struct server server;
struct sl_versions_place place;

void kit_set_up(const char *const *options)
{
    char address[192];

    server_start(&server, options);
    snprintf(address, sizeof address, "redis+unix://%s/socket", server.folder);
    rig_init(&rig, address);
    rig_open(&rig);
    rig_until_ok(&rig, "k");
    place = (struct sl_versions_place){
        .net = &rig.net.net, .client = rig.client, .alloc = &rig.alloc, .ns = "test", .timeout_us = 5000000};
}

void kit_tear_down(void)
{
    rig_close(&rig);
    server_remove(&server);
}

struct answer ask(const char *const *words)
{
    return rig_command(&rig, words[1], words);
}

/* ---- pushes */

void kit_on_pushed(void *ctx, enum sl_control outcome, const struct sl_version *version, const char *why)
{
    struct pushed *pushed = ctx;

    assert_false(pushed->done);
    pushed->done = true;
    pushed->outcome = outcome;
    pushed->has_version = version != NULL;
    if (version)
        pushed->version = *version;
    snprintf(pushed->why, sizeof pushed->why, "%s", why);
}

struct sl_version_draft draft_of(const char *body, const char *author, uint64_t expected)
{
    return (struct sl_version_draft){
        .body = body, .body_len = strlen(body), .author = author, .comment = "", .expected = expected};
}

void push_later(const struct sl_versions_place *where, const struct sl_version_draft *draft, struct pushed *pushed)
{
    const char *why;

    *pushed = (struct pushed){.done = false};
    if (sl_versions_push(where, draft, kit_on_pushed, pushed, &why) != SL_CONTROL_OK)
        fail_msg("%s", why ? why : "not begun");
    assert_false(pushed->done);
}

struct pushed push(const struct sl_version_draft *draft)
{
    struct pushed pushed;

    push_later(&place, draft, &pushed);
    assert_true(rig_wait(&rig, &pushed.done));
    return pushed;
}

uint64_t push_text(const char *body, uint64_t expected)
{
    struct sl_version_draft draft = draft_of(body, "ann", expected);
    struct pushed pushed = push(&draft);

    if (pushed.outcome != SL_CONTROL_OK)
        fail_msg("%s", pushed.why);
    return pushed.version.number;
}

/* ---- fetches */

static void on_fetched(void *ctx, enum sl_control outcome, const struct sl_version *version,
                       struct sl_version_text *text, const char *why)
{
    struct fetched *fetched = ctx;

    assert_false(fetched->done);
    fetched->done = true;
    fetched->outcome = outcome;
    assert_int_equal(outcome == SL_CONTROL_OK, version && text);
    if (version)
        fetched->version = *version;
    if (text)
        fetched->text = *text;
    snprintf(fetched->why, sizeof fetched->why, "%s", why);
}

struct fetched fetch(uint64_t number)
{
    struct fetched fetched = {.done = false};

    assert_int_equal(sl_versions_fetch(&place, number, on_fetched, &fetched), SL_CONTROL_OK);
    assert_true(rig_wait(&rig, &fetched.done));
    return fetched;
}

void fetched_free(struct fetched *fetched)
{
    sl_version_text_free(&rig.alloc, &fetched->text);
}

/* ---- histories */

static void on_told(void *ctx, enum sl_control outcome, const struct sl_history *found, const char *why)
{
    struct told *told = ctx;

    assert_false(told->done);
    told->done = true;
    told->outcome = outcome;
    snprintf(told->why, sizeof told->why, "%s", why);
    assert_int_equal(outcome == SL_CONTROL_OK, found != NULL);
    if (!found)
        return;
    told->current = found->current;
    told->last = found->last;
    told->n_versions = found->n_versions;
    told->n_running = found->n_running;
    told->n_instances = found->n_instances;
    for (size_t i = 0; i < found->n_versions && i < 8; i++)
        told->versions[i] = found->versions[i];
    for (size_t i = 0; i < found->n_running && i < 8; i++)
        told->running[i] = found->running[i];
}

struct told history(uint64_t upto, unsigned max)
{
    struct told told = {.done = false};

    assert_int_equal(sl_versions_history(&place, upto, max, on_told, &told), SL_CONTROL_OK);
    assert_true(rig_wait(&rig, &told.done));
    return told;
}
