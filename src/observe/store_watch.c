#include "observe/store_watch.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 256
#define LINE_MAX_BYTES (3 * SL_ENDPOINT_TEXT_MAX + TEXT_MAX + 256)
#define SAME_FAILOVER_US UINT64_C(10000000)  /* within this the same words mean the same event, seen by another loop */
#define SAME_FINDING_US UINT64_C(3600000000) /* what was found is told again after so long, should it be found again */
#define LOOKS_UNTIL_UNAVAILABLE 2u           /* a secret that is just being put in force is no outage */

enum kind { CONNECTION, BREAKER, FAILOVER, TOPOLOGY, FINDING, KINDS };
enum state { UNKNOWN, GOOD, BAD };

_Static_assert(SL_RESULTS <= 32, "a bit each");

struct row {
    enum kind kind;
    char store[SL_ENDPOINT_TEXT_MAX * 2];
    char name[SL_ENDPOINT_TEXT_MAX]; /* the shard's; of a finding, its text */
    enum state state;
    uint32_t causes; /* of a CONNECTION that is BAD: those told since, a bit each */
    bool said;       /* anything yet */
    uint64_t said_us;
    unsigned kept; /* changes since it was said */
    enum sl_store_say severity;
    char text[TEXT_MAX];
};

struct sl_store_watch {
    struct sl_store_watch_config config;
    pthread_mutex_t lock;       /* what follows */
    bool reached;               /* ever */
    unsigned bad_looks;         /* in a row */
    uint64_t answered, refused; /* calls, at the last look */
    unsigned n_rows;
    struct row rows[SL_STORE_WATCH_ROWS];
};

int sl_store_watch_new(const struct sl_store_watch_config *config, struct sl_store_watch **ret_watch)
{
    struct sl_store_watch *watch = sl_calloc(config->alloc, 1, sizeof *watch);

    if (!watch)
        return SL_ENOMEM;
    watch->config = *config;
    pthread_mutex_init(&watch->lock, NULL);
    *ret_watch = watch;
    return 0;
}

void sl_store_watch_free(struct sl_store_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_destroy(&watch->lock);
    sl_free(watch->config.alloc, watch);
}

/* ---- lines */

/* Threads read the clock before they come here. */
static uint64_t elapsed_us(const struct row *row, uint64_t now_us)
{
    return now_us > row->said_us ? now_us - row->said_us : 0;
}

/* What finds no row of its own shares one of its kind: its changes are told as they come, still one a second. */
static struct row *shared_row(struct sl_store_watch *watch, enum kind kind)
{
    struct row *row = &watch->rows[SL_STORE_WATCH_ROWS - KINDS + (unsigned)kind];

    row->state = UNKNOWN;
    return row;
}

static struct row *row_of(struct sl_store_watch *watch, enum kind kind, const char *store, const char *name)
{
    struct row *row;

