/* The policy's versions in the store: numbered, each with body, keys_file, SHA-256, author, time and comment; never changed,
 * never overwritten. The current one is a pointer that only a push moves.
 *
 *     place = (struct sl_versions_place){.net = net, .client = client, .alloc = &alloc, .ns = "sluice"};
 *     outcome = sl_versions_fetch(&place, 0, fetched, ctx);          SL_CONTROL_OK: fetched will be called, once
 *
 *     NAMESPACE:{fleet}:policy:current          string   "12 HASH"
 *     NAMESPACE:{fleet}:policy:versions         hash     12 -> its record (control/record.h)
 *     NAMESPACE:{fleet}:policy:body:HASH        hash     0, 1, ... -> pieces of SL_PIECE_BYTES: the body and, after a NUL, the
 *                                                        keys_file, so that HASH is the SHA-256 of all pieces in a row
 *     NAMESPACE:{fleet}:policy:draft:TOKEN      hash     the same while it is on its way up; gone after SL_DRAFT_LIFE_MS
 *     NAMESPACE:{fleet}:policy:running:ID       string   what an instance runs; gone with its heartbeat
 *
 * A push sends the pieces to a draft of its own; then one script, atomically, looks whether the current version is still the
 * expected one, gives the draft its place, writes the record and moves the pointer. Who dies in mid-push leaves a draft that
 * expires and nothing else. The script may be sent twice: it knows its own push again by the token. Bodies are kept by what
 * is in them, so bringing one back costs no second copy. No command and no reply is larger than a piece and its frame.
 *
 * Functions take what they need before they return; `place` and all it points to must live until `done`. When one does not
 * return SL_CONTROL_OK, done is not called. Everything is on the client's loop; `done` never comes from inside the call, and
 * always comes, at the latest when the client is freed. */
#ifndef SL_CONTROL_VERSIONS_H
#define SL_CONTROL_VERSIONS_H

#include "base/alloc.h"
#include "control/record.h"
#include "store/client.h"

#define SL_PIECE_BYTES (256u << 10)
#define SL_DRAFT_LIFE_MS 600000u
#define SL_RUNNING_LIFE_MS 3500u /* as SL_MEMBERS_SILENT_US */
#define SL_HISTORY_MAX 1000u
#define SL_CONTROL_WHY_MAX 1536u

struct sl_versions_place {
    const struct sl_net *net;
    struct sl_client *client;
    const struct sl_alloc *alloc;
    const char *ns;
    uint64_t timeout_us; /* of each command; 0: the client's */
};

enum sl_control {
    SL_CONTROL_OK,
    SL_CONTROL_NONE,     /* no such version, or none at all */
    SL_CONTROL_CONFLICT, /* another version came between */
    SL_CONTROL_FOREIGN,  /* under our names is something that is not ours; it was left alone */
    SL_CONTROL_DAMAGED,  /* pieces are missing or are not what their hash says */
    SL_CONTROL_INVALID,  /* what was given is outside of the bounds */
    SL_CONTROL_REFUSED,  /* the store refused, and nothing was changed */
    SL_CONTROL_AWAY,     /* the store was not reached or did not answer, and nothing was changed */
    SL_CONTROL_UNKNOWN,  /* the store did not answer: whether the push took place is to be seen in the history */
    SL_CONTROL_NOMEM,
};

/* A version's texts: one allocation, `bytes`. Body and keys are NUL-terminated. */
struct sl_version_text {
    char *bytes;
    const char *body, *keys; /* keys NULL: no keys_file */
    size_t body_len, keys_len;
};
void sl_version_text_free(const struct sl_alloc *alloc, struct sl_version_text *text); /* clears it */

/* ---- the pointer */

/* SL_CONTROL_OK: *pointer, whose number is 0 when there is no version. Else `why` says what is wrong. */
typedef void sl_versions_looked(void *ctx, enum sl_control outcome, const struct sl_pointer *pointer, const char *why);
enum sl_control sl_versions_look(const struct sl_versions_place *place, sl_versions_looked *done, void *ctx);

/* ---- a version with its texts */

/* On SL_CONTROL_OK the texts are the callee's to free; else both are NULL. */
typedef void sl_versions_fetched(void *ctx, enum sl_control outcome, const struct sl_version *version,
                                 struct sl_version_text *text, const char *why);
/* number 0: the current one. */
enum sl_control sl_versions_fetch(const struct sl_versions_place *place, uint64_t number, sl_versions_fetched *done,
                                  void *ctx);

/* ---- the way back */

/* The number, 0 when there is none before it. */
typedef void sl_versions_found(void *ctx, enum sl_control outcome, uint64_t number, const char *why);
/* The version before `number`, in what they mean: one that brought K back stands for K, so that rollback after rollback goes
 * on back. 12, then 13 which brought 11 back: before 13 is 10. */
enum sl_control sl_versions_before(const struct sl_versions_place *place, uint64_t number, sl_versions_found *done,
                                   void *ctx);

/* ---- a new version */

struct sl_version_draft {
    const char *body, *keys; /* up to SL_POLICY_BYTES_MAX each; keys NULL: no keys_file */
    size_t body_len, keys_len;
    const char *author, *comment;
    uint64_t expected; /* the number of the version that must still be current; 0: there must be none */
    uint64_t from;     /* the version that this one brings back; 0: none */
};

/* SL_CONTROL_OK: *version is the new one. SL_CONTROL_CONFLICT: it is the one that is current instead, NULL when there is none
 * any more. Else NULL. The texts of the draft must live until then. */
typedef void sl_versions_pushed(void *ctx, enum sl_control outcome, const struct sl_version *version, const char *why);
/* On SL_CONTROL_INVALID *ret_why is a sentence in static storage. */
enum sl_control sl_versions_push(const struct sl_versions_place *place, const struct sl_version_draft *draft,
                                 sl_versions_pushed *done, void *ctx, const char **ret_why);

/* ---- the history */

struct sl_history {
    struct sl_pointer current;
    uint64_t last;               /* the highest number there is */
    struct sl_version *versions; /* the newest first */
    size_t n_versions;
    struct sl_running *running; /* the instances that are alive and have said what they run */
    size_t n_running, n_instances;
};

/* The history is borrowed for the call, NULL unless SL_CONTROL_OK. */
typedef void sl_versions_told(void *ctx, enum sl_control outcome, const struct sl_history *history, const char *why);
/* The `max` (1 ... SL_HISTORY_MAX) newest versions up to number `upto` (0: the last one), and up to SL_FLEET_INSTANCES_MAX
 * instances. */
enum sl_control sl_versions_history(const struct sl_versions_place *place, uint64_t upto, unsigned max,
                                    sl_versions_told *done, void *ctx);

/* ---- what runs here */

/* Says so for as long as a heartbeat is valid. done may be NULL. */
typedef void sl_versions_reported(void *ctx, enum sl_control outcome, const char *why);
enum sl_control sl_versions_report(const struct sl_versions_place *place, const struct sl_running *running,
                                   sl_versions_reported *done, void *ctx);

#endif
