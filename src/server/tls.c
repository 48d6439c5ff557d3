#include "server/tls.h"

#include "base/err.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sl_tls_context {
    SSL_CTX *ctx;
};

struct sl_tls {
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
};

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *arg)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";

    (void)ssl;
    (void)arg;
    /* The constness of `out` differs between the two OpenSSL signatures. */
    if (SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, ours, sizeof ours - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    return SSL_TLSEXT_ERR_OK;
}

/* "cannot read the certificate /path: no such file" */
static int complain(const char *what, const char *path, char *ret_why, size_t why_size)
{
    unsigned long e = ERR_peek_error();
    const char *reason = !e ? NULL : ERR_SYSTEM_ERROR(e) ? strerror(ERR_GET_REASON(e)) : ERR_reason_error_string(e);

    snprintf(ret_why, why_size, "cannot use the %s %s: %s", what, path,
             reason ? reason : "not a PEM file of that kind");
    ERR_clear_error();
    return SL_EIO;
}

static int load(SSL_CTX *ctx, const char *cert, const char *key, const char *client_ca, char *ret_why, size_t why_size)
{
    STACK_OF(X509_NAME) * names;

    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return complain("TLS certificate", cert, ret_why, why_size);
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ctx) != 1)
        return complain("TLS key", key, ret_why, why_size);
    if (!client_ca)
        return 0;
    names = SSL_load_client_CA_file(client_ca);
    if (!names || SSL_CTX_load_verify_locations(ctx, client_ca, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return complain("TLS client CA", client_ca, ret_why, why_size);
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

int sl_tls_context_new(const char *cert, const char *key, const char *client_ca, struct sl_tls_context **ret_context,
                       char *ret_why, size_t why_size)
{
    struct sl_tls_context *context = calloc(1, sizeof *context);
    int e = SL_ENOMEM;

    if (!context || !(context->ctx = SSL_CTX_new(TLS_server_method()))) {
        snprintf(ret_why, why_size, "%s", sl_err_text(SL_ENOMEM));
        goto failed;
    }
    SSL_CTX_set_min_proto_version(context->ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(context->ctx,
                        SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* Idle connections give their record buffers back. */
    SSL_CTX_set_mode(context->ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_id_context(context->ctx, (const unsigned char *)"sluice", 6);
    SSL_CTX_set_alpn_select_cb(context->ctx, choose_protocol, NULL);
    e = load(context->ctx, cert, key, client_ca, ret_why, why_size);
    if (e)
        goto failed;
    *ret_context = context;
    return 0;
failed:
    sl_tls_context_free(context);
    return e;
}

void sl_tls_context_free(struct sl_tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ctx);
    free(context);
}

struct sl_tls *sl_tls_new(struct sl_tls_context *context)
{
    struct sl_tls *tls = calloc(1, sizeof *tls);

    if (!tls)
        return NULL;
    tls->ssl = SSL_new(context->ctx);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !tls->in || !tls->out) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        SSL_free(tls->ssl);
        free(tls);
        return NULL;
    }
    BIO_set_mem_eof_return(tls->in, -1); /* empty means "later", not the end */
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_accept_state(tls->ssl);
    return tls;
}

void sl_tls_free(struct sl_tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    free(tls);
}

int sl_tls_feed(struct sl_tls *tls, const void *data, size_t len)
{
    if (len > INT_MAX || BIO_ctrl_pending(tls->in) + len > (16u << 20))
        return SL_ENOMEM;
    return BIO_write(tls->in, data, (int)len) == (int)len ? 0 : SL_ENOMEM;
}

/* Moves what OpenSSL wants to send into `out`. */
static void collect(struct sl_tls *tls, struct sl_buf *out)
{
    size_t n = BIO_ctrl_pending(tls->out);
    char *at = n ? sl_buf_reserve(out, n) : NULL;
    int got = at ? BIO_read(tls->out, at, (int)n) : 0;

    if (got > 0)
        out->len += (size_t)got;
}

long sl_tls_read(struct sl_tls *tls, char *data, size_t size, struct sl_buf *out)
{
    int n, error;

    ERR_clear_error(); /* the error queue is the thread's, and another connection's error would be taken for ours */
    n = SSL_read(tls->ssl, data, size > INT_MAX ? INT_MAX : (int)size);
    error = n > 0 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, n);
    collect(tls, out);
    if (n > 0)
        return n;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return SL_TLS_MORE;
    return error == SSL_ERROR_ZERO_RETURN ? SL_TLS_CLOSED : SL_TLS_BROKEN;
}

int sl_tls_write(struct sl_tls *tls, const char *data, size_t len, struct sl_buf *out)
{
    ERR_clear_error();
    while (len > 0) {
        int n = SSL_write(tls->ssl, data, len > INT_MAX ? INT_MAX : (int)len);

        if (n <= 0)
            return SL_EIO; /* a memory BIO takes everything: the session is broken */
        data += n;
        len -= (size_t)n;
    }
    collect(tls, out);
    return 0;
}

void sl_tls_goodbye(struct sl_tls *tls, struct sl_buf *out)
{
    ERR_clear_error();
    if (SSL_is_init_finished(tls->ssl))
        SSL_shutdown(tls->ssl);
    collect(tls, out);
    ERR_clear_error();
}

bool sl_tls_ready(const struct sl_tls *tls)
{
    return SSL_is_init_finished(tls->ssl) != 0;
}

bool sl_tls_is_h2(const struct sl_tls *tls)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(tls->ssl, &name, &len);
    return len == 2 && name[0] == 'h' && name[1] == '2';
}
