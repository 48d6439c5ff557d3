#include "observe/watch_policy.h"

#include <stdio.h>

void sl_policy_watch_init(struct sl_policy_watch *watch, const struct sl_teller *teller)
{
    *watch = (struct sl_policy_watch){.teller = *teller};
    pthread_mutex_init(&watch->lock, NULL);
}

void sl_policy_watch_fini(struct sl_policy_watch *watch)
{
    pthread_mutex_destroy(&watch->lock);
}

static void set(struct sl_policy_watch *watch, uint64_t now_us)
{
    enum sl_policy_origin origin = watch->refused[SL_POLICY_OF_STORE] ? SL_POLICY_OF_STORE : SL_POLICY_OF_FILE;

    sl_teller_set(&watch->teller, SL_ALARM_POLICY_REJECTED, watch->refused[origin], watch->findings[origin], now_us);
}

void sl_policy_watch_refused(struct sl_policy_watch *watch, enum sl_policy_origin origin, const char *finding,
                             uint64_t now_us)
{
    pthread_mutex_lock(&watch->lock);
    watch->refused[origin] = true;
    snprintf(watch->findings[origin], sizeof watch->findings[origin], "%s", finding);
    set(watch, now_us);
    pthread_mutex_unlock(&watch->lock);
}

void sl_policy_watch_taken(struct sl_policy_watch *watch, enum sl_policy_origin origin, uint64_t now_us)
{
    pthread_mutex_lock(&watch->lock);
    watch->refused[origin] = false;
    if (origin == SL_POLICY_OF_STORE)
        watch->refused[SL_POLICY_OF_FILE] = false;
    set(watch, now_us);
    pthread_mutex_unlock(&watch->lock);
}

void sl_policy_watch_look(struct sl_policy_watch *watch, uint64_t now_us)
{
    pthread_mutex_lock(&watch->lock);
    set(watch, now_us);
    pthread_mutex_unlock(&watch->lock);
}
