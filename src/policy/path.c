#include "policy/path.h"

#include "policy/text.h"

#include <stdio.h>
#include <string.h>

static void append(struct sl_path *path, const char *text, size_t len)
{
    size_t room = SL_PATH_MAX - 1 - path->len;

    if (len > room) {
        len = room;
        memcpy(path->text + path->len, text, len);
        memcpy(path->text + SL_PATH_MAX - 4, "...", 3);
    } else {
        memcpy(path->text + path->len, text, len);
    }
    path->len += len;
    path->text[path->len] = '\0';
}

size_t sl_path_field(struct sl_path *path, const char *name, size_t len)
{
    size_t before = path->len;
    char quoted[SL_QUOTE_MAX];

    if (before)
        append(path, ".", 1);
    sl_text_quote(name, len, quoted);
    append(path, quoted, strlen(quoted));
    return before;
}

size_t sl_path_index(struct sl_path *path, size_t index)
{
    size_t before = path->len;
    char text[32];
    int len = snprintf(text, sizeof text, "[%zu]", index);

    append(path, text, (size_t)len);
    return before;
}

void sl_path_cut(struct sl_path *path, size_t len)
{
    path->len = len;
    path->text[len] = '\0';
}
