# cmake -D IN=script.lua -D OUT=script.inc -P embed.cmake: the bytes of IN as a C array with their SHA-1.
file(READ ${IN} hex HEX)
file(SHA1 ${IN} sha1)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "static const char text[] = {\n${bytes}0};\nstatic const char sha1[] = \"${sha1}\";\n")
