/* The address of a store, as an operator writes it (--store, and `store` of the policy's dedicated stores):
 *
 *     memory:                                            no store
 *     redis://[user:password@]host[:port][/db]           one server (6379)
 *     redis+unix://[user:password@]/path[?db=n]          one server on a UNIX socket
 *     redis+sentinel://[..@]h1[:port],h2,h3/master[/db]  the master that Sentinels (26379) name
 *     redis+cluster://[..@]h1[:port],h2,h3               a Cluster, found through any of these (6379)
 *     rediss://, rediss+sentinel://, rediss+cluster://   the same over TLS
 *
 * Options follow a `?`, joined by `&`: `db`, `password_file` (read when the address is; one final newline is dropped),
 * for TLS `ca`, `cert`, `key` (files) and `verify=no`, for Sentinels of their own password `sentinel_user` and
 * `sentinel_password_file`. User, password, path and option values are percent-decoded once and `+` is a plus sign;
 * so any byte can be in a password. An IPv6 address stands in brackets. No text made here ever holds a secret. */
#ifndef SL_STORE_URL_H
#define SL_STORE_URL_H

#include "store/net.h"

#define SL_URL_MAX 16384
#define SL_URL_ENDPOINTS_MAX 16
#define SL_URL_DB_MAX 65535
#define SL_URL_PATH_MAX 511
#define SL_UNIX_PATH_MAX 107
#define SL_MASTER_NAME_MAX 127

enum sl_store_kind { SL_STORE_MEMORY, SL_STORE_SINGLE, SL_STORE_SENTINEL, SL_STORE_CLUSTER };

/* Who we are to a server. Without a user the default user is meant; with neither there is no AUTH. */
struct sl_login {
    bool has_user, has_password;
    char user[512];
    size_t password_len;
    char password[4096]; /* any bytes */
};

struct sl_store_url {
    enum sl_store_kind kind;
    bool tls, insecure;
    unsigned n_endpoints;
    struct sl_endpoint endpoints[SL_URL_ENDPOINTS_MAX];
    unsigned db;
    char master[SL_MASTER_NAME_MAX + 1]; /* Sentinel's name of the master */
    struct sl_login login, sentinel_login;
    char ca[SL_URL_PATH_MAX + 1], cert[SL_URL_PATH_MAX + 1], key[SL_URL_PATH_MAX + 1]; /* "": none */
    char password_file[SL_URL_PATH_MAX + 1], sentinel_password_file[SL_URL_PATH_MAX + 1];
};

/* Reads the text, and no file. Returns 0, or SL_EINVALID and one sentence that names part and character of the text
 * (from 1) and shows no secret. */
int sl_store_url_parse(const char *text, struct sl_store_url *ret_url, char *why, size_t why_size);

/* 0 when the text is the address of a store and not memory:, else SL_EINVALID and a sentence as above: for what may name
 * stores of its own (sl_policy_options.check_store). */
int sl_store_url_check(const char *text, char *why, size_t why_size);

/* Reads the password files that the address names. Returns 0, or SL_EIO or SL_EINVALID and a sentence. */
int sl_store_url_read_files(struct sl_store_url *url, char *why, size_t why_size);

/* Takes a password as it is from one file: all of it but one final newline (LF or CR LF). As above. */
int sl_login_read_file(struct sl_login *login, const char *path, char *why, size_t why_size);

/* The address without user, password and options, for logs. Returns buf. */
const char *sl_store_url_text(const struct sl_store_url *url, char *buf, size_t size);

/* Wipes the secrets. */
void sl_store_url_fini(struct sl_store_url *url);

#endif
