/* Overrides (policy/override.h) in the store: one record each, a revision that every change moves, and a log of changes.
 *
 *     NAMESPACE:{fleet}:overrides            hash     "KEYTYPE\nLIMIT\nKEY" -> its record (policy/override_json.h)
 *     NAMESPACE:{fleet}:overrides:ends       zset     the same names of those that end, by their end
 *     NAMESPACE:{fleet}:overrides:revision   string   "12 TOKEN": how often they changed, and the last change's mark
 *     NAMESPACE:{fleet}:overrides:log        list     the newest SL_OVERRIDE_LOG_MAX changes, the newest first
 *
 * A change is one script: it looks at everything before it writes anything, drops those that are over, and is known by
 * its token when it is sent again. An instance looks at the revision several times a second and fetches all of them when
 * it is another than before: the mark tells a store that was set back from one that went on. As for all functions of
 * control/versions.h: everything on the client's loop; done comes once, never from inside the call, and not at all
 * when the call does not return SL_CONTROL_OK. */
#ifndef SL_CONTROL_OVERRIDES_H
#define SL_CONTROL_OVERRIDES_H

#include "control/versions.h"
#include "policy/override.h"

struct json_t;

#define SL_OVERRIDE_LOG_MAX 1000u
#define SL_REVISION_TEXT_MAX 40u

/* "12 TOKEN"; empty: nobody has ever set one. */
struct sl_revision {
    char text[SL_REVISION_TEXT_MAX];
    uint64_t number;
};

typedef void sl_overrides_looked(void *ctx, enum sl_control outcome, const struct sl_revision *revision,
                                 const char *why);
enum sl_control sl_overrides_look(const struct sl_versions_place *place, sl_overrides_looked *done, void *ctx);

/* On SL_CONTROL_OK a reference, the callee's to drop; `why` then says how many records could not be read, or nothing. */
typedef void sl_overrides_fetched(void *ctx, enum sl_control outcome, struct sl_overrides *overrides,
                                  const struct sl_revision *revision, const char *why);
enum sl_control sl_overrides_fetch(const struct sl_versions_place *place, sl_overrides_fetched *done, void *ctx);

/* ---- changes */

struct sl_override_change {
    const struct sl_override *override; /* to remove: only what it is known by counts. Its set_us does not */
    bool remove;
    const char *author, *comment; /* of the change */
};

/* SL_CONTROL_OK: `entry` is what the log has of it (borrowed), {"revision","timeUs","op","author","comment","old","new"} with
 * records or null. SL_CONTROL_NONE: there is no such override to remove. SL_CONTROL_INVALID: its end has passed.
 * SL_CONTROL_CONFLICT: there are SL_OVERRIDES_MAX. */
typedef void sl_overrides_changed(void *ctx, enum sl_control outcome, const struct json_t *entry, const char *why);
/* Copies what it needs. On SL_CONTROL_INVALID *ret_why is a sentence in static storage. */
enum sl_control sl_overrides_change(const struct sl_versions_place *place, const struct sl_override_change *change,
                                    sl_overrides_changed *done, void *ctx, const char **ret_why);

/* The newest `max` (1 ... SL_OVERRIDE_LOG_MAX) entries, the newest first: an array, borrowed for the call. */
typedef void sl_overrides_told(void *ctx, enum sl_control outcome, struct json_t *entries, const char *why);
enum sl_control sl_overrides_log(const struct sl_versions_place *place, unsigned max, sl_overrides_told *done,
                                 void *ctx);

/* An entry as it is shown: "time" for "timeUs", overrides with "set". A new reference; NULL: out of memory. `op` is set,
 * remove or expire. */
struct json_t *sl_override_entry_shown(const struct json_t *entry);

/* An entry for the log from its parts; `old` and `now` may be NULL. A new reference, or NULL. */
struct json_t *sl_override_entry(uint64_t revision, uint64_t time_us, const char *op, const char *author,
                                 const char *comment, const struct sl_override *old, const struct sl_override *now);

/* ---- following */

#define SL_OVERRIDES_LOOK_US UINT64_C(200000) /* +- 10 % at random */

struct sl_overrides_follow;

struct sl_overrides_follow_config {
    struct sl_versions_place place; /* what it points to is borrowed */
    /* Another list than before: the reference is the callee's. False: it could not be taken, and comes again. */
    bool (*take)(void *owner, struct sl_overrides *overrides, const struct sl_revision *revision);
    /* A sentence, once at each change, about a store that has something else than overrides for us. */
    void (*odd)(void *owner, const char *text);
    void (*looked)(void *owner); /* the first look has been answered, and what it says is done; once */
    void *owner;
};

/* `revision`: of what the instance begins with; its text is empty when there is nothing. Returns 0 or SL_ENOMEM. */
int sl_overrides_follow_new(const struct sl_overrides_follow_config *config, const struct sl_revision *revision,
                            struct sl_overrides_follow **ret_follow);
void sl_overrides_follow_free(struct sl_overrides_follow *follow); /* after the client. Accepts NULL */
void sl_overrides_follow_hurry(struct sl_overrides_follow *follow);

/* ---- between the files of this header */

struct sl_control_key sl_overrides_key(const struct sl_versions_place *place);
struct sl_control_key sl_override_ends_key(const struct sl_versions_place *place);
struct sl_control_key sl_override_revision_key(const struct sl_versions_place *place);
struct sl_control_key sl_override_log_key(const struct sl_versions_place *place);

/* "12 TOKEN", or an empty text. 0 or SL_EFORMAT. */
int sl_revision_read(const char *text, size_t len, struct sl_revision *ret_revision);

#endif