    for (unsigned i = 0; i < watch->n_rows; i++) {
        row = &watch->rows[i];
        if (row->kind == kind && !strcmp(row->store, store) && !strncmp(row->name, name, sizeof row->name - 1))
            return row;
    }
    row = watch->n_rows < SL_STORE_WATCH_ROWS - KINDS ? &watch->rows[watch->n_rows++] : shared_row(watch, kind);
    row->kind = kind;
    snprintf(row->store, sizeof row->store, "%s", store);
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

static void say(struct sl_store_watch *watch, struct row *row, uint64_t now_us)
{
    char line[LINE_MAX_BYTES];
    size_t used = (size_t)snprintf(line, sizeof line, "store %s", row->store);

    /* A single server's name is its address; of several in the address it must be said which. */
    if (row->kind != FINDING && row->name[0] && (strchr(row->store, ',') || !strstr(row->store, row->name)))
        used += (size_t)snprintf(line + used, sizeof line - used, ": %s", row->name);
    used += (size_t)snprintf(line + used, sizeof line - used, ": %s", row->text);
    if (row->kept > 1)
        snprintf(line + used, sizeof line - used, " (%u changes before this one were not logged)", row->kept - 1);
    row->said = true;
    row->said_us = now_us;
    row->kept = 0;
    watch->config.say(watch->config.ctx, row->severity, line);
}

static void change(struct sl_store_watch *watch, struct row *row, enum state state, enum sl_store_say severity,
                   uint64_t now_us)
{
    row->state = state;
    row->severity = severity;
    row->kept++;
    if (!row->said || elapsed_us(row, now_us) >= SL_STORE_WATCH_QUIET_US)
        say(watch, row, now_us);
}

/* An outage is one state, but not one cause: after the connection was lost, the password may turn out to be another one now.
 * Each cause is told once. */
static bool is_known_outage(const struct row *row, const struct sl_client_event *event)
{
    return row->state == BAD && row->causes >> event->cause & 1;
}

static void on_connection(struct sl_store_watch *watch, struct row *row, const struct sl_client_event *event,
                          uint64_t now_us)
{
    enum state state = event->good ? GOOD : BAD;

    if (event->good ? row->state == GOOD : is_known_outage(row, event))
        return;
    if (row->state != BAD)
        row->causes = 0;
    row->causes |= event->good ? 0 : UINT32_C(1) << event->cause;
    if (event->good)
        snprintf(row->text, sizeof row->text, "%s", event->text);
    else
        snprintf(row->text, sizeof row->text, "no connection (%s): %s", sl_result_name(event->cause), event->text);
    change(watch, row, state, event->good ? SL_STORE_SAY_INFO : SL_STORE_SAY_ERROR, now_us);
}

static void on_breaker(struct sl_store_watch *watch, struct row *row, const struct sl_client_event *event,
                       uint64_t now_us)
{
    enum state state = event->breaker == SL_BREAKER_CLOSED ? GOOD : BAD;

    /* Half-open is a way to somewhere. Closed is what it is from the start. */
    if (state == row->state || event->breaker == SL_BREAKER_HALF_OPEN || (state == GOOD && row->state == UNKNOWN))
        return;
    snprintf(row->text, sizeof row->text, "%s",
             state == GOOD ? "answers again: the breaker is closed"
                           : "fails or is too slow: the breaker is open, shared limits follow their failure modes");
    change(watch, row, state, state == GOOD ? SL_STORE_SAY_INFO : SL_STORE_SAY_ERROR, now_us);
}

static void on_failover(struct sl_store_watch *watch, struct row *row, const struct sl_client_event *event,
                        uint64_t now_us)
{
    char text[TEXT_MAX];

    snprintf(text, sizeof text, "failover: %s", event->text);
    if (row->said && !strcmp(text, row->text) && elapsed_us(row, now_us) < SAME_FAILOVER_US)
        return;
    snprintf(row->text, sizeof row->text, "%s", text);
    change(watch, row, BAD, SL_STORE_SAY_WARNING, now_us);
}

static void on_topology(struct sl_store_watch *watch, struct row *row, const struct sl_client_event *event,
                        uint64_t now_us)
{
    enum state state = event->good ? GOOD : BAD;

    if (state == row->state)
        return;
    snprintf(row->text, sizeof row->text, "%s", event->text);
    change(watch, row, state, event->good ? SL_STORE_SAY_INFO : SL_STORE_SAY_ERROR, now_us);
}

static void on_client_event(struct sl_store_watch *watch, const char *store, const struct sl_client_event *event,
                            uint64_t now_us)
{
    static const struct {
        enum kind kind;
        void (*on)(struct sl_store_watch *watch, struct row *row, const struct sl_client_event *event, uint64_t now_us);
    } happenings[] = {
        [SL_CLIENT_CONNECTED] = {CONNECTION, on_connection}, [SL_CLIENT_DISCONNECTED] = {CONNECTION, on_connection},
        [SL_CLIENT_BREAKER] = {BREAKER, on_breaker},         [SL_CLIENT_FAILOVER] = {FAILOVER, on_failover},
        [SL_CLIENT_TOPOLOGY] = {TOPOLOGY, on_topology},
    };
    struct row *row = row_of(watch, happenings[event->happening].kind, store, event->shard);

    happenings[event->happening].on(watch, row, event, now_us);
}

/* ---- alarms */

static void say_alarm(struct sl_store_watch *watch, enum sl_alarm alarm, bool raised)
{
    char line[512];

    if (raised)
        snprintf(line, sizeof line, "alarm %s: %s; docs/runbook.md says what to do", sl_alarm_name(alarm),
                 sl_alarm_meaning(alarm));
    else
        snprintf(line, sizeof line, "alarm %s is over", sl_alarm_name(alarm));
    watch->config.say(watch->config.ctx, raised ? SL_STORE_SAY_ERROR : SL_STORE_SAY_INFO, line);
}

/* detail: NULL, or what the line before this alarm's said. */
static void set_alarm(struct sl_store_watch *watch, enum sl_alarm alarm, bool on, const char *detail, uint64_t now_us)
{
    struct sl_alarms *alarms = watch->config.alarms;

    if (on ? sl_alarm_raise(alarms, alarm, detail, now_us) : sl_alarm_rest(alarms, alarm, now_us))
        say_alarm(watch, alarm, on);
}

/* ---- the door */

static void on_finding(struct sl_store_watch *watch, const struct sl_fleet_event *event, uint64_t now_us)
{
    struct row *row = row_of(watch, FINDING, event->store, event->finding);

    if (row->said && row->state == BAD && elapsed_us(row, now_us) < SAME_FINDING_US)
        return;
    snprintf(row->text, sizeof row->text, "%s", event->finding);
    change(watch, row, BAD, event->serious ? SL_STORE_SAY_ERROR : SL_STORE_SAY_WARNING, now_us);
}

void sl_store_watch_event(struct sl_store_watch *watch, const struct sl_fleet_event *event, uint64_t now_us)
{
    pthread_mutex_lock(&watch->lock);
    if (!event->client) {
        on_finding(watch, event, now_us);
    } else {
        on_client_event(watch, event->store, event->client, now_us);
        if (event->client->happening == SL_CLIENT_BREAKER && event->client->breaker == SL_BREAKER_OPEN)
            set_alarm(watch, SL_ALARM_BREAKER_OPEN, true, event->client->shard, now_us);
        if (event->client->happening == SL_CLIENT_FAILOVER)
            set_alarm(watch, SL_ALARM_STORE_FAILOVER, true, event->client->text, now_us);
    }
    pthread_mutex_unlock(&watch->lock);
}

/* As a breaker opens: when half of the calls or more come to nothing. One foreign key is no outage. */
static bool is_refusing(struct sl_store_watch *watch, const struct sl_store_health *health)
{
    uint64_t answered = health->answered - watch->answered, refused = health->refused - watch->refused;

    watch->answered = health->answered;
    watch->refused = health->refused;
    return refused > 0 && refused >= answered;
}

/* NULL: nothing. */
static const char *what_is_wrong(struct sl_store_watch *watch, const struct sl_store_health *health)
{
    bool refusing = is_refusing(watch, health);

    if (!health->reached)
        return "it is not reached";
    if (!health->secret_known)
        return "the fleet's secret is not known";
    return refusing ? "it answers half of the decisions or more with errors" : NULL;
}

void sl_store_watch_look(struct sl_store_watch *watch, const struct sl_store_health *health, uint64_t now_us)
{
    const char *ill;
    bool well, early;

    pthread_mutex_lock(&watch->lock);
    ill = what_is_wrong(watch, health);
    well = ill == NULL;
    for (unsigned i = 0; i < SL_STORE_WATCH_ROWS; i++) {
        if (watch->rows[i].kept && elapsed_us(&watch->rows[i], now_us) >= SL_STORE_WATCH_QUIET_US)
            say(watch, &watch->rows[i], now_us);
    }
    watch->reached = watch->reached || well;
    watch->bad_looks = well ? 0 : watch->bad_looks + 1;
    early = !watch->reached && now_us - watch->config.now_us < SL_STORE_WATCH_GRACE_US;
    if (well)
        set_alarm(watch, SL_ALARM_STORE_UNAVAILABLE, false, NULL, now_us);
    else if (!early && watch->bad_looks >= LOOKS_UNTIL_UNAVAILABLE)
        set_alarm(watch, SL_ALARM_STORE_UNAVAILABLE, true, ill, now_us);
    set_alarm(watch, SL_ALARM_BREAKER_OPEN, health->breaker != SL_BREAKER_CLOSED, NULL, now_us);
    set_alarm(watch, SL_ALARM_STORE_FAILOVER, false, NULL, now_us);
    pthread_mutex_unlock(&watch->lock);
}
