# Rooms: the folders that the code lives in. Each is a library of its own that names what it uses.
#
#   holdfast_room(analysis                      # the target
#     EXCEPT main.cc                            # every .cc of the folder is the room's, but these; HEADERS: none is
#     USES profiles base                        # rooms whose headers it may include
#     LIBRARIES fmt::fmt                        # of others
#     FLAGS holdfast_target_flags)              # for code that runs in the target; the rest may be sanitized
#
# HEADERS: it has no sources. OBJECTS: whoever links it takes all of it, as a shared library must that exports its functions.
#
# A room sees its own headers and those of the rooms that it uses, by way of what those use, and no others: the source
# tree itself is on no include path. Each folder is reached through build/…/rooms/<room>/<folder>, a link. What is written to
# rooms.txt is held to the picture by scripts/check-rooms: arrows go down, and what is included is named.
set(HOLDFAST_ROOMS_LIST "${CMAKE_BINARY_DIR}/rooms.txt")
file(WRITE "${HOLDFAST_ROOMS_LIST}" "")

function(holdfast_room name)
  cmake_parse_arguments(ARG "HEADERS;OBJECTS" "FLAGS" "EXCEPT;USES;LIBRARIES" ${ARGN})
  file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(entrance "${CMAKE_BINARY_DIR}/rooms/${name}")
  get_filename_component(above "${entrance}/${folder}" DIRECTORY)
  file(MAKE_DIRECTORY "${above}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${entrance}/${folder}" SYMBOLIC)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  list(TRANSFORM ARG_EXCEPT PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  list(REMOVE_ITEM sources ${ARG_EXCEPT})
  if(sources AND NOT ARG_HEADERS)
    set(kind STATIC)
    if(ARG_OBJECTS)
      set(kind OBJECT)
    endif()
    add_library(${name} ${kind} ${sources})
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
