sl_fuzz(resp_reply SOURCES ${CMAKE_CURRENT_LIST_DIR}/resp_reply.c LINK sl_store_client)
sl_fuzz(store_url SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_url.c LINK sl_store_client)
sl_fuzz(store_conn SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_conn.c LINK sl_store_client)
