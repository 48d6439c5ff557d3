# sl_layer(NAME SOURCES... LINK...): one layer of src/ as an object library; `sl_engine` (daemon, command line, tests) and libsluice
# are made of them. A layer sees all headers under src/; tests/layers checks that it includes only those it may.
function(sl_layer name)
  cmake_parse_arguments(L "" "" "SOURCES;LINK" ${ARGN})
  add_library(sl_${name} OBJECT ${L_SOURCES})
  target_include_directories(sl_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(sl_${name} PUBLIC ${L_LINK} Threads::Threads)
endfunction()

# sl_test(NAME SOURCES... [LINK...] [ARGS...] [TIMEOUT n] [LABELS...]): a cmocka program linked with the whole engine.
function(sl_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LINK;ARGS;LABELS" ${ARGN})
  add_executable(test_${name} ${T_SOURCES})
  target_link_libraries(test_${name} PRIVATE sl_engine PkgConfig::CMOCKA ${T_LINK})
  target_compile_definitions(test_${name} PRIVATE SLUICE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_options(test_${name} PRIVATE ${SLUICE_TEST_LINK_OPTIONS})
  add_test(NAME ${name} COMMAND test_${name} ${T_ARGS})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "unit;${T_LABELS}")
endfunction()

# sl_pytest(NAME FILE): a file of tests from outside, run with the system's Python against the built programs.
function(sl_pytest name file)
  add_test(NAME ${name} COMMAND /usr/bin/python3 -m pytest -q -x -p no:cacheprovider ${file})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS "outside"
                       ENVIRONMENT "SLUICE_BIN=${PROJECT_BINARY_DIR}/bin;SLUICE_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
endfunction()

# sl_fuzz(NAME SOURCES...): a libFuzzer target with the corpus fuzz/corpus/NAME; without SLUICE_FUZZ the same file is linked with a
# main that replays the corpus, as an ordinary test.
function(sl_fuzz name)
  cmake_parse_arguments(F "" "" "SOURCES;LINK" ${ARGN})
  add_executable(fuzz_${name} ${F_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE sl_engine ${F_LINK})
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  target_link_options(fuzz_${name} PRIVATE ${SLUICE_TEST_LINK_OPTIONS})
  if(SLUICE_FUZZ)
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/fuzz/replay_main.c)
    add_test(NAME fuzz-corpus-${name} COMMAND fuzz_${name} ${PROJECT_SOURCE_DIR}/fuzz/corpus/${name})
    set_tests_properties(fuzz-corpus-${name} PROPERTIES LABELS "fuzz")
  endif()
endfunction()
