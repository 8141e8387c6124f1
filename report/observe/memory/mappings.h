// Reads /proc/PID/smaps: each mapping of a process, and its resident bytes. Also reads the page table
// (/proc/PID/pagemap): which pages of a block are resident.
//
// Needs the same user and the kernel's permission (ptrace scope, dumpable). The kernel walks the page tables, which
// takes about 20 ms for each GiB.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_MAPPINGS_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_MAPPINGS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"
#include "report/base/kernel_page.h"

namespace holdfast {

struct MemoryMapping {
  uint64_t start = 0, end = 0;
  bool readable = false, writable = false, executable = false, shared = false;
  std::string name;  // a path, "[heap]", "[stack]", "[anon:…]"; "" = none
  // Bytes.
  uint64_t resident = 0, swapped = 0, huge = 0;
  uint64_t hugetlb = 0;    // from the kernel's pool of huge pages, not included in `resident`
  uint64_t anonymous = 0;  // of a file: pages that were written privately; part of `resident`
  bool sealed = false;     // mseal: nobody can change its rights

  bool is_anonymous() const { return name.empty() || name.starts_with("[anon:"); }
};

// Sorted by address. The message of an error says why they cannot be read.
absl::StatusOr<std::vector<MemoryMapping>> ReadMappings(pid_t pid);
// The same without resident bytes: /proc/PID/maps, which costs the kernel a hundredth of the time.
absl::StatusOr<std::vector<MemoryMapping>> ReadMemoryMap(pid_t pid);
// Returns the mapping that contains the address; null: none does. `mappings`: sorted by address.
const MemoryMapping* MappingAt(std::span<const MemoryMapping> mappings, uint64_t address);
// Returns whether inaccessible memory is directly below a mapping, as pthreads places a guard below a stack.
bool HasGuardBelow(std::span<const MemoryMapping> mappings, size_t index);
// Parses the text of smaps and skips unreadable parts.
std::vector<MemoryMapping> ParseMappings(std::string_view smaps);

class PageTable {
 public:
  explicit PageTable(pid_t pid);
  // Reads another file with the kernel's layout.
  explicit PageTable(FileDescriptor file, uint64_t page_bytes = KernelPageBytes())
      : page_bytes_(page_bytes), file_(std::move(file)) {}
  uint64_t page_bytes() const { return page_bytes_; }
  bool is_denied() const { return !file_.valid(); }
  // A read failed: the process has ended, or the kernel refuses.
  bool has_failed() const { return failed_; }
  // Whether zero pages and huge pages can be recognized: since Linux 6.7. Otherwise Share::huge is 0.
  bool tells_huge() const { return scans_; }

  struct Share {
    uint64_t resident = 0, swapped = 0, huge = 0;  // bytes; `huge` is part of `resident`
  };
  // Returns the resident bytes of a block. Fast if blocks are requested in address order. Since Linux 6.7 empty parts
  // of a large block cost nothing.
  Share Of(uint64_t address, uint64_t bytes);
  // Returns the first address with a page, resident or swapped; `end`: none. Returns `from` if the kernel cannot tell.
  uint64_t FirstPopulated(uint64_t from, uint64_t end);
  // Returns whether the whole block is resident: reading it costs the process nothing.
  bool IsResident(uint64_t address, uint64_t bytes);
  // Returns the end of the nearest page below `address`, and not below `from`, that MADV_GUARD_INSTALL made inaccessible.
  // Since 2.42 glibc guards the stacks of threads in this way, inside their mapping.
  std::optional<uint64_t> EndOfGuardBelow(uint64_t address, uint64_t from) const;

 private:
  enum PageState : uint8_t { kAway, kHere, kHereHuge, kSwappedOut };
  PageState StateOf(uint64_t page);
  void LookForHuge();

  const uint64_t page_bytes_ = KernelPageBytes();
  FileDescriptor file_;
  std::vector<uint64_t> entries_;  // as the kernel writes them
  std::vector<PageState> window_;
  uint64_t first_ = 0;  // page number of window_[0]
  bool failed_ = false, scans_ = true;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_MAPPINGS_H_
