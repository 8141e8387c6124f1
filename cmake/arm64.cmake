# A toolchain file: builds for arm64 with the cross compiler of Debian and Ubuntu (g++-aarch64-linux-gnu).
#   cmake -B build/arm64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHOLDFAST_TOOL=OFF
# The tool needs libraries for arm64, which scripts/support/arm64-packages puts into a folder: HOLDFAST_SYSROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HOLDFAST_SYSROOT)
if(HOLDFAST_SYSROOT)
  set(CMAKE_SYSROOT "${HOLDFAST_SYSROOT}")
  set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
  set(CMAKE_FIND_ROOT_PATH "${HOLDFAST_STATIC}")  # searched besides the sysroot
  set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
  set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
  set(ENV{PKG_CONFIG_LIBDIR} "${HOLDFAST_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${HOLDFAST_SYSROOT}/usr/share/pkgconfig")
  set(ENV{PKG_CONFIG_SYSROOT_DIR} "${HOLDFAST_SYSROOT}")
  # The build runs the tool for its man pages.
  set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64-static;-L;${HOLDFAST_SYSROOT}")
endif()
