/* Rates as they are written: `COUNT/PERIOD`, e.g. `100/s`, `5/15m`, `7/3333ms`, or the words `unlimited`,
 * `blocked`.
 *
 *   COUNT   1 ... 10^9, decimal digits only
 *   PERIOD  a unit (ms s m h d) with an optional whole number before it; 1 ms ... 366 d
 *
 * Pure: bytes in, value out. Any thread. */
#ifndef SL_CORE_RATE_H
#define SL_CORE_RATE_H

#include <stddef.h>
#include <stdint.h>

enum sl_rate_kind {
    SL_RATE_LIMITED,
    SL_RATE_UNLIMITED, /* always allows, keeps no state */
    SL_RATE_BLOCKED,   /* always rejects, keeps no state */
};

struct sl_rate {
    enum sl_rate_kind kind;
    uint32_t count;     /* SL_RATE_LIMITED only */
    uint64_t period_us; /* SL_RATE_LIMITED only */
};

/* Parses len bytes. Returns 0, or SL_EINVALID with *ret_why set to a sentence fragment that says what is wrong
 * and what would be right ("0/s would reject everything: write `blocked`, or `unlimited` for no limit"); static
 * storage. */
int sl_rate_parse(const char *text, size_t len, struct sl_rate *ret_rate, const char **ret_why);

/* Parses a duration (`250ms`, `15m`, `1s`, also a bare unit) to microseconds with the same units. Range: 1 ms ...
 * 366 d. Returns 0 or SL_EINVALID with *ret_why. */
int sl_duration_parse(const char *text, size_t len, uint64_t *ret_us, const char **ret_why);

/* The canonical text of a rate ("100/s", "5/15m", "unlimited"); the largest unit that divides the period. Writes at
 * most SL_RATE_TEXT_MAX bytes with the NUL; returns the length. */
#define SL_RATE_TEXT_MAX 40
size_t sl_rate_format(const struct sl_rate *rate, char buf[SL_RATE_TEXT_MAX]);

#endif
