// What /proc/PID/smaps says of a process: each mapping, and how much of it is resident. And the page table behind it
// (/proc/PID/pagemap): which pages of a block are.
//
// Same user, and the kernel's leave to look (ptrace scope, dumpable). The kernel walks the page tables: some 10 ms for each GiB.
#ifndef HOLDFAST_REPORT_MEMORY_MAPPINGS_H_
#define HOLDFAST_REPORT_MEMORY_MAPPINGS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
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
  bool is_denied() const { return !file_.valid(); }
  // What was asked for could not be read: the process is gone, or the kernel refuses.
  bool has_failed() const { return failed_; }

  struct Share {
    uint64_t resident = 0, swapped = 0;  // bytes
  };
  // Of a block, by its pages. Quick where blocks are asked for by address, and where of a large one little is there.
  Share Of(uint64_t address, uint64_t bytes);
  // Whether a page was ever written, and is there or swapped. To look into the memory of a process anywhere else makes a page of zeros
  // there, and what is above it in the page table: 4 KiB of the process's own for each 2 MiB. Where the table is denied: yes.
  bool IsUsed(uint64_t address);
  // Whether all of a block is there: to read it costs the process nothing.
  bool IsResident(uint64_t address, uint64_t bytes);

 private:
  uint64_t EntryOf(uint64_t page);
  void LeaveOutZeros();
  std::optional<Share> Scanned(uint64_t address, uint64_t bytes);

  FileDescriptor file_;
  std::vector<uint64_t> window_;
  uint64_t first_ = 0;  // page of window_[0]
  bool failed_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_MAPPINGS_H_
