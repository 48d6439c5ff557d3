/* UTF-8 as RFC 3629 has it. Pure; any thread. */
#ifndef SL_BASE_UTF8_H
#define SL_BASE_UTF8_H

#include <stddef.h>

/* Length of the well-formed sequence that begins a text of which `left` bytes may be read (at least one): no overlong
 * forms, no surrogates, up to U+10FFFF. 0 when it is none. */
size_t sl_utf8_len(const char *text, size_t left);

#endif
