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

/* Opens a family: one HELP and one TYPE line. `name` without `_total`; type: counter, gauge, histogram, info. Borrows
 * `name`. */
void sl_exposition_family(struct sl_exposition *x, const char *name, const char *type, const char *help);

/* A sample line: name and suffix ("", "_total", "_bucket", ...), then labels, then the value. */
void sl_exposition_begin(struct sl_exposition *x, const char *suffix);
/* Backslash, quote and newline are escaped, invalid UTF-8 becomes U+FFFD: a bad name never spoils a scrape. */
void sl_exposition_label(struct sl_exposition *x, const char *name, const char *value);
void sl_exposition_int(struct sl_exposition *x, uint64_t value);
void sl_exposition_real(struct sl_exposition *x, double value);

/* A family of one sample without labels. */
void sl_exposition_counter(struct sl_exposition *x, const char *name, const char *help, uint64_t value);
void sl_exposition_gauge(struct sl_exposition *x, const char *name, const char *help, uint64_t value);

/* The end mark of OpenMetrics. */
void sl_exposition_end(struct sl_exposition *x);

#endif
