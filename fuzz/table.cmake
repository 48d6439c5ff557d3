sl_fuzz(table_file SOURCES table_file.c)
