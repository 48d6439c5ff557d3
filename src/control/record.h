/* What stands in the store about a version of the policy and about an instance that runs one: lines of text, the first of
 * which says which text it is. Anything else under our names is foreign. Pure; any thread. */
#ifndef SL_CONTROL_RECORD_H
#define SL_CONTROL_RECORD_H

#include "store/codec.h"
#include "store/command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_HASH_HEX 64u
#define SL_TOKEN_HEX 16u
#define SL_AUTHOR_MAX 128u
#define SL_COMMENT_MAX 1024u
#define SL_HOST_TEXT_MAX 255u
#define SL_REFUSAL_MAX 300u
#define SL_PLACE_TEXT_MAX 255u /* a region, an address */
#define SL_VERSION_NUMBER_MAX UINT64_C(999999999999999)
#define SL_RECORD_MAX 2048u

/* Which version is meant, and what is in it: a number may come again when a store has lost its data. */
struct sl_pointer {
    uint64_t number; /* 1 ...; 0: none */
    char hash[SL_HASH_HEX + 1];
};

/* One version, as written down. */
struct sl_version {
    uint64_t number;
    char hash[SL_HASH_HEX + 1]; /* SHA-256 of body and keys_file; empty: the record cannot be read */
    uint64_t time_us;           /* the store's, Unix */
    size_t body_len, keys_len;
    bool has_keys;                /* there is a keys_file */
    uint64_t from;                /* the version it brought back; 0: it was pushed */
    char token[SL_TOKEN_HEX + 1]; /* who made it knows it again by this */
    char author[SL_AUTHOR_MAX + 1], comment[SL_COMMENT_MAX + 1];
};

/* What an instance runs. */
struct sl_running {
    uint64_t id;               /* the instance's, in hex its name in the store */
    struct sl_pointer version; /* number 0: its file */
    bool from_file;            /* it follows its file whatever the store has (--policy-source file) */
    uint64_t refused;          /* the version that it could not take, 0: none; and why */
    char host[SL_HOST_TEXT_MAX + 1], why[SL_REFUSAL_MAX + 1];
    char region[SL_PLACE_TEXT_MAX + 1], address[SL_PLACE_TEXT_MAX + 1]; /* its first public listener's; empty: none */
};

/* "12 HASH": 0, or SL_EFORMAT. */
int sl_pointer_read(const char *text, size_t len, struct sl_pointer *ret_pointer);
bool sl_pointer_equal(const struct sl_pointer *a, const struct sl_pointer *b);

/* A version's record is `before`, the time in decimal, `after`: the store's script puts them together. Each returns the
 * length, without the NUL. The texts of the version must be valid (sl_version_check_texts). */
size_t sl_version_write_before(const struct sl_version *version, char buf[static SL_RECORD_MAX]);
size_t sl_version_write_after(const struct sl_version *version, char buf[static SL_RECORD_MAX]);
/* `number` is the name under which the record stood. 0 or SL_EFORMAT. */
int sl_version_read(uint64_t number, const char *text, size_t len, struct sl_version *ret_version);

size_t sl_running_write(const struct sl_running *running, char buf[static SL_RECORD_MAX]);
int sl_running_read(uint64_t id, const char *text, size_t len, struct sl_running *ret_running);

/* Author: 1 ... SL_AUTHOR_MAX bytes; comment: up to SL_COMMENT_MAX; UTF-8 without control characters. NULL, or what is
 * wrong, a sentence in static storage. */
const char *sl_version_check_texts(const char *author, const char *comment);

/* ---- names: NAMESPACE:{fleet}:..., all in one slot */

#define SL_CONTROL_KEY_MAX (SL_NAMESPACE_MAX + 112u)

struct sl_control_key {
    char text[SL_CONTROL_KEY_MAX];
    size_t len;
};

/* `rest` is a printf format: what follows NAMESPACE:{fleet}: */
struct sl_control_key sl_control_key(const char *ns, const char *rest, ...) __attribute__((format(printf, 2, 3)));

static inline struct sl_word sl_control_word(const struct sl_control_key *key)
{
    return (struct sl_word){key->text, key->len};
}

#endif
