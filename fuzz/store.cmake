sl_fuzz(store_ask SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_ask.c)
sl_fuzz(store_answer SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_answer.c)
