/* Whom a request is about, as one who watches keys tells them apart: by a hash under a secret of its own, so that nobody can
 * aim at another's place, of the key in one spelling: an address is normalised, as it is for its bucket. */
#ifndef SL_OBSERVE_WHO_H
#define SL_OBSERVE_WHO_H

#include "base/hash.h"
#include "identity/address.h"
#include "sluice/sluice.h"

struct sl_who {
    const char *key; /* borrowed from the request, or `address` */
    const char *type;
    size_t key_len, type_len;
    char address[SL_ADDRESS_TEXT_MAX];
};

/* The request's key and type, api_key when it names none. ipv6_prefix: of the policy, 1 ... 128. `who` must stay where it
 * is. */
void sl_who_of(struct sl_who *who, const struct sluice_request *request, unsigned ipv6_prefix);

/* Of the key alone; the type is compared beside it. */
struct sl_hash128 sl_who_hash(const struct sl_who *who, struct sl_secret secret);

#endif
