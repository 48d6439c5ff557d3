/* Who changed what: a line in the log for every change that the admin listener makes, or is asked for. */
#ifndef SL_SERVER_AUDIT_H
#define SL_SERVER_AUDIT_H

#include "identity/address.h"

struct sl_http_request;
struct sl_service;

/* "127.0.0.1 with the admin token", "127.0.0.1 without a token", "a unix socket". */
#define SL_CALLER_MAX (SL_ADDRESS_TEXT_MAX + 32)
void sl_caller_text(const struct sl_service *service, const struct sl_http_request *request,
                    char buf[static SL_CALLER_MAX]);

/* Logs "audit: ... by CALLER". */
void sl_audit(const struct sl_service *service, const struct sl_http_request *request, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
