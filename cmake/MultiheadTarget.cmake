# Targets of the project: warnings, include paths, sources by folder.

add_library(multihead_flags INTERFACE)
if(PROJECT_IS_TOP_LEVEL)
  target_compile_options(multihead_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
else()
  target_compile_options(multihead_flags INTERFACE -w)  # a user's -Werror is for the user's own sources
endif()
# g++ 12 warns of std::string's own operator+ (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(multihead_flags INTERFACE -Wno-restrict)
endif()

# What all libraries use and none exports: a shared library has a copy of its own.
set(MULTIHEAD_INTERNAL_SOURCES ${PROJECT_SOURCE_DIR}/src/core/require.cpp ${PROJECT_SOURCE_DIR}/src/core/file_error.cpp
                               ${PROJECT_SOURCE_DIR}/src/core/mapped_file.cpp)

# multihead_library(NAME FOLDERS a b ..): a library of all src/<folder>/*.cpp; multihead_x is multihead::x to its users.
# Sources see include/ and src/; users see include/ alone.
function(multihead_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS" ${ARGN})
  set(sources)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  if(BUILD_SHARED_LIBS AND NOT name STREQUAL multihead)
    list(APPEND sources ${MULTIHEAD_INTERNAL_SOURCES})
  endif()
  add_library(${name} ${sources})
  string(REGEX REPLACE "^multihead_" "" short ${name})
  add_library(multihead::${short} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${short})
  target_include_directories(${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:multihead_flags>)
  # A shared library exports what include/multihead/ marks with MULTIHEAD_API. Until 1.0 a minor version may break it.
  set_target_properties(${name} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  # A plug-in with a GNU-unique symbol in it is never unloaded; clang makes none.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
endfunction()
