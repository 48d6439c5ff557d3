/* The client's end of TLS, over memory: ciphertext in, plaintext out, and back. For store/net_uv.c.
 *
 * TLS 1.2 and newer. Unless told otherwise the server's chain must lead to a trusted certificate and name the host
 * that was dialled. One context a kind of options, one session a stream; one thread. */
#ifndef SL_STORE_TLS_H
#define SL_STORE_TLS_H

#include "store/net.h"

struct sl_tls_keys; /* a context: what is trusted, and our certificate */
struct sl_tls_end;  /* a session */

/* Reads the files. Returns NULL with a sentence that names the file. */
struct sl_tls_keys *sl_tls_keys_new(const struct sl_tls_options *options, char *why, size_t why_size);
void sl_tls_keys_free(struct sl_tls_keys *keys); /* accepts NULL; sessions may go on */

/* A session with `host`, a name or an address. NULL: out of memory. */
struct sl_tls_end *sl_tls_end_new(struct sl_tls_keys *keys, const char *host);
void sl_tls_end_free(struct sl_tls_end *end); /* accepts NULL */

/* Ciphertext from the peer. Returns 0 or SL_ENOMEM. */
int sl_tls_end_feed(struct sl_tls_end *end, const void *bytes, size_t len);

#define SL_TLS_END_MORE 0L
#define SL_TLS_END_CLOSED (-1L) /* the peer said goodbye */
#define SL_TLS_END_BROKEN (-2L) /* `why` says what */

/* Drives the handshake and reads plaintext: its length, or one of the above. */
long sl_tls_end_read(struct sl_tls_end *end, char *bytes, size_t size, char *why, size_t why_size);
bool sl_tls_end_ready(const struct sl_tls_end *end); /* the handshake is done */

/* Plaintext to the peer; after the handshake. Returns 0 or SL_EIO. */
int sl_tls_end_write(struct sl_tls_end *end, const void *bytes, size_t len);

/* Takes ciphertext that is to be sent; 0: none is left. */
size_t sl_tls_end_take(struct sl_tls_end *end, char *bytes, size_t size);

#endif
