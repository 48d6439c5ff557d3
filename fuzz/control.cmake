sl_fuzz(control_record SOURCES ${CMAKE_CURRENT_LIST_DIR}/control_record.c LINK sl_control sl_store_client)
