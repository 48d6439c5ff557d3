sl_fuzz(forwarded SOURCES ${CMAKE_CURRENT_LIST_DIR}/forwarded.c)
sl_fuzz(scope SOURCES ${CMAKE_CURRENT_LIST_DIR}/scope.c)
