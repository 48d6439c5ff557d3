/* Commands as a server reads them (RESP arrays of strings), written into a buffer that grows up to a bound. */
#ifndef SL_STORE_COMMAND_H
#define SL_STORE_COMMAND_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stddef.h>

struct sl_word {
    const char *bytes;
    size_t len;
};

#define SL_WORD(literal) ((struct sl_word){literal, sizeof(literal) - 1})

struct sl_out {
    const struct sl_alloc *alloc; /* borrowed */
    char *bytes;
    size_t len, size, max;
    bool failed; /* something did not fit: `bytes` is not complete; until sl_out_clear */
};

struct sl_out sl_out_make(const struct sl_alloc *alloc, size_t max);
void sl_out_fini(struct sl_out *out);
void sl_out_clear(struct sl_out *out);
void sl_out_add(struct sl_out *out, const void *bytes, size_t len);

/* "*n\r\n": n words follow. */
void sl_out_array(struct sl_out *out, size_t n);
/* One word, whatever its bytes. */
void sl_out_word(struct sl_out *out, const char *bytes, size_t len);
/* A whole command. */
void sl_out_command(struct sl_out *out, const struct sl_word *words, size_t n);

#endif
