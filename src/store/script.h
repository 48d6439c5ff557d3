/* The script, as text: src/store/sluice.lua, built in. Any thread. */
#ifndef SL_STORE_SCRIPT_H
#define SL_STORE_SCRIPT_H

#include <stddef.h>

/* For SCRIPT LOAD, or EVAL after NOSCRIPT; static storage. */
const char *sl_script_text(size_t *ret_len);

/* For EVALSHA: 40 lower-case hex digits, NUL-terminated; static storage. */
const char *sl_script_sha1(void);

#endif
