#include "base/err.h"

const char *sl_err_text(int code)
{
    switch (code) {
    case SL_OK:
        return "success";
#define X(name, number, message) \
    case SL_E##name:             \
        return message;
        SL_ERR_MAP(X)
#undef X
    default:
        return "unknown error";
    }
}

const char *sl_err_name(int code)
{
    switch (code) {
    case SL_OK:
        return "ok";
#define X(name, number, message) \
    case SL_E##name:             \
        return #name;
        SL_ERR_MAP(X)
#undef X
    default:
        return "UNKNOWN";
    }
}
