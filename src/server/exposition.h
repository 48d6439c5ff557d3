/* Prometheus text format 0.0.4 and OpenMetrics 1.0: families, samples, escaping. Pure.
 *
 *     struct sl_exposition x = {.out = buf, .open_metrics = false};
 *     sl_exposition_family(&x, "sluice_decisions", "counter", "Decisions by their deciding limit.");
 *     sl_exposition_begin(&x, "_total");
 *     sl_exposition_label(&x, "limit", name);
 *     sl_exposition_int(&x, 17);
 *     sl_exposition_end(&x); */
#ifndef SL_SERVER_EXPOSITION_H
#define SL_SERVER_EXPOSITION_H

#include "server/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct sl_exposition {
    struct sl_buf *out;
    bool open_metrics;
    const char *family;
    bool labelled;
};

/* Whether an Accept header prefers OpenMetrics 1.0.0 to plain text: names it, and gives it at least as much weight. */
bool sl_exposition_wants_open_metrics(const char *accept, size_t len);

/* Opens a family: a HELP and a TYPE line, in OpenMetrics also UNIT when the name ends in one. `name` without `_total`;
 * type: counter, gauge, histogram, info; help: one line without quotes or backslashes. Borrows `name`. */
void sl_exposition_family(struct sl_exposition *x, const char *name, const char *type, const char *help);

/* A sample line: name and suffix ("", "_total", "_bucket", ...), then labels, then the value. */
void sl_exposition_begin(struct sl_exposition *x, const char *suffix);
/* Backslash, quote and newline are escaped, invalid UTF-8 becomes U+FFFD: a bad name never spoils a scrape. */
void sl_exposition_label(struct sl_exposition *x, const char *name, const char *value);
/* The label `le` of a finite histogram bound, in the form OpenMetrics asks for: always with a point or an exponent. */
void sl_exposition_bound(struct sl_exposition *x, double bound);
void sl_exposition_int(struct sl_exposition *x, uint64_t value);
void sl_exposition_real(struct sl_exposition *x, double value);

/* A family of one sample without labels. */
void sl_exposition_counter(struct sl_exposition *x, const char *name, const char *help, uint64_t value);
void sl_exposition_gauge(struct sl_exposition *x, const char *name, const char *help, uint64_t value);

/* The end mark of OpenMetrics. */
void sl_exposition_end(struct sl_exposition *x);

#endif
