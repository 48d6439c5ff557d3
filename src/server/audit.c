#include "server/audit.h"

#include "server/http.h"
#include "server/service.h"

#include <stdarg.h>
#include <stdio.h>

void sl_caller_text(const struct sl_service *service, const struct sl_http_request *request,
                    char buf[static SL_CALLER_MAX])
{
    const struct sl_shared *shared = service->shared;
    char address[SL_ADDRESS_TEXT_MAX];

    if (request->trusted_channel) {
        snprintf(buf, SL_CALLER_MAX, "a unix socket");
        return;
    }
    sl_address_key(&request->peer, 128, address);
    snprintf(buf, SL_CALLER_MAX, "%s %s", address,
             shared->admin_token || shared->admin_read_token ? "with the admin token" : "without a token");
}

void sl_audit(const struct sl_service *service, const struct sl_http_request *request, const char *format, ...)
{
    const struct sl_server_hooks *hooks = &service->shared->hooks;
    char what[1200], line[1200 + SL_CALLER_MAX + 16], caller[SL_CALLER_MAX];
    va_list args;

    if (!hooks->log)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    sl_caller_text(service, request, caller);
    snprintf(line, sizeof line, "audit: %s by %s", what, caller);
    hooks->log(hooks->ctx, SL_SERVER_INFO, line);
}
