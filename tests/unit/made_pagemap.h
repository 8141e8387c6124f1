// A page table as the kernel writes it, made by hand: which pages are there, and which are swapped out.
#ifndef HOLDFAST_TESTS_UNIT_MADE_PAGEMAP_H_
#define HOLDFAST_TESTS_UNIT_MADE_PAGEMAP_H_

#include <sys/mman.h>
#include <unistd.h>

#include "report/observe/memory/mappings.h"

namespace holdfast {

inline constexpr uint64_t kPage = 4096;  // of the made page table, on every kernel

class MadePagemap {
 public:
  static constexpr uint64_t kHere = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62,
                            kGuard = kSwapped | uint64_t{1} << 58;

  explicit MadePagemap(uint64_t page_bytes = kPage)
      : page_bytes_(page_bytes), file_(memfd_create("pagemap", MFD_CLOEXEC)) {
    Set(uint64_t{1} << 30, 0, 1);
  }
  void Set(uint64_t address, uint64_t entry, uint64_t pages) {
    for (uint64_t page = address / page_bytes_; pages > 0; ++page, --pages) {
      if (pwrite(file_.get(), &entry, sizeof entry, static_cast<off_t>(page * sizeof entry)) != sizeof entry) abort();
    }
  }
  FileDescriptor File() const { return FileDescriptor(dup(file_.get())); }
  PageTable Pages() const { return PageTable(File(), page_bytes_); }

 private:
  const uint64_t page_bytes_;
  FileDescriptor file_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_MADE_PAGEMAP_H_
