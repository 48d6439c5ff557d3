/* TLS over memory: ciphertext in, plaintext out, and back. OpenSSL is spoken to from tls.c alone.
 *
 * TLS 1.2 and newer, ALPN h2 and http/1.1, no renegotiation. One context a server (any thread), one session a
 * connection (its loop). */
#ifndef SL_SERVER_TLS_H
#define SL_SERVER_TLS_H

#include "server/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct sl_tls_context;
struct sl_tls;

/* Loads a PEM chain and key, and with client_ca (may be NULL) requires client certificates signed by it. Returns 0;
 * SL_EIO (a file, with a sentence that names it) or SL_ENOMEM. */
int sl_tls_context_new(const char *cert, const char *key, const char *client_ca, struct sl_tls_context **ret_context,
                       char *ret_why, size_t why_size);
void sl_tls_context_free(struct sl_tls_context *context); /* accepts NULL */

struct sl_tls *sl_tls_new(struct sl_tls_context *context); /* NULL: out of memory */
void sl_tls_free(struct sl_tls *tls);                      /* accepts NULL */

/* Hands over ciphertext from the peer; at most 16 MiB may wait. Returns 0 or SL_ENOMEM. */
int sl_tls_feed(struct sl_tls *tls, const void *data, size_t len);

enum sl_tls_result {
    SL_TLS_MORE = 0,    /* nothing to read now */
    SL_TLS_CLOSED = -1, /* the peer said goodbye */
    SL_TLS_BROKEN = -2, /* handshake or record refused; the alert is in `out` */
};

/* Reads plaintext, driving the handshake. Returns its length, or an sl_tls_result. What must be sent (handshake,
 * alerts) is appended to `out` as ciphertext. */
long sl_tls_read(struct sl_tls *tls, char *data, size_t size, struct sl_buf *out);

/* Encrypts len bytes and appends the records to `out`. The handshake must be done. Returns 0 or SL_EIO. */
int sl_tls_write(struct sl_tls *tls, const char *data, size_t len, struct sl_buf *out);

/* Appends the closing alert. */
void sl_tls_goodbye(struct sl_tls *tls, struct sl_buf *out);

bool sl_tls_ready(const struct sl_tls *tls); /* the handshake is done */
bool sl_tls_is_h2(const struct sl_tls *tls); /* ALPN chose h2 */

#endif
