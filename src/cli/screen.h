/* A terminal that is drawn on as a whole: the alternate screen, given back as it was however the program ends.
 *
 *     screen_enter();                      the terminal of standard input and output
 *     while (screen_wait(1000) != SCREEN_QUIT)
 *         ... screen_size(&columns, &rows); print lines ...
 *     screen_leave();
 *
 * Ctrl-C, SIGTERM and SIGHUP give the terminal back at once, also in the middle of a request, and end the program: with
 * status 0 for Ctrl-C, which is how one leaves, else by the signal. Ctrl-Z gives it back until the program goes on. */
#ifndef SL_CLI_SCREEN_H
#define SL_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

void screen_enter(void);
void screen_leave(void);

enum screen_event { SCREEN_TIME, SCREEN_REDRAW, SCREEN_QUIT };

/* Waits for so many ms, a `q`, or a change of the terminal's size. */
enum screen_event screen_wait(unsigned ms);

/* At least 20 columns and 5 rows, whatever the terminal says; 80 x 24 when it does not say. */
void screen_size(unsigned *ret_columns, unsigned *ret_rows);

/* Writes exactly `columns` columns of UTF-8 text (fit to be shown) to buf: filled up with spaces, or cut with an ellipsis.
 * Counts what characters take on a terminal, 0, 1 or 2 columns, as LC_CTYPE has it. The longest text is cut to size too. */
void screen_fit(const char *text, unsigned columns, char *buf, size_t size);

#endif
