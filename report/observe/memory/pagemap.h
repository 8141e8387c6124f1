// The kernel's format of /proc/PID/pagemap: entries, and the call PAGEMAP_SCAN (since Linux 6.7), which older headers lack.
// Source: the kernel's Documentation/admin-guide/mm/pagemap.rst.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_PAGEMAP_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_PAGEMAP_H_

#include <sys/ioctl.h>

#include <cstdint>
#include <span>

namespace holdfast {

inline bool IsPresent(uint64_t entry) { return (entry & uint64_t{1} << 63) != 0; }
// Returns whether MADV_GUARD_INSTALL made the page inaccessible. Linux 6.13 has it, and since 6.15 says so here.
inline bool IsGuard(uint64_t entry) { return (entry & uint64_t{1} << 58) != 0; }
// Guards look swapped: there is no page.
inline bool IsSwappedOut(uint64_t entry) { return (entry & uint64_t{1} << 62) != 0 && !IsGuard(entry); }
// Returns whether a present or swapped-out page belongs to a file or to shared memory. The other pages are private: in a
// mapping of a file the process has written to them.
inline bool IsOfFile(uint64_t entry) { return (entry & uint64_t{1} << 61) != 0; }

// The categories of pages.
inline constexpr uint64_t kFilePages = 1 << 2, kPresentPages = 1 << 3, kSwappedPages = 1 << 4, kZeroPages = 1 << 5,
                          kHugePages = 1 << 6;

struct ScannedPages {
  uint64_t start, end, categories;
};
struct PagemapScan {
  int count;     // of regions found; negative: the kernel has no such call
  uint64_t end;  // where the scan ended
};

// Finds pages that are in any of `categories`, from page boundary to page boundary. `max_pages`: 0 for no limit.
// `also_reported`: further categories that the found pages may have.
inline PagemapScan ScanPagemap(int pagemap, uint64_t start, uint64_t end, uint64_t categories,
                               std::span<ScannedPages> found, uint64_t max_pages = 0, uint64_t also_reported = 0) {
  struct Arguments {
    uint64_t size = 0, flags = 0, start = 0, end = 0, walk_end = 0, regions = 0, regions_length = 0, max_pages = 0;
    uint64_t inverted = 0, must_have = 0, any_of = 0, reported = 0;
  };
  Arguments scan = {.size = sizeof scan,
                    .start = start,
                    .end = end,
                    .regions = reinterpret_cast<uint64_t>(found.data()),
                    .regions_length = found.size(),
                    .max_pages = max_pages,
                    .any_of = categories,
                    .reported = categories | also_reported};
  const int count = ioctl(pagemap, _IOWR('f', 16, Arguments), &scan);
  return {count, scan.walk_end};
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_PAGEMAP_H_
