/* What jansson and the shape of /check say of a body, to compare sl_check_parse with. */
#ifndef TESTS_SERVER_JSON_ORACLE_H
#define TESTS_SERVER_JSON_ORACLE_H

#include <stdbool.h>
#include <stddef.h>

/* Parses a copy of the body with sl_check_parse and with jansson. Returns NULL when both refuse it, or both accept it
 * with the same values; else a sentence that says how they differ. */
const char *json_disagreement(const char *body, size_t len);

#endif
