# Text files into a library, at build time. Run as a script it writes the source; included it gives the function.

if(CMAKE_SCRIPT_MODE_FILE)
  # -DOUTPUT=file -DHEADER=h -DNAMESPACE=ns -DENTRIES="kName=a.txt,b.txt;kOther=c.txt" (files of a name are joined)
  set(source "// Made by cmake/MultiheadEmbed.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
  foreach(entry IN LISTS ENTRIES)
    string(REGEX MATCH "^([^=]+)=(.*)$" _ "${entry}")
    set(name ${CMAKE_MATCH_1})
    string(REPLACE "," ";" files "${CMAKE_MATCH_2}")
    string(APPEND source "\nconst std::string_view ${name} =")
    foreach(file IN LISTS files)
      file(READ "${file}" text)
      string(FIND "${text}" ")embed\"" clash)
      if(NOT clash EQUAL -1)
        message(FATAL_ERROR "embed: a file must not hold the delimiter \")embed\"\", got file=${file}")
      endif()
      string(APPEND source "\n    R\"embed(${text})embed\"")
    endforeach()
    string(APPEND source "\n    \"\";\n")
  endforeach()
  file(WRITE "${OUTPUT}" "${source}\n}  // namespace ${NAMESPACE}\n")
  return()
endif()

set(MULTIHEAD_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

# multihead_embed(TARGET HEADER h NAMESPACE ns ENTRIES kName=a,b ..): defines `const std::string_view kName` declared in
# the header. Paths are absolute.
function(multihead_embed target)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "ENTRIES" ${ARGN})
  string(MAKE_C_IDENTIFIER "${ARG_HEADER}" base)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embed_${base}.cpp)
  set(inputs)
  foreach(entry IN LISTS ARG_ENTRIES)
    string(REGEX REPLACE "^[^=]+=" "" files "${entry}")
    string(REPLACE "," ";" files "${files}")
    list(APPEND inputs ${files})
  endforeach()
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${ARG_HEADER} -DNAMESPACE=${ARG_NAMESPACE}
            "-DENTRIES=${ARG_ENTRIES}" -P ${MULTIHEAD_EMBED_SCRIPT}
    DEPENDS ${inputs} ${MULTIHEAD_EMBED_SCRIPT} VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
