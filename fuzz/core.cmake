sl_fuzz(rate SOURCES rate.c)
