# Targets of the project: warnings, include paths, sources by folder.

add_library(multihead_flags INTERFACE)
target_compile_options(multihead_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
# g++ 12 warns of std::string's own operator+ (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(multihead_flags INTERFACE -Wno-restrict)
endif()

set(MULTIHEAD_INTERNAL_SOURCES ${PROJECT_SOURCE_DIR}/src/core/require.cpp)

# multihead_library(NAME FOLDERS a b ..): a library of all src/<folder>/*.cpp.
# Sources see include/ and src/; users see include/ alone.
function(multihead_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS" ${ARGN})
  set(sources)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  # What all libraries use and none exports: a shared library has a copy of its own.
  if(BUILD_SHARED_LIBS AND NOT name STREQUAL multihead)
    list(APPEND sources ${MULTIHEAD_INTERNAL_SOURCES})
  endif()
  add_library(${name} ${sources})
  add_library(multihead::${name} ALIAS ${name})
  target_include_directories(${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:multihead_flags>)
  # A shared library exports what include/multihead/ marks with MULTIHEAD_API. Until 1.0 a minor version may break it.
  set_target_properties(${name} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()
