/* The stores of a fleet: the main one, and those of `dedicated`, which keep their place from the first policy that names
 * them to the fleet's end; and what is to be told of a store that no connection and no breaker notices. */
#include "fleet/internal.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

#define TELL_US UINT64_C(1000000)
#define CAUSE_MAX 100

static void tell(struct sl_fleet *fleet, unsigned store, const char *finding)
{
    char text[SL_ENDPOINT_TEXT_MAX * 2] = "of `dedicated`";
    struct sl_fleet_event event = {.finding = finding, .serious = true, .store = text};

    if (!fleet->config.event)
        return;
    if (fleet->stores[store])
        sl_store_url_text(fleet->stores[store], text, sizeof text);
    fleet->config.event(fleet->config.owner, &event);
}

/* ---- places */

/* Called with the lock held. Reads no file: whoever connects does. */
static unsigned add_store(struct sl_fleet *fleet, const char *text)
{
    unsigned i = atomic_load(&fleet->n_stores);
    struct sl_store_url *url;
    char why[256];

    if (i == SL_STORES_MAX) {
        atomic_store(&fleet->crowded, true);
        return i;
    }
    url = sl_calloc(&fleet->alloc, 1, sizeof *url);
    fleet->store_texts[i] = sl_strndup(&fleet->alloc, text, strlen(text));
    if (!url || !fleet->store_texts[i]) {
        sl_free(&fleet->alloc, url);
        sl_free(&fleet->alloc, fleet->store_texts[i]);
        fleet->store_texts[i] = NULL;
        return SL_STORES_MAX;
    }
    if (sl_store_url_parse(text, url, why, sizeof why) != 0 || url->kind == SL_STORE_MEMORY) {
        sl_free(&fleet->alloc, url);
        url = NULL;
    }
    fleet->stores[i] = url;
    atomic_store(&fleet->n_stores, i + 1);
    return i;
}

static unsigned find_store(const struct sl_fleet *fleet, const char *text)
{
    unsigned n = atomic_load(&fleet->n_stores);

    for (unsigned i = 1; i < n; i++)
        if (strcmp(fleet->store_texts[i], text) == 0)
            return i;
    return 0;
}

unsigned sl_fleet_store(struct sl_fleet *fleet, const char *text)
{
    unsigned i = find_store(fleet, text);

    if (i > 0)
        return i;
    pthread_mutex_lock(&fleet->lock);
    i = find_store(fleet, text);
    if (i == 0)
        i = add_store(fleet, text);
    pthread_mutex_unlock(&fleet->lock);
    return i;
}

const struct sl_store_url *sl_fleet_store_url(struct sl_fleet *fleet, unsigned store, char *why, size_t why_size)
{
    if (store >= SL_STORES_MAX || !fleet->stores[store]) {
        snprintf(why, why_size, "its address cannot be used");
        return NULL;
    }
    if (store > 0 && !fleet->stores_read[store]) {
        if (sl_store_url_read_files(fleet->stores[store], why, why_size) != 0)
            return NULL;
        fleet->stores_read[store] = true;
    }
    return fleet->stores[store];
}

/* ---- telling */

void sl_fleet_tell_unusable(struct sl_fleet *fleet, unsigned store, const char *why)
{
    char text[512];

    snprintf(text, sizeof text, "it cannot be used, and limits on it follow their failure modes: %s", why);
    tell(fleet, store, text);
}

/* Found while a request is decided, where nobody may be called. */
void sl_fleet_tell_crowded(struct sl_fleet *fleet)
{
    char text[256];

    if (!atomic_load(&fleet->crowded) || !atomic_exchange(&fleet->crowded, false))
        return;
    snprintf(
        text, sizeof text,
        "the policy names another dedicated store than the %u named since the start: there is no place for it, and "
        "its limits follow their failure modes until a restart",
        SL_STORES_MAX - 1);
    tell(fleet, 0, text);
}

/* A server of a Cluster that is addressed as if it was alone serves some keys and refuses the others. */
static bool is_of_cluster(const struct sl_store_url *url, enum sl_result result)
{
    return url->kind != SL_STORE_CLUSTER && (result == SL_RESULT_MOVED || result == SL_RESULT_CROSSSLOT);
}

/* What follows a comma or a full stop are the call's own words: keys, numbers of lines. */
static int length_of_cause(const char *answer)
{
    size_t len = strcspn(answer, ",.");

    return len < CAUSE_MAX ? (int)len : CAUSE_MAX;
}

void sl_lane_refused(struct sl_lane *lane, unsigned store, enum sl_result result, const char *answer)
{
    uint64_t now_us = sl_lane_now(lane);
    char text[256];

    sl_fleet_add(lane->fleet, SL_FC_REFUSED, 1);
    if (now_us - lane->stores[store].refusal_told_us < TELL_US)
        return;
    lane->stores[store].refusal_told_us = now_us;
    if (is_of_cluster(lane->fleet->stores[store], result))
        snprintf(text, sizeof text,
                 "it is a server of a Cluster and refuses other servers' keys: a Cluster's address is "
                 "redis+cluster://HOST,HOST...");
    else
        snprintf(text, sizeof text, "it refuses decisions (%s): %.*s", sl_result_name(result), length_of_cause(answer),
                 answer);
    tell(lane->fleet, store, text);
}
