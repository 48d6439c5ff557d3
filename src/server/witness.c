#include "server/witness.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct sl_witness *sl_witness_add(struct sl_witnesses *witnesses, sl_witness_saw *saw, sl_witness_wants *wants,
                                  void *ctx)
{
    struct sl_witness *witness = &witnesses->list[witnesses->n];

    if (witnesses->n == SL_WITNESSES_MAX)
        return NULL;
    witnesses->n++;
    witness->saw = saw;
    witness->wants = wants;
    witness->ctx = ctx;
    witness->among = witnesses;
    return witness;
}

static unsigned sum_of(const struct sl_witnesses *witnesses)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < witnesses->n; i++)
        sum |= atomic_load(&witnesses->list[i].sees);
    return sum;
}

/* Of two that change at once one may write a sum from before the other's change. So whoever has written a sum looks whether
 * it still is one: the last to write has seen all changes. */
void sl_witness_set(struct sl_witness *witness, unsigned sees)
{
    struct sl_witnesses *witnesses = witness->among;
    unsigned sum;

    atomic_store(&witness->sees, sees);
    do {
        sum = sum_of(witnesses);
        atomic_store(&witnesses->sees, sum);
    } while (sum != sum_of(witnesses));
}

bool sl_witness_asks_for_report(struct sl_service *service, const struct sluice_request *request)
{
    const struct sl_witnesses *witnesses = service->shared->witnesses;

    for (unsigned i = 0; i < witnesses->n; i++) {
        const struct sl_witness *w = &witnesses->list[i];

        if (w->wants && (atomic_load_explicit(&w->sees, memory_order_acquire) & SL_SEE_ALL) &&
            w->wants(w->ctx, request))
            return true;
    }
    return false;
}

void sl_witness_tell_now(struct sl_service *service, unsigned kind, const struct sluice_request *request,
                         const struct sluice_verdict *verdict, const struct sl_report *report)
{
    const struct sl_witnesses *witnesses = service->shared->witnesses;
    const struct sl_witnessed decision = {
        .loop = service->loop, .service = service, .request = request, .verdict = verdict, .report = report};

    for (unsigned i = 0; i < witnesses->n; i++) {
        const struct sl_witness *w = &witnesses->list[i];

        if (atomic_load_explicit(&w->sees, memory_order_acquire) & kind)
            w->saw(w->ctx, &decision);
    }
}

/* ---- copies */

static size_t text_bytes(const struct sluice_request *r)
{
    size_t sum = r->key_len + r->key_type_len + r->scope_len + r->tier_len + r->address_len;

    for (size_t i = 0; i < r->n_labels; i++)
        sum += r->labels[i].name_len + r->labels[i].value_len;
    return sum;
}

static void move(const char **text, size_t len, char **to)
{
    if (!*text)
        return;
    memcpy(*to, *text, len);
    *text = *to;
    *to += len;
}

struct sl_request_copy *sl_request_copy(const struct sluice_request *request)
{
    size_t labels = request->n_labels * sizeof(struct sluice_label);
    struct sl_request_copy *copy = malloc(sizeof *copy + labels + text_bytes(request));
    struct sluice_request *r;
    char *to;

    if (!copy)
        return NULL;
    copy->next = NULL;
    copy->at = 0;
    copy->report = NULL;
    copy->request = *request;
    r = &copy->request;
    to = (char *)copy->labels + labels;
    move(&r->key, r->key_len, &to);
    move(&r->key_type, r->key_type_len, &to);
    move(&r->scope, r->scope_len, &to);
    move(&r->tier, r->tier_len, &to);
    move(&r->address, r->address_len, &to);
    for (size_t i = 0; i < r->n_labels; i++) {
        copy->labels[i] = request->labels[i];
        move(&copy->labels[i].name, copy->labels[i].name_len, &to);
        move(&copy->labels[i].value, copy->labels[i].value_len, &to);
    }
    r->labels = r->n_labels ? copy->labels : NULL;
    return copy;
}

void sl_request_copy_free(struct sl_request_copy *copy)
{
    if (copy)
        free(copy->report);
    free(copy);
}
