#include "observe/who.h"

#include <string.h>

void sl_who_of(struct sl_who *who, const struct sluice_request *request, unsigned ipv6_prefix)
{
    size_t len;

    who->key = request->key;
    who->key_len = request->key_len;
    who->type = request->key_type ? request->key_type : "api_key";
    who->type_len = request->key_type ? request->key_type_len : 7;
    if (who->type_len == 7 && memcmp(who->type, "address", 7) == 0 &&
        sl_address_normalise(who->key, who->key_len, ipv6_prefix, who->address, &len) == 0) {
        who->key = who->address;
        who->key_len = len;
    }
}

struct sl_hash128 sl_who_hash(const struct sl_who *who, struct sl_secret secret)
{
    return sl_hash13(secret, who->key, who->key_len);
}
