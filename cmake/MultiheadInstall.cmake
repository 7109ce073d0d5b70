# Install and export: see multihead-config.cmake.in for what another project finds.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/multihead)
install(TARGETS multihead EXPORT multihead-targets)
install(EXPORT multihead-targets NAMESPACE multihead:: DESTINATION ${package_dir})
foreach(component models onnx)
  if(TARGET multihead_${component})
    install(TARGETS multihead_${component} EXPORT multihead-${component}-targets)
    install(EXPORT multihead-${component}-targets NAMESPACE multihead:: DESTINATION ${package_dir})
  endif()
endforeach()

install(DIRECTORY include/multihead DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
configure_package_config_file(cmake/multihead-config.cmake.in multihead-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(multihead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/multihead-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/multihead-config-version.cmake cmake/FindSentencePiece.cmake
        DESTINATION ${package_dir})
