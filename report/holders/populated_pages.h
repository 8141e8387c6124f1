// Finds the existing pages of a process, resident or swapped out, in its page table. Reading other pages would make the
// kernel create them. In a private mapping of a file, kPrivate finds only the pages to which the process has written.
#ifndef HOLDFAST_REPORT_HOLDERS_POPULATED_PAGES_H_
#define HOLDFAST_REPORT_HOLDERS_POPULATED_PAGES_H_

#include <sys/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "report/base/file_descriptor.h"
#include "report/base/kernel_page.h"

namespace holdfast {

struct MemoryRange {
  uint64_t start = 0, end = 0;
  bool Contains(uint64_t address) const { return address >= start && address < end; }
};

// Returns whether one of the ranges contains an address. `ranges`: by address, without overlaps.
bool AnyContains(const std::vector<MemoryRange>& ranges, uint64_t address);

class PopulatedPages {
 public:
  enum class Kind : uint8_t { kAll, kPrivate };
  explicit PopulatedPages(pid_t pid, Kind kind = Kind::kAll);
  // Reads another file with the kernel's layout.
  PopulatedPages(FileDescriptor file, Kind kind, uint64_t page_bytes)
      : kind_(kind), page_bytes_(page_bytes), file_(std::move(file)) {}
  // Returns the first run of existing pages in a range, clipped to the range; an empty run at `end` if there is none.
  // Returns the whole range if the page table cannot be read.
  MemoryRange FirstRun(uint64_t from, uint64_t end);

 private:
  void Load(uint64_t from, uint64_t end);
  bool LoadByScan(uint64_t from, uint64_t end);
  void LoadByEntries(uint64_t from, uint64_t end);
  void Add(uint64_t start, uint64_t end);

  const Kind kind_;
  const uint64_t page_bytes_ = KernelPageBytes();
  FileDescriptor file_;
  bool scans_ = true;              // PAGEMAP_SCAN, since Linux 6.7
  std::vector<MemoryRange> runs_;  // in the part of the memory that was read last
  size_t next_ = 0;
  MemoryRange loaded_;
  std::vector<uint64_t> entries_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_POPULATED_PAGES_H_
