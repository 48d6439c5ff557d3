#include "store/script.h"

#include "sluice_lua.inc" /* text, sha1: made from sluice.lua by the build */

const char *sl_script_text(size_t *ret_len)
{
    *ret_len = sizeof text - 1;
    return text;
}

const char *sl_script_sha1(void)
{
    return sha1;
}
