# Install and export: find_package(multihead) in another project gives multihead::multihead.
include(CMakePackageConfigHelpers)

set(targets multihead)
if(TARGET multihead_models)
  list(APPEND targets multihead_models)
endif()
install(TARGETS ${targets} EXPORT multihead-targets)
install(DIRECTORY include/multihead DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT multihead-targets NAMESPACE multihead:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/multihead)
configure_package_config_file(cmake/multihead-config.cmake.in multihead-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/multihead)
write_basic_package_version_file(multihead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/multihead-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/multihead-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/multihead)
