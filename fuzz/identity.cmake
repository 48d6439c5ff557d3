# Addresses, forwarding headers and scopes; and the lines of the logs that are replayed.
sl_fuzz(forwarded SOURCES ${CMAKE_CURRENT_LIST_DIR}/forwarded.c)
sl_fuzz(scope SOURCES ${CMAKE_CURRENT_LIST_DIR}/scope.c)
sl_fuzz(log_line SOURCES ${CMAKE_CURRENT_LIST_DIR}/log_line.c)
