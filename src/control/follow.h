/* Follows the current version of the policy: looks at the pointer several times a second, fetches what it points to when that
 * is another version than the one that runs here, offers it, and tells the store once a second what does run.
 *
 *     follow = sl_follow_new(&config, &runs, &follow);      runs: what the instance begins with
 *     ... on_offer(owner, version, text, why) -> taken or not
 *     sl_follow_free(follow);                               after the client is freed
 *
 * The store's pointer is what counts, not which number is higher: a store that was set back, or begun anew, is followed too.
 * A version that was not taken is offered again only when the pointer moves or somebody asks (sl_follow_hurry); one whose
 * texts are damaged is fetched again now and then. While the store is away, or has no version (any more), what runs stays.
 * Everything on the client's loop. */
#ifndef SL_CONTROL_FOLLOW_H
#define SL_CONTROL_FOLLOW_H

#include "control/versions.h"

#define SL_FOLLOW_LOOK_US UINT64_C(200000)    /* +- 10 % at random; a look follows the answer to the one before */
#define SL_FOLLOW_REPORT_US UINT64_C(1000000) /* likewise */
#define SL_FOLLOW_AGAIN_US \
    UINT64_C(10000000) /* until damaged texts are fetched, and what was put off is offered, again */

struct sl_follow;

enum sl_offer { SL_OFFER_TAKEN, SL_OFFER_REFUSED, SL_OFFER_LATER, SL_OFFER_IGNORED, SL_OFFER_PENDING };

struct sl_follow_config {
    struct sl_versions_place place;      /* what it points to is borrowed */
    uint64_t id;                         /* the instance's name among those that are alive */
    const char *host, *region, *address; /* as struct sl_running has them; NULL: none */
    /* Looks and tells, but fetches nothing: the instance follows its file. */
    bool from_file;
    bool mute; /* only looks and offers; the store is not told what runs */
    /* Another version is current than the one that runs. TAKEN: it runs now. REFUSED: `why` says what is wrong with it.
     * LATER: nothing is wrong with it, but it could not be taken; it is offered again after SL_FOLLOW_AGAIN_US. PENDING: sl_follow_conclude
     * will tell, and nothing is offered until then. May take the texts (and clear *text). NULL texts with from_file: then only IGNORED makes sense. */
    enum sl_offer (*offer)(void *owner, const struct sl_version *version, struct sl_version_text *text, char *why,
                           size_t why_size);
    /* A sentence, once at each change, about a store that has something else than a version for us. */
    void (*odd)(void *owner, const char *text);
    /* The first look has been answered; once. NULL: nobody waits. */
    void (*looked)(void *owner);
    void *owner;
};

/* `runs`: number 0 with the hash of the file's policy, or a version. Returns 0 or SL_ENOMEM. */
int sl_follow_new(const struct sl_follow_config *config, const struct sl_pointer *runs, struct sl_follow **ret_follow);
/* The client must have been freed before. Accepts NULL. */
void sl_follow_free(struct sl_follow *follow);

/* What has become of an offer that was PENDING; anything but PENDING. On the loop. */
void sl_follow_conclude(struct sl_follow *follow, enum sl_offer answer, const char *why);

/* Something else runs now that was not offered. */
void sl_follow_runs(struct sl_follow *follow, const struct sl_pointer *runs);

/* Looks now, and offers again what was not taken. */
void sl_follow_hurry(struct sl_follow *follow);

struct sl_follow_stats {
    struct sl_pointer seen; /* the pointer as last looked at */
    uint64_t looks, failed; /* answered, and not */
    uint64_t taken, refused, ignored;
};
void sl_follow_stats(const struct sl_follow *follow, struct sl_follow_stats *ret_stats);

#endif
