# Rooms: the folders of the code. Each room is a library that names the rooms that it uses.
#
#   holdfast_room(report_names                # the target: its folder, report/names
#     EXCEPT main.cc                          # the room has every .cc of the folder and the folders below except these
#     FOLDERS x86_64                          # of the folders below, only these
#     USES report_profile report_base         # rooms with headers that it may include
#     LIBRARIES fmt::fmt                      # external libraries
#     FLAGS holdfast_target_flags)            # for code that runs in the profiled program; other code may be sanitized
#
# HEADERS: the room has no sources. OBJECTS: a target that links the room gets all of its objects, as a shared library
# needs that exports the room's functions.
#
# A room sees its own headers and those of the rooms that it uses, directly or indirectly, and no others: the source
# tree itself is on no include path. Each folder is reached through the link build/…/rooms/<room>/<folder>.
# scripts/check-rooms compares rooms.txt with the sources and with the symbols of the built rooms: arrows point down, and
# every included room is named.
set(HOLDFAST_ROOMS_LIST "${CMAKE_BINARY_DIR}/rooms.txt")
file(WRITE "${HOLDFAST_ROOMS_LIST}" "")

function(holdfast_room name)
  cmake_parse_arguments(ARG "HEADERS;OBJECTS" "FLAGS" "EXCEPT;FOLDERS;USES;LIBRARIES" ${ARGN})
  file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(entrance "${CMAKE_BINARY_DIR}/rooms/${name}")
  get_filename_component(above "${entrance}/${folder}" DIRECTORY)
  file(MAKE_DIRECTORY "${above}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${entrance}/${folder}" SYMBOLIC)
  if(ARG_FOLDERS)
    list(TRANSFORM ARG_FOLDERS REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1/*.cc" OUTPUT_VARIABLE below)
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc" ${below})
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  endif()
  list(TRANSFORM ARG_EXCEPT PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  list(REMOVE_ITEM sources ${ARG_EXCEPT})
  if(sources AND NOT ARG_HEADERS)
    set(kind STATIC)
    if(ARG_OBJECTS)
      set(kind OBJECT)
    endif()
    add_library(${name} ${kind} ${sources})
    # In a unity build: a batch of 16 files takes about 25 s and 0.7 GB (gcc 12 at 2.5 GHz), a whole room up to a minute.
    set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 16)
    set(scope PUBLIC)
    if(ARG_FLAGS)
      target_link_libraries(${name} PRIVATE ${ARG_FLAGS})
    else()
      target_compile_options(${name} PRIVATE ${HOLDFAST_SANITIZE_FLAGS})
      target_link_options(${name} PUBLIC ${HOLDFAST_SANITIZE_FLAGS})
    endif()
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${name} ${scope} "${entrance}")
  target_link_libraries(${name} ${scope} ${ARG_USES} ${ARG_LIBRARIES})
  list(JOIN ARG_USES " " uses)
  file(APPEND "${HOLDFAST_ROOMS_LIST}" "${name} ${folder} ${uses}\n")
endfunction()
