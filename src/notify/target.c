#include "notify/target.h"

#include "base/err.h"

#include <curl/curl.h>
#include <stdio.h>
#include <strings.h>

static int refuse(const char *what, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", what);
    return SL_EINVALID;
}

static int check_parsed(CURLU *url, char *why, size_t why_size)
{
    char *fragment = NULL;

    if (curl_url_get(url, CURLUPART_FRAGMENT, &fragment, 0) != CURLUE_OK)
        return 0;
    curl_free(fragment);
    return refuse("a webhook's address has no `#`", why, why_size);
}

int sl_target_check(const char *text, char *why, size_t why_size)
{
    CURLU *url = curl_url();
    CURLUcode code;
    int err;

    if (!url)
        return refuse("out of memory", why, why_size);
    if (strncasecmp(text, "http://", 7) != 0 && strncasecmp(text, "https://", 8) != 0) { /* the parser is lenient */
        curl_url_cleanup(url);
        return refuse("a webhook's address begins with http:// or https://", why, why_size);
    }
    code = curl_url_set(url, CURLUPART_URL, text, 0);
    if (code) {
        snprintf(why, why_size, "this is no address of a webhook, http://HOST... or https://HOST...: %s",
                 curl_url_strerror(code));
        err = SL_EINVALID;
    } else {
        err = check_parsed(url, why, why_size);
    }
    curl_url_cleanup(url);
    return err;
}

void sl_target_text(const char *text, char buf[static SL_TARGET_TEXT_MAX])
{
    CURLU *url = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL;

    snprintf(buf, SL_TARGET_TEXT_MAX, "?");
    if (url && !curl_url_set(url, CURLUPART_URL, text, 0) && !curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) &&
        !curl_url_get(url, CURLUPART_HOST, &host, 0) && !curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT))
        snprintf(buf, SL_TARGET_TEXT_MAX, "%.8s://%.260s:%.6s", scheme, host, port);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
}
