#include "policy/digest.h"

#include "base/err.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>

int sl_digest(const char *body, size_t body_len, const char *keys, size_t keys_len, char ret_hex[65])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 && EVP_DigestUpdate(ctx, body, body_len) == 1;

    if (ok && keys)
        ok = EVP_DigestUpdate(ctx, "", 1) == 1 && EVP_DigestUpdate(ctx, keys, keys_len) == 1;
    ok = ok && EVP_DigestFinal_ex(ctx, digest, &len) == 1;
    EVP_MD_CTX_free(ctx);
    if (!ok)
        return SL_ENOMEM;
    for (unsigned i = 0; i < len && i < 32; i++)
        snprintf(ret_hex + 2 * (size_t)i, 3, "%02x", digest[i]);
    return 0;
}
