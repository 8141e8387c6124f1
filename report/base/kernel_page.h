// The pages of this machine's kernel: 4 KiB on x86-64; 4, 16 or 64 KiB on arm64.
#ifndef HOLDFAST_REPORT_BASE_KERNEL_PAGE_H_
#define HOLDFAST_REPORT_BASE_KERNEL_PAGE_H_

#include <unistd.h>

#include <cstdint>

namespace holdfast {

// The unit of /proc/PID/pagemap, and of memory that is resident, swapped out or returned. Any thread.
inline uint64_t KernelPageBytes() {
  static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// The page of every other kernel is a multiple of this. It is the step in which partly readable memory is searched, also
// in core files of other machines.
inline constexpr uint64_t kSmallestPage = 4096;

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_KERNEL_PAGE_H_
