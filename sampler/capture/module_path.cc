#include "sampler/capture/module_path.h"

#include <errno.h>

#include <cstring>
#include <initializer_list>

#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

// A line is at most 73 bytes and a path of 4,096, which escapes may lengthen: longer lines are skipped.
constexpr size_t kBufferBytes = 8192;
constinit char buffer[kBufferBytes];

// A line: "5581a6000000-5581a6002000 r--p 00000000 fe:00 123   /usr/bin/x".
struct MappedLine {
  uintptr_t start, end;
  bool readable;
  uint64_t offset;
  uint64_t file;       // device and inode; 0: no file
  const char* rest;    // after the inode: spaces, and the path if there is one
  const char* finish;  // end of the line
};

uint64_t Number(const char** at, const char* end, unsigned base) {
  uint64_t number = 0;
  for (; *at < end; ++*at) {
    const char c = **at;
    const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10
                                                  : base;
    if (digit >= base) break;
    number = number * base + digit;
  }
  return number;
}

void Skip(const char** at, const char* end) {
  if (*at < end) ++*at;
}

MappedLine Parse(const char* at, const char* end) {
  MappedLine line{};
  line.start = Number(&at, end, 16);
  Skip(&at, end);
  line.end = Number(&at, end, 16);
  Skip(&at, end);
  line.readable = at < end && *at == 'r';
  at = end - at > 5 ? at + 5 : end;  // "r-xp "
  line.offset = Number(&at, end, 16);
  Skip(&at, end);
  const uint64_t major = Number(&at, end, 16);
  Skip(&at, end);
  const uint64_t minor = Number(&at, end, 16);
  Skip(&at, end);
  const uint64_t inode = Number(&at, end, 10);
  line.file = inode == 0 ? 0 : (major << 52 ^ minor << 40 ^ inode);
  line.rest = at;
  line.finish = end;
  return line;
}

// Passes each line to `visit` until that returns true. False: no line did, or the file cannot be read.
template <typename Visit>
bool AnyLineOf(const char* maps, Visit visit, bool* is_empty) {
  const long fd = RawSyscall(SYS_openat, AT_FDCWD, maps, O_RDONLY | O_CLOEXEC);
  if (SyscallFailed(fd)) return false;
  bool found = false;
  size_t filled = 0;
  while (!found) {
    const long got = RawSyscall(SYS_read, fd, buffer + filled, kBufferBytes - filled);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    *is_empty = false;
    filled += static_cast<size_t>(got);
    size_t done = 0;
    while (!found) {
      const auto* end = static_cast<const char*>(memchr(buffer + done, '\n', filled - done));
      if (end == nullptr) break;
      found = visit(Parse(buffer + done, end));
      done = static_cast<size_t>(end - buffer) + 1;
    }
    if (found) break;
    if (done == 0 && filled == kBufferBytes) done = filled;
    memmove(buffer, buffer + done, filled - done);
    filled -= done;
  }
  RawSyscall(SYS_close, fd);
  return found;
}
template <typename Visit>
bool AnyLine(Visit visit) {
  if (no_system_calls.load(std::memory_order_relaxed)) return false;
  // After the main thread ended by pthread_exit, the first file is empty, or cannot be opened.
  for (const char* maps : {"/proc/self/maps", "/proc/thread-self/maps"}) {
    bool is_empty = true;
    if (AnyLineOf(maps, visit, &is_empty)) return true;
    if (!is_empty) return false;
  }
  return false;
}

}  // namespace

const char* FindMappedPath(uintptr_t start, size_t* length) {
  const char* path = nullptr;
  AnyLine([&](const MappedLine& line) {
    if (line.start != start) return false;
    const auto* slash = static_cast<const char*>(memchr(line.rest, '/', static_cast<size_t>(line.finish - line.rest)));
    if (slash == nullptr) return false;
    path = slash;
    *length = static_cast<size_t>(line.finish - slash);
    return true;
  });
  return path;
}

uintptr_t FindMappedOffset(uintptr_t inside, uint64_t offset, bool (*accept)(uintptr_t, void*), void* context) {
  uint64_t file = 0;
  AnyLine([&](const MappedLine& line) {
    if (inside < line.start || inside >= line.end) return false;
    file = line.file;
    return true;
  });
  if (file == 0) return 0;
  uintptr_t found = 0;
  AnyLine([&](const MappedLine& line) {
    if (line.file != file || !line.readable || offset - line.offset >= line.end - line.start) return false;
    const uintptr_t at = line.start + (offset - line.offset);
    if (!accept(at, context)) return false;
    found = at;
    return true;
  });
  return found;
}

}  // namespace holdfast
