/* Lines of both log formats from any bytes: the first byte chooses. What is read lies in the line and obeys its own
 * rules. */
#include "replay/jsonl_line.h"
#include "replay/log_line.h"

#include "core/limits.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_inside(struct sl_slice part, const char *line, size_t len)
{
    check(part.text >= line && part.text + part.len <= line + len);
}

static void read_combined(const char *text, size_t len)
{
    struct sl_log_line line;
    const char *why = NULL;

    if (sl_log_line_parse(text, len, &line, &why)) {
        check(why != NULL);
        return;
    }
    check(line.t_us <= SL_TIME_MAX_US);
    check(line.first.len > 0 && line.method.len > 0 && line.path.len > 0);
    check_inside(line.first, text, len);
    check_inside(line.method, text, len);
    check_inside(line.path, text, len);
    check(!memchr(line.path.text, '?', line.path.len) && !memchr(line.method.text, ' ', line.method.len));
    if (line.client == SL_LOG_LIST)
        check_inside(line.forwarded, text, len);
}

static void read_jsonl(const char *text, size_t len)
{
    char why[SL_JSONL_WHY_MAX] = "";
    struct sl_jsonl_line line;

    if (sl_jsonl_line_parse(text, len, &line, why)) {
        check(why[0] != '\0');
        return;
    }
    check(line.t_us <= SL_TIME_MAX_US && line.request.key && line.request.n_labels <= SLUICE_LABELS_MAX);
    check(line.request.cost >= SLUICE_COST_DEFAULT);
    sl_jsonl_line_fini(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (data[0] % 2 == 0)
        read_combined((const char *)data + 1, size - 1);
    else
        read_jsonl((const char *)data + 1, size - 1);
    return 0;
}
