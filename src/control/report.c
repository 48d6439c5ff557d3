#include "control/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <time.h>

void sl_version_time(const struct sl_version *version, bool for_machines, char buf[static SL_VERSION_TIME_MAX])
{
    time_t seconds = (time_t)(version->time_us / 1000000);
    struct tm tm;

    if (!gmtime_r(&seconds, &tm) || !(for_machines ? strftime(buf, SL_VERSION_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm)
                                                   : strftime(buf, SL_VERSION_TIME_MAX, "%Y-%m-%d %H:%M:%S", &tm)))
        snprintf(buf, SL_VERSION_TIME_MAX, "?");
}

json_t *sl_version_json(const struct sl_version *version)
{
    char time[SL_VERSION_TIME_MAX];

    if (!version->hash[0])
        return json_pack("{s:I,s:s}", "version", (json_int_t)version->number, "error", "its record cannot be read");
    sl_version_time(version, true, time);
    return json_pack("{s:I,s:s,s:s,s:s,s:s,s:o}", "version", (json_int_t)version->number, "hash", version->hash, "time",
                     time, "author", version->author, "comment", version->comment, "rollbackOf",
                     version->from ? json_integer((json_int_t)version->from) : json_null());
}

static json_t *running_json(const struct sl_running *running)
{
    char id[20];

    snprintf(id, sizeof id, "%016" PRIx64, running->id);
    return json_pack("{s:s,s:s,s:o,s:o,s:I,s:s,s:s,s:o,s:o}", "instance", id, "host", running->host, "region",
                     running->region[0] ? json_string(running->region) : json_null(), "address",
                     running->address[0] ? json_string(running->address) : json_null(), "version",
                     (json_int_t)running->version.number, "hash", running->version.hash, "source",
                     running->from_file ? "file" : "store", "refused",
                     running->refused ? json_integer((json_int_t)running->refused) : json_null(), "reason",
                     running->refused ? json_string(running->why) : json_null());
}

json_t *sl_history_json(const struct sl_history *history)
{
    json_t *versions = json_array(), *instances = json_array();
    bool failed = false;

    for (size_t i = 0; i < history->n_versions; i++)
        failed |= json_array_append_new(versions, sl_version_json(&history->versions[i])) != 0;
    for (size_t i = 0; i < history->n_running; i++)
        failed |= json_array_append_new(instances, running_json(&history->running[i])) != 0;
    if (failed) {
        json_decref(versions);
        versions = NULL;
    }
    return json_pack("{s:o,s:o,s:o,s:I}", "current",
                     history->current.number ? json_integer((json_int_t)history->current.number) : json_null(),
                     "versions", versions, "instances", instances, "unheard",
                     (json_int_t)(history->n_instances - history->n_running));
}
