/* What clients sent, made fit to be shown: on a terminal, in JSON, in a log. Pure; any thread.
 *
 * U+FFFD stands for whatever could act on a terminal or hide in a line: control characters (also those of C1, which begin
 * escape sequences of their own), characters without a width, marks that turn the direction of text, and bytes that are
 * no UTF-8. What was cut off ends with an ellipsis and never in the middle of a character. */
#ifndef SL_OBSERVE_SHOW_H
#define SL_OBSERVE_SHOW_H

#include <stddef.h>

/* Room for what is shown of `kept` bytes, with the ellipsis and a NUL. */
#define SL_SHOWN_MAX(kept) (3 * (kept) + 4)

/* Writes what can be shown of a text of `len` bytes, of which the first `kept` are there, NUL-terminated. `to` has room for
 * SL_SHOWN_MAX(kept) bytes. */
void sl_show(char *to, const char *text, size_t len, size_t kept);

#endif
