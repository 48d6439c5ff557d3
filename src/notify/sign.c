#include "notify/sign.h"

#include "base/err.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sl_sign(const char *secret, uint64_t unix_s, const char *body, size_t len, char ret_text[static SL_SIGNATURE_MAX])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_len = 0;
    char stamp[24];
    size_t stamp_len = (size_t)snprintf(stamp, sizeof stamp, "%" PRIu64 ".", unix_s);
    unsigned char *signed_bytes = malloc(stamp_len + len);
    int at;

    if (!signed_bytes)
        return SL_ENOMEM;
    memcpy(signed_bytes, stamp, stamp_len);
    memcpy(signed_bytes + stamp_len, body, len);
    if (!HMAC(EVP_sha256(), secret, (int)strlen(secret), signed_bytes, stamp_len + len, mac, &mac_len))
        mac_len = 0;
    free(signed_bytes);
    at = snprintf(ret_text, SL_SIGNATURE_MAX, "t=%" PRIu64 ",v1=", unix_s);
    for (unsigned i = 0; i < mac_len; i++)
        at += snprintf(ret_text + at, SL_SIGNATURE_MAX - (size_t)at, "%02x", mac[i]);
    return mac_len ? 0 : SL_ENOMEM;
}
