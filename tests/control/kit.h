/* What the tests of the control plane share: a store, a client, and calls that are waited for. */
#ifndef TESTS_CONTROL_KIT_H
#define TESTS_CONTROL_KIT_H

#include "../store/rig.h"
#include "control/versions.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define CURRENT "test:{fleet}:policy:current"
#define VERSIONS "test:{fleet}:policy:versions"

extern struct rig rig;
extern struct server server;
extern struct sl_versions_place place;

void kit_set_up(const char *const *options);
void kit_tear_down(void);

/* Any command; its answer. The first word after the command is the key. */
struct answer ask(const char *const *words);

struct pushed {
    bool done;
    enum sl_control outcome;
    bool has_version;
    struct sl_version version;
    char why[SL_CONTROL_WHY_MAX];
};
void kit_on_pushed(void *ctx, enum sl_control outcome, const struct sl_version *version, const char *why);

/* A draft of a text without a keys_file. */
struct sl_version_draft draft_of(const char *body, const char *author, uint64_t expected);
void push_later(const struct sl_versions_place *where, const struct sl_version_draft *draft, struct pushed *pushed);
struct pushed push(const struct sl_version_draft *draft);
/* A push that must be taken; its number. */
uint64_t push_text(const char *body, uint64_t expected);

struct fetched {
    bool done;
    enum sl_control outcome;
    struct sl_version version;
    struct sl_version_text text;
    char why[SL_CONTROL_WHY_MAX];
};
/* The texts are freed by fetched_free. */
struct fetched fetch(uint64_t number);
void fetched_free(struct fetched *fetched);

struct told {
    bool done;
    enum sl_control outcome;
    struct sl_pointer current;
    uint64_t last;
    struct sl_version versions[8];
    struct sl_running running[8];
    size_t n_versions, n_running, n_instances;
    char why[SL_CONTROL_WHY_MAX];
};
struct told history(uint64_t upto, unsigned max);

#endif
