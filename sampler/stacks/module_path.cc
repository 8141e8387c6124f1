#include "sampler/stacks/module_path.h"

#include <errno.h>

#include <cstring>

#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

// A line is at most 73 bytes and a path of 4,096, which escapes may lengthen: longer lines are skipped.
constexpr size_t kBufferBytes = 8192;
constinit char buffer[kBufferBytes];

// Returns the path in a line of /proc/self/maps, "5581a6000000-5581a6002000 r--p 00000000 fe:00 123   /usr/bin/x", if
// the line describes `start`.
const char* PathInLine(const char* line, const char* end, uintptr_t start, size_t* length) {
  uintptr_t first = 0;
  const char* at = line;
  for (; at < end && *at != '-'; ++at) {
    const int digit = *at <= '9' ? *at - '0' : *at - 'a' + 10;
    first = first << 4 | static_cast<uintptr_t>(digit & 15);
  }
  if (first != start) return nullptr;
  while (at < end && *at != '/') ++at;
  *length = static_cast<size_t>(end - at);
  return at < end ? at : nullptr;
}

}  // namespace

const char* FindMappedPath(uintptr_t start, size_t* length) {
  if (no_system_calls.load(std::memory_order_relaxed)) return nullptr;
  const long fd = RawSyscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (SyscallFailed(fd)) return nullptr;
  const char* path = nullptr;
  size_t filled = 0;
  while (path == nullptr) {
    const long got = RawSyscall(SYS_read, fd, buffer + filled, kBufferBytes - filled);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
    size_t done = 0;
    while (path == nullptr) {
      const auto* end = static_cast<const char*>(memchr(buffer + done, '\n', filled - done));
      if (end == nullptr) break;
      path = PathInLine(buffer + done, end, start, length);
      done = static_cast<size_t>(end - buffer) + 1;
    }
    if (path != nullptr) break;
    if (done == 0 && filled == kBufferBytes) done = filled;
    memmove(buffer, buffer + done, filled - done);
    filled -= done;
  }
  RawSyscall(SYS_close, fd);
  return path;
}

}  // namespace holdfast
