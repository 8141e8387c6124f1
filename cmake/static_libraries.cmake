# Each shared library that the tool needs costs 0.1 ms per start, and `run` starts two tools. Therefore the tool links
# archives if the distribution has them, and shared libraries otherwise. `holdfast` needs libc, libm, and mimalloc,
# which has no archive (scripts/check-tool counts). Packages also link mimalloc statically, and the HTTP library that
# `serve` would load, from HOLDFAST_STATIC (scripts/static-libraries).
if(HOLDFAST_STATIC)
  list(PREPEND CMAKE_PREFIX_PATH "${HOLDFAST_STATIC}")
endif()

# Abseil's CMake package describes its shared libraries; the archives are beside them.
function(holdfast_use_archives prefix)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    if(NOT target MATCHES "^${prefix}::")
      continue()
    endif()
    get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
    foreach(configuration IN LISTS configurations)
      get_target_property(shared ${target} IMPORTED_LOCATION_${configuration})
      string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${shared}")
      if(NOT archive STREQUAL shared AND EXISTS "${archive}")
        set_target_properties(${target} PROPERTIES
          IMPORTED_LOCATION_${configuration} "${archive}" IMPORTED_SONAME_${configuration} "")
      endif()
    endforeach()
  endforeach()
endfunction()

# The same for fmt, made from its headers (fmt_archive.cc). Other files are compiled as for the shared library.
function(holdfast_use_fmt_archive)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # fuzzers use clang
    return()
  endif()
  add_library(holdfast_fmt STATIC "${CMAKE_SOURCE_DIR}/cmake/fmt_archive.cc")
  get_target_property(includes fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(holdfast_fmt SYSTEM PRIVATE ${includes})
  target_compile_options(holdfast_fmt PRIVATE -w -O2 -g0 -fkeep-inline-functions ${HOLDFAST_SANITIZE_FLAGS})
  set_target_properties(holdfast_fmt PROPERTIES ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
  get_target_property(configurations fmt::fmt IMPORTED_CONFIGURATIONS)
  foreach(configuration IN LISTS configurations)
    set_target_properties(fmt::fmt PROPERTIES
      IMPORTED_LOCATION_${configuration} "${CMAKE_BINARY_DIR}/lib/libholdfast_fmt.a" IMPORTED_SONAME_${configuration} "")
  endforeach()
  add_dependencies(fmt::fmt holdfast_fmt)
endfunction()
