// What /proc/PID/smaps says of a process: each mapping, and how much of it is resident. And the page table behind it
// (/proc/PID/pagemap): which pages of a block are.
//
// Same user, and the kernel's leave to look (ptrace scope, dumpable). The kernel walks the page tables: some 20 ms for each GiB.
#ifndef HOLDFAST_REPORT_MEMORY_MAPPINGS_H_
#define HOLDFAST_REPORT_MEMORY_MAPPINGS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast {

inline constexpr uint64_t kPage = 4096;  // bytes, of the page table

struct MemoryMapping {
  uint64_t start = 0, end = 0;
  bool readable = false, writable = false, shared = false;
  std::string name;  // a path, "[heap]", "[stack]", "[anon:…]"; "" = none
  // Bytes.
  uint64_t resident = 0, swapped = 0, huge = 0;
  uint64_t hugetlb = 0;  // of the kernel's pool of huge pages, which is no part of `resident`

  bool is_anonymous() const { return name.empty() || name.starts_with("[anon:"); }
};

// By address. The message of an error says why they cannot be had.
absl::StatusOr<std::vector<MemoryMapping>> ReadMappings(pid_t pid);
// The same without what is resident: /proc/PID/maps, which takes the kernel a hundredth of the time.
absl::StatusOr<std::vector<MemoryMapping>> ReadMemoryMap(pid_t pid);
// Of the text of smaps: what cannot be read is left out.
std::vector<MemoryMapping> ParseMappings(std::string_view smaps);

class PageTable {
 public:
  explicit PageTable(pid_t pid);
  // Another file that is laid out as the kernel's.
  explicit PageTable(FileDescriptor file) : file_(std::move(file)) {}
  bool is_denied() const { return !file_.valid(); }
  // What was asked for could not be read: the process is gone, or the kernel refuses.
  bool has_failed() const { return failed_; }
  // Which pages are zeros that all have, and which lie on huge ones: Linux 6.7 and newer. Else `huge` below is 0.
  bool tells_huge() const { return scans_; }

  struct Share {
    uint64_t resident = 0, swapped = 0, huge = 0;  // bytes; `huge` of `resident`
  };
  // Of a block, by its pages. Quick where blocks are asked for by address. Where the kernel tells, what is empty of a large one costs nothing.
  Share Of(uint64_t address, uint64_t bytes);
  // The first address of these that has a page, here or swapped out; `end`: none has. Where the kernel does not tell: `from`.
  uint64_t FirstPopulated(uint64_t from, uint64_t end);
  // Whether all of a block is there: to read it costs the process nothing.
  bool IsResident(uint64_t address, uint64_t bytes);

 private:
  enum PageState : uint8_t { kAway, kHere, kHereHuge, kSwappedOut };
  PageState StateOf(uint64_t page);
  void LookForHuge();

  FileDescriptor file_;
  std::vector<uint64_t> entries_;  // as the kernel writes them
  std::vector<PageState> window_;
  uint64_t first_ = 0;  // page of window_[0]
  bool failed_ = false, scans_ = true;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_MAPPINGS_H_
