#include "store/tls.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sl_tls_end {
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
};

static bool given(const char *text)
{
    return text && text[0];
}

/* A file that cannot be read is the system's error, under which OpenSSL piles its own ("system lib"). */
static const char *last_error(void)
{
    unsigned long first = ERR_peek_error(), code = ERR_peek_last_error();
    const char *text = !code                     ? NULL
                       : ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first))
                                                 : ERR_reason_error_string(code);

    return text ? text : "unknown error";
}

static bool load_trust(SSL_CTX *context, const struct sl_tls_options *options, char *why, size_t why_size)
{
    if (options->insecure) {
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
        return true;
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (!given(options->ca)) {
        if (SSL_CTX_set_default_verify_paths(context) == 1)
            return true;
        snprintf(why, why_size, "the system's certificates cannot be loaded: %s", last_error());
        return false;
    }
    if (SSL_CTX_load_verify_locations(context, options->ca, NULL) == 1)
        return true;
    snprintf(why, why_size, "certificates to trust, %s: %s", options->ca, last_error());
    return false;
}

static bool load_own(SSL_CTX *context, const struct sl_tls_options *options, char *why, size_t why_size)
{
    if (!given(options->cert))
        return true;
    if (SSL_CTX_use_certificate_chain_file(context, options->cert) != 1) {
        snprintf(why, why_size, "certificate %s: %s", options->cert, last_error());
        return false;
    }
    if (SSL_CTX_use_PrivateKey_file(context, options->key, SSL_FILETYPE_PEM) != 1) {
        snprintf(why, why_size, "key %s: %s", options->key, last_error());
        return false;
    }
    return true;
}

struct sl_tls_keys *sl_tls_keys_new(const struct sl_tls_options *options, char *why, size_t why_size)
{
    SSL_CTX *context;

    ERR_clear_error();
    context = SSL_CTX_new(TLS_client_method());
    if (!context) {
        snprintf(why, why_size, "TLS: %s", last_error());
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    if (load_trust(context, options, why, why_size) && load_own(context, options, why, why_size))
        return (struct sl_tls_keys *)context;
    SSL_CTX_free(context);
    return NULL;
}

void sl_tls_keys_free(struct sl_tls_keys *keys)
{
    SSL_CTX_free((SSL_CTX *)keys);
}

/* Whom the certificate must name; a name is sent along too (SNI), an address is not. */
static bool expect(SSL *ssl, const char *host)
{
    unsigned char address[16];

    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct sl_tls_end *sl_tls_end_new(struct sl_tls_keys *keys, const char *host)
{
    struct sl_tls_end *end = calloc(1, sizeof *end);

    if (!end)
        return NULL;
    end->ssl = SSL_new((SSL_CTX *)keys);
    end->in = BIO_new(BIO_s_mem());
    end->out = BIO_new(BIO_s_mem());
    if (!end->ssl || !end->in || !end->out) {
        BIO_free(end->in);
        BIO_free(end->out);
        SSL_free(end->ssl);
        free(end);
        return NULL;
    }
    SSL_set_bio(end->ssl, end->in, end->out);
    SSL_set_connect_state(end->ssl);
    if (expect(end->ssl, host))
        return end;
    sl_tls_end_free(end);
    return NULL;
}

void sl_tls_end_free(struct sl_tls_end *end)
{
    if (!end)
        return;
    SSL_free(end->ssl);
    free(end);
}

int sl_tls_end_feed(struct sl_tls_end *end, const void *bytes, size_t len)
{
    return len <= INT_MAX && BIO_write(end->in, bytes, (int)len) == (int)len ? 0 : SL_ENOMEM;
}

static long explain(const struct sl_tls_end *end, char *why, size_t why_size)
{
    long verified = SSL_get_verify_result(end->ssl);

    if (verified != X509_V_OK && SSL_get_verify_mode(end->ssl) != SSL_VERIFY_NONE)
        snprintf(why, why_size, "TLS: the server's certificate is refused: %s",
                 X509_verify_cert_error_string(verified));
    else
        snprintf(why, why_size, "TLS: %s", last_error());
    return SL_TLS_END_BROKEN;
}

long sl_tls_end_read(struct sl_tls_end *end, char *bytes, size_t size, char *why, size_t why_size)
{
    int n;

    ERR_clear_error();
    n = SSL_read(end->ssl, bytes, size < INT_MAX ? (int)size : INT_MAX);
    if (n > 0)
        return n;
    switch (SSL_get_error(end->ssl, n)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return SL_TLS_END_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return SL_TLS_END_CLOSED;
    default:
        return explain(end, why, why_size);
    }
}

bool sl_tls_end_ready(const struct sl_tls_end *end)
{
    return SSL_is_init_finished(end->ssl);
}

int sl_tls_end_write(struct sl_tls_end *end, const void *bytes, size_t len)
{
    ERR_clear_error();
    if (!len)
        return 0;
    return len <= INT_MAX && SSL_write(end->ssl, bytes, (int)len) == (int)len ? 0 : SL_EIO;
}

size_t sl_tls_end_take(struct sl_tls_end *end, char *bytes, size_t size)
{
    int n = BIO_read(end->out, bytes, size < INT_MAX ? (int)size : INT_MAX);

    return n > 0 ? (size_t)n : 0;
}
