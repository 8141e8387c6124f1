#include "report/observe/table/ordered_read.h"

#include <errno.h>
#include <unistd.h>

#include <atomic>

namespace holdfast {
namespace {

#if defined(__x86_64__)
constexpr bool kLoadsInOrder = true;
#else
constexpr bool kLoadsInOrder = false;
#endif

}  // namespace

bool ReadRange(int fd, char* to, uint64_t start, uint64_t end) {
  while (start < end) {
    const ssize_t got = pread(fd, to, end - start, static_cast<off_t>(start));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    start += static_cast<uint64_t>(got);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

bool CopyUpwards(int fd, char* to, uint64_t start, uint64_t end) {
  if constexpr (kLoadsInOrder) return ReadRange(fd, to, start, end);
  const auto read = [fd](char* into, uint64_t from, uint64_t until) { return ReadRange(fd, into, from, until); };
  return CopyUpwardsAndCheck(read, to, start, end);
}

}  // namespace holdfast
