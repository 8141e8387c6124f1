// Names of C libraries and allocators: their files, and the frames of memory that a C library maps for its own malloc.
#ifndef HOLDFAST_REPORT_BASE_LIBC_NAMES_H_
#define HOLDFAST_REPORT_BASE_LIBC_NAMES_H_

#include <initializer_list>
#include <string_view>

#include "report/base/base_name.h"

namespace holdfast {

// The only frame of such memory, in place of a stack. kOtherHeap: the same memory, if the executable has a malloc of its own
// that may have taken it.
inline constexpr char kGlibcHeap[] = "[glibc heap]", kGlibcArenas[] = "[glibc arenas]", kMuslHeap[] = "[musl heap]",
                      kOtherHeap[] = "[heap]";

inline bool IsLibcHeap(std::string_view frame) {
  return frame == kGlibcHeap || frame == kGlibcArenas || frame == kMuslHeap || frame == kOtherHeap;
}

// Whether this is the file of musl, which is one for the C library and the dynamic linker. Accepts the names in
// /proc/PID/maps, also of a file that was replaced: "/usr/lib/x86_64-linux-musl/libc.so (deleted)".
inline bool IsFileOfMusl(std::string_view path) {
  const std::string_view name = BaseName(path);
  return name.starts_with("ld-musl") || name.starts_with("libc.musl") || name == "libc.so" ||
         name.starts_with("libc.so ");
}

// Whether this is glibc's file: "libc.so.6", or "libc-2.17.so" before glibc 2.34.
inline bool IsFileOfGlibc(std::string_view path) {
  const std::string_view name = BaseName(path);
  return name.starts_with("libc.so.6") || name.starts_with("libc-2.");
}

// Names the allocator of a shared library by the file: "jemalloc" for libjemalloc.so.2; "": none.
inline std::string_view AllocatorOfFile(std::string_view path) {
  constexpr std::string_view kPrefix = "lib";
  const std::string_view name = BaseName(path);
  for (const std::string_view allocator : {"jemalloc", "tcmalloc", "mimalloc", "snmalloc"}) {
    if (name.starts_with(kPrefix) && name.substr(kPrefix.size()).starts_with(allocator)) return allocator;
  }
  return "";
}

// Whether one of the files is musl's, and none is glibc's. A linker maps libraries as data, also those of the other C
// library: leave out files without an executable mapping.
template <typename Files, typename NameOf>
bool HasCodeOfMusl(const Files& files, NameOf name_of) {
  bool has_musl = false;
  for (const auto& file : files) {
    const std::string_view name = name_of(file);
    if (IsFileOfGlibc(name)) return false;
    has_musl = has_musl || IsFileOfMusl(name);
  }
  return has_musl;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_LIBC_NAMES_H_
