#include "server/service.h"

#include "base/err.h"
#include "server/inquiry.h"

#include <stdlib.h>
#include <string.h>

int sl_service_init(struct sl_service *service, struct sl_shared *shared)
{
    memset(service, 0, sizeof *service);
    service->shared = shared;
    service->last_decided = &service->decided;
    sl_postbox_init(&service->post);
    service->input = malloc(sizeof *service->input);
    service->verdicts = malloc(SLUICE_BATCH_MAX * sizeof *service->verdicts);
    service->report = malloc(sizeof *service->report);
    if (!service->input || !service->verdicts || !service->report) {
        sl_service_fini(service);
        return SL_ENOMEM;
    }
    return sl_secret_random(&service->id_secret);
}

void sl_service_fini(struct sl_service *service)
{
    sl_service_turn_ended(service);
    sl_inquiry_free_spare(service);
    sl_postbox_fini(&service->post);
    free(service->input);
    free(service->verdicts);
    free(service->report);
    service->input = NULL;
    service->verdicts = NULL;
    service->report = NULL;
}

const struct sl_policy *sl_service_policy(struct sl_service *service)
{
    if (!service->policy)
        service->policy = sl_limiter_policy(service->shared->limiter);
    return service->policy;
}

void sl_service_turn_ended(struct sl_service *service)
{
    if (!service->policy)
        return;
    sl_policy_unref(service->policy);
    service->policy = NULL;
}

void sl_request_id(struct sl_service *service, char id[SL_REQUEST_ID_MAX])
{
    static const char letters[] = "0123456789abcdefghjkmnpqrstvwxyz"; /* 32 without i, l, o, u */
    uint64_t count = service->id_count++;
    struct sl_hash128 hash = sl_hash13(service->id_secret, &count, sizeof count);

    memcpy(id, "req_", 4);
    for (unsigned i = 0; i < 10; i++) {
        id[4 + i] = letters[hash.a >> (5 * i) & 31];
        id[14 + i] = letters[hash.b >> (5 * i) & 31];
    }
    id[24] = '\0';
}
