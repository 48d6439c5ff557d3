/* Addresses of a store: whatever the text, an address that makes sense or a sentence that says where it does not; and
 * neither ever shows the password. */
#include "base/err.h"
#include "store/url.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void check_address(const struct sl_store_url *url)
{
    struct sl_store_url again;
    char text[SL_URL_ENDPOINTS_MAX * SL_ENDPOINT_TEXT_MAX + 256], why[512];

    require((url->kind == SL_STORE_MEMORY) == (url->n_endpoints == 0));
    require(url->n_endpoints <= SL_URL_ENDPOINTS_MAX && url->db <= SL_URL_DB_MAX);
    require((url->kind == SL_STORE_SENTINEL) == (url->master[0] != '\0'));
    for (unsigned i = 0; i < url->n_endpoints; i++) {
        require(url->endpoints[i].host[0] != '\0');
        require(url->endpoints[i].is_unix == (url->endpoints[i].port == 0));
    }
    sl_store_url_text(url, text, sizeof text);
    if (strpbrk(text, "% ?#@") || url->endpoints[0].is_unix || url->master[0])
        return; /* it is for reading, and not escaped */
    require(sl_store_url_parse(text, &again, why, sizeof why) == 0);
    require(again.kind == url->kind && again.db == url->db && again.n_endpoints == url->n_endpoints);
    for (unsigned i = 0; i < url->n_endpoints; i++)
        require(sl_endpoint_equal(&again.endpoints[i], &url->endpoints[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sl_store_url url;
    char *text = malloc(size + 1), why[512] = "";

    require(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (sl_store_url_parse(text, &url, why, sizeof why) == 0)
        check_address(&url);
    else
        require(strstr(why, "character ") != NULL && !url.login.has_password);
    sl_store_url_fini(&url);
    free(text);
    return 0;
}
