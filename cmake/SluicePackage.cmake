# `ship`: everything that is shipped, without the tests.
add_custom_target(ship)
foreach(target sluiced sluice_command sluice sluice_static manual sluice_redis)
  if(TARGET ${target})
    add_dependencies(ship ${target})
  endif()
endforeach()

# `make package`: what is installed besides programs, libraries and manual pages, and the Debian package and archive of it all.
install(FILES ${PROJECT_SOURCE_DIR}/deploy/sluiced.service DESTINATION lib/systemd/system)
# Only a package owns files in /etc, where its manager keeps what an operator changed; an install elsewhere leaves them alone.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  install(FILES ${PROJECT_SOURCE_DIR}/deploy/sluiced.yaml DESTINATION /etc/sluice)
  install(FILES ${PROJECT_SOURCE_DIR}/deploy/policy.example.yaml DESTINATION /etc/sluice RENAME policy.yaml)
endif()
install(FILES README.md CHANGELOG.md LICENSE deploy/policy.example.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Beside each other as in the tree, so that the links between docs and rules hold.
install(DIRECTORY deploy/prometheus deploy/grafana DESTINATION ${CMAKE_INSTALL_DOCDIR}/deploy)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS
        PATTERN CMakeLists.txt EXCLUDE PATTERN __pycache__ EXCLUDE)

set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VENDOR sluice)
set(CPACK_PACKAGE_CONTACT "The sluice authors <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Exact rate limiter: daemon, command line and library")
set(CPACK_PACKAGE_FILE_NAME sluice-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/deploy/conffiles)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
include(CPack)
