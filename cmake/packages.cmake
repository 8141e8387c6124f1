# Installs the files beside the tool and the library, and configures `cpack`: .deb and .rpm, each with two components,
# the program and its debug symbols. scripts/package calls cpack, makes the .tar.zst, and explains how to make a
# release. packaging/stage does what an installation does not: it strips files, separates symbols, and gives every file
# the same time.
install(FILES README.md CHANGELOG.md LICENSE SECURITY.md CONTRIBUTING.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES packaging/holdfast-serve.service packaging/holdfast-agent.service DESTINATION lib/systemd/user)
install(DIRECTORY examples/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")
install(FILES packaging/profiled.conf DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")

# Makes the man page of the file formats from docs/format.md. Removes the marks of figures; the title becomes the name.
find_program(HOLDFAST_LOWDOWN lowdown)
if(HOLDFAST_LOWDOWN)
  set(HOLDFAST_FORMAT_PAGE "${CMAKE_BINARY_DIR}/manual/man5/holdfast.5")
  add_custom_command(OUTPUT "${HOLDFAST_FORMAT_PAGE}"
    COMMAND "${CMAKE_SOURCE_DIR}/packaging/format_page" "${HOLDFAST_LOWDOWN}" "${CMAKE_SOURCE_DIR}/docs/format.md" "${HOLDFAST_FORMAT_PAGE}" "${PROJECT_VERSION}"
    DEPENDS packaging/format_page docs/format.md VERBATIM)
  add_custom_target(holdfast_format_page ALL DEPENDS "${HOLDFAST_FORMAT_PAGE}")
  add_dependencies(holdfast holdfast_format_page)
  install(FILES "${HOLDFAST_FORMAT_PAGE}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man5")
endif()

install(CODE "# packaging/stage fills it" COMPONENT debug)
set(CPACK_COMPONENTS_ALL ${CMAKE_INSTALL_DEFAULT_COMPONENT_NAME} debug)
set(CPACK_COMPONENTS_GROUPING IGNORE)  # one package each
set(CPACK_GENERATOR DEB RPM)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME holdfast)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_VENDOR "The Holdfast developers")
set(HOLDFAST_MAINTAINER "The Holdfast developers <holdfast@packages.invalid>" CACHE STRING "Who packages name as their maintainer")
set(CPACK_PACKAGE_CONTACT "${HOLDFAST_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Heap and lock profiler for native programs that nobody rebuilds")
set(CPACK_COMPONENT_HOLDFAST_DESCRIPTION "Shows what a native Linux program holds (memory) and what holds it up (locks).
A library is preloaded into the program; a tool beside it writes profiles in
pprof's format and shows them. Cheap enough to stay on in production.")
set(CPACK_COMPONENT_DEBUG_DESCRIPTION "Debug symbols of Holdfast itself, for gdb and perf.
Profiling needs none of them.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/cmake/stage.cmake")
set(CPACK_HOLDFAST_SOURCE "${CMAKE_SOURCE_DIR}")
set(CPACK_HOLDFAST_STATIC "${HOLDFAST_STATIC}")

if(HOLDFAST_PROCESSOR STREQUAL aarch64)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_RPM_PACKAGE_ARCHITECTURE aarch64)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_HOLDFAST_PACKAGE_NAME holdfast)
set(CPACK_DEBIAN_DEBUG_PACKAGE_NAME holdfast-dbgsym)
set(CPACK_DEBIAN_HOLDFAST_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_DEBUG_PACKAGE_SECTION debug)
# check-tool and check-binary enforce these versions. libdebuginfod is loaded only if debug files are requested.
set(CPACK_DEBIAN_HOLDFAST_PACKAGE_DEPENDS "libc6 (>= 2.17)")
set(CPACK_DEBIAN_HOLDFAST_PACKAGE_SUGGESTS "libdebuginfod1t64 | libdebuginfod1, libcurl4t64 | libcurl4, graphviz")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_COMPONENT_DEBUG_DEPENDS ${CMAKE_INSTALL_DEFAULT_COMPONENT_NAME})  # the same version

set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_HOLDFAST_PACKAGE_NAME holdfast)
set(CPACK_RPM_DEBUG_PACKAGE_NAME holdfast-debuginfo)
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_GROUP Development/Tools)
set(CPACK_RPM_DEBUG_PACKAGE_REQUIRES "holdfast = ${PROJECT_VERSION}-1")
set(CPACK_RPM_PACKAGE_AUTOREQ YES)
set(CPACK_RPM_CHANGELOG_FILE "${CMAKE_BINARY_DIR}/rpm-changelog")  # packaging/stage writes it
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib/systemd /usr/lib/systemd/user /usr/lib/debug /usr/lib/debug/.build-id
  /usr/share/man /usr/share/man/man1 /usr/share/man/man5 /usr/share/bash-completion /usr/share/bash-completion/completions
  /usr/share/zsh /usr/share/zsh/site-functions /usr/share/fish /usr/share/fish/vendor_completions.d)
# Equal files give equal packages: no time and no host name. Files are already stripped.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _buildhost holdfast
%define __os_install_post %{nil}
%define _build_id_links none
%define packager ${HOLDFAST_MAINTAINER}
%define debug_package %{nil}")
include(CPack)
